//! Errors of calls, and the mapping of database and ledger errors to them.

use dikala_entities::CallStatus;
use sea_orm::DbErr;

use crate::ledger::LedgerError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no tenant has this number")]
    UnknownNumber,
    #[error("this call is not known")]
    UnknownCall,
    #[error("the call is {status}")]
    InvalidTransition { status: CallStatus },
    #[error("the call is over")]
    NotActive,
    #[error("a call is not transferred to such a number")]
    TransferNotAllowed,
    #[error("the call was transferred as often as a call can be")]
    TooManyTransfers,
    #[error("the call is another node's now; asking again finds it")]
    Moved,
    #[error("too much is going on; nothing happened, try again")]
    Busy,
    #[error("the service cannot write at the moment; nothing happened, try again")]
    Unavailable,
}

/// The database did not answer a query.
pub(super) fn unavailable(error: DbErr) -> CallError {
    tracing::warn!(%error, "the database did not answer");
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
