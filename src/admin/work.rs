//! The choice between a transaction of its own and the caller's.

use std::ops::Deref;

use dikala_entities::{Store, store::Transaction};
use sea_orm::DbErr;

/// The transaction that a function runs in: its own, or the caller's, which the caller commits.
#[derive(Clone, Copy, Debug)]
pub enum TransactionScope<'a> {
    Alone(&'a Store),
    Within(&'a Transaction),
}

impl<'a> From<&'a Store> for TransactionScope<'a> {
    fn from(store: &'a Store) -> Self {
        Self::Alone(store)
    }
}

impl<'a> From<&'a Transaction> for TransactionScope<'a> {
    fn from(txn: &'a Transaction) -> Self {
        Self::Within(txn)
    }
}

impl<'a> TransactionScope<'a> {
    pub(super) async fn begin(self) -> Result<OpenTransaction<'a>, DbErr> {
        match self {
            Self::Alone(store) => Ok(OpenTransaction::Own(Box::new(store.begin().await?))),
            Self::Within(txn) => Ok(OpenTransaction::Callers(txn)),
        }
    }
}

/// An open transaction. Dropping it rolls it back, unless it is the caller's.
pub(super) enum OpenTransaction<'a> {
    Own(Box<Transaction>),
    Callers(&'a Transaction),
}

impl Deref for OpenTransaction<'_> {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        match self {
            Self::Own(txn) => txn,
            Self::Callers(txn) => txn,
        }
    }
}

impl OpenTransaction<'_> {
    /// Commits, unless the transaction is the caller's.
    pub(super) async fn commit(self) -> Result<(), DbErr> {
        match self {
            Self::Own(txn) => txn.commit().await,
            Self::Callers(_) => Ok(()),
        }
    }
}
