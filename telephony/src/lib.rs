//! The telephony bridge that comes with Dikala.
//!
//! A SIP phone or trunk is on one side ([`dikala_sip`] makes a leg of each call, with its sockets and media). An AI's voice is
//! on the other ([`voice`]), and between them one task per call ([`call`]). The call service (Dikala itself) counts and decides.
//! It is reached over `dikala.bridge.v1` on a WebSocket ([`dikala_protocol::client`]), like from any other bridge. There is no
//! private interface.
//!
//! Audio inside is 16-bit PCM, mono: [`dikala_sip::leg::CALLER_RATE`] from the caller to the voice,
//! [`dikala_sip::leg::SPEECH_RATE`] from the voice to the caller. Everything here runs on a tokio runtime of its own, so that no
//! other work delays a 20 ms tick.

pub mod bridge;
pub mod call;
mod cost;
mod early_voices;
mod incoming;
pub mod settings;
pub mod threads;
pub mod trust;
pub mod voice;

use dikala_sip::settings::UserAgent;

/// The name of the bridge for SIP peers.
pub const USER_AGENT: UserAgent = UserAgent {
    name: "dikala",
    product: concat!("Dikala/", env!("CARGO_PKG_VERSION")),
};
