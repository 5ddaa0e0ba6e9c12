//! The service's messages: replies and commands.

use dikala_actors::{bridges::Command, calls::CallReply};
use dikala_entities::CallId;
use serde_json::{Value, json};

/// The result of a message that was carried out.
#[derive(Clone, Debug)]
pub enum Success {
    Call(CallReply),
    FunctionCall(Value),
    Heartbeat { ended: Vec<CallId> },
}

/// A reply in the wire format.
pub fn reply(id: &str, answer: &Success) -> Value {
    match answer {
        Success::Call(CallReply::Admitted { call, agent }) => json!({
            "replyTo": id, "ok": true, "callId": call, "action": "answer", "agent": &**agent,
        }),
        Success::Call(CallReply::Refused { call, reason }) => json!({
            "replyTo": id, "ok": true, "callId": call, "action": "reject", "reason": reason,
        }),
        Success::Call(CallReply::Done) => json!({"replyTo": id, "ok": true}),
        Success::FunctionCall(outcome) => json!({"replyTo": id, "ok": true, "outcome": outcome}),
        Success::Heartbeat { ended } => json!({"replyTo": id, "ok": true, "ended": ended}),
    }
}

/// A command in the wire format.
pub fn command(command: &Command) -> Value {
    serde_json::to_value(command).unwrap_or_default()
}
