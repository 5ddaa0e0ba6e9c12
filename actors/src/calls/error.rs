//! Why a call did not do what it was asked, and what faults of the database and the ledger mean for who asked.

use dikala_entities::CallStatus;
use sea_orm::DbErr;

use crate::ledger::LedgerError;

/// Why a call did not do what it was asked.
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

/// The database did not answer a question.
pub(super) fn unavailable(error: DbErr) -> CallError {
    tracing::warn!(%error, "the database did not answer");
    CallError::Unavailable
}

/// What a bridge is told where nothing was written: it asks again.
pub(super) fn not_written(error: LedgerError) -> CallError {
    match error {
        // Opened elsewhere at this moment: asking again finds it.
        LedgerError::Busy | LedgerError::Conflict => CallError::Busy,
        _ => CallError::Unavailable,
    }
}
