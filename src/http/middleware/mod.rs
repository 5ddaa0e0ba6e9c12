//! What happens to a request before its handler and to the answer after it, from the outside in: a request id and an error
//! body for everything ([`request_scope`]), the key and the limits ([`admit()`]), the body ([`receive_body`]), repeats
//! ([`once`](super::idempotency::once)), and a net under the handler ([`catch_panic`]).

mod admit;
mod body;
mod panics;
mod request;

pub use admit::{Pass, admit, admit_operator};
pub use body::{receive, receive_body};
pub use panics::catch_panic;
pub use request::{only_reads, request_scope, while_connected};
