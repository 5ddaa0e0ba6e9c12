//! The certificate of a server on this machine (`localhost` and its addresses, good for a century), its key, and the authority
//! that signed it.

/// PEM of the authority.
pub const AUTHORITY: &[u8] = include_bytes!("ca.pem");
/// PEM of the server's certificate.
pub const SERVER: &[u8] = include_bytes!("server.pem");
/// PEM of the server's key.
pub const SERVER_KEY: &[u8] = include_bytes!("server.key");
/// PEM of another certificate of the same server, which has signed itself.
pub const RENEWED: &[u8] = include_bytes!("renewed.pem");
/// PEM of its key.
pub const RENEWED_KEY: &[u8] = include_bytes!("renewed.key");
