//! Tests: the planner against tables and a model.

mod coverage;
mod model;
mod table;

use dikala_entities::{Millis, TransactionType, credit_account};

use super::{
    plan::{LedgerRows, plan},
    *,
};

pub(crate) const NOW: Millis = Millis::from_i64(1_800_000_000_000);
/// The threshold of every test account, in minutes.
pub(crate) const LOW_THRESHOLD: i64 = 3;

pub(crate) fn account(tenant: TenantId, minutes: i64) -> credit_account::Model {
    credit_account::Model {
        tenant_id: tenant,
        available: minutes,
        held: 0,
        used: 0,
        purchased: minutes,
        adjusted: 0,
        posted: minutes,
        seq: 0,
        open_holds: 0,
        low_threshold: LOW_THRESHOLD,
        low_armed: minutes >= LOW_THRESHOLD,
        version: 0,
    }
}

pub(crate) fn owner() -> Arc<str> {
    Arc::from("node")
}

pub(crate) fn admit(tenant: TenantId, call: CallId, max_concurrent: Option<i64>) -> Item {
    Item::Admit(Admit {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        max_concurrent,
    })
}

pub(crate) fn extend(
    tenant: TenantId,
    call: CallId,
    request: i64,
    started: i64,
    want: i64,
) -> Item {
    Item::Extend(Extend {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        request,
        started,
        want,
    })
}

pub(crate) fn settle(tenant: TenantId, call: CallId, minutes: i64) -> Item {
    Item::Settle(Settle {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        minutes,
    })
}

pub(crate) fn adjust(tenant: TenantId, minutes: i64, reference: Option<String>) -> Item {
    let kind = TransactionType::Adjustment;
    let credit = Credit {
        tenant,
        minutes,
        kind,
        reference,
        description: None,
    };
    Item::Credit(credit, TransactionId::new(NOW))
}

struct Play {
    tenant: TenantId,
    calls: Vec<CallId>,
    book: LedgerRows,
}

impl Play {
    fn new(minutes: i64) -> Self {
        let tenant = TenantId::new(NOW);
        let mut book = LedgerRows::default();
        book.accounts.insert(tenant, account(tenant, minutes));
        Self {
            tenant,
            calls: (0..4).map(|_| CallId::new(NOW)).collect(),
            book,
        }
    }

    fn book(&mut self, item: Item) -> PostingOutcome {
        plan(&mut self.book, &[item], NOW).remove(0)
    }

    /// Available, held, used.
    fn minutes(&self) -> (i64, i64, i64) {
        let account = &self.book.accounts[&self.tenant];
        (account.available, account.held, account.used)
    }
}
