//! Mounts operations: their outputs become answers. One whose transaction the database rolled back, after a deadlock or
//! a serialization conflict, is repeated. A lock timeout is not: the next wait may be as long.

use std::{future::Future, pin::Pin, time::Duration};

use actix_web::Handler;

use super::{
    answer::{Answer, ApiAnswer},
    error::ApiError,
};

/// Attempts of a request, at most.
const TRIES: u32 = 4;
/// Backoff before the second attempt, in milliseconds; it grows linearly. Half of it is random, so that two
/// conflicting requests do not meet again.
const AGAIN_AFTER_MS: u64 = 20;

/// The handler of an operation.
#[derive(Clone, Copy, Debug)]
pub struct OperationHandler<H> {
    operation: H,
    /// Attempts, at most, while it ends with [`ApiError::RolledBack`].
    tries: u32,
}

/// Mounts an operation that reads.
pub const fn answer<H>(operation: H) -> OperationHandler<H> {
    OperationHandler {
        operation,
        tries: 1,
    }
}

/// Mounts an operation that is repeated after [`ApiError::RolledBack`]. Everything it does must be in one transaction,
/// and nothing after the commit may fail.
pub const fn again<H>(operation: H) -> OperationHandler<H> {
    OperationHandler {
        operation,
        tries: TRIES,
    }
}

impl<H, Args, T> Handler<Args> for OperationHandler<H>
where
    H: Handler<Args, Output = Result<T, ApiError>>,
    Args: Clone + 'static,
    T: Answer,
{
    type Output = Result<ApiAnswer, ApiError>;
    type Future = Pin<Box<dyn Future<Output = Self::Output>>>;

    fn call(&self, args: Args) -> Self::Future {
        let Self { operation, tries } = self.clone();
        Box::pin(async move {
            for tried in 1..tries {
                match operation.call(args.clone()).await {
                    Err(ApiError::RolledBack) => {}
                    outcome => return outcome.map(|output| output.answer()),
                }
                let longest = AGAIN_AFTER_MS * u64::from(tried);
                let pause = longest / 2 + rand::random_range(0..=longest / 2);
                tracing::debug!(
                    tried,
                    "the database rolled back a request; carrying it out again"
                );
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            operation.call(args).await.map(|output| output.answer())
        })
    }
}
