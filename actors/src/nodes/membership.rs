//! Which node this process is at present, and until when it may act as that.

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
    table::{self, Entering, Entry, Renewed},
    terms::Terms,
};
use crate::runtime::clock::{SharedClock, monotonic};

/// How often it is looked whether a lease that ran out is renewed, for who waits.
const LOOKS_MAX: usize = 60;
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// An answer of the database within this tells what time it is there.
const TELLS_TIME_WITHIN_MS: i64 = 200;
/// Nothing before this is known of the database.
const ALWAYS: i64 = i64::MIN;

/// What a process says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `node.name`
    pub name: Arc<str>,
    /// Where the public listener answers.
    pub address: String,
    pub version: &'static str,
    /// The last schema step that this program knows.
    pub knows_step: i64,
}

/// This process's monotonic clock, in milliseconds.
type OwnTime = Box<dyn Fn() -> i64 + Send + Sync>;

/// Which node this process is; cheap to clone, all clones share it.
#[derive(Clone)]
pub struct Membership(Arc<Shared>);

struct Shared {
    identity: Identity,
    clock: Option<SharedClock>,
    own_time: OwnTime,
    present: Mutex<Present>,
    /// How many nodes there are, this one included.
    nodes: AtomicUsize,
    /// How far the clock is ahead of the database's, in milliseconds.
    ahead_ms: AtomicI64,
    /// Whether there ever were others.
    has_met_others: AtomicBool,
    /// How often it became another node.
    turns: watch::Sender<usize>,
    terms: Terms,
    /// Somebody waits for the lease to be renewed.
    wanted: Notify,
    notices: Notices,
}

#[derive(Debug)]
struct Present {
    id: Arc<str>,
    /// By this process's monotonic clock, in milliseconds since `began`; none: for ever.
    acts_until: Option<i64>,
    /// Since when the database has answered, by its clock.
    answering_since: i64,
    /// The last question to it failed.
    is_cut_off: bool,
    /// It left by itself, and does not come back.
    has_left: bool,
    /// When it began to act again after a time in which it did not.
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
    /// Enters the table. On SQLite, where the lock on the file is the lease, the node then acts until it ends.
    pub async fn join(
        store: &Store,
        identity: Identity,
        clock: SharedClock,
    ) -> Result<Self, DbErr> {
        let member = Self::new("", identity, Some(clock), since_now());
        member.enter(store).await?;
        Ok(member)
    }

    /// One that is in no table and acts for ever; for tests, and for commands beside a server. What an empty `id` announces is
    /// delivered by whichever node finds it.
    pub fn outside(id: &str) -> Self {
        let identity = Identity {
            name: Arc::from(id),
            address: String::new(),
            version: "",
            knows_step: i64::MAX,
        };
        Self::new(id, identity, None, since_now())
    }

    pub(super) fn new(
        id: &str,
        identity: Identity,
        clock: Option<SharedClock>,
        own_time: OwnTime,
    ) -> Self {
        Self(Arc::new(Shared {
            identity,
            clock,
            own_time,
            present: Mutex::new(Present {
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
            terms: Terms::default(),
            wanted: Notify::new(),
            notices: Notices::default(),
        }))
    }

    /// What this node is called in rows that it owns.
    pub fn id(&self) -> Arc<str> {
        Arc::clone(&self.present().id)
    }

    /// What it says of itself.
    pub fn identity(&self) -> &Identity {
        &self.0.identity
    }

    /// `node.name`
    pub fn name(&self) -> &Arc<str> {
        &self.0.identity.name
    }

    /// What it tells other nodes and hears of them.
    pub fn notices(&self) -> &Notices {
        &self.0.notices
    }

    /// Whether this is the node that owns a row.
    pub fn is(&self, owner: &str) -> bool {
        *self.present().id == *owner
    }

    /// Whether it may act now: its lease lasts, and a little more than that.
    pub fn acts(&self) -> bool {
        let now = self.own_now();
        self.present().acts_until.is_none_or(|until| now < until)
    }

    /// Whether it may act as that node still, which it was when something began.
    pub fn acts_as(&self, id: &str) -> bool {
        let now = self.own_now();
        let present = self.present();
        *present.id == *id && present.acts_until.is_none_or(|until| now < until)
    }

    /// The same as [`acts`](Self::acts); where its lease ran out a moment ago, that is waited for: it may only be late.
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

    /// Completes when somebody waits for the lease to be renewed.
    pub(super) async fn wanted(&self) {
        self.0.wanted.notified().await;
    }

    /// Whether there may be other nodes: it acts for as long as its lease lasts.
    pub fn has_lease(&self) -> bool {
        self.present().acts_until.is_some()
    }

    /// What is left of its lease, in milliseconds.
    pub fn lease_left_ms(&self) -> i64 {
        let now = self.own_now();
        let until = self.present().acts_until;
        until.map_or(LEASE_MS, |until| left(until, now))
    }

    /// Whether there are other nodes, as far as is known.
    pub fn has_others(&self) -> bool {
        self.nodes() > 1
    }

    /// Whether sockets of bridges are kept while it may not act. One that cannot reach the database does not hear of others that
    /// come.
    pub fn keeps_bridges(&self, lost_after_ms: i64) -> bool {
        let now = self.own_now();
        let has_met_others = self.0.has_met_others.load(Relaxed);
        let until = self.present().acts_until;
        until.is_none_or(|until| keeps_bridges(until, now, has_met_others, lost_after_ms))
    }

    /// Whether what is read now was said now, as far as others are concerned. Who lost his lease may have stood still meanwhile;
    /// one that is alone tells nobody anything wrong.
    pub fn hears(&self) -> bool {
        self.acts() || !self.0.has_met_others.load(Relaxed)
    }

    /// Whether it heard everything that was said since then.
    pub fn has_heard_since(&self, at: Millis) -> bool {
        let has_met_others = self.0.has_met_others.load(Relaxed);
        let resumed_later = self.resumed_at().is_some_and(|resumed| resumed > at);
        self.hears() && !(has_met_others && resumed_later)
    }

    /// How many nodes there are, this one included, as far as is known.
    pub fn nodes(&self) -> usize {
        self.0.nodes.load(Relaxed)
    }

    /// So many nodes were found, without those that are no more.
    pub fn found(&self, nodes: usize) {
        self.count(nodes);
        if self.has_others() {
            self.0.has_met_others.store(true, Relaxed);
        }
    }

    fn count(&self, nodes: usize) {
        self.0.nodes.store(nodes.max(1), Relaxed);
    }

    /// Since when the database has answered this node, by its clock.
    pub fn answering_since(&self) -> i64 {
        self.present().answering_since
    }

    /// When it began to act again after a time in which it could not: until then nobody could be heard.
    pub fn resumed_at(&self) -> Option<Millis> {
        self.present().resumed_at
    }

    /// Changes when this process has become another node.
    pub fn turns(&self) -> watch::Receiver<usize> {
        self.0.turns.subscribe()
    }

    /// Gives up everything that it owns.
    pub async fn leave(&self, store: &Store) -> Result<(), DbErr> {
        let id = {
            let mut present = self.present();
            present.acts_until = Some(i64::MIN);
            present.has_left = true;
            Arc::clone(&present.id)
        };
        table::leave(store, &id).await
    }

    /// Becomes a new node.
    pub(super) async fn enter(&self, store: &Store) -> Result<(), DbErr> {
        let Some(clock) = &self.0.clock else {
            return Ok(());
        };
        let id = NodeId::new(clock.now());
        let identity = &self.0.identity;
        let entering = Entering {
            id,
            name: identity.name.to_string(),
            address: identity.address.clone(),
            process: process::this(),
            version: identity.version.to_owned(),
        };
        let asked_at = self.own_now();
        let is_shared = store.lease().is_some();
        let entry: Entry = match store.lease() {
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

    /// It is in the table since `entered_at` by the database's clock, with a lease that it asked for at `asked_at` by this process's;
    /// none: for ever. What the database did before that it does not know: others may be late because that was away.
    pub(super) fn entered(&self, id: &str, asked_at: Option<i64>, now: Millis, entered_at: i64) {
        let mut present = self.present();
        if !present.id.is_empty() {
            present.resumed_at = Some(now);
        }
        present.id = Arc::from(id);
        present.acts_until = asked_at.map(acts_until);
        present.answering_since = entered_at;
    }

    /// The lease was renewed, which was asked for at `asked_at` by this process's clock.
    pub(super) fn renewed(&self, asked_at: i64, renewed: &Renewed) {
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

    /// Looks at the terms on which the database is served now.
    pub(super) fn heed(&self, renewed: &Renewed) {
        self.0
            .terms
            .heed(self.0.identity.knows_step, &renewed.terms);
    }

    /// The terms of serving the database.
    pub fn terms(&self) -> &Terms {
        &self.0.terms
    }

    /// Lets the clock follow the database's, which showed `theirs` after it was asked at `asked_at` and before now. An answer that
    /// was long on its way says too little.
    fn compare(&self, asked_at: i64, theirs: i64) {
        let took = self.own_now().saturating_sub(asked_at);
        if let Some(clock) = &self.0.clock
            && took <= TELLS_TIME_WITHIN_MS
        {
            let theirs = Millis::from_i64(theirs.saturating_add(took / 2));
            clock.compare(theirs);
            let ahead_ms = clock.now().since(theirs);
            self.0.ahead_ms.store(ahead_ms, Relaxed);
        }
    }

    /// How far the clock that this node goes by was ahead of the database's when the lease was renewed last, in milliseconds; 0 where
    /// nobody else can serve the database.
    pub fn ahead_ms(&self) -> i64 {
        self.0.ahead_ms.load(Relaxed)
    }

    /// Whether it left by itself.
    pub(super) fn has_left(&self) -> bool {
        self.present().has_left
    }

    /// The database did not answer.
    pub(super) fn not_renewed(&self) {
        self.present().is_cut_off = true;
    }

    /// Others ended this node: it may do nothing more until it has become another. Whether that is news.
    pub(super) fn ended(&self) -> bool {
        self.0.has_met_others.store(true, Relaxed);
        let before = self.present().acts_until.replace(i64::MIN);
        before != Some(i64::MIN)
    }

    /// Tells who waits for it that this process is another node now.
    pub(super) fn turned(&self) {
        self.0.turns.send_modify(|turns| *turns += 1);
    }

    /// The time by this process's monotonic clock.
    pub(super) fn own_now(&self) -> i64 {
        (self.0.own_time)()
    }

    fn present(&self) -> MutexGuard<'_, Present> {
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

    /// Both clocks go together.
    struct One {
        member: Membership,
        clock: Arc<ManualClock>,
        own: Arc<AtomicI64>,
    }

    impl One {
        fn new() -> Self {
            let own = Arc::new(AtomicI64::new(0));
            let clock = Arc::new(ManualClock::new(BEGAN));
            let identity = Identity {
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
            let renewed = Renewed {
                now: self.clock.now().as_i64(),
                nodes: 2,
                terms: Default::default(),
            };
            self.member.renewed(asked_at, &renewed);
        }
    }

    #[test]
    fn who_lost_his_lease_has_not_heard_what_was_said_meanwhile() {
        let one = One::new();
        one.member.found(2);
        let before = one.passes(1_000);
        assert!(one.member.has_heard_since(before));
        one.passes(LEASE_MS);
        assert!(!one.member.hears());
        assert!(!one.member.has_heard_since(one.clock.now()));
        one.renews();
        assert!(one.member.hears());
        assert!(!one.member.has_heard_since(before));
        let since = one.passes(1);
        assert!(one.member.has_heard_since(since));
    }

    #[test]
    fn who_was_ended_has_not_heard_either_although_he_knew_nobody() {
        let one = One::new();
        let before = one.passes(1_000);
        one.passes(LEASE_MS);
        // Nobody but the database was away, as far as it knows.
        assert!(one.member.has_heard_since(before));
        one.member.ended();
        assert!(!one.member.has_heard_since(before));
        let now = one.passes(10);
        let asked_at = one.own.load(Relaxed);
        one.member
            .entered("second", Some(asked_at), now, now.as_i64());
        assert!(!one.member.has_heard_since(before));
        assert!(one.member.has_heard_since(now));
    }
}
