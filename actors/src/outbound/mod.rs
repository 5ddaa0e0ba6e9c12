//! Requests to tenants' servers: which addresses may be dialled, how a connection is made, how one exchange is held to its limits.
//!
//! Architecture invariant: no request leaves this program for an address that a tenant gave, except through [`Outbound`].

mod answer;
mod client;
mod connector;
mod guard;
mod names;
mod resolver;
mod tls;
mod wire;

pub use client::{
    Client, ERROR_KINDS, ErrorKind, Exchange, Failure, Head, Open, Outbound, OutboundError,
    exchange, open,
};
pub use guard::{AllowedHosts, Blocked, Guard};
pub use names::{AllowedHost, AllowedHostError};

#[cfg(test)]
pub(crate) mod receiver;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unasked;
