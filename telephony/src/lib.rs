//! The telephony bridge that comes with Dikala.
//!
//! A SIP phone or trunk is on one side ([`sip`], which makes a [`leg`] of each call, with its sockets and media), an AI's voice
//! on the other ([`voice`]), and between them one task per call ([`call`]). The call service (Dikala itself) counts and decides;
//! it is reached over `dikala.bridge.v1` on a WebSocket ([`dikala_protocol::client`]), like from any other bridge. There is no private interface.
//!
//! Audio inside is 16-bit PCM, mono: [`CALLER_RATE`] from the caller to the voice, [`AGENT_RATE`] from the voice to the caller.
//! Everything here runs on a tokio runtime of its own, so that no other work delays a 20 ms tick.

pub mod bridge;
pub mod call;
pub mod leg;
pub mod media;
pub mod settings;
pub mod sip;
pub mod threads;
pub mod times;
pub mod trust;
pub mod voice;

/// Sample rate of the caller's audio, in hertz.
pub const CALLER_RATE: u32 = 16_000;
/// Sample rate of the agent's audio, in hertz.
pub const AGENT_RATE: u32 = 24_000;
