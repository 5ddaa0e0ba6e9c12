//! The credit ledger. Whole minutes are held before they are talked, used when they begin, and released if they never begin.
//!
//! It follows the quota model of RFC 8506 (credit control). A call never talks on credit that was not granted first. Grants are
//! small, the last one is marked as the last, and unused minutes are returned.
//!
//! `plan` decides, `statements` reads and writes, `verify` checks the balances. [`commit`](crate::commit) writes minutes together
//! with what they pay for.

mod booking;
pub(crate) mod plan;
pub(crate) mod statements;
mod verify;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use dikala_entities::{
    CallId, HangupReason, TenantId, TransactionId, TransactionType, credit_transaction,
};

pub(crate) use self::booking::check;
pub use self::{
    statements::{lock_holds, take_over},
    verify::{Report, verify, verify_open},
};

/// Asks for the first minute of a new call.
#[derive(Clone, Debug)]
pub struct Admit {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    /// The tenant's limit of concurrent calls; `None`: unlimited.
    pub max_concurrent: Option<i64>,
}

/// Asks for more minutes for a running call. `request` is the last one plus 1; a repeated request gets the same answer.
#[derive(Clone, Debug)]
pub struct Extend {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    pub request: i64,
    /// Minutes that have begun so far. They count as used.
    pub started: i64,
    /// Minutes wanted in addition to those granted.
    pub want: i64,
}

/// Ends the hold. Exactly `minutes` are used, but never more than were granted; the rest is released.
#[derive(Clone, Debug)]
pub struct Settle {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
    pub minutes: i64,
}

/// An operator's booking. Repeating its reference books nothing new.
#[derive(Clone, Debug)]
pub struct Credit {
    pub tenant: TenantId,
    /// Signed; only an adjustment may be negative.
    pub minutes: i64,
    pub kind: TransactionType,
    pub reference: Option<String>,
    pub description: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Granted,
    Refused(HangupReason),
}

/// The answer to [`Extend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Fewer minutes were granted than wanted: no more are available.
    pub last: bool,
    /// Minutes granted to the call in total.
    pub total: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub minutes: i64,
}

/// A booking that is committed.
#[derive(Clone, Debug, PartialEq)]
pub struct CreditBooking {
    pub transaction: credit_transaction::Model,
    /// False if its reference was booked before, with the same content.
    pub is_new: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    #[error("the ledger's queue is full; try again")]
    Busy,
    #[error("the database is unavailable; try again")]
    Unavailable,
    #[error("another node owns the call")]
    NotOwner,
    #[error(
        "another node owns the call, the call exists already, or the claim of the idempotency key is lost"
    )]
    Conflict,
    #[error("a later request was answered already")]
    Stale,
    #[error("a request is missing before this one")]
    OutOfOrder,
    #[error("the call is settled")]
    Settled,
    #[error("there is no such tenant")]
    NoAccount,
    #[error("the tenant has only {available} minutes available")]
    TooFew { available: i64 },
    #[error("the reference was used for another booking")]
    ReferenceReused,
    #[error("a balance cannot hold that many minutes")]
    TooMany,
    #[error("{0}")]
    Invalid(String),
}

#[derive(Clone, Debug)]
pub(crate) enum Item {
    Admit(Admit),
    Extend(Extend),
    Settle(Settle),
    /// The id is chosen before the first try.
    Credit(Credit, TransactionId),
}

/// The result of an [`Item`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ItemOutcome {
    Admission(Admission),
    Extension(Extension),
    Settlement(Settlement),
    Transaction(Box<credit_transaction::Model>),
    /// The posting had no item.
    Nothing,
}

/// The result of one posting.
pub(crate) type PostingOutcome = Result<ItemOutcome, LedgerError>;

impl Item {
    pub(crate) fn tenant(&self) -> TenantId {
        match self {
            Self::Admit(item) => item.tenant,
            Self::Extend(item) => item.tenant,
            Self::Settle(item) => item.tenant,
            Self::Credit(item, _) => item.tenant,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Admit(_) => "admit",
            Self::Extend(_) => "extend",
            Self::Settle(_) => "settle",
            Self::Credit(..) => "credit",
        }
    }

    pub(crate) fn call(&self) -> Option<CallId> {
        match self {
            Self::Admit(item) => Some(item.call),
            Self::Extend(item) => Some(item.call),
            Self::Settle(item) => Some(item.call),
            Self::Credit(..) => None,
        }
    }
}
