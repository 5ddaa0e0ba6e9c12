//! One end of a call: a phone, as the program behind the edge sees it.
//!
//! The edge makes a [`Leg`] for each call, with sockets, codecs and clock behind it. The program's task for the call sends it
//! [`Order`]s and [`Speech`], and receives [`LegEvent`]s. All three channels are bounded. Audio is 16-bit PCM, mono.

use tokio::sync::mpsc;

/// Sample rate of [`LegEvent::Audio`], in hertz.
pub const CALLER_RATE: u32 = 16_000;
/// Sample rate of [`Speech::Audio`], in hertz.
pub const SPEECH_RATE: u32 = 24_000;

/// Silence after which a voice counts as ended, in milliseconds: [`LegEvent::VoiceEnded`] comes this much after its last sound,
/// and up to 36 ms more because audio comes in frames.
pub const VOICE_HANG_OVER_MS: u64 = 300;

/// A call that waits for an answer.
#[derive(Debug)]
pub struct OfferedCall {
    /// The edge's id of the call, 1 to 128 characters. A repeated id is the same call.
    pub id: String,
    /// Called numbers in E.164, at least one. The first that belongs to somebody counts.
    pub dids: Vec<String>,
    /// The caller's number, in E.164 where known; 1 to 64 characters.
    pub caller: String,
    /// The name of the trunk that admitted the call.
    pub trunk: String,
    /// The Call-ID of the INVITE, at most 256 characters.
    pub sip_call_id: String,
    /// The product of the caller's phone, at most 256 characters.
    pub user_agent: Option<String>,
    /// The name of the agreed codec; `None` if the INVITE had no offer.
    pub codec: Option<&'static str>,
    pub channel: OfferedChannel,
    pub leg: Leg,
}

/// The network that the caller uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum OfferedChannel {
    #[default]
    Telephone,
    WhatsApp(WhatsAppDetails),
}

/// The headers of Meta in an INVITE from WhatsApp, where they are present; each at most 512 characters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WhatsAppDetails {
    /// WhatsApp's id of the call, `wacid.…`.
    pub call_id: Option<String>,
    /// The payload of the call button that was pressed.
    pub cta_payload: Option<String>,
    /// The payload of the link that was followed.
    pub deeplink_payload: Option<String>,
}

/// The channels of one phone. Dropping `orders` hangs up.
#[derive(Debug)]
pub struct Leg {
    pub orders: mpsc::Sender<Order>,
    pub speech: mpsc::Sender<Speech>,
    pub events: mpsc::Receiver<LegEvent>,
}

/// Audio and marks for the phone, in order. The leg accepts no more while 30 s of it wait to be played.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speech {
    /// Samples at [`SPEECH_RATE`].
    Audio(Vec<i16>),
    /// Audio of a joined call, which is played within 120 ms or dropped.
    Live(Vec<i16>),
    /// Answered by [`LegEvent::Played`] once everything before it was played or flushed.
    Mark(u64),
    /// Sends a DTMF key to the phone at once. A phone that accepts no DTMF does not get it.
    Key(char),
}

/// A command to the phone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Sends 180 Ringing.
    Ring,
    /// Sends 200 OK; [`LegEvent::Answered`] follows.
    Answer {
        /// The called number that counts. Persons see it.
        did: String,
    },
    Reject(CallRefusal),
    /// Pauses playback and keeps queued speech, because the caller seems to speak.
    Pause,
    /// Continues playback after a pause.
    Continue,
    /// Discards queued speech, that in the `speech` channel included, and ends a pause. [`LegEvent::Flushed`] says how much was
    /// played so far; no speech may be sent until then.
    Flush,
    /// Connects the caller to a person; [`LegEvent::Transfer`] or [`LegEvent::Joined`] follows.
    Transfer {
        /// E.164.
        to: String,
    },
    /// Cancels the call to the person and reports no outcome. A peer that has accepted a REFER goes on by itself.
    CancelTransfer,
    /// Plays this to the caller and to the person who are joined, at [`SPEECH_RATE`], in place of what they say to each other.
    Announce(Vec<i16>),
    Hangup(HangupNote),
}

/// A refusal of a call, as SIP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRefusal {
    /// A SIP status, 400 to 699.
    pub status: u16,
    pub words: String,
    /// For the Retry-After header.
    pub retry_after_seconds: Option<u32>,
}

/// The reason for a hang-up, in words, for the Reason header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HangupNote {
    pub words: String,
}

/// An event at the phone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LegEvent {
    /// The phone has acknowledged the answer, and media may flow.
    Answered,
    /// The caller gave up before the answer.
    Cancelled,
    /// 20 ms at [`CALLER_RATE`], in order, lost packets concealed.
    Audio(Vec<i16>),
    /// The caller has spoken for the length of a word (96 ms). Speech that the phone returns as an echo does not count.
    VoiceStarted,
    /// The caller has been silent for [`VOICE_HANG_OVER_MS`]. Time in which an echo is heard does not count.
    VoiceEnded,
    /// A pressed key: `0`–`9`, `*`, `#`, `A`–`D`.
    Key(char),
    /// Everything before this [`Speech::Mark`] was played or flushed.
    Played(u64),
    /// The queue is flushed, and its marks were reported before. `total_played_ms`: milliseconds of [`Speech::Audio`] that were
    /// sent to the phone since the leg began. The count never restarts; pauses, silence of an empty queue, flushed speech and
    /// live audio are left out.
    Flushed {
        total_played_ms: u64,
    },
    /// The caller holds the call (true: no media is expected) or resumes it.
    Held(bool),
    /// The peer has connected the caller to the person itself, so this leg ends; an error says why the transfer failed.
    Transfer(Result<(), String>),
    /// The person has answered, and both hear each other. Audio, keys and marks are reported no more.
    Joined {
        /// E.164.
        to: String,
    },
    /// The person of a joined call has left, and the leg is gone.
    Parted,
    HungUp,
    MediaLost,
    /// The leg failed and is gone; described for operators.
    Failed(String),
}
