//! The reason why an address may not be dialled.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BlockedReason {
    #[error("must be the name of a public host, not an internal or special one")]
    Internal,
    #[error("must not use the port of another protocol; web servers are at 443, 8443 and the like")]
    Port,
    #[error("must not be, or resolve to, an address that is not public")]
    NotPublic,
    #[error("must not point at this service itself")]
    Own,
    #[error("must begin with https://")]
    Insecure,
}
