//! The rows that a shard of the ledger wrote last, so that its next batch need not read them again. A batch from such rows is one
//! statement, which changes nothing if any of them is different by now, because another node or a command wrote it. Then the
//! batch's rows are forgotten, and it reads them.

use std::collections::{BTreeSet, HashMap};

use dikala_entities::{CallId, TenantId, credit_account, credit_hold};

use crate::{
    events::outbox::{EventPosition, EventPositions},
    ledger::{Item, plan::LedgerRows},
};

/// Tenants, and open holds, that a shard remembers. Beyond that it forgets all and begins again.
const TENANTS_MAX: usize = 4_096;
const HOLDS_MAX: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct RememberedRows {
    accounts: HashMap<TenantId, credit_account::Model>,
    /// Open holds only.
    holds: HashMap<CallId, credit_hold::Model>,
    positions: HashMap<TenantId, EventPosition>,
}

impl RememberedRows {
    /// The rows that these items need, or `None` if one is not remembered. New holds are not there yet, and credits need
    /// more than these rows.
    pub(super) fn rows_of(&self, items: &[Item]) -> Option<LedgerRows> {
        let mut rows = LedgerRows::default();
        for item in items {
            let account = self.accounts.get(&item.tenant())?;
            rows.accounts
                .entry(item.tenant())
                .or_insert_with(|| account.clone());
            match item {
                Item::Admit(_) => {}
                Item::Extend(_) | Item::Settle(_) => {
                    let hold = self.holds.get(&item.call()?)?;
                    rows.holds.insert(hold.call_id, hold.clone());
                }
                Item::Credit(..) => return None,
            }
        }
        Some(rows)
    }

    /// The positions of these tenants, or `None` if one is not remembered.
    pub(super) fn positions_of(&self, tenants: &BTreeSet<TenantId>) -> Option<EventPositions> {
        let position = |tenant: &TenantId| Some((*tenant, self.positions.get(tenant)?.clone()));
        tenants.iter().map(position).collect()
    }

    /// Remembers what a batch has committed, except for `others`: tenants whose events another node announced last. That node
    /// probably changes their rows again before this one does.
    pub(super) fn remember(
        &mut self,
        book: &LedgerRows,
        positions: &EventPositions,
        others: &BTreeSet<TenantId>,
    ) {
        for (tenant, account) in &book.accounts {
            if others.contains(tenant) {
                continue;
            }
            let mut account = account.clone();
            account.version += i64::from(book.changed_accounts.contains(tenant));
            self.accounts.insert(*tenant, account);
        }
        for (call, hold) in &book.holds {
            if hold.settled_at.is_none() {
                self.holds.insert(*call, hold.clone());
            } else {
                self.holds.remove(call);
            }
        }
        for (tenant, position) in positions {
            self.positions.insert(*tenant, position.clone());
        }
        for tenant in others {
            self.forget_tenant(*tenant);
        }
        let tenants = self.accounts.len().max(self.positions.len());
        if tenants > TENANTS_MAX || self.holds.len() > HOLDS_MAX {
            self.forget();
        }
    }

    /// Forgets what a batch relied on.
    pub(super) fn forget_rows_of(
        &mut self,
        batch: impl Iterator<Item = (TenantId, Option<CallId>)>,
    ) {
        for (tenant, call) in batch {
            self.forget_tenant(tenant);
            if let Some(call) = call {
                self.holds.remove(&call);
            }
        }
    }

    fn forget_tenant(&mut self, tenant: TenantId) {
        self.accounts.remove(&tenant);
        self.positions.remove(&tenant);
    }

    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
