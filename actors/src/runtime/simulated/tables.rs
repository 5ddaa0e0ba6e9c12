//! The store's tables in memory, with the columns that decisions depend on. Siblings' `simulated` modules change
//! them, with the guards of the real statements. The checks read the rest from here; a [`Flaw`] omits a guard on
//! purpose.

use std::collections::BTreeMap;

use dikala_entities::{
    BridgeId, CallId, CallStatus, DeliveryId, EventId, EventKind, Millis, TenantId, WebhookId,
    call, credit_account, credit_hold, credit_transaction,
};

use crate::events::sequences::{LogPlace, Sequences};

/// A planted bug, to test that the checks find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// A former owner writes a call's row.
    UnfencedCalls,
    /// A write of an account overwrites another node's concurrent write.
    UnversionedAccounts,
    /// A write whose answer was lost is written twice.
    WrittenAgain,
    /// A take-over of a call leaves its hold with the former owner.
    TakenWithoutHold,
    /// Calls of living nodes are taken over.
    TakenFromTheLiving,
    /// Nodes are ended a few seconds before their leases are over.
    LeasesCutShort,
    /// A call that a bridge reports at two nodes is opened at both.
    OpenedTwice,
    /// Every node delivers to every webhook.
    CursorsIgnored,
    /// A cursor moves past events that have no row.
    CursorsSkip,
    /// An attempt's record overwrites newer state, whoever owns the delivery.
    RecordedBlindly,
    /// A begun minute is not billed.
    RoundedDown,
    /// Unused minutes of a call are not returned.
    KeptUnused,
    /// A bridge receives an acknowledgement before the commit.
    AnsweredEarly,
    /// Events are written after the commit of their cause.
    ToldAfterwards,
}

impl Flaw {
    pub(crate) const ALL: [Self; 14] = [
        Self::UnfencedCalls,
        Self::UnversionedAccounts,
        Self::WrittenAgain,
        Self::TakenWithoutHold,
        Self::TakenFromTheLiving,
        Self::LeasesCutShort,
        Self::OpenedTwice,
        Self::CursorsIgnored,
        Self::CursorsSkip,
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
    pub(crate) tenant: TenantId,
    pub(crate) announced_at: Millis,
    /// The webhooks that subscribed to it, with their sequence numbers.
    pub(crate) subscribers: BTreeMap<WebhookId, i64>,
}

/// How far a webhook's events have rows of deliveries, and the node that delivers: none if it ended, empty if it had
/// nothing left to do.
#[derive(Clone, Debug)]
pub(crate) struct CursorRow {
    pub(crate) node: Option<String>,
    pub(crate) place: LogPlace,
}

/// The last position of a tenant's events, the node that gave it, and the due time of what that node announced.
#[derive(Clone, Debug, Default)]
pub(crate) struct PositionRow {
    pub(crate) last: i64,
    pub(crate) node: String,
    pub(crate) stamped_at: Millis,
    pub(crate) sequences: Sequences,
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
    pub(crate) created: Millis,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BridgeRow {
    pub(crate) last_seen: Millis,
    /// The node with the bridge's newest socket.
    pub(crate) node: Option<String>,
    pub(crate) connected_at: Millis,
    /// Commands that wait for the bridge, as JSON.
    pub(crate) commands: Vec<String>,
}

/// A write of a call's row, for the checks.
#[derive(Clone, Debug)]
pub(crate) struct CallChange {
    /// The true time.
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
    /// Each tenant's webhooks; all of them subscribe to everything.
    pub(crate) webhooks: BTreeMap<TenantId, Vec<WebhookId>>,
    pub(crate) positions: BTreeMap<TenantId, PositionRow>,
    pub(crate) events: Vec<EventRow>,
    pub(crate) deliveries: BTreeMap<DeliveryId, DeliveryRow>,
    pub(crate) cursors: BTreeMap<WebhookId, CursorRow>,
    /// The end of each node's lease, by the store's clock.
    pub(crate) nodes: BTreeMap<String, i64>,
    pub(crate) bridges: BTreeMap<BridgeId, BridgeRow>,
    pub(crate) changes: Vec<CallChange>,
    /// Violations that statements found themselves.
    pub(crate) breaches: Vec<String>,
}

impl Tables {
    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}
