//! Requests whose transaction the database rolled back for another's sake, after a deadlock or where two could not be put into an
//! order: they are carried out again from their beginning. What waits for too long is not; it may well wait as long again.

use std::{future::Future, pin::Pin, time::Duration};

use actix_web::Handler;

use super::{answer::Answer, error::ApiError};

/// How often a request is carried out at most.
const TRIES: u32 = 4;
/// Before the second time, and as much longer before each further one, in milliseconds. Half of it is chance: two that met do not
/// meet again.
const AGAIN_AFTER_MS: u64 = 20;

/// A handler that is run again after [`ApiError::RolledBack`]. All that it does has to be in one transaction; what follows the
/// commit must not fail.
#[derive(Clone, Copy, Debug)]
pub struct Again<H>(H);

/// Makes one.
pub const fn again<H>(handler: H) -> Again<H> {
    Again(handler)
}

impl<H, Args> Handler<Args> for Again<H>
where
    H: Handler<Args, Output = Result<Answer, ApiError>>,
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
                tracing::debug!(tries, "a request is carried out again");
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            handler.call(args).await
        })
    }
}
