//! `calls`: a call, running or over.

use sea_orm::{
    entity::prelude::*,
    sea_query::{Expr, SimpleExpr},
};

use crate::values::{
    AgentId, BridgeId, CallId, CallStatus, CallerNumber, HangupInitiator, HangupReason, Millis,
    PhoneNumber, PhoneNumberId, TenantId, TraceParent,
};

/// A call, running or over.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "calls")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: CallId,
    pub tenant_id: TenantId,
    pub bridge_id: BridgeId,
    /// The bridge's own id; unique per bridge.
    pub bridge_call_id: String,
    pub phone_number_id: PhoneNumberId,
    pub agent_id: Option<AgentId>,
    pub caller_number: CallerNumber,
    pub callee_number: PhoneNumber,
    pub status: CallStatus,
    pub started_at: Millis,
    pub answered_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    /// A JSON object.
    pub metadata: String,
    /// The agent and its functions as they were when the call began, as JSON, in calls from before there were versions.
    pub settings: Option<String>,
    /// The version of the agent that the call began with; none for a refused call.
    pub agent_version: Option<i64>,
    /// Commands that were acknowledged and not yet carried out, as JSON; none once the call is over.
    pub pending: Option<String>,
    /// The id of the message that answered the call: its repeat is answered the same even after the end.
    pub answer_message_id: Option<String>,
    /// What the bridge said of a failure; for operators.
    pub failure_detail: Option<String>,
    /// The last message about this call that changed its row.
    pub last_sign_at: Millis,
    /// The node that runs the call's actor; [`NOBODY`] once the call was erased.
    pub owner: String,
    /// Goes up with every change of owner; every write of a running call carries it.
    pub epoch: i64,
    /// The trace that its bridge named when it came in.
    pub traceparent: Option<TraceParent>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Calls that are not over, found in the index that holds only those. The states stand in the statement's text: what is
/// bound is not known when a plan is made, and then neither database uses such an index.
pub fn unfinished() -> SimpleExpr {
    Expr::cust("status IN ('ringing', 'answered')")
}

/// Calls that are over, found in the indexes that hold only those; in the statement's text for the same reason.
pub fn over() -> SimpleExpr {
    Expr::cust("status IN ('ended', 'dropped', 'failed')")
}

/// Calls whose caller is known by no number, found in the indexes that hold only those; in the statement's text likewise.
pub fn nameless() -> SimpleExpr {
    Expr::cust("substr(caller_number, 1, 1) <> '+'")
}

/// The owner of an erased call. No node has this name, so nothing that knew the call before writes to it any more.
pub const NOBODY: &str = "";
/// Who owns a running call that its node gave back when it stopped: no node.
pub const GIVEN_BACK: &str = "given_back";

impl Model {
    /// The trace that it is part of, if any.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_ref().map(TraceParent::trace_id)
    }

    /// Whether numbers, words and metadata were taken out for good.
    pub fn is_erased(&self) -> bool {
        self.owner == NOBODY
    }
}
