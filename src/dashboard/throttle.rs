//! Limits failed sign-ins: ten per email address and fifty per network address within a quarter of an hour. The
//! counts are in the store, so they hold over all nodes.
//!
//! An attempt is counted before its password is checked, and uncounted if the password was right or was not
//! checked. Concurrent attempts therefore cannot exceed the limit.
//!
//! Attempts over the limit are not stored: they only read, and a row never holds more entries than the limit. A
//! checked password costs one short write, and each address a row of at most a kilobyte for a quarter of an hour.

use std::net::IpAddr;

use dikala_entities::{Millis, Store, sign_in_failure, store::Transaction};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, OnConflict},
};
use sha2::{Digest, Sha256};

/// Time for which a failure counts, in milliseconds.
const WINDOW_MS: i64 = 15 * 60 * 1_000;
/// Failures per email address.
const EMAIL_MAX: usize = 10;
/// Failures per network address.
const NETWORK_MAX: usize = 50;

/// A counted attempt.
#[derive(Debug)]
pub struct SignInAttempt {
    subjects: [Subject; 2],
    at: Millis,
}

/// A limited email or network address.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Subject {
    key: String,
    most: usize,
}

/// Time until the next attempt is allowed, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitMs(pub i64);

impl WaitMs {
    /// In whole seconds, rounded up, at least 1.
    pub fn seconds(self) -> i64 {
        self.0.saturating_add(999).div_euclid(1_000).max(1)
    }
}

/// The subjects in the order of their keys, which is the lock order. Email addresses are hashed, because people
/// type passwords into the wrong field.
fn subjects(email: &str, network: IpAddr) -> [Subject; 2] {
    let hash = hex::encode(Sha256::digest(email.trim().to_lowercase()));
    let email = Subject {
        key: format!("email:{hash}"),
        most: EMAIL_MAX,
    };
    let network = Subject {
        key: format!("network:{network}"),
        most: NETWORK_MAX,
    };
    [email, network]
}

/// The failures that still count. Small future times are included: they come from another node's clock, or from a
/// concurrent attempt.
fn live(failed: &[i64], now: Millis) -> Vec<i64> {
    let counts = |at: &&i64| now.since(Millis::from_i64(**at)).abs() < WINDOW_MS;
    failed.iter().filter(counts).copied().collect()
}

/// Adds a failure at `now`, or returns the time until that is possible.
fn take(failed: &[i64], most: usize, now: Millis) -> Result<Vec<i64>, WaitMs> {
    let mut live = live(failed, now);
    match live.len().checked_sub(most) {
        None => {
            live.push(now.as_i64());
            live.sort_unstable();
            Ok(live)
        }
        Some(over) => {
            let first = Millis::from_i64(live[over]);
            Err(WaitMs(first.plus_ms(WINDOW_MS).since(now)))
        }
    }
}

/// Counts an attempt. `email` may be any text.
pub async fn begin(
    store: &Store,
    email: &str,
    network: IpAddr,
    now: Millis,
) -> Result<Result<SignInAttempt, WaitMs>, DbErr> {
    let subjects = subjects(email, network);
    // Attempts over the limit must not cause a write.
    if let Err(wait) = taken(store.reader(), &subjects, now, false).await? {
        return Ok(Err(wait));
    }
    let txn = store.begin().await?;
    let rows = subjects.iter().map(|subject| sign_in_failure::ActiveModel {
        subject: Set(subject.key.clone()),
        failed_at: Set("[]".to_owned()),
        ends_at: Set(now.plus_ms(WINDOW_MS)),
    });
    sign_in_failure::Entity::insert_many(rows)
        .on_conflict(
            OnConflict::column(sign_in_failure::Column::Subject)
                .do_nothing()
                .to_owned(),
        )
        .exec_without_returning(&txn)
        .await?;
    match taken(&txn, &subjects, now, true).await? {
        Err(wait) => Ok(Err(wait)),
        Ok(failed) => {
            for (subject, failed) in subjects.iter().zip(failed) {
                write(&txn, &subject.key, &failed).await?;
            }
            txn.commit().await?;
            Ok(Ok(SignInAttempt { subjects, at: now }))
        }
    }
}

impl SignInAttempt {
    /// Uncounts the attempt: the password was right, or was not checked.
    pub async fn give_back(self, store: &Store) -> Result<(), DbErr> {
        let txn = store.begin().await?;
        for (key, mut failed) in read(&txn, &self.subjects, true).await? {
            if let Some(own) = failed.iter().position(|at| *at == self.at.as_i64()) {
                failed.remove(own);
                write(&txn, &key, &failed).await?;
            }
        }
        txn.commit().await
    }
}

/// The failures of each subject with this one added, in the order of the subjects.
async fn taken(
    db: &impl ConnectionTrait,
    subjects: &[Subject; 2],
    now: Millis,
    lock: bool,
) -> Result<Result<Vec<Vec<i64>>, WaitMs>, DbErr> {
    let rows = read(db, subjects, lock).await?;
    let each = subjects.iter().map(|subject| {
        let row = rows.iter().find(|(key, _)| *key == subject.key);
        let failed = row.map_or(&[][..], |(_, failed)| failed);
        take(failed, subject.most, now)
    });
    let each: Vec<_> = each.collect();
    let longest = each
        .iter()
        .filter_map(|it| it.as_ref().err())
        .max_by_key(|wait| wait.0);
    Ok(match longest {
        Some(wait) => Err(*wait),
        None => Ok(each.into_iter().flatten().collect()),
    })
}

async fn read(
    db: &impl ConnectionTrait,
    subjects: &[Subject; 2],
    lock: bool,
) -> Result<Vec<(String, Vec<i64>)>, DbErr> {
    let keys = subjects.iter().map(|subject| subject.key.as_str());
    let mut select = sign_in_failure::Entity::find()
        .filter(sign_in_failure::Column::Subject.is_in(keys))
        .order_by_asc(sign_in_failure::Column::Subject);
    if lock {
        select = select.lock_exclusive();
    }
    let rows = select.all(db).await?;
    let parsed = rows.into_iter().map(|row| {
        let failed = serde_json::from_str(&row.failed_at).unwrap_or_default();
        (row.subject, failed)
    });
    Ok(parsed.collect())
}

async fn write(txn: &Transaction, key: &str, failed: &[i64]) -> Result<(), DbErr> {
    let last = failed.iter().max().copied().unwrap_or_default();
    let ends_at = Millis::from_i64(last).plus_ms(WINDOW_MS);
    let failed = serde_json::to_string(failed).map_err(|e| DbErr::Json(e.to_string()))?;
    sign_in_failure::Entity::update_many()
        .col_expr(sign_in_failure::Column::FailedAt, Expr::value(failed))
        .col_expr(sign_in_failure::Column::EndsAt, Expr::value(ends_at))
        .filter(sign_in_failure::Column::Subject.eq(key))
        .exec(txn)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000_000;

    fn at(ms: i64) -> Millis {
        Millis::from_i64(NOW + ms)
    }

    #[test]
    fn a_limit_is_reached_and_left_again() {
        let mut failed = Vec::new();
        for n in 0..3 {
            failed = take(&failed, 3, at(n * 1_000)).expect("a place");
        }
        assert_eq!(take(&failed, 3, at(3_000)), Err(WaitMs(WINDOW_MS - 3_000)));
        assert_eq!(take(&failed, 3, at(WINDOW_MS - 1)), Err(WaitMs(1)));
        let after = take(&failed, 3, at(WINDOW_MS)).expect("the first counts no more");
        assert_eq!(after, [NOW + 1_000, NOW + 2_000, NOW + WINDOW_MS]);
        assert_eq!(take(&after, 3, at(WINDOW_MS + 999)), Err(WaitMs(1)));
    }

    #[test]
    fn what_another_clock_told_counts_and_what_is_far_away_does_not() {
        let failed = [NOW - WINDOW_MS, NOW - 1, NOW, NOW + 1, NOW + WINDOW_MS];
        assert_eq!(live(&failed, at(0)), [NOW - 1, NOW, NOW + 1]);
        assert_eq!(take(&[NOW + 5], 2, at(0)), Ok(vec![NOW, NOW + 5]));
        assert_eq!(take(&[NOW + 5], 1, at(0)), Err(WaitMs(WINDOW_MS + 5)));
    }

    #[test]
    fn more_than_the_limit_waits_for_as_many_to_pass() {
        assert_eq!(
            take(&[NOW, NOW + 1, NOW + 2], 2, at(10)),
            Err(WaitMs(WINDOW_MS - 9))
        );
    }

    #[test]
    fn seconds_are_rounded_up() {
        let seconds = [0, 1, 1_000, 1_001].map(|ms| WaitMs(ms).seconds());
        assert_eq!(seconds, [1, 1, 1, 2]);
    }

    #[test]
    fn one_address_has_one_subject_and_is_not_stored_as_it_was_typed() {
        let network = "192.0.2.1".parse().expect("an address");
        let typed = subjects(" Sari@Example.com", network);
        assert_eq!(typed, subjects("sari@example.com", network));
        assert!(!typed[0].key.contains("sari"));
        assert!(typed[0].key < typed[1].key, "locks are taken in one order");
    }
}
