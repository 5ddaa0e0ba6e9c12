//! The handles of this process that request handlers need: the store, the clock and the actors.

use std::sync::Arc;

use actix::Addr;
use dikala_actors::{
    bridges::Bridges,
    calls::{CallRegistry, CallRouter},
    commit::CommitHandle,
    events::followers::Followers,
    functions::FunctionsHandle,
    nodes::Membership,
    outbound::Outbound,
    runtime::clock::SharedClock,
    traces::Traces,
    webhooks::WebhooksHandle,
};
use dikala_entities::{Store, Vault};

/// One per process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub store: Store,
    /// The identity of this process among the nodes on the same store.
    pub member: Membership,
    pub vault: Vault,
    pub clock: SharedClock,
    pub calls: CallRouter,
    pub registry: Addr<CallRegistry>,
    pub bridges: Arc<Bridges>,
    pub ledger: CommitHandle,
    pub webhooks: WebhooksHandle,
    pub functions: FunctionsHandle,
    /// Used to check addresses at registration, and by tests.
    pub outbound: Outbound,
    pub feed: Followers,
    pub traces: Traces,
}
