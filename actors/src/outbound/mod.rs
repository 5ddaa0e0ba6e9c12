//! Requests to tenants' servers: allowed addresses, connections, and exchanges within limits.
//!
//! Architecture invariant: no request leaves this program for an address that a tenant gave, except through [`Outbound`].

mod answer;
mod blocked;
mod client;
mod connector;
mod exchange;
mod failure;
mod guard;
mod names;
mod permission;
mod resolver;
mod retry_after;
mod tls;
mod wire;

pub use blocked::BlockedReason;
pub use client::{Outbound, OutboundClient};
pub use exchange::{Exchange, Head, StreamingAnswer, exchange, open};
pub use failure::{ERROR_KINDS, ErrorKind, Failure};
pub use guard::{AllowedHosts, Guard};
pub use names::{AllowedHost, AllowedHostError};
pub use permission::Permission;
pub(crate) use retry_after::retry_after_ms;
pub use tls::{OutboundError, client_config};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unsolicited;
