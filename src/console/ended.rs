//! Sessions that somebody signed out of: a row each, for all nodes and the next start. A session is looked up when it is shown, at most
//! twice a second; while the database does not answer it holds, for that is when operators come.

use std::time::Duration;

use dikala_entities::{CredentialHash, Millis, Store, operator_sign_out};
use moka::sync::Cache;
use sea_orm::{ActiveValue::Set, EntityTrait};

use super::session::{LONGEST_MS, Session};

/// Sessions that are remembered here; past that the first ones are asked for again.
const REMEMBERED_MAX: u64 = 100_000;
/// For so long nobody asks again whether a session was signed out of.
const ASKED_FOR: Duration = Duration::from_millis(500);
/// How long the database may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);

/// Sessions that somebody signed out of.
#[derive(Debug)]
pub struct Ended {
    store: Store,
    over: Cache<CredentialHash, ()>,
    /// That were in force a moment ago.
    in_force: Cache<CredentialHash, ()>,
}

impl Ended {
    /// With what the store knows.
    pub fn new(store: Store) -> Self {
        let remembered = || Cache::builder().max_capacity(REMEMBERED_MAX);
        let longest = Duration::from_millis(LONGEST_MS.unsigned_abs());
        Self {
            store,
            over: remembered().time_to_live(longest).build(),
            in_force: remembered().time_to_live(ASKED_FOR).build(),
        }
    }

    /// Somebody signs out. Where the database does not take it, only this process knows.
    pub async fn add(&self, session: &Session, now: Millis) {
        let hash = session.hash();
        self.over.insert(hash.clone(), ());
        let row = operator_sign_out::ActiveModel {
            session_hash: Set(hash),
            ends_at: Set(now.plus_ms(LONGEST_MS)),
        };
        let added =
            operator_sign_out::Entity::insert(row).exec_without_returning(self.store.writer());
        match tokio::time::timeout(ANSWER_WITHIN, added).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, "that an operator signed out was not stored; other nodes do not know");
            }
            Err(_) => {
                tracing::warn!(
                    "that an operator signed out was not stored in time; other nodes may not know"
                );
            }
        }
    }

    /// Whether somebody signed out of a session.
    pub async fn has(&self, session: &Session) -> bool {
        let hash = session.hash();
        if self.over.contains_key(&hash) {
            return true;
        }
        if self.in_force.contains_key(&hash) {
            return false;
        }
        let row = operator_sign_out::Entity::find_by_id(hash.clone()).one(self.store.reader());
        let is_over = matches!(
            tokio::time::timeout(ANSWER_WITHIN, row).await,
            Ok(Ok(Some(_)))
        );
        match is_over {
            true => self.over.insert(hash, ()),
            false => self.in_force.insert(hash, ()),
        }
        is_over
    }
}
