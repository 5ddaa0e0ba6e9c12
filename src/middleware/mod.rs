//! What happens to a request before its handler and to the answer after it, from the outside in: a request id and an error
//! body for everything ([`request_scope`]), the key and the limits ([`admit()`]), the body ([`receive_body`]), repeats
//! ([`once`]), and a net under the handler ([`catch_panic`]).

mod admit;
mod body;
mod idempotency;
mod keys;
mod panics;
mod rate;
mod request;
mod strangers;

pub use admit::{Gate, Pass, admit};
pub use body::{BODY_BYTES_MAX, receive_body};
#[cfg(test)]
pub(crate) use idempotency::LARGE_BYTES_MAX;
pub use idempotency::{Claim, once, sweep as sweep_idempotency_keys};
pub use panics::catch_panic;
pub use rate::{Limiter, Verdict, Window, count};
pub use request::{GUARDS, current_request_id, only_reads, request_scope};
pub use strangers::{Stranger, Strangers};
