//! A tenant's write: its effect, its audit entry and, for a request with an `Idempotency-Key`, its stored answer, in
//! one transaction.

use dikala_actors::runtime::clock::SharedClock;
use dikala_entities::{Store, store::Transaction};

use crate::{
    api::context::Services,
    audit::{self, AuditChange},
    http::{answer::Answer, error::ApiError, extract::TenantRequest},
};

/// A write transaction for a request, with its caller and idempotency key. Dropping it rolls it back.
#[derive(Debug)]
pub struct TenantWrite {
    store: Store,
    txn: Transaction,
    caller: TenantRequest,
    clock: SharedClock,
}

impl TenantWrite {
    /// Begins a transaction.
    pub async fn begin(services: &Services, caller: &TenantRequest) -> Result<Self, ApiError> {
        Ok(Self {
            store: services.store.clone(),
            txn: services.store.begin().await?,
            caller: caller.clone(),
            clock: services.clock.clone(),
        })
    }

    pub fn txn(&self) -> &Transaction {
        &self.txn
    }

    /// Commits the effect with its stored answer and its audit entry. `change` is none if nothing of the tenant's
    /// changed.
    pub async fn commit<T: Answer>(
        self,
        output: T,
        change: Option<AuditChange>,
    ) -> Result<T, ApiError> {
        let TenantRequest {
            tenant,
            origin,
            claim,
        } = self.caller;
        let mut entry = None;
        if let Some(change) = change {
            let now = self.clock.now();
            entry = Some(origin.write(&self.txn, tenant, change, now).await?);
        }
        let claim = claim.map(|claim| (claim, output.answer()));
        if let Some((claim, answer)) = &claim
            && !claim.settle(&self.txn, answer).await?
        {
            return Err(ApiError::IdempotencyInProgress);
        }
        let committed = audit::commit(&self.store, self.txn, entry).await;
        committed.map_err(ApiError::of_commit)?;
        if let Some((claim, answer)) = claim {
            claim.committed(&answer);
        }
        Ok(output)
    }
}
