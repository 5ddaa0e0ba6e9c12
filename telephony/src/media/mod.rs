//! The media of a call, pure: bytes and milliseconds go in, bytes and samples come out; sockets and clocks are whoever calls's.
//!
//! [`stream::Stream`] joins the parts for one call, [`sdp`] agrees with the other side what it carries. Everything here is fed by
//! strangers: what makes no sense is counted and dropped, and nothing grows with it.

pub mod activity;
pub mod conceal;
pub mod doubled;
pub mod dtmf;
pub mod fir;
pub mod g711;
pub mod opus;
pub mod order;
pub mod playout;
pub mod rtcp;
pub mod rtp;
pub mod sdp;
pub mod srtp;
pub mod stream;

/// What keeps a stream from being set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("Opus cannot be set up: {0}")]
    Opus(&'static str),
    #[error("the keys of the encrypted media cannot be used")]
    Keys,
}
