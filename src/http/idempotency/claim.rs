//! The claim of an idempotency key: its holder carries out the request, and the answer is stored with the effect.

use std::{
    cell::Cell,
    sync::{Arc, LazyLock},
    time::Duration,
};

use dikala_actors::commit::StoredResponse;
use dikala_entities::{
    IdempotencyScope, Millis, Secret, SecretPlace, Store, Vault, idempotency, store::is_transient,
};
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, sea_query::Expr};
use tokio::sync::Semaphore;

use super::sweep;
use crate::http::answer::ApiAnswer;

/// Size from which an answer counts as large.
const LARGE_BYTES: usize = 2 * 1_024;
/// Total size of a tenant's large stored answers. Above it, the oldest lose their bodies.
pub const LARGE_BYTES_MAX: i64 = 16 * 1_024 * 1_024;
/// Age from which a claim without an answer counts as abandoned.
pub const RUNNING_MS_MAX: i64 = 60_000;
/// Keys that wait to be released after a database failure; any more just expire.
const GIVING_BACK_MAX: usize = 1_000;
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// The right to carry out the request of a key.
#[derive(Debug)]
pub struct IdempotencyClaim {
    claimed: ClaimedKey,
    settled: Cell<bool>,
    /// True if the stored answer is large.
    large: Cell<bool>,
}

/// The identity of a claim, for committing the effect on another thread.
#[derive(Clone, Debug)]
pub struct ClaimedKey {
    scope: IdempotencyScope,
    key: String,
    /// Distinguishes this claim from a later one of the same key.
    claimed_at: Millis,
    vault: Vault,
}

static GIVING_BACK: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(GIVING_BACK_MAX)));

impl ClaimedKey {
    pub(super) fn new(
        scope: IdempotencyScope,
        key: String,
        claimed_at: Millis,
        vault: Vault,
    ) -> Self {
        Self {
            scope,
            key,
            claimed_at,
            vault,
        }
    }

    /// The answer in its stored form: sealed if it holds a secret.
    pub fn kept(&self, answer: &ApiAnswer) -> StoredResponse {
        let body = match answer.is_secret {
            true => self.vault.seal(
                SecretPlace::StoredAnswer,
                self.row(),
                &Secret::new(answer.body.as_str()),
            ),
            false => answer.body.clone(),
        };
        StoredResponse {
            scope: self.scope,
            key: self.key.clone(),
            claimed_at: self.claimed_at,
            status: i64::from(answer.status.as_u16()),
            body,
            location: answer.location.clone(),
            size: large_size(answer),
        }
    }

    /// Opens a sealed answer, if its key still exists.
    pub(super) fn open(&self, sealed: &str) -> Option<Secret> {
        let place = SecretPlace::StoredAnswer;
        self.vault.open(place, self.row(), sealed).ok()
    }

    /// The row that a sealed answer is bound to.
    fn row(&self) -> String {
        format!("{} {}", self.scope, self.key)
    }
}

impl IdempotencyClaim {
    pub(super) fn new(claimed: ClaimedKey) -> Self {
        Self {
            claimed,
            settled: Cell::new(false),
            large: Cell::new(false),
        }
    }

    pub fn claimed(&self) -> &ClaimedKey {
        &self.claimed
    }

    /// Stores the answer under the key. False if a later request took over the claim: then nothing may be committed.
    pub async fn settle(
        &self,
        db: &impl ConnectionTrait,
        answer: &ApiAnswer,
    ) -> Result<bool, DbErr> {
        let kept = self.claimed.kept(answer);
        let done = idempotency::Entity::update_many()
            .col_expr(idempotency::Column::Size, Expr::value(kept.size))
            .col_expr(idempotency::Column::Status, Expr::value(kept.status))
            .col_expr(idempotency::Column::Body, Expr::value(kept.body))
            .col_expr(idempotency::Column::Location, Expr::value(kept.location))
            .col_expr(idempotency::Column::CallId, Expr::value(answer.about))
            .filter(idempotency::Column::Scope.eq(kept.scope))
            .filter(idempotency::Column::Key.eq(kept.key))
            .filter(idempotency::Column::CreatedAt.eq(kept.claimed_at))
            .filter(idempotency::Column::Status.is_null())
            .exec(db)
            .await?;
        Ok(done.rows_affected == 1)
    }

    /// Records that the answer is committed.
    pub fn committed(&self, answer: &ApiAnswer) {
        self.settled.set(true);
        self.large.set(large_size(answer) > 0);
    }

    /// True if the answer was committed with the effect.
    pub(super) fn is_settled(&self) -> bool {
        self.settled.get()
    }

    /// True if a large answer was stored.
    pub(super) fn is_large(&self) -> bool {
        self.large.get()
    }

    /// Releases the key once the database is available, so that a client need not wait until the claim expires. It
    /// may be unknown if the claim was stored.
    pub(super) fn release_later(self, store: Store) {
        let Ok(place) = Arc::clone(&GIVING_BACK).try_acquire_owned() else {
            return;
        };
        actix_web::rt::spawn(async move {
            for _ in 0..RUNNING_MS_MAX / 1_000 {
                actix_web::rt::time::sleep(GIVE_BACK_EVERY).await;
                match self.release(&store).await {
                    Err(error) if is_transient(&error) => {}
                    _ => break,
                }
            }
            drop(place);
        });
    }

    /// Removes the bodies of the scope's oldest large answers above the limit.
    pub(super) async fn cut(&self, store: &Store) -> Result<(), DbErr> {
        sweep::cut(store, self.claimed.scope, LARGE_BYTES_MAX).await
    }

    /// Releases the key, so that the request may be repeated under it.
    pub(super) async fn release(&self, store: &Store) -> Result<(), DbErr> {
        idempotency::Entity::delete_many()
            .filter(idempotency::Column::Scope.eq(self.claimed.scope))
            .filter(idempotency::Column::Key.eq(&self.claimed.key))
            .filter(idempotency::Column::CreatedAt.eq(self.claimed.claimed_at))
            .filter(idempotency::Column::Status.is_null())
            .exec(store.writer())
            .await
            .map(drop)
    }
}

/// The size of a large answer; 0 for any other.
fn large_size(answer: &ApiAnswer) -> i64 {
    let size = Some(answer.body.len()).filter(|size| *size > LARGE_BYTES);
    size.map_or(0, |size| i64::try_from(size).unwrap_or(i64::MAX))
}
