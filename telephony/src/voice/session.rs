//! The interface between a call's task and a voice.

use std::sync::Arc;

use dikala_entities::Speaker;
use dikala_protocol::CallAgent;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::cost::Usage;

/// Opens voice sessions. There is one for the whole bridge.
pub trait Provider: std::fmt::Debug + Send + Sync {
    /// Starts a session at once; failures are reported as [`VoiceEvent`]. The session ends when either channel is dropped. Needs a
    /// tokio runtime.
    fn open(&self, setup: VoiceSetup) -> VoiceSession;
}

#[derive(Debug, Clone, PartialEq)]
pub struct VoiceSetup {
    /// For logs.
    pub call_id: String,
    pub agent: CallAgent,
    /// Sentences about the call for the agent: time, caller, called number and channel.
    pub circumstances: String,
    /// The conversation with a session before this one, oldest turn first. With it the agent goes on and does not greet.
    pub so_far: Vec<(Speaker, String)>,
    /// The session before this one was lost in the middle of an answer, which is to be said again.
    pub is_answer_cut: bool,
}

/// The channels of one voice session.
#[derive(Debug)]
pub struct VoiceSession {
    pub spoken: mpsc::Sender<VoiceInput>,
    pub heard: mpsc::Receiver<VoiceEvent>,
}

/// A message from the call to the voice.
#[derive(Debug, Clone, PartialEq)]
pub enum VoiceInput {
    /// The call is answered: the agent speaks first. Nothing is generated before it.
    Greet,
    /// 20 to 40 ms of the caller at [`dikala_sip::leg::CALLER_RATE`].
    Audio(Vec<i16>),
    /// A note for the agent that the caller did not say, such as a failed transfer.
    Text(String),
    /// The caller waits and hears nothing. The text asks the model to speak, unless it is about to. It is useless later.
    AnswerNow(String),
    /// The caller's voice has begun, or has ended.
    Activity { speaks: bool },
    /// The keys that the caller pressed: `the caller pressed 4 2 7 #`.
    Keys(String),
    /// The call is about to end: the agent is to say goodbye. The text for the agent gives reason and time left.
    Goodbye(String),
    /// The outcome of a tool call for the model. Every [`VoiceEvent::Tool`] gets one, cancelled ones too, unless the call ends
    /// before.
    ToolOutcome { id: String, outcome: ToolOutcome },
    /// The answer to [`VoiceEvent::Interrupted`]. The caller has heard this much of the [`VoiceEvent::Audio`] that came after the
    /// interruption before. Sentences of the bridge do not count.
    Interrupted { played_ms: u64 },
    /// Requests a summary in a few sentences. If the voice can, [`VoiceEvent::Summary`] follows, and no more speech.
    Summarise,
}

/// The outcome of a tool call: `{"output": …}`, where the output says something, or `{"error": {"code", "message"}}`.
///
/// It is JSON text, because values take up to a hundred times the memory of their text. Clones share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutcome(Arc<str>);

impl ToolOutcome {
    /// An empty output becomes `{"done": true}`: a model that is told nothing may call again (Gemini 3.8 does).
    pub(crate) fn success(output: Value) -> Self {
        let says_nothing = output.as_object().is_some_and(Map::is_empty);
        let output = if says_nothing {
            json!({"done": true})
        } else {
            output
        };
        Self(json!({"output": output}).to_string().into())
    }

    pub(crate) fn failure(code: &str, message: &str) -> Self {
        let error = json!({"code": code, "message": message});
        Self(json!({"error": error}).to_string().into())
    }

    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    pub(crate) fn fields(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).unwrap_or_default()
    }
}

/// A message from the voice to the call.
#[derive(Debug, Clone, PartialEq)]
pub enum VoiceEvent {
    /// Ready to talk.
    Ready,
    /// The agent's samples at [`dikala_sip::leg::SPEECH_RATE`], faster than real time. A model's pieces are 100 ms at most, so
    /// that a channel of a limited number of pieces is limited in time.
    Audio(Vec<i16>),
    /// The model stopped because the caller spoke: queued speech is void.
    Interrupted,
    /// Calls a function, or a built-in tool (`end_call`, `transfer_to_human`).
    Tool {
        id: String,
        name: String,
        arguments: Map<String, Value>,
    },
    /// The model wants no answer to these calls any more.
    ToolCancelled {
        ids: Vec<String>,
    },
    /// A piece of the caller's transcript.
    CallerSaid(String),
    /// A piece of the agent's transcript.
    AgentSaid(String),
    /// The model speaks no word before the outcome of its call is there, so [`VoiceInput::AnswerNow`] has no effect.
    CannotSpeak,
    /// The agent's turn is over.
    TurnOver,
    /// Units used since the last report.
    Usage(Usage),
    /// The requested summary has begun.
    Summarising,
    Summary(String),
    /// The connection to the model was lost and is being re-established; [`VoiceEvent::Reconnected`] or [`VoiceEvent::Lost`] follows.
    Away,
    Reconnected,
    /// The voice has ended; described for operators. Nothing follows. The call itself limits the time before
    /// [`VoiceEvent::Ready`] and of [`VoiceEvent::Away`] (3 s, or 8 s for its last provider), so a voice may retry for ever.
    Lost(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_outcome_says_something() {
        let text = |output| ToolOutcome::success(output).text().to_owned();
        assert_eq!(text(json!({})), r#"{"output":{"done":true}}"#);
        assert_eq!(text(json!({"a": 1})), r#"{"output":{"a":1}}"#);
    }
}
