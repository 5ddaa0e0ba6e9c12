//! The telephony bridge that comes with Dikala.
//!
//! A SIP phone or trunk on one side ([`sip`], which holds the sockets and the media of each call as a [`leg`]), an AI's voice on
//! the other ([`voice`]), and between them one task for each call ([`call`]). What is counted and decided elsewhere is asked of the
//! engine, over `dikala.bridge.v1` on a WebSocket, as any other bridge would ([`engine`]): there is no private door.
//!
//! Audio inside is 16-bit PCM, mono: [`CALLER_RATE`] from the caller to the voice, [`AGENT_RATE`] from the voice to the caller.
//! Everything here runs on a tokio runtime of its own, so that no other work delays a 20 ms tick.

pub mod bridge;
pub mod call;
pub mod engine;
pub mod leg;
pub mod media;
pub mod settings;
pub mod sip;
pub mod socket;
pub mod threads;
pub mod times;
pub mod trust;
pub mod voice;

use std::sync::Arc;

use dikala_entities::Millis;

/// What the time is, for the `at` of messages. Whoever starts the bridge has the clock.
pub type Clock = Arc<dyn Fn() -> Millis + Send + Sync>;

/// Samples a second of what the caller says, as voices take it.
pub const CALLER_RATE: u32 = 16_000;
/// Samples a second of what the agent says, as voices give it.
pub const AGENT_RATE: u32 = 24_000;
