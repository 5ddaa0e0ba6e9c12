//! The layers around the handlers, outermost first: request id and error body ([`request_scope`]), key and limits
//! ([`admit()`]), body ([`receive_body`]), idempotency ([`once`](super::idempotency::once)), and panics
//! ([`catch_panic`]).

mod admit;
mod body;
mod panics;
mod request;

pub use admit::{StreamKey, admit, admit_operator};
pub use body::{count_visit, receive, receive_body};
pub use panics::catch_panic;
pub use request::{only_reads, request_scope, while_connected};
