//! What runs in this process, as those see it who serve requests: the store, the clock and the handles of the actors.

use std::sync::Arc;

use actix::Addr;
use dikala_actors::{
    bridges::Bridges,
    calls::{CallRegistry, Calls},
    events::followers::Followers,
    functions::FunctionsHandle,
    ledger::LedgerHandle,
    nodes::Membership,
    outbound::Outbound,
    runtime::clock::SharedClock,
    traces::Traces,
    webhooks::WebhooksHandle,
};
use dikala_entities::{Store, Vault};

/// One for the process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Node {
    pub store: Store,
    /// Which of the processes on the same store it is.
    pub member: Membership,
    pub vault: Vault,
    pub clock: SharedClock,
    pub calls: Calls,
    pub registry: Addr<CallRegistry>,
    pub bridges: Arc<Bridges>,
    pub ledger: LedgerHandle,
    pub webhooks: WebhooksHandle,
    pub functions: FunctionsHandle,
    /// For addresses that are registered, and for tests.
    pub outbound: Outbound,
    pub feed: Followers,
    pub traces: Traces,
}
