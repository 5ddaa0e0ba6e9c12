//! The messages of a bridge, as they are written.

use dikala_entities::{
    AgentId, CallId, CallerNumber, ChannelKind, HangupInitiator, HangupReason, Millis, PhoneNumber,
    Speaker, TraceParent, VoiceProvider,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// The longest detail of a failure, in characters.
pub(crate) const DETAIL_CHARS_MAX: usize = 500;

/// The reasons that a bridge may give in `call.hangup`.
pub const HANGUP_REASONS: &[HangupReason] = &[
    HangupReason::Normal,
    HangupReason::Transferred,
    HangupReason::MaxDuration,
    HangupReason::CreditsExhausted,
    HangupReason::Requested,
    HangupReason::Operator,
    HangupReason::Silence,
    HangupReason::Abandoned,
    HangupReason::MediaLost,
    HangupReason::AiError,
    HangupReason::BridgeError,
    HangupReason::Rejected,
    // The service's own commands can have these, and a bridge confirms with the command's reason.
    HangupReason::AnswerTimeout,
    HangupReason::BridgeLost,
];

/// The reasons that a bridge may give in `call.failed`.
pub const FAILURE_REASONS: &[HangupReason] = &[
    HangupReason::BridgeError,
    HangupReason::MediaLost,
    HangupReason::AiError,
    HangupReason::Rejected,
];

/// A message of a bridge.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BridgeMessage {
    /// The message id, which the bridge chose: 1 to 64 characters.
    pub id: String,
    #[serde(flatten)]
    pub content: MessageContent,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type")]
pub enum MessageContent {
    #[serde(rename = "call.incoming")]
    Incoming(IncomingCall),
    #[serde(rename = "heartbeat")]
    Heartbeat(Heartbeat),
    #[serde(untagged)]
    Call(CallMessage),
}

/// The called side: a number, or an agent if the call comes from a browser.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum CalledParty {
    #[serde(rename = "did")]
    Number(PhoneNumber),
    #[serde(rename = "agentId")]
    Agent(AgentId),
}

impl CalledParty {
    /// The called number, if there is one.
    pub fn number(&self) -> Option<&PhoneNumber> {
        match self {
            Self::Number(number) => Some(number),
            Self::Agent(_) => None,
        }
    }
}

impl From<PhoneNumber> for CalledParty {
    fn from(number: PhoneNumber) -> Self {
        Self::Number(number)
    }
}

/// `call.incoming`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IncomingCall {
    /// The bridge's own id of the call: 1 to 128 characters. A repeated id is the same call.
    pub bridge_call_id: String,
    #[serde(flatten)]
    pub called: CalledParty,
    pub caller_number: CallerNumber,
    /// Absent means a telephone call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelKind>,
    /// Changes of the agent for this call alone, in a call from a browser: the fields of `PATCH /agents/{id}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub draft: Option<Map<String, Value>>,
    /// At most 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    #[serde(rename = "traceparent", serialize_with = "trace_text")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

/// A message about a call that the service knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallMessage {
    #[serde(rename = "callId")]
    pub call: CallId,
    /// When it happened; absent means now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    #[serde(flatten)]
    pub report: CallReport,
}

/// A report about a call.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum CallReport {
    #[serde(rename = "call.answered")]
    Answered,
    #[serde(rename = "call.function")]
    Function(FunctionInvocation),
    #[serde(rename = "call.transcript")]
    Transcript {
        summary: String,
        turns: Vec<SpokenTurn>,
    },
    /// A turn as it was heard, at once. The transcript replaces it later.
    #[serde(rename = "call.turn")]
    Turn { turn: NumberedTurn },
    /// A person has answered and is joined to the caller.
    #[serde(rename = "call.transferred")]
    Transferred {
        to: PhoneNumber,
        /// The AI's cost so far, which counts if no later report of the call has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        ai_cost_idr: Option<u64>,
    },
    #[serde(rename = "call.hangup")]
    Hangup {
        reason: HangupReason,
        initiator: HangupInitiator,
        #[serde(skip_serializing_if = "Option::is_none")]
        ai_cost_idr: Option<u64>,
        #[serde(flatten)]
        voice: VoiceReport,
    },
    #[serde(rename = "call.failed")]
    Failed {
        reason: HangupReason,
        /// For operators.
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ai_cost_idr: Option<u64>,
        #[serde(flatten)]
        voice: VoiceReport,
    },
}

/// The voice of a call, as the messages that end the call report it. Absent: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VoiceReport {
    /// The provider at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voice_provider: Option<VoiceProvider>,
    /// Pauses in which the caller waited for the agent and something had to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalls: Option<u32>,
    /// Turns of the agent that the caller cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<u32>,
}

/// `call.function`
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionInvocation {
    /// 1 to 64 characters. A repeated id is the same invocation.
    pub invocation_id: String,
    pub name: String,
    pub parameters: Map<String, Value>,
    #[serde(rename = "traceparent", serialize_with = "trace_text")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceParent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpokenTurn {
    pub role: Speaker,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
    /// Of the agent: from the end of the caller's voice to the first sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<u32>,
    /// It was cut off, and the text is what was heard of it. Absent counts as false.
    #[serde(skip_serializing_if = "is_false")]
    pub interrupted: bool,
}

impl SpokenTurn {
    /// A turn that was heard to its end.
    pub const fn new(role: Speaker, text: String, at: Option<Millis>) -> Self {
        Self {
            role,
            text,
            at,
            latency_ms: None,
            interrupted: false,
        }
    }
}

/// A turn of a call that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NumberedTurn {
    /// From 1. A repeated number replaces the turn.
    pub n: u32,
    #[serde(flatten)]
    pub turn: SpokenTurn,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// `heartbeat`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heartbeat {
    /// The complete list of the calls that the bridge holds. Without a list it is only a sign of life.
    #[serde(rename = "activeCalls", skip_serializing_if = "Option::is_none")]
    pub active: Option<Vec<CallId>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Millis>,
}

fn trace_text<S: Serializer>(
    trace: &Option<TraceParent>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    trace
        .as_ref()
        .map(TraceParent::as_str)
        .serialize(serializer)
}

/// The types of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MessageType {
    Incoming,
    Answered,
    Function,
    Turn,
    Transcript,
    Transferred,
    Hangup,
    Failed,
    Heartbeat,
}

impl MessageType {
    pub const ALL: [Self; 9] = [
        Self::Incoming,
        Self::Answered,
        Self::Function,
        Self::Turn,
        Self::Transcript,
        Self::Transferred,
        Self::Hangup,
        Self::Failed,
        Self::Heartbeat,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Incoming => "call.incoming",
            Self::Answered => "call.answered",
            Self::Function => "call.function",
            Self::Turn => "call.turn",
            Self::Transcript => "call.transcript",
            Self::Transferred => "call.transferred",
            Self::Hangup => "call.hangup",
            Self::Failed => "call.failed",
            Self::Heartbeat => "heartbeat",
        }
    }
}

impl BridgeMessage {
    /// The message in the wire format.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("all names are texts")
    }

    /// Adds the transport's trace, if the message names none itself.
    pub fn within(mut self, trace: Option<&TraceParent>) -> Self {
        let own = match &mut self.content {
            MessageContent::Incoming(incoming) => &mut incoming.trace,
            MessageContent::Call(CallMessage {
                report: CallReport::Function(function),
                ..
            }) => &mut function.trace,
            MessageContent::Call(_) | MessageContent::Heartbeat(_) => return self,
        };
        *own = own.take().or_else(|| trace.cloned());
        self
    }
}

impl MessageContent {
    pub fn kind(&self) -> MessageType {
        match self {
            Self::Incoming(_) => MessageType::Incoming,
            Self::Call(message) => message.report.kind(),
            Self::Heartbeat(_) => MessageType::Heartbeat,
        }
    }
}

impl CallReport {
    /// A failure; the detail is cut to the length that the service accepts.
    pub fn failed(reason: HangupReason, detail: &str) -> Self {
        let kept = detail.chars().filter(|letter| *letter != '\0');
        Self::Failed {
            reason,
            detail: Some(kept.take(DETAIL_CHARS_MAX).collect()),
            ai_cost_idr: None,
            voice: VoiceReport::default(),
        }
    }

    /// Bytes in the wire format, besides ids and time.
    pub fn encoded_len(&self) -> usize {
        serde_json::to_vec(self).map_or(usize::MAX, |bytes| bytes.len())
    }

    pub fn kind(&self) -> MessageType {
        match self {
            Self::Answered => MessageType::Answered,
            Self::Function(_) => MessageType::Function,
            Self::Turn { .. } => MessageType::Turn,
            Self::Transcript { .. } => MessageType::Transcript,
            Self::Transferred { .. } => MessageType::Transferred,
            Self::Hangup { .. } => MessageType::Hangup,
            Self::Failed { .. } => MessageType::Failed,
        }
    }
}
