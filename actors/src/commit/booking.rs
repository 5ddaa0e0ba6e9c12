//! A single booking, for commands that run beside a server or without one.

use std::sync::Mutex;

use dikala_entities::{Store, TransactionId, audit};
use sea_orm::DbErr;

use super::{
    CommitDeps,
    batch::{Posting, WriteMode, write},
    book_and_write,
    call_writes::{CommitEntry, StoredResponse},
};
use crate::{
    events::outbox::EventRecipients,
    ledger::{Credit, CreditBooking, Item, ItemOutcome, LedgerError, check},
    nodes::Membership,
    runtime::{
        clock::SharedClock,
        group_commit::{BatchStats, commit},
    },
};

#[derive(Debug, thiserror::Error)]
pub enum CreditError {
    #[error("there is no such tenant")]
    NoTenant,
    #[error("{0}")]
    Refused(String),
    #[error("the database does not answer: {0}")]
    Database(#[from] DbErr),
}

/// Books credit and its audit entry through the same plan and statements as the ledger's actors. Any node that finds the
/// deliveries of its events sends them.
pub async fn credit(
    store: &Store,
    clock: SharedClock,
    credit: Credit,
    audit: Option<audit::Model>,
) -> Result<CreditBooking, CreditError> {
    check(&credit).map_err(CreditError::Refused)?;
    let id = TransactionId::new(clock.now());
    let posting = posting(credit, id, audit, |_| None);
    let deps = CommitDeps {
        store: store.clone(),
        clock,
        node: Membership::outside(""),
        recipients: EventRecipients::default(),
    };
    let book = async |batch: &[Posting]| {
        let batch: Vec<&Posting> = batch.iter().collect();
        write(&deps, &Mutex::default(), &batch, WriteMode::Patient).await
    };
    let mut written = Err(DbErr::Custom("nothing was booked".to_owned()));
    commit(vec![posting], &BatchStats::default(), book, |_, outcome| {
        written = outcome;
    })
    .await;
    let mut written = written?;
    match written.outcomes.pop() {
        Some(Ok(ItemOutcome::Transaction(transaction))) => Ok(CreditBooking {
            is_new: transaction.id == id,
            transaction: *transaction,
        }),
        Some(Err(LedgerError::NoAccount)) => Err(CreditError::NoTenant),
        Some(Err(LedgerError::TooFew { available })) => Err(CreditError::Refused(format!(
            "the tenant has only {available} minutes available, and a booking cannot take more; minutes held by running calls cannot be taken"
        ))),
        Some(Err(error)) => Err(CreditError::Refused(error.to_string())),
        Some(Ok(_)) | None => Err(CreditError::Refused(
            "nothing was booked; try again".to_owned(),
        )),
    }
}

/// A booking with its audit entry and the stored response. The entry names the transaction; it is not written if the reference
/// was booked before.
pub(super) fn posting(
    credit: Credit,
    id: TransactionId,
    audit: Option<audit::Model>,
    answer: impl Fn(&CreditBooking) -> Option<StoredResponse> + Send + Sync + 'static,
) -> Posting {
    let tenant = credit.tenant;
    let audit = audit.map(|entry| audit::Model {
        detail: format!("{}, {id}", entry.detail),
        ..entry
    });
    let item = Item::Credit(credit, id);
    let consequence = move |booked: &ItemOutcome| {
        let ItemOutcome::Transaction(transaction) = booked else {
            return CommitEntry::of(tenant);
        };
        let credited = CreditBooking {
            is_new: transaction.id == id,
            transaction: (**transaction).clone(),
        };
        CommitEntry {
            audit: audit.clone().filter(|_| credited.is_new),
            answer: answer(&credited),
            ..CommitEntry::of(tenant)
        }
    };
    book_and_write(item, consequence)
}
