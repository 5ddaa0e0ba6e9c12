//! A single booking, for commands that run beside a server or without one.

use dikala_entities::{MINUTES_MAX, Store, TransactionId, TransactionType, audit};

use sea_orm::DbErr;

use super::{
    Credit, CreditBooking, Item, ItemOutcome, LedgerDeps, LedgerError,
    batch::{LockWait, Posting, write},
    book_and_write,
};
use crate::{
    events::outbox::Audience,
    journal::{JournalEntry, StoredResponse},
    nodes::Membership,
    runtime::{
        clock::SharedClock,
        group_commit::{BatchStats, commit},
    },
};

const TEXT_CHARS_MAX: usize = 255;

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
    let deps = LedgerDeps {
        store: store.clone(),
        clock,
        node: Membership::outside(""),
        audience: Audience::default(),
    };
    let book = async |batch: &[Posting]| {
        write(&deps, &batch.iter().collect::<Vec<_>>(), LockWait::Usual).await
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
            return JournalEntry::of(tenant);
        };
        let credited = CreditBooking {
            is_new: transaction.id == id,
            transaction: (**transaction).clone(),
        };
        JournalEntry {
            audit: audit.clone().filter(|_| credited.is_new),
            answer: answer(&credited),
            ..JournalEntry::of(tenant)
        }
    };
    book_and_write(item, consequence)
}

/// The rules of a booking that do not depend on the account.
pub(super) fn check(credit: &Credit) -> Result<(), String> {
    if credit.minutes == 0 || credit.minutes.unsigned_abs() > MINUTES_MAX.unsigned_abs() {
        return Err(format!(
            "minutes must be a whole number from 1 to {MINUTES_MAX}, or negative for an adjustment"
        ));
    }
    if credit.kind == TransactionType::Usage {
        return Err("usage is booked by calls only".to_owned());
    }
    if credit.minutes < 0 && credit.kind != TransactionType::Adjustment {
        return Err(
            "a purchase, a bonus or a refund must be positive; take minutes away with the type adjustment"
                .to_owned(),
        );
    }
    let unfit =
        |text: &String| text.chars().count() > TEXT_CHARS_MAX || text.chars().any(char::is_control);
    if credit
        .reference
        .as_ref()
        .is_some_and(|text| text.is_empty() || unfit(text))
    {
        return Err(format!(
            "reference must have 1 to {TEXT_CHARS_MAX} characters, none of them control characters"
        ));
    }
    if credit.description.as_ref().is_some_and(unfit) {
        return Err(format!(
            "description must have at most {TEXT_CHARS_MAX} characters, none of them control characters"
        ));
    }
    Ok(())
}
