//! Errors of calls, and the mapping of database and ledger errors to them.

use dikala_entities::CallStatus;
use sea_orm::DbErr;

use super::machine::InvalidTransition;
use crate::ledger::LedgerError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no tenant has this number")]
    UnknownNumber,
    #[error("there is no such agent")]
    UnknownAgent,
    #[error("this bridge may not report calls from browsers")]
    NotWeb,
    #[error("this call is not known")]
    UnknownCall,
    #[error("the call is {status}")]
    InvalidTransition { status: CallStatus },
    #[error("the call is over")]
    NotActive,
    #[error("calls may not be transferred to this number")]
    TransferNotAllowed,
    #[error("the call reached the maximum number of transfers")]
    TooManyTransfers,
    #[error("the caller is connected to a person already")]
    Joined,
    #[error("another node owns the call now; try again")]
    Moved,
    #[error("overloaded; nothing happened, try again")]
    Busy,
    /// A lost commit may have happened. A repeat finds what it wrote.
    #[error("the database is unavailable; a repeat is safe")]
    Unavailable,
}

impl From<InvalidTransition> for CallError {
    fn from(InvalidTransition { status }: InvalidTransition) -> Self {
        Self::InvalidTransition { status }
    }
}

/// The database did not answer a query.
pub(super) fn unavailable(error: DbErr) -> CallError {
    tracing::warn!(%error, "a query about calls failed; the request is answered as unavailable");
    CallError::Unavailable
}

/// Nothing was written, so the bridge will try again.
pub(super) fn not_written(error: LedgerError) -> CallError {
    match error {
        // Possibly opened elsewhere at this moment: a repeat finds it.
        LedgerError::Busy | LedgerError::Conflict => CallError::Busy,
        _ => CallError::Unavailable,
    }
}
