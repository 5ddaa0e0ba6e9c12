//! `calls`: a call, running or over.

use sea_orm::{
    entity::prelude::*,
    sea_query::{Expr, ExprTrait, SimpleExpr},
};

use crate::values::{
    AgentId, BridgeId, CallId, CallStatus, CalleeNumber, CallerNumber, ChannelKind,
    HangupInitiator, HangupReason, Millis, PhoneNumberId, TenantId, TraceParent, TurnLatencyMs,
    VoiceProvider,
};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "calls")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: CallId,
    pub tenant_id: TenantId,
    pub bridge_id: BridgeId,
    /// The bridge's own id; unique per bridge. The statement that inserts the row keeps it so.
    pub bridge_call_id: String,
    /// `None` for a call from a browser.
    pub phone_number_id: Option<PhoneNumberId>,
    pub agent_id: Option<AgentId>,
    pub caller_number: CallerNumber,
    pub callee_number: CalleeNumber,
    pub channel: ChannelKind,
    pub status: CallStatus,
    pub started_at: Millis,
    pub answered_at: Option<Millis>,
    /// When a person answered and was joined to the caller.
    pub joined_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub duration_seconds: Option<i64>,
    pub talk_time_seconds: Option<i64>,
    pub hangup_reason: Option<HangupReason>,
    pub hangup_initiator: Option<HangupInitiator>,
    pub transcript_summary: Option<String>,
    pub ai_cost_idr: Option<i64>,
    /// The voice's provider at the end, if the bridge reported it.
    pub voice_provider: Option<VoiceProvider>,
    /// From the transcript; `None` without turns of known latency.
    pub turn_latency_ms: Option<TurnLatencyMs>,
    /// Pauses in which the caller waited for the agent, as the bridge reported them at the end.
    pub stalls: Option<i64>,
    /// Turns of the agent that the caller cut off, as the bridge reported them at the end.
    pub interruptions: Option<i64>,
    /// A JSON object.
    pub metadata: String,
    /// The agent and its functions at the call's start, as JSON, for a call that tries settings which are not saved.
    pub settings: Option<String>,
    /// The version of the agent at the call's start; none for a refused call, and for one with settings of its own.
    pub agent_version: Option<i64>,
    /// Commands that were acknowledged and not yet carried out, as JSON; none once the call is over.
    pub pending: Option<String>,
    /// The id of the message that answered the call: a repeat gets the same reply even after the end.
    pub answer_message_id: Option<String>,
    /// The bridge's reason for a failure, for operators.
    pub failure_detail: Option<String>,
    /// The time of the last message that changed this row.
    pub last_sign_at: Millis,
    /// The node that runs the call's actor; [`NOBODY`] once the call was erased.
    pub owner: String,
    /// The fencing epoch: it increases with every change of owner, and every write of a running call carries it.
    pub epoch: i64,
    /// The trace that its bridge sent at its start.
    pub traceparent: Option<TraceParent>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Running calls: a partition on PostgreSQL, partial indexes on SQLite. The column `outcome` is made from `status` by the
/// database, and is read by conditions only.
pub fn unfinished() -> SimpleExpr {
    Expr::cust("outcome IS NULL")
}

/// Calls that ended with this status, found in the indexes of calls that are over.
pub fn ended_as(status: CallStatus) -> SimpleExpr {
    Expr::col("outcome").eq(status)
}

/// Calls without a caller's number, found in their partial indexes. The condition is a literal: with a bound value neither
/// database would use such an index.
pub fn nameless() -> SimpleExpr {
    Expr::cust("substr(caller_number, 1, 1) <> '+'")
}

/// The owner of an erased call. No node has this id, so former owners can no longer write it.
pub const NOBODY: &str = "";
/// The owner of a running call that its node gave back when it stopped. No node has this id.
pub const GIVEN_BACK: &str = "given_back";

impl Model {
    /// The id of its trace, if there is one.
    pub fn trace_id(&self) -> Option<&str> {
        self.traceparent.as_ref().map(TraceParent::trace_id)
    }

    /// True if numbers, words and metadata were removed for good.
    pub fn is_erased(&self) -> bool {
        self.owner == NOBODY
    }
}
