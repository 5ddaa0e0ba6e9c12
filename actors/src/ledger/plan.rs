//! The ledger's decisions. Pure: accounts, holds and items go in; the same accounts and holds come out, with the items booked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dikala_entities::{
    CallId, HangupReason, MINUTES_MAX, Millis, TenantId, TransactionId, TransactionType,
    credit_account, credit_hold, credit_transaction,
};

use super::{
    Admission, Admit, Credit, Extend, Extension, Item, ItemOutcome, LedgerError, PostingOutcome,
    Settle, Settlement,
};

/// The rows that a batch's items concern: as read from the store, and after [`plan`] as they are to be written.
#[derive(Clone, Debug, Default)]
pub(crate) struct LedgerRows {
    pub accounts: BTreeMap<TenantId, credit_account::Model>,
    pub holds: BTreeMap<CallId, credit_hold::Model>,
    /// Existing transactions with the keys of the batch's credits.
    pub booked: HashMap<(TenantId, String), credit_transaction::Model>,
    pub changed_accounts: BTreeSet<TenantId>,
    pub changed_holds: BTreeSet<CallId>,
    pub transactions: Vec<credit_transaction::Model>,
    pub lows: Vec<LowBalance>,
}

/// A balance that fell below its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LowBalance {
    pub tenant: TenantId,
    pub balance: i64,
    pub threshold: i64,
}

/// Books the items in order. A refused admission leaves a hold that records the refusal; any other refused item changes
/// nothing.
pub(crate) fn plan(book: &mut LedgerRows, items: &[Item], now: Millis) -> Vec<PostingOutcome> {
    items
        .iter()
        .map(|item| match item {
            Item::Admit(admit) => book.admit(admit, now).map(ItemOutcome::Admission),
            Item::Extend(extend) => book.extend(extend).map(ItemOutcome::Extension),
            Item::Settle(settle) => book.settle(settle, now).map(ItemOutcome::Settlement),
            Item::Credit(credit, id) => book
                .credit(credit, *id, now)
                .map(|t| ItemOutcome::Transaction(Box::new(t))),
        })
        .collect()
}

/// The idempotency key of a credit: its reference, else the transaction's id. That id is chosen before the first try, so a try
/// with an unknown outcome can be repeated.
pub(crate) fn credit_key(credit: &Credit, id: TransactionId) -> String {
    match &credit.reference {
        Some(reference) => format!("ref:{reference}"),
        None => format!("txn:{id}"),
    }
}

impl LedgerRows {
    fn admit(&mut self, admit: &Admit, now: Millis) -> Result<Admission, LedgerError> {
        if let Some(hold) = self.holds.get(&admit.call) {
            return admitted_before(hold, admit);
        }
        let refusal = self.refusal(admit);
        if refusal.is_none()
            && let Some(account) = self.accounts.get_mut(&admit.tenant)
        {
            account.available -= 1;
            account.held += 1;
            account.open_holds += 1;
            self.changed_accounts.insert(admit.tenant);
        }
        self.holds.insert(
            admit.call,
            credit_hold::Model {
                call_id: admit.call,
                tenant_id: admit.tenant,
                owner: admit.owner.to_string(),
                epoch: admit.epoch,
                request: 0,
                held: i64::from(refusal.is_none()),
                used: 0,
                last: false,
                refusal: refusal.map(|reason| reason.to_string()),
                created_at: now,
                settled_at: refusal.map(|_| now),
            },
        );
        self.changed_holds.insert(admit.call);
        Ok(refusal.map_or(Admission::Granted, Admission::Refused))
    }

    fn refusal(&self, admit: &Admit) -> Option<HangupReason> {
        match self.accounts.get(&admit.tenant) {
            Some(account) if account.available >= 1 => admit
                .max_concurrent
                .filter(|most| account.open_holds >= *most)
                .map(|_| HangupReason::ConcurrencyLimit),
            _ => Some(HangupReason::InsufficientCredits),
        }
    }

    fn extend(&mut self, extend: &Extend) -> Result<Extension, LedgerError> {
        let hold = self
            .holds
            .get_mut(&extend.call)
            .ok_or(LedgerError::Settled)?;
        if hold.settled_at.is_some() {
            return Err(LedgerError::Settled);
        }
        if !owns(hold, extend.tenant, &extend.owner, extend.epoch) {
            return Err(LedgerError::NotOwner);
        }
        if extend.request == hold.request {
            return Ok(Extension {
                last: hold.last,
                total: hold.held + hold.used,
            });
        }
        if extend.request < hold.request {
            return Err(LedgerError::Stale);
        }
        if extend.request.saturating_sub(1) > hold.request {
            return Err(LedgerError::OutOfOrder);
        }
        let account = self
            .accounts
            .get_mut(&extend.tenant)
            .ok_or(LedgerError::NoAccount)?;
        let begun = extend.started.saturating_sub(hold.used).clamp(0, hold.held);
        let granted = extend.want.clamp(0, account.available.max(0));
        hold.request = extend.request;
        hold.last = granted < extend.want;
        hold.used += begun;
        hold.held += granted - begun;
        account.available -= granted;
        account.held += granted - begun;
        account.used += begun;
        let grant = Extension {
            last: hold.last,
            total: hold.held + hold.used,
        };
        self.changed_holds.insert(extend.call);
        self.account_changed(extend.tenant);
        Ok(grant)
    }

    fn settle(&mut self, settle: &Settle, now: Millis) -> Result<Settlement, LedgerError> {
        let Some(hold) = self.holds.get_mut(&settle.call) else {
            return Ok(Settlement { minutes: 0 });
        };
        if hold.settled_at.is_some() {
            return Ok(Settlement { minutes: hold.used });
        }
        if !owns(hold, settle.tenant, &settle.owner, settle.epoch) {
            return Err(LedgerError::NotOwner);
        }
        let account = self
            .accounts
            .get_mut(&settle.tenant)
            .ok_or(LedgerError::NoAccount)?;
        let granted = hold.held + hold.used;
        let minutes = settle.minutes.clamp(0, granted);
        account.held -= hold.held;
        account.used += minutes - hold.used;
        account.available += granted - minutes;
        account.open_holds -= 1;
        hold.held = 0;
        hold.used = minutes;
        hold.settled_at = Some(now);
        self.changed_holds.insert(settle.call);
        if minutes > 0 {
            let usage = NewTransaction {
                id: TransactionId::new(now),
                key: format!("call:{}", settle.call),
                kind: TransactionType::Usage,
                minutes: -minutes,
                call: Some(settle.call),
                description: None,
                reference: None,
            };
            self.post(settle.tenant, usage, now);
        }
        self.account_changed(settle.tenant);
        Ok(Settlement { minutes })
    }

    fn credit(
        &mut self,
        credit: &Credit,
        id: TransactionId,
        now: Millis,
    ) -> Result<credit_transaction::Model, LedgerError> {
        let account = self
            .accounts
            .get_mut(&credit.tenant)
            .ok_or(LedgerError::NoAccount)?;
        let key = credit_key(credit, id);
        if let Some(known) = self.booked.get(&(credit.tenant, key.clone())) {
            let same = known.minutes == credit.minutes
                && known.kind == credit.kind
                && known.description == credit.description;
            return if same {
                Ok(known.clone())
            } else {
                Err(LedgerError::ReferenceReused)
            };
        }
        if account.available + credit.minutes < 0 {
            return Err(LedgerError::TooFew {
                available: account.available,
            });
        }
        let total = account.purchased + account.adjusted;
        if account.purchased.max(total) + credit.minutes > MINUTES_MAX {
            return Err(LedgerError::TooMany);
        }
        account.available += credit.minutes;
        match credit.kind {
            TransactionType::Purchase => account.purchased += credit.minutes,
            _ => account.adjusted += credit.minutes,
        }
        let posting = NewTransaction {
            id,
            key: key.clone(),
            kind: credit.kind,
            minutes: credit.minutes,
            call: None,
            description: credit.description.clone(),
            reference: credit.reference.clone(),
        };
        let transaction = self
            .post(credit.tenant, posting, now)
            .ok_or(LedgerError::NoAccount)?;
        self.booked
            .insert((credit.tenant, key), transaction.clone());
        self.account_changed(credit.tenant);
        Ok(transaction)
    }

    /// Appends the tenant's next transaction.
    fn post(
        &mut self,
        tenant: TenantId,
        posting: NewTransaction,
        now: Millis,
    ) -> Option<credit_transaction::Model> {
        let account = self.accounts.get_mut(&tenant)?;
        account.seq += 1;
        account.posted += posting.minutes;
        let transaction = credit_transaction::Model {
            tenant_id: tenant,
            seq: account.seq,
            id: posting.id,
            idempotency_key: posting.key,
            kind: posting.kind,
            minutes: posting.minutes,
            balance_after: account.posted,
            call_id: posting.call,
            description: posting.description,
            reference: posting.reference,
            created_at: now,
        };
        self.transactions.push(transaction.clone());
        Some(transaction)
    }

    /// Announces a low balance once per crossing. It is armed again when the balance is back at the threshold or above.
    fn account_changed(&mut self, tenant: TenantId) {
        let Some(account) = self.accounts.get_mut(&tenant) else {
            return;
        };
        let (balance, threshold) = (account.available + account.held, account.low_threshold);
        if account.low_armed && balance < threshold {
            account.low_armed = false;
            self.lows.push(LowBalance {
                tenant,
                balance,
                threshold,
            });
        } else if balance >= threshold {
            account.low_armed = true;
        }
        self.changed_accounts.insert(tenant);
    }
}

/// Answers an admission whose call already has a hold. A settled hold reserves nothing, so the call is not admitted again.
fn admitted_before(hold: &credit_hold::Model, admit: &Admit) -> Result<Admission, LedgerError> {
    if let Some(reason) = hold.refusal.as_deref().and_then(|word| word.parse().ok()) {
        return Ok(Admission::Refused(reason));
    }
    if hold.settled_at.is_some() {
        return Err(LedgerError::Settled);
    }
    if !owns(hold, admit.tenant, &admit.owner, admit.epoch) {
        return Err(LedgerError::NotOwner);
    }
    Ok(Admission::Granted)
}

fn owns(hold: &credit_hold::Model, tenant: TenantId, owner: &str, epoch: i64) -> bool {
    hold.tenant_id == tenant && hold.owner == owner && hold.epoch == epoch
}

struct NewTransaction {
    id: TransactionId,
    key: String,
    kind: TransactionType,
    minutes: i64,
    call: Option<CallId>,
    description: Option<String>,
    reference: Option<String>,
}
