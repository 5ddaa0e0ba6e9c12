//! Signed-out sessions, stored as rows that all nodes and later starts see.
//!
//! A session is checked in the store at most twice a second. While the database is away sessions stay valid,
//! because operators need the console then. A sign-out that cannot be stored is retried, and the operator is told.

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

use super::session::ConsoleSession;
use crate::pages::session::LONGEST_MS;

/// Cached sessions; beyond this, the store is asked again.
const REMEMBERED_MAX: u64 = 100_000;
/// Time for which a session is known to be active without asking the store.
const ASKED_FOR: Duration = Duration::from_millis(500);
/// Timeout of the database.
const ANSWER_WITHIN: Duration = Duration::from_millis(300);
/// Sign-outs per token that this process stores in [`WHILE_MS`]. Rows stay for two weeks: without a limit, a holder
/// of the read token could fill the disk. The limit is per token, so it does not affect holders of the other one.
const WRITTEN_MAX: u32 = 100;
const WHILE_MS: i64 = 10 * 60 * 1_000;
/// Sign-outs that may wait for the database at once.
const WAITING_MAX: usize = 100;
const AGAIN_EVERY: Duration = Duration::from_secs(1);
/// Number of retries; a day's worth.
const TRIES_MAX: u32 = 24 * 60 * 60;

#[derive(Debug)]
pub struct SignedOutSessions {
    store: Store,
    over: Cache<CredentialHash, ()>,
    /// Sessions that were active a moment ago.
    in_force: Cache<CredentialHash, ()>,
    /// Per token: the start of the current window and the sign-outs in it.
    written: Mutex<HashMap<CredentialHash, (Millis, u32)>>,
    waiting: Arc<Semaphore>,
}

impl SignedOutSessions {
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

    /// Signs a session out. Returns false if that is not stored yet, so that only this process knows it.
    pub async fn add(&self, session: &ConsoleSession, now: Millis) -> bool {
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

    /// Counts a sign-out with this token. Returns false if the limit is exceeded.
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

    /// True if the session was signed out.
    pub async fn has(&self, session: &ConsoleSession) -> bool {
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

/// A repeated write has no effect.
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
