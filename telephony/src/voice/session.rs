//! What a call's task and a voice tell each other.

use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

/// Opens sessions. One for the whole bridge.
pub trait Provider: std::fmt::Debug + Send + Sync {
    /// Starts a session at once; what it meets on the way comes as [`Heard`]. It ends when either channel is dropped.
    /// Called inside a tokio runtime.
    fn open(&self, setup: Setup) -> Session;
}

/// How an agent is to speak.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// For logs.
    pub call_id: String,
    pub agent: Agent,
}

/// The agent, as the engine tells of it in its answer to `call.incoming`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub id: String,
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<String>,
    pub greeting_text: Option<String>,
    pub language: String,
    pub max_call_duration_minutes: u32,
    pub escalation_number: Option<String>,
    /// Built-in tools that are enabled, by name.
    pub tools: Vec<String>,
    pub functions: Vec<FunctionDeclaration>,
}

/// A function of the tenant.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct FunctionDeclaration {
    pub name: String,
    pub description: String,
    /// JSON Schema.
    pub parameters: Value,
}

/// The channels to and from one voice.
#[derive(Debug)]
pub struct Session {
    pub spoken: mpsc::Sender<Spoken>,
    pub heard: mpsc::Receiver<Heard>,
}

/// From the call to the voice.
#[derive(Debug, Clone, PartialEq)]
pub enum Spoken {
    /// 20 to 40 ms of the caller at [`crate::CALLER_RATE`].
    Audio(Vec<i16>),
    /// Words to the agent that the caller did not say: that nobody could be reached.
    Text(String),
    /// Which keys the caller pressed: `the caller pressed 4 2 7 #`.
    Keys(String),
    /// The call is about to end: the agent is to say goodbye. Why, and how much time there is, in words for the agent.
    Goodbye(String),
    /// What came of a function: an object to give to the model, `{"output": …}` or `{"error": {"code", "message"}}`. It follows every
    /// [`Heard::Tool`] in the end, those that were cancelled too, unless the call ends before.
    ToolOutcome {
        id: String,
        outcome: Map<String, Value>,
    },
    /// The caller interrupted, and has really heard so much of what was being said.
    Interrupted { played_ms: u64 },
    /// Asks for a summary of the call in a few sentences; [`Heard::Summary`] follows where the voice can, and what it says no more.
    Summarise,
}

/// From the voice to the call.
#[derive(Debug, Clone, PartialEq)]
pub enum Heard {
    /// Ready to talk; the greeting follows by itself.
    Ready,
    /// Samples of the agent at [`crate::AGENT_RATE`], faster than real time. A model's are 100 ms at most, so that a channel that
    /// counts pieces is bounded in time, too.
    Audio(Vec<i16>),
    /// The model stopped because the caller spoke: what waits to be played is void.
    Interrupted,
    /// A function, or a built-in tool (`end_call`, `transfer_to_human`), is wanted.
    Tool {
        id: String,
        name: String,
        arguments: Map<String, Value>,
    },
    /// The model wants no answer to these any more.
    ToolCancelled {
        ids: Vec<String>,
    },
    /// A piece of what the caller said.
    CallerSaid(String),
    /// A piece of what the agent said.
    AgentSaid(String),
    /// The agent has said what it wanted to say.
    TurnOver,
    /// Tokens used since the last one.
    Usage(Usage),
    /// The summary that was asked for has begun.
    Summarising,
    Summary(String),
    /// The connection to the model was lost; it is being made again, and [`Heard::Reconnected`] or [`Heard::Lost`] follows.
    Away,
    /// The connection to the model stands again.
    Reconnected,
    /// There is no voice any more, in words for operators. Nothing follows. The call's task gives up by itself after 8 s without
    /// [`Heard::Ready`], or of [`Heard::Away`]: a voice may go on trying for as long as it likes.
    Lost(String),
}

/// Tokens of a model by modality.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub text_in: u64,
    pub audio_in: u64,
    pub text_out: u64,
    pub audio_out: u64,
}
