//! Sessions that somebody signed out of: a row each, for all nodes and the next start. A session is looked up when it is shown, at most
//! twice a second; while the database does not answer it holds, for that is when operators come. A row that cannot be written now
//! is written later, and whoever signed out is told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use actix_web::rt;
use dikala_entities::{CredentialHash, Millis, Store, operator_sign_out};
use moka::sync::Cache;
use sea_orm::{DbErr, EntityTrait, IntoActiveModel, sea_query::OnConflict};
use tokio::sync::Semaphore;

use super::session::{LONGEST_MS, Session};

/// Sessions that are remembered here; past that the first ones are asked for again.
const REMEMBERED_MAX: u64 = 100_000;
/// For so long nobody asks again whether a session was signed out of.
const ASKED_FOR: Duration = Duration::from_millis(500);
/// How long the database may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);
/// A row is kept for two weeks: so many sign-outs of sessions with one token this process writes in [`WHILE_MS`]. Who has the token that
/// only reads fills no disk, and takes nothing from who has the other one.
const WRITTEN_MAX: u32 = 100;
const WHILE_MS: i64 = 10 * 60 * 1_000;
/// Rows at a time that wait to be written because the database was away.
const WAITING_MAX: usize = 100;
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// How often that is tried: for as long as the process lasts, by the measure of outages.
const TRIES_MAX: u32 = 24 * 60 * 60;

/// Sessions that somebody signed out of.
#[derive(Debug)]
pub struct Ended {
    store: Store,
    over: Cache<CredentialHash, ()>,
    /// That were in force a moment ago.
    in_force: Cache<CredentialHash, ()>,
    /// Since when sign-outs of sessions with a token are counted, and how many there were.
    written: Mutex<HashMap<CredentialHash, (Millis, u32)>>,
    waiting: Arc<Semaphore>,
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
            written: Mutex::default(),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
        }
    }

    /// Somebody signs out. False where that is not written yet: then only this process knows.
    pub async fn add(&self, session: &Session, now: Millis) -> bool {
        let hash = session.hash();
        self.over.insert(hash.clone(), ());
        if !self.has_room(session.token(), now) {
            tracing::warn!(
                "that an operator signed out was not stored: there were {WRITTEN_MAX} with the same token in a few minutes"
            );
            return false;
        }
        let row = operator_sign_out::Model {
            session_hash: hash,
            ends_at: now.plus_ms(LONGEST_MS),
        };
        let written = tokio::time::timeout(ANSWER_WITHIN, write(&self.store, &row)).await;
        match written {
            Ok(Ok(())) => return true,
            Ok(Err(error)) => {
                tracing::warn!(%error, "that an operator signed out was not stored; it is tried again");
            }
            Err(_) => {
                tracing::warn!(
                    "that an operator signed out was not stored in time; it is tried again"
                );
            }
        }
        self.write_later(row);
        false
    }

    /// Counts one more sign-out of a session with that token, if one more is written.
    fn has_room(&self, token: &CredentialHash, now: Millis) -> bool {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, count) = written.entry(token.clone()).or_insert((now, 0));
        if now.since(*since) >= WHILE_MS {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= WRITTEN_MAX
    }

    fn write_later(&self, row: operator_sign_out::Model) {
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            return;
        };
        let store = self.store.clone();
        rt::spawn(async move {
            for _ in 0..TRIES_MAX {
                tokio::time::sleep(AGAIN_EVERY).await;
                if write(&store, &row).await.is_ok() {
                    break;
                }
            }
            drop(place);
        });
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

/// Twice is once.
async fn write(store: &Store, row: &operator_sign_out::Model) -> Result<(), DbErr> {
    let there = OnConflict::column(operator_sign_out::Column::SessionHash)
        .do_nothing()
        .to_owned();
    let written = operator_sign_out::Entity::insert(row.clone().into_active_model())
        .on_conflict(there)
        .exec_without_returning(store.writer())
        .await;
    match written {
        Ok(_) | Err(DbErr::RecordNotInserted) => Ok(()),
        Err(error) => Err(error),
    }
}
