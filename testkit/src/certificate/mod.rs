//! A certificate for `localhost` and its addresses, valid for a century, with its key and its certificate
//! authority.

/// The authority's certificate in PEM.
pub const AUTHORITY: &[u8] = include_bytes!("ca.pem");
/// The server's certificate in PEM.
pub const SERVER: &[u8] = include_bytes!("server.pem");
/// The server's key in PEM.
pub const SERVER_KEY: &[u8] = include_bytes!("server.key");
/// Another, self-signed certificate for the same server, in PEM.
pub const RENEWED: &[u8] = include_bytes!("renewed.pem");
/// Its key in PEM.
pub const RENEWED_KEY: &[u8] = include_bytes!("renewed.key");
/// A certificate for `voice.example.com` alone, and that of the authority between it and [`VOICE_AUTHORITY`], in PEM.
pub const VOICE: &[u8] = include_bytes!("voice.pem");
/// The certificate of its authority in PEM.
pub const VOICE_AUTHORITY: &[u8] = include_bytes!("voice-ca.pem");
/// Its key in PEM.
pub const VOICE_KEY: &[u8] = include_bytes!("voice.key");
