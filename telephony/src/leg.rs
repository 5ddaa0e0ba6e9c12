//! One end of a call: a phone, seen from the call's task.
//!
//! Whoever brings calls in (today [`crate::sip`]) makes a [`Leg`] for each, with sockets, codecs and clock behind it. The call's
//! task speaks to it by [`Order`]s and [`Speech`], and hears of it by [`Happening`]s; all three channels are bounded.

use serde_json::Value;
use tokio::sync::mpsc;

/// A call that has come in and waits for an answer.
#[derive(Debug)]
pub struct Incoming {
    /// The id of the call at this bridge, 1 to 128 characters: a repeat is the same call.
    pub bridge_call_id: String,
    /// The number that was called, in E.164.
    pub did: String,
    /// Who calls, in E.164 where known; 1 to 64 characters.
    pub caller: String,
    /// What the engine keeps with the call, below 16 KiB.
    pub metadata: Value,
    pub leg: Leg,
}

/// The channels to and from one phone. The leg is hung up when `orders` is dropped.
#[derive(Debug)]
pub struct Leg {
    pub orders: mpsc::Sender<Order>,
    pub speech: mpsc::Sender<Speech>,
    pub happenings: mpsc::Receiver<Happening>,
}

/// What is said to the phone, in order. The leg takes no more while 30 s of it wait to be played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speech {
    /// Samples at [`crate::AGENT_RATE`].
    Audio(Vec<i16>),
    /// Answered by [`Happening::Played`] once everything before it was played or thrown away.
    Mark(u64),
    /// Presses a key for the phone, at once. One that takes no keys does not hear it.
    Key(char),
}

/// What the call's task wants of the phone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Says that the phone rings (180).
    Ring,
    /// Takes the call (200); [`Happening::Answered`] follows.
    Answer,
    /// Refuses it.
    Reject(Refusal),
    /// Falls silent and keeps what waits, and what comes after it: the caller seems to speak.
    Pause,
    /// Goes on where it was.
    Continue,
    /// Throws away what waits, in `speech` too, and ends a pause. [`Happening::Flushed`] says how much was played; the call's task
    /// sends no speech until it has that.
    Flush,
    /// Connects the caller to a person; [`Happening::Transfer`] follows.
    Transfer {
        /// E.164.
        to: String,
        /// In which both are told that the bridge stops, where it joined them.
        language: String,
    },
    /// Calls the person no more, and does not tell how that ended. A peer that has agreed to call the person itself goes on.
    CancelTransfer,
    /// Ends the call now.
    Hangup(Ending),
}

/// A refusal in the phone's own terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A SIP status, 400 to 699.
    pub status: u16,
    /// Why, in words.
    pub words: String,
    /// When to try again, where that makes sense.
    pub retry_after_seconds: Option<u32>,
}

/// Why a call is hung up, in words, for the Reason header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub words: String,
}

/// What happened at the phone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// The call stands and media may flow (the phone has acknowledged).
    Answered,
    /// The caller gave up before the answer.
    Cancelled,
    /// 20 ms at [`crate::CALLER_RATE`], in order, lost packets concealed.
    Audio(Vec<i16>),
    /// The caller has spoken for as long as makes a word (96 ms).
    VoiceStarted,
    /// The caller has stopped speaking.
    VoiceEnded,
    /// A key was pressed: `0`–`9`, `*`, `#`, `A`–`D`.
    Key(char),
    /// Everything before this [`Speech::Mark`] is over.
    Played(u64),
    /// What waited is gone; so many milliseconds were played since the queue was last empty or flushed.
    Flushed { played_ms: u64 },
    /// The caller holds the call (true: no media is expected) or is back.
    Held(bool),
    /// How [`Order::Transfer`] ended: it stands, or why it does not, in words.
    Transfer(Result<(), String>),
    /// The caller hung up.
    HungUp,
    /// No media came for 15 s.
    MediaLost,
    /// The leg broke and is gone, in words for operators.
    Failed(String),
}
