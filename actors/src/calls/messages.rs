//! What calls are asked and what they answer, in types; the wire formats are elsewhere.

use std::{sync::Arc, time::Instant};

use actix::Message;
use dikala_entities::{
    BridgeId, CallId, CallStatus, CallerNumber, HangupInitiator, HangupReason, Millis, PhoneNumber,
    TraceParent, audit,
};
use serde_json::{Map, Value};

use super::error::CallError;
use crate::traces::Arrival;

/// A call came in at a bridge.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub bridge_call_id: String,
    pub did: PhoneNumber,
    pub caller_number: CallerNumber,
    pub metadata: Option<Map<String, Value>>,
    pub at: Option<Millis>,
    pub trace: Option<TraceParent>,
}

/// Something happened to a call, or is wanted of it.
#[derive(Clone, Debug)]
pub enum Input {
    /// `call.incoming` again.
    Reopen,
    Answered {
        at: Option<Millis>,
        message_id: String,
    },
    Transcript {
        at: Option<Millis>,
        summary: String,
        turns: Vec<Value>,
    },
    HangUp {
        at: Option<Millis>,
        reason: HangupReason,
        initiator: HangupInitiator,
        ai_cost_idr: Option<i64>,
    },
    Failed {
        at: Option<Millis>,
        reason: HangupReason,
        detail: Option<String>,
    },
    /// The bridge listed the calls that it held at that time, and this one is not among them.
    Missing { listed_at: Millis },
    /// The tenant (or an operator) ends the call.
    RequestHangUp {
        by: HangupInitiator,
        /// Written with the wish.
        audit: Option<Box<audit::Model>>,
    },
    /// The tenant transfers the call.
    RequestTransfer {
        to: PhoneNumber,
        /// Written with the wish.
        audit: Option<Box<audit::Model>>,
    },
    /// The tenant's balance went up.
    Credited,
    /// The engine gives the call up.
    Abort,
}

/// Tell a call something. `bridge` is whom a bridge's message came from; none for everybody else.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Reply, CallError>")]
pub struct Tell {
    pub bridge: Option<BridgeId>,
    pub input: Input,
    pub arrival: Arrival,
}

/// The call is another node's: its actor here goes.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct LetGo;

/// The AI invokes a function.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Value, CallError>")]
pub struct InvokeFunction {
    pub bridge: BridgeId,
    pub invocation_id: String,
    pub name: String,
    pub parameters: Map<String, Value>,
    pub at: Option<Millis>,
    /// The trace of this invocation; none: that of its call.
    pub trace: Option<TraceParent>,
    /// When it was read.
    pub since: Instant,
}

/// What a call answers. Everything it speaks of is durable.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// The call is taken; the agent as the bridge is told of it.
    Taken { call: CallId, agent: Arc<Value> },
    /// The call is refused, and stored as failed.
    Refused { call: CallId, reason: HangupReason },
    /// Done, or it was so already.
    Done,
}

/// What an operator sees of a call that is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNow {
    pub status: CallStatus,
    /// Minutes that the ledger granted so far.
    pub granted_minutes: i64,
    /// When its actor looks at the clock again.
    pub next_deadline: Option<Millis>,
}

/// Asks a call what it is about; none: it is just being opened.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Option<CallNow>")]
pub(super) struct Describe;
