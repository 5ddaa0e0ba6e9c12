//! The media of a call, pure: bytes and milliseconds go in, bytes and samples come out. The caller owns sockets and clocks.
//!
//! [`stream::MediaStream`] joins the parts for one call, [`sdp`] negotiates its terms. All input is untrusted: invalid packets are
//! counted and dropped, and no memory grows with them.

pub mod activity;
pub mod caller_voice;
pub mod conceal;
pub mod dtmf;
pub mod dtmf_tones;
pub mod echo;
pub mod fir;
pub mod g711;
pub mod g722;
pub mod jitter_buffer;
pub mod key_dedup;
pub mod opus;
pub mod playout;

pub mod rtcp;
pub mod rtp;
pub mod sdp;
pub mod srtp;
pub mod stream;
pub mod tones;
pub mod web;

/// Why a stream cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("Opus cannot be set up: {0}")]
    Opus(&'static str),
    #[error("the keys of the encrypted media cannot be used")]
    Keys,
}
