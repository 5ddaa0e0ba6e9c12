//! Repeats requests whose transaction the database rolled back after a deadlock or a serialization conflict. A lock
//! timeout is not repeated: the next wait may be as long.

use std::{future::Future, pin::Pin, time::Duration};

use actix_web::Handler;

use super::{answer::ApiAnswer, error::ApiError};

/// Attempts of a request, at most.
const TRIES: u32 = 4;
/// Backoff before the second attempt, in milliseconds; it grows linearly. Half of it is random, so that two
/// conflicting requests do not meet again.
const AGAIN_AFTER_MS: u64 = 20;

/// A handler that is repeated after [`ApiError::RolledBack`]. Everything it does must be in one transaction, and
/// nothing after the commit may fail.
#[derive(Clone, Copy, Debug)]
pub struct RetryOnRollback<H>(H);

/// Wraps a handler.
pub const fn again<H>(handler: H) -> RetryOnRollback<H> {
    RetryOnRollback(handler)
}

impl<H, Args> Handler<Args> for RetryOnRollback<H>
where
    H: Handler<Args, Output = Result<ApiAnswer, ApiError>>,
    Args: Clone + 'static,
{
    type Output = H::Output;
    type Future = Pin<Box<dyn Future<Output = Self::Output>>>;

    fn call(&self, args: Args) -> Self::Future {
        let handler = self.0.clone();
        Box::pin(async move {
            for tries in 1..TRIES {
                match handler.call(args.clone()).await {
                    Err(ApiError::RolledBack) => {}
                    outcome => return outcome,
                }
                let longest = AGAIN_AFTER_MS * u64::from(tries);
                let pause = longest / 2 + rand::random_range(0..=longest / 2);
                tracing::debug!(
                    tries,
                    "the database rolled back a request; carrying it out again"
                );
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            handler.call(args).await
        })
    }
}
