//! Membership: the node that this process is at present, and until when it may act as that node.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use dikala_entities::{Millis, NodeId, Store};
use sea_orm::DbErr;
use tokio::sync::{Notify, watch};

use super::{
    lease::{LEASE_MS, acts_until, keeps_bridges, left},
    notices::Notices,
    process,
    table::{self, EnteredNode, NewNode, Renewal},
    terms::ServingTerms,
};
use crate::runtime::clock::{SharedClock, monotonic};

/// The number of checks for a renewal of a lease that ran out.
const LOOKS_MAX: usize = 60;
/// The pause between two checks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The database's time is used only from an answer that took at most this long.
const TELLS_TIME_WITHIN_MS: i64 = 200;
/// The start of an answering time without a beginning.
const ALWAYS: i64 = i64::MIN;

/// A node's description of itself.
#[derive(Clone, Debug)]
pub struct NodeIdentity {
    /// Configuration key `node.name`.
    pub name: Arc<str>,
    /// The address of the public listener.
    pub address: String,
    pub version: &'static str,
    /// The last schema step that this program knows.
    pub knows_step: i64,
}

/// This process's monotonic clock, in milliseconds.
type OwnTime = Box<dyn Fn() -> i64 + Send + Sync>;

/// The node that this process is. Clones share the same state.
#[derive(Clone)]
pub struct Membership(Arc<Shared>);

struct Shared {
    identity: NodeIdentity,
    clock: Option<SharedClock>,
    own_time: OwnTime,
    present: Mutex<NodeState>,
    /// The number of nodes, including this one.
    nodes: AtomicUsize,
    /// The clock's lead over the database's, in milliseconds.
    ahead_ms: AtomicI64,
    /// True once another node was seen.
    has_met_others: AtomicBool,
    /// The number of times this process became another node.
    turns: watch::Sender<usize>,
    terms: ServingTerms,
    /// Notified when a caller waits for a renewal.
    wanted: Notify,
    notices: Notices,
}

#[derive(Debug)]
struct NodeState {
    id: Arc<str>,
    /// The end of the time to act, by this process's monotonic clock, in milliseconds since its start. None: without
    /// limit.
    acts_until: Option<i64>,
    /// The start of the database's current answering time, by its own clock.
    answering_since: i64,
    /// The last renewal failed.
    is_cut_off: bool,
    /// The node left on its own and does not come back.
    has_left: bool,
    /// When the node resumed after a time in which it could not act.
    resumed_at: Option<Millis>,
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Membership").field(&*self.present()).finish()
    }
}

fn since_now() -> OwnTime {
    let began = monotonic();
    let passed = move || monotonic().saturating_sub(began);
    Box::new(move || i64::try_from(passed().as_millis()).unwrap_or(i64::MAX))
}

impl Membership {
    /// Enters the table. On SQLite the lock on the file is the lease, so the node acts until it ends.
    pub async fn join(
        store: &Store,
        identity: NodeIdentity,
        clock: SharedClock,
    ) -> Result<Self, DbErr> {
        let member = Self::new("", identity, Some(clock), since_now());
        member.enter(store).await?;
        Ok(member)
    }

    /// A member that is in no table and may always act, for tests and for commands beside a server. Any node may
    /// deliver what a member with an empty `id` announces.
    pub fn outside(id: &str) -> Self {
        let identity = NodeIdentity {
            name: Arc::from(id),
            address: String::new(),
            version: "",
            knows_step: i64::MAX,
        };
        Self::new(id, identity, None, since_now())
    }

    pub(super) fn new(
        id: &str,
        identity: NodeIdentity,
        clock: Option<SharedClock>,
        own_time: OwnTime,
    ) -> Self {
        Self(Arc::new(Shared {
            identity,
            clock,
            own_time,
            present: Mutex::new(NodeState {
                id: Arc::from(id),
                acts_until: None,
                answering_since: ALWAYS,
                is_cut_off: false,
                has_left: false,
                resumed_at: None,
            }),
            nodes: AtomicUsize::new(1),
            ahead_ms: AtomicI64::new(0),
            has_met_others: AtomicBool::new(false),
            turns: watch::Sender::new(0),
            terms: ServingTerms::default(),
            wanted: Notify::new(),
            notices: Notices::default(),
        }))
    }

    /// The node's id in the rows that it owns.
    pub fn id(&self) -> Arc<str> {
        Arc::clone(&self.present().id)
    }

    pub fn identity(&self) -> &NodeIdentity {
        &self.0.identity
    }

    /// Configuration key `node.name`.
    pub fn name(&self) -> &Arc<str> {
        &self.0.identity.name
    }

    /// The notices between this node and others.
    pub fn notices(&self) -> &Notices {
        &self.0.notices
    }

    /// True if this node is the owner named in a row.
    pub fn is(&self, owner: &str) -> bool {
        *self.present().id == *owner
    }

    /// True if it may act now: its lease has more than the unused rest left.
    pub fn acts(&self) -> bool {
        let now = self.own_now();
        self.present().acts_until.is_none_or(|until| now < until)
    }

    /// True if it may act now and is still the node that began the work.
    pub fn acts_as(&self, id: &str) -> bool {
        let now = self.own_now();
        let present = self.present();
        *present.id == *id && present.acts_until.is_none_or(|until| now < until)
    }

    /// As [`acts`](Self::acts), but waits a moment for the renewal of a lease that just ran out, which may only be
    /// late.
    pub async fn acts_soon(&self) -> bool {
        for _ in 0..LOOKS_MAX {
            if self.acts() {
                return true;
            }
            self.0.wanted.notify_one();
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.acts()
    }

    /// Completes when a caller waits for a renewal.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// True if the node has a lease that can end, that is, if there can be other nodes.
    pub fn has_lease(&self) -> bool {
        self.present().acts_until.is_some()
    }

    /// The rest of its lease, in milliseconds.
    pub fn lease_left_ms(&self) -> i64 {
        let now = self.own_now();
        let until = self.present().acts_until;
        until.map_or(LEASE_MS, |until| left(until, now))
    }

    /// True if other nodes are known.
    pub fn has_others(&self) -> bool {
        self.nodes() > 1
    }

    /// True if bridges' sockets are kept while the node may not act. A node that cannot reach the database does not
    /// learn of new nodes.
    pub fn keeps_bridges(&self, lost_after_ms: i64) -> bool {
        let now = self.own_now();
        let has_met_others = self.0.has_met_others.load(Relaxed);
        let until = self.present().acts_until;
        until.is_none_or(|until| keeps_bridges(until, now, has_met_others, lost_after_ms))
    }

    /// True if messages read now are current. A node that lost its lease may have been paused meanwhile. A node that
    /// never met another misleads none.
    pub fn hears(&self) -> bool {
        self.acts() || !self.0.has_met_others.load(Relaxed)
    }

    /// The known number of nodes, including this one.
    pub fn nodes(&self) -> usize {
        self.0.nodes.load(Relaxed)
    }

    /// Records the number of nodes found, without those that were ended.
    pub fn found(&self, nodes: usize) {
        self.count(nodes);
        if self.has_others() {
            self.0.has_met_others.store(true, Relaxed);
        }
    }

    fn count(&self, nodes: usize) {
        self.0.nodes.store(nodes.max(1), Relaxed);
    }

    /// When the database began to answer this node, by the database's clock.
    pub fn answering_since(&self) -> i64 {
        self.present().answering_since
    }

    /// When the node resumed after a time in which it could not act. Before that it received nothing.
    pub fn resumed_at(&self) -> Option<Millis> {
        self.present().resumed_at
    }

    /// Changes when this process becomes another node.
    pub fn turns(&self) -> watch::Receiver<usize> {
        self.0.turns.subscribe()
    }

    /// Leaves the table and gives up everything that it owns.
    pub async fn leave(&self, store: &Store) -> Result<(), DbErr> {
        let id = {
            let mut present = self.present();
            present.acts_until = Some(i64::MIN);
            present.has_left = true;
            Arc::clone(&present.id)
        };
        table::leave(store, &id).await
    }

    /// Enters the table as a new node.
    pub(super) async fn enter(&self, store: &Store) -> Result<(), DbErr> {
        let Some(clock) = &self.0.clock else {
            return Ok(());
        };
        let id = NodeId::new(clock.now());
        let identity = &self.0.identity;
        let entering = NewNode {
            id,
            name: identity.name.to_string(),
            address: identity.address.clone(),
            process: process::this(),
            version: identity.version.to_owned(),
        };
        let asked_at = self.own_now();
        let is_shared = store.lease().is_some();
        let entry: EnteredNode = match store.lease() {
            Some(lease) => table::enter(lease, entering, clock).await?,
            None => table::enter(store.writer(), entering, clock).await?,
        };
        let asked_at = is_shared.then_some(asked_at);
        if is_shared {
            self.0.ahead_ms.store(entry.ahead_ms, Relaxed);
        }
        self.entered(&id.to_string(), asked_at, clock.now(), entry.now);
        let knows_step = identity.knows_step;
        self.0.terms.heed(knows_step, &entry.terms);
        tracing::info!(node = %id, name = %identity.name, "this process is a node");
        Ok(())
    }

    /// The node is in the table since `entered_at` by the database's clock. It requested its lease at `asked_at` by
    /// this process's clock; none: its lease never ends. It knows nothing of the database before that: others' leases
    /// may be late because of an outage.
    pub(super) fn entered(&self, id: &str, asked_at: Option<i64>, now: Millis, entered_at: i64) {
        let mut present = self.present();
        if !present.id.is_empty() {
            present.resumed_at = Some(now);
        }
        present.id = Arc::from(id);
        present.acts_until = asked_at.map(acts_until);
        present.answering_since = entered_at;
    }

    /// Records a renewal that was requested at `asked_at` by this process's clock.
    pub(super) fn renewed(&self, asked_at: i64, renewed: &Renewal) {
        self.compare(asked_at, renewed.now);
        self.heed(renewed);
        let mut present = self.present();
        if present.has_left {
            return;
        }
        let lapsed = present.acts_until.is_some_and(|until| until <= asked_at);
        if lapsed {
            present.resumed_at = self.0.clock.as_ref().map(|clock| clock.now());
        }
        present.acts_until = Some(acts_until(asked_at));
        if std::mem::take(&mut present.is_cut_off) {
            present.answering_since = renewed.now;
        }
        drop(present);
        self.count(usize::try_from(renewed.nodes).unwrap_or(1));
    }

    /// Records the database's current terms.
    pub(super) fn heed(&self, renewed: &Renewal) {
        self.0
            .terms
            .heed(self.0.identity.knows_step, &renewed.terms);
    }

    pub fn terms(&self) -> &ServingTerms {
        &self.0.terms
    }

    /// Adjusts the clock to the database's, which showed `theirs` between `asked_at` and now. A slow answer is
    /// ignored as too inexact.
    fn compare(&self, sent_at: i64, database_time: i64) {
        let took = self.own_now().saturating_sub(sent_at);
        if let Some(clock) = &self.0.clock
            && took <= TELLS_TIME_WITHIN_MS
        {
            let database_time = Millis::from_i64(database_time.saturating_add(took / 2));
            clock.compare(database_time);
            let ahead_ms = clock.now().since(database_time);
            self.0.ahead_ms.store(ahead_ms, Relaxed);
        }
    }

    /// The clock's lead over the database's at the last renewal, in milliseconds; 0 on SQLite.
    pub fn ahead_ms(&self) -> i64 {
        self.0.ahead_ms.load(Relaxed)
    }

    /// True if it left on its own.
    pub(super) fn has_left(&self) -> bool {
        self.present().has_left
    }

    /// Records that the database did not answer a renewal.
    pub(super) fn not_renewed(&self) {
        self.present().is_cut_off = true;
    }

    /// Records that another node ended this one. It may not act until it rejoins. Returns false if that was known.
    pub(super) fn ended(&self) -> bool {
        self.0.has_met_others.store(true, Relaxed);
        let before = self.present().acts_until.replace(i64::MIN);
        before != Some(i64::MIN)
    }

    /// Notifies waiting callers that this process is another node now.
    pub(super) fn turned(&self) {
        self.0.turns.send_modify(|turns| *turns += 1);
    }

    /// The time by this process's monotonic clock.
    pub(super) fn own_now(&self) -> i64 {
        (self.0.own_time)()
    }

    fn present(&self) -> MutexGuard<'_, NodeState> {
        self.0
            .present
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicI64;

    use super::*;
    use crate::runtime::clock::{Clock, ManualClock};

    const BEGAN: Millis = Millis::from_i64(1_768_447_800_000);

    /// A member whose clocks run together.
    struct TestMember {
        member: Membership,
        clock: Arc<ManualClock>,
        own: Arc<AtomicI64>,
    }

    impl TestMember {
        fn new() -> Self {
            let own = Arc::new(AtomicI64::new(0));
            let clock = Arc::new(ManualClock::new(BEGAN));
            let identity = NodeIdentity {
                name: Arc::from("one"),
                address: String::new(),
                version: "",
                knows_step: 30,
            };
            let read = Arc::clone(&own);
            let own_time = Box::new(move || read.load(Relaxed));
            let member = Membership::new("", identity, Some(clock.clone()), own_time);
            member.entered("first", Some(0), BEGAN, 0);
            Self { member, clock, own }
        }

        fn passes(&self, ms: i64) -> Millis {
            self.clock.advance_ms(ms);
            self.own.fetch_add(ms, Relaxed);
            self.clock.now()
        }

        fn renews(&self) {
            let asked_at = self.own.load(Relaxed);
            let renewed = Renewal {
                now: self.clock.now().as_i64(),
                nodes: 2,
                terms: Default::default(),
            };
            self.member.renewed(asked_at, &renewed);
        }
    }

    #[test]
    fn a_node_without_a_lease_does_not_count_what_it_reads_if_it_met_others() {
        let one = TestMember::new();
        one.passes(1_000);
        one.passes(LEASE_MS);
        // As far as the node knows, only the database was unavailable.
        assert!(one.member.hears());
        one.member.found(2);
        assert!(!one.member.hears());
        one.renews();
        assert!(one.member.hears());
    }

    #[test]
    fn a_node_that_was_ended_does_not_either_although_it_met_nobody() {
        let one = TestMember::new();
        one.passes(LEASE_MS);
        assert!(one.member.hears());
        one.member.ended();
        assert!(!one.member.hears());
        let now = one.passes(10);
        let asked_at = one.own.load(Relaxed);
        one.member
            .entered("second", Some(asked_at), now, now.as_i64());
        assert!(one.member.hears());
    }
}
