//! The tables of the store, in memory: the columns that decisions depend on. What changes them is in the rooms, with the guards of
//! the real statements; here is also what the checks read, and which guard is left out on purpose.

use std::collections::BTreeMap;

use dikala_entities::{
    BridgeId, CallId, CallStatus, DeliveryId, EventId, EventKind, Millis, TenantId, WebhookId,
    call, credit_account, credit_hold, credit_transaction,
};

/// A bug that is planted, to see whether it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A call's row is written by whoever once had the call.
    UnfencedCalls,
    /// An account is written over what another node wrote in between.
    UnversionedAccounts,
    /// What was written before is written again where its answer was lost.
    WrittenAgain,
    /// A call is taken over without its hold.
    TakenWithoutHold,
    /// Calls are taken from nodes that live.
    TakenFromTheLiving,
    /// Nodes are ended a few seconds before their leases are over.
    LeasesCutShort,
    /// A call that a bridge reports at two nodes is opened at both.
    OpenedTwice,
    /// Every node delivers to every webhook.
    LanesIgnored,
    /// What came of an attempt is written over what is known by then, and whoever has the delivery.
    RecordedBlindly,
    /// A begun minute is not billed.
    RoundedDown,
    /// What a call did not use is kept.
    KeptUnused,
    /// A bridge is told that its message is written before it is.
    AnsweredEarly,
    /// Events are written after what they tell of.
    ToldAfterwards,
}

impl Flaw {
    pub(crate) const ALL: [Self; 13] = [
        Self::UnfencedCalls,
        Self::UnversionedAccounts,
        Self::WrittenAgain,
        Self::TakenWithoutHold,
        Self::TakenFromTheLiving,
        Self::LeasesCutShort,
        Self::OpenedTwice,
        Self::LanesIgnored,
        Self::RecordedBlindly,
        Self::RoundedDown,
        Self::KeptUnused,
        Self::AnsweredEarly,
        Self::ToldAfterwards,
    ];
}

#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) id: EventId,
    pub(crate) call: Option<CallId>,
    pub(crate) kind: EventKind,
    pub(crate) position: i64,
}

/// The last position of a tenant's events, which node gave it, and when what that announced was due.
#[derive(Clone, Debug, Default)]
pub(crate) struct PositionRow {
    pub(crate) last: i64,
    pub(crate) node: String,
    pub(crate) stamped_at: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    Pending,
    Succeeded,
    Failed,
}

#[derive(Clone, Debug)]
pub(crate) struct DeliveryRow {
    pub(crate) webhook: WebhookId,
    pub(crate) tenant: TenantId,
    pub(crate) event: EventId,
    pub(crate) kind: EventKind,
    pub(crate) call: Option<CallId>,
    pub(crate) state: DeliveryState,
    pub(crate) attempts: i64,
    pub(crate) next_attempt_at: Millis,
    pub(crate) lease_owner: Option<String>,
    pub(crate) created: Millis,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BridgeRow {
    pub(crate) last_seen: Millis,
    pub(crate) last_frame: Millis,
    /// The node with its newest socket.
    pub(crate) node: Option<String>,
    pub(crate) connected_at: Millis,
    /// Commands that wait for it, as JSON.
    pub(crate) commands: Vec<String>,
}

/// A write to a call's row, for the checks.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// By the true time.
    pub(crate) at: i64,
    pub(crate) call: CallId,
    pub(crate) from: Option<CallStatus>,
    pub(crate) to: CallStatus,
    pub(crate) owner: String,
    pub(crate) epoch: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) flaw: Option<Flaw>,
    pub(crate) accounts: BTreeMap<TenantId, credit_account::Model>,
    pub(crate) holds: BTreeMap<CallId, credit_hold::Model>,
    pub(crate) transactions: Vec<credit_transaction::Model>,
    pub(crate) calls: BTreeMap<CallId, call::Model>,
    /// Of each tenant, who is told of everything.
    pub(crate) webhooks: BTreeMap<TenantId, Vec<WebhookId>>,
    pub(crate) positions: BTreeMap<TenantId, PositionRow>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) deliveries: BTreeMap<DeliveryId, DeliveryRow>,
    /// Which node delivers to which webhook.
    pub(crate) lanes: BTreeMap<WebhookId, String>,
    /// Until when the lease of each lasts, by the store's clock.
    pub(crate) nodes: BTreeMap<String, i64>,
    pub(crate) bridges: BTreeMap<BridgeId, BridgeRow>,
    pub(crate) changes: Vec<Change>,
    /// What statements found themselves that must not be.
    pub(crate) breaches: Vec<String>,
}

impl Tables {
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
