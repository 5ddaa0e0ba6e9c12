//! Messages between bridge and service, as values and as JSON.

use dikala_entities::{HangupInitiator, HangupReason, Millis, Speaker};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::voice::CallAgent;

/// The largest message that the service accepts.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 * 1024;
/// The longest detail of a failure that the service accepts.
const DETAIL_CHARS_MAX: usize = 500;

/// A message about a call to the service.
#[derive(Debug, Clone, PartialEq)]
pub enum OutgoingMessage {
    Incoming {
        bridge_call_id: String,
        did: String,
        caller: String,
        metadata: Value,
    },
    Answered,
    Function {
        invocation_id: String,
        name: String,
        parameters: Map<String, Value>,
    },
    Transcript {
        summary: String,
        turns: Vec<SpokenTurn>,
    },
    Hangup {
        reason: HangupReason,
        initiator: HangupInitiator,
        ai_cost_idr: Option<u64>,
    },
    Failed {
        reason: HangupReason,
        detail: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpokenTurn {
    pub role: Speaker,
    pub text: String,
    pub at: Millis,
}

impl OutgoingMessage {
    /// The message ends the call.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, Self::Hangup { .. } | Self::Failed { .. })
    }

    /// Later messages of the call wait for its reply.
    pub(super) fn is_in_order(&self) -> bool {
        !matches!(self, Self::Function { .. })
    }

    /// The message as JSON.
    pub(crate) fn encode(&self, id: &str, call: Option<&str>, at: Millis) -> String {
        let (kind, mut fields) = match self {
            Self::Incoming {
                bridge_call_id,
                did,
                caller,
                metadata,
            } => (
                "call.incoming",
                json!({"bridgeCallId": bridge_call_id, "did": did, "callerNumber": caller, "metadata": metadata}),
            ),
            Self::Answered => ("call.answered", json!({})),
            Self::Function {
                invocation_id,
                name,
                parameters,
            } => (
                "call.function",
                json!({"invocationId": invocation_id, "name": name, "parameters": parameters}),
            ),
            Self::Transcript { summary, turns } => (
                "call.transcript",
                json!({"summary": summary, "turns": turns.iter().map(SpokenTurn::encode).collect::<Vec<_>>()}),
            ),
            Self::Hangup {
                reason,
                initiator,
                ai_cost_idr,
            } => (
                "call.hangup",
                json!({"reason": reason, "initiator": initiator, "aiCostIdr": ai_cost_idr}),
            ),
            Self::Failed { reason, detail } => {
                let detail: String = detail.chars().take(DETAIL_CHARS_MAX).collect();
                (
                    "call.failed",
                    json!({"reason": reason, "detail": detail.replace('\0', "")}),
                )
            }
        };
        fields["id"] = id.into();
        fields["type"] = kind.into();
        fields["at"] = at.to_string().into();
        if let Some(call) = call {
            fields["callId"] = call.into();
        }
        fields.to_string()
    }
}

impl SpokenTurn {
    fn encode(&self) -> Value {
        json!({"role": self.role, "text": self.text, "at": self.at.to_string()})
    }
}

pub(super) fn heartbeat(id: &str, calls: &[&str], at: Millis) -> String {
    json!({"id": id, "type": "heartbeat", "activeCalls": calls, "at": at.to_string()}).to_string()
}

/// A message from the service to a call.
#[derive(Debug, Clone)]
pub enum ServiceEvent {
    Reply(ServiceReply),
    Command(ServiceCommand),
    /// The service considers the call over.
    Over,
}

#[derive(Debug, Clone)]
pub enum ServiceReply {
    /// To [`OutgoingMessage::Incoming`].
    Taken {
        call_id: String,
        agent: Box<CallAgent>,
    },
    /// To [`OutgoingMessage::Incoming`]: the call is stored as failed, for this reason.
    Refused { reason: HangupReason },
    /// To [`OutgoingMessage::Function`].
    Outcome {
        invocation_id: String,
        outcome: InvocationOutcome,
    },
    /// A message is not accepted and never will be.
    Declined {
        wanted: DeclinedMessage,
        code: String,
        words: String,
    },
}

/// The kind of message that was declined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeclinedMessage {
    Incoming,
    Answered,
    Function { invocation_id: String },
    Closing,
}

/// The outcome of a function.
#[derive(Debug, Clone, PartialEq)]
pub enum InvocationOutcome {
    Ok(Map<String, Value>),
    Error { code: String, message: String },
}

/// A command of the service to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceCommand {
    Hangup {
        reason: HangupReason,
    },
    Warn {
        reason: HangupReason,
        seconds_left: u64,
    },
    Transfer {
        to: String,
    },
}

/// A parsed frame from the service.
#[derive(Debug)]
pub(super) enum ServiceFrame {
    Reply {
        to: String,
        body: ReplyBody,
    },
    Command {
        id: String,
        call: String,
        command: ServiceCommand,
    },
}

/// The body of a reply, before it is matched with its message.
#[derive(Debug)]
pub(super) enum ReplyBody {
    Ok(Map<String, Value>),
    Error { code: String, words: String },
}

impl ReplyBody {
    /// A temporary refusal without effect: the message is to be sent again.
    pub(super) fn is_for_now(&self) -> bool {
        matches!(self, Self::Error { code, .. } if code == "busy" || code == "unavailable")
    }
}

/// Parses a frame. `None` if it is neither reply nor command, or of an unknown kind.
pub(super) fn read(text: &str) -> Option<ServiceFrame> {
    let Value::Object(mut fields) = serde_json::from_str(text).ok()? else {
        return None;
    };
    if let Some(to) = fields.get("replyTo") {
        let to = to.as_str()?.to_owned();
        let body = if fields.get("ok")? == &Value::Bool(true) {
            ReplyBody::Ok(fields)
        } else {
            #[derive(Deserialize)]
            struct Fault {
                code: String,
                #[serde(default)]
                message: String,
            }
            let fault: Fault = serde_json::from_value(fields.remove("error")?).ok()?;
            ReplyBody::Error {
                code: fault.code,
                words: fault.message,
            }
        };
        return Some(ServiceFrame::Reply { to, body });
    }
    let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
    let reason = || text("reason")?.parse::<HangupReason>().ok();
    let command = match text("command")?.as_str() {
        "hangup" => ServiceCommand::Hangup { reason: reason()? },
        "warn" => ServiceCommand::Warn {
            reason: reason()?,
            seconds_left: fields.get("secondsLeft")?.as_u64()?,
        },
        "transfer" => ServiceCommand::Transfer { to: text("to")? },
        _ => return None,
    };
    Some(ServiceFrame::Command {
        id: text("id")?,
        call: text("callId")?,
        command,
    })
}

/// Interprets the reply to a message: what the call is told, and the service's id of a call that it has just accepted.
pub(super) fn interpret(
    message: &OutgoingMessage,
    body: ReplyBody,
) -> (Option<ServiceReply>, Option<String>) {
    let wanted = match message {
        OutgoingMessage::Incoming { .. } => DeclinedMessage::Incoming,
        OutgoingMessage::Answered => DeclinedMessage::Answered,
        OutgoingMessage::Function { invocation_id, .. } => DeclinedMessage::Function {
            invocation_id: invocation_id.clone(),
        },
        OutgoingMessage::Transcript { .. }
        | OutgoingMessage::Hangup { .. }
        | OutgoingMessage::Failed { .. } => DeclinedMessage::Closing,
    };
    let mut fields = match body {
        ReplyBody::Ok(fields) => fields,
        ReplyBody::Error { code, words } => {
            let declined = ServiceReply::Declined {
                wanted,
                code,
                words,
            };
            return (Some(declined), None);
        }
    };
    let unread = |wanted: DeclinedMessage| ServiceReply::Declined {
        wanted,
        code: "unreadable".to_owned(),
        words: "The engine's reply cannot be read.".to_owned(),
    };
    match &wanted {
        DeclinedMessage::Answered | DeclinedMessage::Closing => (None, None),
        DeclinedMessage::Incoming => {
            let call = fields.get("callId").and_then(Value::as_str);
            let call = call.map(str::to_owned);
            match decision(&mut fields) {
                Some(refused @ ServiceReply::Refused { .. }) => (Some(refused), None),
                Some(taken) => (Some(taken), call),
                None => (Some(unread(wanted)), call),
            }
        }
        DeclinedMessage::Function { invocation_id } => {
            let outcome = fields.remove("outcome").and_then(outcome);
            let invocation_id = invocation_id.clone();
            let reply = outcome.map(|outcome| ServiceReply::Outcome {
                invocation_id,
                outcome,
            });
            (Some(reply.unwrap_or_else(|| unread(wanted))), None)
        }
    }
}

/// The reply for a call that the service takes for another one.
pub(super) fn repeat_declined() -> ServiceReply {
    ServiceReply::Declined {
        wanted: DeclinedMessage::Incoming,
        code: "repeated".to_owned(),
        words: "The call has been here before.".to_owned(),
    }
}

fn decision(fields: &mut Map<String, Value>) -> Option<ServiceReply> {
    match fields.get("action")?.as_str()? {
        "answer" => {
            let call_id = fields.get("callId")?.as_str()?.to_owned();
            let agent = serde_json::from_value(fields.remove("agent")?).ok()?;
            Some(ServiceReply::Taken { call_id, agent })
        }
        "reject" => {
            let reason = fields.get("reason")?.as_str()?.parse().ok()?;
            Some(ServiceReply::Refused { reason })
        }
        _ => None,
    }
}

fn outcome(value: Value) -> Option<InvocationOutcome> {
    let Value::Object(mut fields) = value else {
        return None;
    };
    let text = |name: &str| Some(fields.get(name)?.as_str()?.to_owned());
    match text("status")?.as_str() {
        "ok" => match fields.remove("result")? {
            Value::Object(result) => Some(InvocationOutcome::Ok(result)),
            _ => None,
        },
        "error" => Some(InvocationOutcome::Error {
            code: text("code")?,
            message: text("message").unwrap_or_default(),
        }),
        _ => None,
    }
}
