//! A write on behalf of a tenant: its effect and, where the request has an `Idempotency-Key`, its answer, in one transaction.

use std::rc::Rc;

use dikala_entities::store::Transaction;

use super::Answer;
use crate::{error::ApiError, extract::Caller, middleware::Claim, services::Services};

/// A write transaction that knows under which key its request runs. Dropped, it is rolled back.
#[derive(Debug)]
pub struct Unit {
    txn: Transaction,
    claim: Option<Rc<Claim>>,
}

impl Unit {
    /// Begins.
    pub async fn begin(services: &Services, caller: &Caller) -> Result<Self, ApiError> {
        Ok(Self {
            txn: services.store.begin().await?,
            claim: caller.claim.clone(),
        })
    }

    /// The transaction.
    pub fn txn(&self) -> &Transaction {
        &self.txn
    }

    /// Commits the effect together with its answer.
    pub async fn commit(self, answer: Answer) -> Result<Answer, ApiError> {
        if let Some(claim) = &self.claim
            && !claim.settle(&self.txn, &answer).await?
        {
            return Err(ApiError::IdempotencyInProgress);
        }
        self.txn.commit().await?;
        if let Some(claim) = self.claim {
            claim.committed();
        }
        Ok(answer)
    }
}
