//! Messages to calls and their replies, independent of wire formats.

use std::{sync::Arc, time::Instant};

use actix::Message;
use dikala_entities::{
    BridgeId, CallId, CallStatus, HangupInitiator, HangupReason, Millis, PhoneNumber, TraceParent,
    audit,
};
use dikala_protocol::{CalleeNames, NumberedTurn, SpokenTurn, VoiceReport};
use serde_json::{Map, Value};

use super::error::CallError;
use crate::traces::MessageArrival;

/// A message to a call.
#[derive(Clone, Debug)]
pub enum CallInput {
    /// A repeated `call.incoming`.
    Reopen,
    Answered {
        at: Option<Millis>,
        message_id: String,
    },
    /// A person is joined to the caller.
    Joined {
        at: Option<Millis>,
        /// The AI's cost so far.
        ai_cost_idr: Option<i64>,
    },
    Transcript {
        at: Option<Millis>,
        summary: String,
        turns: Vec<SpokenTurn>,
    },
    HangUp {
        at: Option<Millis>,
        reason: HangupReason,
        initiator: HangupInitiator,
        ai_cost_idr: Option<i64>,
        voice: VoiceReport,
    },
    Failed {
        at: Option<Millis>,
        reason: HangupReason,
        detail: Option<String>,
        ai_cost_idr: Option<i64>,
        voice: VoiceReport,
    },
    /// The bridge's list of calls, made at that time, lacks this one.
    Missing {
        listed_at: Millis,
    },
    /// The tenant or an operator ends the call.
    RequestHangUp {
        by: HangupInitiator,
        /// Written with the request.
        audit: Option<Box<audit::Model>>,
    },
    RequestTransfer {
        to: PhoneNumber,
        /// Written with the request.
        audit: Option<Box<audit::Model>>,
    },
    Credited,
    /// The registry gives the call up.
    Abort,
}

/// Sends an input to a call. `bridge` is the sender; `None` if it is not a bridge.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<CallReply, CallError>")]
pub struct Tell {
    pub bridge: Option<BridgeId>,
    pub input: CallInput,
    pub arrival: MessageArrival,
}

/// Another node owns the call: its actor here stops.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct LetGo;

#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Value, CallError>")]
pub struct InvokeFunction {
    pub bridge: BridgeId,
    pub invocation_id: String,
    pub name: String,
    pub parameters: Map<String, Value>,
    pub at: Option<Millis>,
    /// The trace of this invocation; `None`: its call's trace.
    pub trace: Option<TraceParent>,
    /// The time at which the message was read.
    pub since: Instant,
}

/// A turn that was just heard in the call.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<CallReply, CallError>")]
pub struct TellTurn {
    pub bridge: BridgeId,
    pub turn: NumberedTurn,
}

/// A call's reply. Everything that it reports is committed.
#[derive(Clone, Debug, PartialEq)]
pub enum CallReply {
    /// The call is admitted; `agent` and `callee` are sent to the bridge.
    Admitted {
        call: CallId,
        agent: Arc<Value>,
        callee: CalleeNames,
    },
    Refused {
        call: CallId,
        reason: HangupReason,
    },
    /// Done, now or before.
    Done,
}

/// For operators: a call in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSnapshot {
    pub status: CallStatus,
    pub granted_minutes: i64,
    /// When its actor checks the deadlines next.
    pub next_deadline: Option<Millis>,
}

/// Asks for a [`CallSnapshot`]; `None` while the call is being opened.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Option<CallSnapshot>")]
pub(super) struct Describe;
