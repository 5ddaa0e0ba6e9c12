//! Replies to messages that were carried out.

use dikala_actors::calls::CallReply;
use dikala_entities::CallId;
use dikala_protocol::reply::{CallDecision, Done, EndedCalls, OutcomeReply, Reply};
use serde::Serialize;
use serde_json::{Value, json};

/// The result of a message that was carried out.
#[derive(Clone, Debug)]
pub enum Success {
    Call(CallReply),
    FunctionCall(Value),
    Heartbeat { ended: Vec<CallId> },
}

/// A reply in the wire format.
pub fn reply(id: &str, success: Success) -> Value {
    match success {
        Success::Call(CallReply::Admitted {
            call,
            agent,
            callee,
        }) => {
            let agent = &*agent;
            with(
                id,
                CallDecision::Answer {
                    call,
                    agent,
                    callee,
                },
            )
        }
        Success::Call(CallReply::Refused { call, reason }) => {
            with(id, CallDecision::<()>::Reject { call, reason })
        }
        Success::Call(CallReply::Done) => with(id, Done {}),
        Success::FunctionCall(outcome) => with(id, OutcomeReply { outcome }),
        Success::Heartbeat { ended } => with(id, EndedCalls { ended }),
    }
}

fn with(id: &str, body: impl Serialize) -> Value {
    json!(Reply::new(id, body))
}
