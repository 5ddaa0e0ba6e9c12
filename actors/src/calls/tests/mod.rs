//! Calls with all their actors on a real store, also after panics of actors.

mod claims;
mod fences;
mod hang_ups;
mod lost;
mod one_commit;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use actix_rt::Arbiter;
use dikala_entities::{
    AgentId, BridgeId, CallId, CallStatus, CommandId, FunctionId, FunctionMethod, HangupInitiator,
    HangupReason, Millis, OutboundUrl, PhoneNumberId, Plan, Secret, SecretPlace, Store, TenantId,
    TransactionType, TransferPrefixes, UrlPolicy, Vault, agent, agent_version, call,
    credit_account, function, phone_number, store::Transaction, tenant, transcript,
};
use dikala_protocol::{CalledParty, IncomingCall, VoiceReport};
use dikala_testkit::StoreGuard;
use dikala_testkit::rows;
use futures_util::FutureExt;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait, IntoActiveModel};

use super::{
    CallDeps, CallError, CallInput, CallLimits, CallReply, InvokeFunction, PlanConcurrency,
    actor::Panic,
    driver::CallDriver,
    machine::PendingHangup,
    owned::OwnedCall,
    recovery::take_up,
    versions::{self, Versions},
};
use crate::{
    bridges::Bridges,
    calls::{CallRegistry, CallRouter},
    commit::{self, CommitDeps},
    events::outbox::EventRecipients,
    functions::{self, FunctionsConfig},
    ledger::{self, Credit},
    nodes::Membership,
    outbound::{Guard, Outbound},
    runtime::clock::{Clock, ManualClock, SharedClock, SteadyClock, SystemClock},
    traces::Traces,
};

const DID: &str = "+622150001000";
const RULES: CallLimits = CallLimits {
    ring_timeout_ms: 60_000,
    warn_before_ms: 30_000,
    hangup_grace_ms: 10_000,
    lost_after_ms: 60_000,
};

struct World {
    _keep: StoreGuard,
    store: Store,
    calls: CallRouter,
    bridge: BridgeId,
}

impl World {
    async fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock)).await
    }

    async fn with_clock(clock: SharedClock) -> Self {
        Self::on(dikala_testkit::sqlite().await, clock).await
    }

    async fn on((keep, store): (StoreGuard, Store), clock: SharedClock) -> Self {
        // The outbound client's TLS settings need it; another test may have set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let now = clock.now();
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        seed(&store, &vault, now).await;
        let node = Membership::outside("node");
        let here = Arbiter::current();
        let ledger_parts = CommitDeps {
            store: store.clone(),
            clock: clock.clone(),
            node: node.clone(),
            recipients: EventRecipients::default(),
        };
        let outbound = Outbound::new(Guard::default(), None).expect("the defaults");
        let deps = CallDeps {
            store: store.clone(),
            vault,
            clock: clock.clone(),
            node,
            rules: RULES,
            ai_cost_idr_per_minute: 100,
            concurrency: PlanConcurrency::default(),
            transfers: TransferPrefixes::default(),
            default_time_zone: "Asia/Jakarta".into(),
            versions: Versions::default(),
            ledger: commit::start(&here, &ledger_parts),
            functions: functions::start(
                std::slice::from_ref(&here),
                &outbound,
                &FunctionsConfig::default(),
                clock.clone(),
            ),
            bridges: Arc::new(Bridges::new(clock)),
            meter: super::meter::CallMeter::default(),
            invocations: super::Invocations::default(),
            traces: Traces::default(),
        };
        let calls = CallRouter::new(deps, vec![here.clone()]);
        CallRegistry::start(&here, calls.clone())
            .await
            .expect("the registry starts");
        let bridge = BridgeId::new(now);
        Self {
            _keep: keep,
            store,
            calls,
            bridge,
        }
    }

    async fn incoming(&self, bridge_call: &str) -> CallId {
        self.open(bridge_call, None).await
    }

    async fn incoming_at(&self, bridge_call: &str, at: Millis) -> CallId {
        self.open(bridge_call, Some(at)).await
    }

    async fn open(&self, bridge_call: &str, at: Option<Millis>) -> CallId {
        let incoming = IncomingCall {
            trace: None,
            bridge_call_id: bridge_call.to_owned(),
            called: CalledParty::Number(DID.parse().expect("a number")),
            caller_number: "+6281234567890".parse().expect("a caller"),
            channel: None,
            draft: None,
            metadata: None,
            at,
        };
        match self.calls.incoming(self.bridge, incoming, None).await {
            Ok(CallReply::Admitted { call, .. }) => call,
            other => panic!("the call is taken: {other:?}"),
        }
    }

    async fn tell(&self, call: CallId, input: CallInput) -> Result<CallReply, CallError> {
        self.calls.tell(Some(self.bridge), call, input).await
    }

    /// Buys minutes for the only tenant.
    async fn buy(&self, minutes: i64) {
        let tenant = tenant::Entity::find().one(self.store.reader()).await;
        let tenant = tenant.expect("is read").expect("is there").id;
        buy(&self.store, tenant, minutes).await;
    }

    async fn row(&self, call: CallId) -> call::Model {
        let row = call::Entity::find_by_id(call)
            .one(self.store.reader())
            .await
            .expect("is read");
        row.expect("is there")
    }
}

async fn seed(store: &Store, vault: &Vault, now: Millis) {
    let (tenant, agent) = (TenantId::new(now), AgentId::new(now));
    let db = store.writer();
    let row = tenant::Model {
        id: tenant,
        name: "Kopi".into(),
        plan: Plan::Starter,
        rate_limit: None,
        max_concurrent_calls: None,
        function_secret: vault.seal(
            SecretPlace::FunctionSecret,
            tenant,
            &Secret::new("a-secret-of-some-length"),
        ),
        suspended_at: None,
        created_at: now,
        updated_at: now,
    };
    rows::insert(db, row).await;
    let account = credit_account::Model::empty(tenant, 0);
    rows::insert(db, account).await;
    let row = agent::Model {
        id: agent,
        ..rows::agent(tenant, now)
    };
    rows::insert(db, row).await;
    let number = phone_number::Model {
        id: PhoneNumberId::new(now),
        tenant_id: tenant,
        did: DID.parse().expect("a number"),
        label: "Main".into(),
        is_active: true,
        agent_id: Some(agent),
        created_at: now,
        updated_at: now,
    };
    rows::insert(db, number).await;
    buy(store, tenant, 10).await;
}

async fn buy(store: &Store, tenant: TenantId, minutes: i64) {
    let credit = Credit {
        tenant,
        minutes,
        kind: TransactionType::Purchase,
        reference: None,
        description: None,
    };
    commit::credit(store, Arc::new(SystemClock), credit, None)
        .await
        .expect("is booked");
}

fn incoming(bridge_call: &str) -> IncomingCall {
    IncomingCall {
        trace: None,
        bridge_call_id: bridge_call.to_owned(),
        called: CalledParty::Number(DID.parse().expect("a number")),
        caller_number: "+6281234567890".parse().expect("a caller"),
        channel: None,
        draft: None,
        metadata: None,
        at: None,
    }
}

fn answered() -> CallInput {
    CallInput::Answered {
        at: None,
        message_id: "m".to_owned(),
    }
}

fn hang_up() -> CallInput {
    let (reason, initiator) = (HangupReason::Normal, HangupInitiator::Caller);
    CallInput::HangUp {
        at: None,
        reason,
        initiator,
        ai_cost_idr: None,
        voice: VoiceReport::default(),
    }
}

#[actix::test]
async fn a_call_whose_actor_panics_comes_back_from_the_store_and_others_go_on() {
    let world = World::new().await;
    let (broken, other) = (world.incoming("a").await, world.incoming("b").await);
    assert_eq!(world.tell(broken, answered()).await, Ok(CallReply::Done));
    assert_eq!(world.tell(other, answered()).await, Ok(CallReply::Done));
    for _ in 0..3 {
        assert!(world.calls.panic(broken).await.is_err());
    }
    assert_eq!(
        world.tell(broken, answered()).await,
        Ok(CallReply::Done),
        "it is still answered"
    );
    assert_eq!(world.tell(broken, hang_up()).await, Ok(CallReply::Done));
    assert_eq!(world.tell(other, hang_up()).await, Ok(CallReply::Done));
    for call in [broken, other] {
        let row = world.row(call).await;
        assert_eq!(
            (row.status, row.ai_cost_idr),
            (CallStatus::Ended, Some(100))
        );
    }
    let report = ledger::verify(&world.store, None)
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

#[actix::test]
async fn a_call_that_keeps_panicking_is_settled_and_ended() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    let ended = async {
        loop {
            let row = world.row(call).await;
            if row.status.is_final() {
                return row;
            }
            let _ = world.calls.panic(call).await;
        }
    };
    let row = tokio::time::timeout(std::time::Duration::from_secs(20), ended)
        .await
        .expect("it is given up");
    assert_eq!(
        (row.status, row.hangup_reason),
        (CallStatus::Dropped, Some(HangupReason::BridgeError))
    );
    assert_eq!(row.hangup_initiator, Some(HangupInitiator::System));
    let report = ledger::verify(&world.store, None)
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

#[actix::test]
async fn a_bridge_call_that_comes_in_twice_at_once_is_one_call() {
    let world = World::new().await;
    let calls = (0..16).map(|_| world.incoming("same"));
    let mut calls = futures_util::future::join_all(calls).await;
    calls.dedup();
    assert_eq!(calls.len(), 1);
    let another_bridge = world
        .calls
        .tell(Some(BridgeId::new(SystemClock.now())), calls[0], hang_up())
        .await;
    assert_eq!(another_bridge, Err(CallError::UnknownCall));
}

#[actix::test]
async fn a_late_word_of_an_actors_death_leaves_its_successor_alone() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    assert!(world.calls.panic(call).await.is_err());
    let successor = world.calls.find(call).await.expect("is read again");
    // The very first actor had the number 0.
    world.calls.died(call, 0);
    assert_eq!(world.calls.find(call).await, Ok(successor));
}

#[actix::test]
async fn a_sweep_and_a_message_bring_a_call_back_once() {
    let world = World::new().await;
    // Three actors per round: the call's first, the one under test, and one to show that this was one.
    for number in (1..60).step_by(3) {
        let call = world.incoming(&number.to_string()).await;
        let first = world.calls.find(call).await.expect("is there");
        world.calls.directory().forget(call, &first);
        let lost = [call];
        let (sweep, message) = (take_up(&world.calls, &lost), world.calls.find(call));
        let ((), found) = futures_util::future::join(sweep, message).await;
        assert_eq!(world.calls.find(call).await, found);
        world.calls.died(call, number);
        assert_ne!(world.calls.find(call).await, found, "there was another");
        assert_eq!(world.tell(call, hang_up()).await, Ok(CallReply::Done));
    }
}

#[actix::test]
async fn a_top_up_is_told_to_the_tenants_own_calls_only() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    let tenant = world.row(call).await.tenant_id;
    assert_eq!(world.calls.directory().of_tenant(tenant), [call]);
    let another = TenantId::new(SystemClock.now());
    assert_eq!(world.calls.directory().of_tenant(another), []);
}

#[actix::test]
async fn a_call_is_transferred_five_times_and_never_to_a_premium_number() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    let transfer = |to: &str| CallInput::RequestTransfer {
        to: to.parse().expect("a number"),
        audit: None,
    };
    let ask = async |input| world.calls.tell(None, call, input).await;
    for dear in ["+19005551234", "+881612345678"] {
        assert_eq!(
            ask(transfer(dear)).await,
            Err(CallError::TransferNotAllowed)
        );
    }
    for _ in 0..3 {
        assert_eq!(ask(transfer("+6281234567890")).await, Ok(CallReply::Done));
    }
    // The limit belongs to the call, not to its actor.
    assert!(world.calls.panic(call).await.is_err());
    for _ in 0..2 {
        assert_eq!(ask(transfer("+6281234567891")).await, Ok(CallReply::Done));
    }
    let sixth = ask(transfer("+6281234567890")).await;
    assert_eq!(sixth, Err(CallError::TooManyTransfers));
    assert_eq!(world.tell(call, hang_up()).await, Ok(CallReply::Done));
}

#[actix::test]
async fn a_caller_that_is_cancelled_leaves_a_call_that_the_next_one_finds() {
    let world = World::new().await;
    for bridge_call in ["a", "b", "c"] {
        let before = world.calls.in_memory();
        let mut cancelled = Box::pin(world.incoming(bridge_call));
        // Waits until there is an actor, which has not run yet.
        while world.calls.in_memory() == before {
            tokio::task::yield_now().await;
            assert_eq!(cancelled.as_mut().now_or_never(), None);
        }
        drop(cancelled);
        let call = world.incoming(bridge_call).await;
        assert_eq!(world.tell(call, hang_up()).await, Ok(CallReply::Done));
    }
    let report = ledger::verify(&world.store, None)
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

#[actix::test]
async fn an_extension_whose_answer_was_lost_leaves_no_talk_free() {
    let clock = ManualClock::new(SystemClock.now());
    let world = World::with_clock(Arc::new(clock.clone())).await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    let row = world.row(call).await;
    // Booked without the call's knowledge.
    let lost = ledger::Extend {
        call,
        tenant: row.tenant_id,
        owner: Arc::from(row.owner.as_str()),
        epoch: row.epoch,
        request: 1,
        started: 1,
        want: 1,
    };
    let granted = world.calls.deps().ledger.extend(lost).await;
    assert_eq!(granted.expect("is granted").total, 2);
    // The hang-up comes before the timer that would have asked in between.
    clock.advance_ms(5 * 60_000);
    assert_eq!(world.tell(call, hang_up()).await, Ok(CallReply::Done));
    let row = world.row(call).await;
    assert_eq!(
        (row.talk_time_seconds, row.ai_cost_idr),
        (Some(300), Some(500))
    );
    let report = ledger::verify(&world.store, None)
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

/// A wall clock that the test sets.
fn adjustable() -> (Arc<AtomicI64>, SharedClock) {
    let set = Arc::new(AtomicI64::new(0));
    let reader = Arc::clone(&set);
    let began = std::time::Instant::now();
    let clock = SteadyClock::new(move || {
        let passed = i64::try_from(began.elapsed().as_micros()).expect("a short test");
        1_800_000_000_000_000 + passed + reader.load(Relaxed) * 1_000
    });
    (set, Arc::new(clock))
}

#[actix::test]
async fn a_wall_clock_that_is_set_in_mid_call_changes_no_bill_and_no_deadline() {
    const HOUR_MS: i64 = 3_600_000;
    for step_ms in [HOUR_MS, -HOUR_MS] {
        let (set, clock) = adjustable();
        let world = World::with_clock(Arc::clone(&clock)).await;
        let beside_us = world.incoming("beside us").await;
        let silent = world.incoming("says no time").await;
        let before = clock.now();
        for call in [beside_us, silent] {
            assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
        }
        let began = clock.now();
        set.store(step_ms, Relaxed);
        while clock.stepped_ms() == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let told = clock.stepped_ms() - step_ms;
        assert!((-1_000..=1_000).contains(&told), "off by {told} ms");
        // A call from a bridge whose clock was set as well.
        let later = world
            .incoming_at("later", clock.on_the_wall(clock.now()))
            .await;
        let answered_later = CallInput::Answered {
            at: Some(clock.on_the_wall(clock.now())),
            message_id: "n".to_owned(),
        };
        assert_eq!(world.tell(later, answered_later).await, Ok(CallReply::Done));
        let talked_ms = clock.now().since(began);
        for call in [beside_us, silent, later] {
            assert_eq!(world.row(call).await.status, CallStatus::Answered);
        }
        let mut dated = hang_up();
        if let CallInput::HangUp { at, .. } = &mut dated {
            *at = Some(clock.on_the_wall(clock.now()));
        }
        assert_eq!(
            world.tell(beside_us, dated.clone()).await,
            Ok(CallReply::Done)
        );
        assert_eq!(world.tell(silent, hang_up()).await, Ok(CallReply::Done));
        assert_eq!(world.tell(later, dated).await, Ok(CallReply::Done));
        let most = clock.now().since(before) / 1_000;
        for (call, least) in [
            (beside_us, talked_ms / 1_000),
            (silent, talked_ms / 1_000),
            (later, 0),
        ] {
            let row = world.row(call).await;
            let talked = row.talk_time_seconds.expect("is over");
            assert!(
                (least..=most).contains(&talked),
                "{talked} s of talk after {step_ms} ms"
            );
            assert_eq!(row.hangup_reason, Some(HangupReason::Normal));
            assert!(row.ended_at.expect("is over").since(row.started_at) < 60_000);
        }
    }
}

/// A bridge whose messages wait unread at this node is not silent.
#[actix::test]
async fn a_call_whose_messages_wait_unread_is_lost_so_much_later() {
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let world = World::with_clock(clock.clone()).await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    let row = world.row(call).await;
    let bridges = &world.calls.deps().bridges;
    bridges.seen(world.bridge);
    let call = OwnedCall::load(Arc::clone(world.calls.deps()), row, None, None);
    assert_eq!(call.rules().lost_after_ms, RULES.lost_after_ms);
    clock.advance_ms(20_000);
    bridges.not_read(world.bridge);
    assert_eq!(call.rules().lost_after_ms, RULES.lost_after_ms + 20_000);
}

/// Its next owner has not heard the bridge yet, but will.
#[actix::test]
async fn a_call_that_was_taken_over_is_warned_in_time() {
    let clock = Arc::new(ManualClock::new(SystemClock.now()));
    let world = World::with_clock(clock.clone()).await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    let row = world.row(call).await;
    let answered_at = row.answered_at.expect("is answered");
    // By its last sign, the bridge would be lost before the call is cut.
    let row = call::Model {
        last_sign_at: answered_at.plus_ms(-10_000),
        ..row
    };
    clock.advance_ms(15_000);
    let deps = world.calls.deps();
    let hold = deps.ledger.hold(call).await.expect("is read");
    let driver = CallDriver::load(Arc::clone(deps), row, hold.as_ref(), Some(1));
    let warn_at = answered_at.plus_ms(60_000 - RULES.warn_before_ms);
    assert_eq!(driver.next_deadline(), Some(warn_at));
    clock.advance_ms(15_000);
    assert_eq!(driver.next_deadline(), Some(warn_at.plus_ms(5_000)));
    deps.bridges.seen(world.bridge);
    assert_eq!(driver.next_deadline(), Some(warn_at), "at once");
}

#[actix::test]
async fn a_wall_clock_that_was_set_back_over_a_restart_leaves_no_deadline_an_hour_away() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(CallReply::Done));
    let row = world.row(call).await;
    let ahead = |at: Millis| at.plus_ms(3_600_000);
    let in_an_hour = ahead(SystemClock.now());
    let hangup = PendingHangup {
        id: CommandId::new(in_an_hour),
        reason: HangupReason::MaxDuration,
        initiator: HangupInitiator::System,
        due_at: in_an_hour,
        issued_at: in_an_hour,
    };
    let hung_up = call::Model {
        pending: Some(serde_json::json!({"hangup": hangup, "transfer": null}).to_string()),
        ..row.clone()
    };
    let driver = CallDriver::load(Arc::clone(world.calls.deps()), hung_up, None, None);
    let next = driver.next_deadline().expect("it runs");
    assert!(next.since(SystemClock.now()) <= RULES.hangup_grace_ms + 2_000);
    let stored = call::Model {
        started_at: ahead(row.started_at),
        answered_at: row.answered_at.map(ahead),
        last_sign_at: ahead(row.last_sign_at).plus_ms(7_000),
        ..row
    };
    // The call had talked for seven seconds when the service went away.
    let before = SystemClock.now();
    let call = OwnedCall::load(Arc::clone(world.calls.deps()), stored.clone(), None, None);
    let answered_at = call.state.answered_at().expect("is answered");
    let talked_ms = stored
        .last_sign_at
        .since(stored.answered_at.expect("is answered"));
    assert!(talked_ms >= 7_000);
    assert!(before.since(answered_at) <= talked_ms);
    assert!(SystemClock.now().since(answered_at) >= talked_ms);
    let driver = CallDriver::load(Arc::clone(world.calls.deps()), stored, None, None);
    let next = driver.next_deadline().expect("it runs");
    assert!(next.since(SystemClock.now()) <= RULES.lost_after_ms + 5_000);
    assert!(driver.row().answered_at <= Some(SystemClock.now()));
}

impl CallRouter {
    async fn panic(&self, call: CallId) -> Result<(), CallError> {
        let addr = self.find(call).await?;
        addr.send(Panic).await.map_err(|_| CallError::Unavailable)
    }
}

/// Slow reads such as deep pages, a scrape or a sweep hold all the readers that they can get.
#[actix::test]
async fn a_call_is_opened_and_answered_while_every_reader_of_the_api_is_busy() {
    let world = World::new().await;
    let held = Arc::new(tokio::sync::Semaphore::new(0));
    let slow = (0..64).map(|_| {
        let (store, held) = (world.store.clone(), Arc::clone(&held));
        actix_rt::spawn(async move {
            let reading = store.begin_snapshot().await.expect("begins");
            held.add_permits(1);
            std::future::pending::<()>().await;
            drop(reading);
        })
    });
    let slow: Vec<_> = slow.collect();
    // The others wait in the queue, before any new request.
    let first = held.acquire_many(8).await.expect("is open");
    let call = world.incoming("while all are busy").await;
    let done = world.tell(call, answered()).await;
    assert!(done.is_ok(), "{done:?}");
    drop(first);
    for reading in slow {
        reading.abort();
    }
}

/// A call's settings are stored once for all calls, however large, and never change.
#[actix::test]
async fn calls_of_an_agent_share_its_settings() {
    let world = World::new().await;
    let mut agent = agent::Entity::find()
        .one(world.store.reader())
        .await
        .expect("is read")
        .expect("is there");
    let db = world.store.writer();
    let heavy = agent::ActiveModel {
        id: Set(agent.id),
        system_prompt: Set("s".repeat(30_000)),
        ..Default::default()
    };
    agent = heavy.update(db).await.expect("changes");
    let first = world.incoming("1").await;
    let second = world.incoming("2").await;
    let rows = [world.row(first).await, world.row(second).await];
    for row in &rows {
        assert_eq!(
            (row.settings.as_deref(), row.agent_version),
            (None, Some(1))
        );
        let settings = versions::of_call(db, row)
            .await
            .expect("is read")
            .expect("is there");
        assert_eq!(settings.persona.system_prompt.len(), 30_000);
    }
    let stored = agent_version::Entity::find()
        .all(db)
        .await
        .expect("is read");
    assert_eq!(stored.len(), 1);
    // The agent changes: a running call keeps its settings, the next call gets the new ones.
    agent.system_prompt = "short".to_owned();
    agent.version = 1;
    agent
        .clone()
        .into_active_model()
        .reset_all()
        .update(db)
        .await
        .expect("changes");
    versions::record(db, &agent, SystemClock.now())
        .await
        .expect("is written");
    let third = world.incoming("3").await;
    assert_eq!(world.row(third).await.agent_version, Some(2));
    let again = world
        .calls
        .incoming(world.bridge, incoming("1"), None)
        .await;
    let Ok(CallReply::Admitted { call, agent, .. }) = again else {
        panic!("the call is there: {again:?}");
    };
    assert_eq!(
        (call, agent["systemPrompt"].as_str().map(str::len)),
        (first, Some(30_000))
    );
    let minutes = versions::durations(db, &rows).await.expect("is read");
    assert_eq!(minutes.get(&first), Some(&10));
}

/// After a failover that lost the newest commits, a version's number may return with other settings.
#[actix::test]
async fn a_version_that_was_lost_and_is_made_anew_is_what_calls_begin_with() {
    let world = World::new().await;
    let prompt = async |bridge_call: &str| match world
        .calls
        .incoming(world.bridge, incoming(bridge_call), None)
        .await
    {
        Ok(CallReply::Admitted { agent, .. }) => agent["systemPrompt"].clone(),
        other => panic!("the call is taken: {other:?}"),
    };
    prompt("writes version 1").await;
    prompt("keeps version 1 in memory").await;
    let db = world.store.writer();
    for sql in [
        "DELETE FROM agent_versions",
        "DELETE FROM agent_settings",
        "UPDATE agents SET version = 0, system_prompt = 'other words'",
    ] {
        db.execute_unprepared(sql).await.expect("changes");
    }
    // Another node writes it.
    let agent = agent::Entity::find().one(db).await.expect("is read");
    let agent = agent.expect("is there");
    let recorded = versions::record(db, &agent, SystemClock.now()).await;
    assert_eq!(recorded.expect("is written").version, 1);
    assert_eq!(prompt("reads it").await, "other words");
    assert_eq!(prompt("finds it in memory").await, "other words");
}

/// Waiting does not help against stricter rules, so the AI gets an outcome.
#[actix::test]
async fn a_function_whose_stored_endpoint_is_refused_by_now_has_an_outcome() {
    let world = World::new().await;
    let db = world.store.writer();
    let agent = agent::Entity::find().one(db).await.expect("is read");
    let agent = agent.expect("is there");
    let policy = UrlPolicy::default();
    let function = function::Model {
        id: FunctionId::new(agent.created_at),
        tenant_id: agent.tenant_id,
        agent_id: agent.id,
        name: "find_order".into(),
        description: "Finds an order.".into(),
        endpoint: OutboundUrl::parse("https://example.com/", policy).expect("an address"),
        method: FunctionMethod::Post,
        parameters: "{}".into(),
        created_at: agent.created_at,
        updated_at: agent.created_at,
    };
    rows::insert(db, function).await;
    for change in [
        "UPDATE functions SET endpoint = 'https://a..example.com/'",
        "UPDATE agents SET tools_enabled = '[\"find_order\"]'",
    ] {
        db.execute_unprepared(change).await.expect("changes");
    }
    let call = world.incoming("1").await;
    world.tell(call, answered()).await.expect("is answered");
    for _ in 0..2 {
        let message = InvokeFunction {
            trace: None,
            bridge: world.bridge,
            invocation_id: "i".into(),
            name: "find_order".into(),
            parameters: serde_json::Map::new(),
            at: None,
            since: std::time::Instant::now(),
        };
        let outcome = world.calls.invoke(call, message).await.expect("an outcome");
        assert_eq!(
            (&outcome["status"], &outcome["code"]),
            (&"error".into(), &"blocked_target".into())
        );
    }
}

/// The call is erased while its actor has it in memory. The bridge's next message is handled like any later one.
#[actix::test]
async fn the_first_message_about_a_call_just_erased_is_taken() {
    let world = World::new().await;
    let call = world.incoming("1").await;
    world.tell(call, answered()).await.expect("is answered");
    world.tell(call, hang_up()).await.expect("is over");
    let erased = call::ActiveModel {
        id: Set(call),
        owner: Set(call::NOBODY.to_owned()),
        epoch: Set(world.row(call).await.epoch + 1),
        ..Default::default()
    };
    erased.update(world.store.writer()).await.expect("changes");
    for _ in 0..2 {
        let late = CallInput::Transcript {
            at: None,
            summary: "Something private.".to_owned(),
            turns: Vec::new(),
        };
        assert_eq!(world.tell(call, late).await, Ok(CallReply::Done));
    }
    assert_eq!(world.row(call).await.transcript_summary, None);
    let kept = transcript::Entity::find().all(world.store.reader()).await;
    assert_eq!(kept.expect("is read"), []);
}

/// A call whose version is missing is not cut short.
#[actix::test]
async fn a_call_that_lost_its_version_talks_for_as_long_as_its_agent_says() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    agent_version::Entity::delete_many()
        .exec(world.store.writer())
        .await
        .expect("deletes");
    let minutes = async || {
        let row = world.row(call).await;
        let minutes = versions::durations(world.store.reader(), &[row]).await;
        minutes.expect("reads").remove(&call)
    };
    assert_eq!(minutes().await, Some(10));
    agent::Entity::delete_many()
        .exec(world.store.writer())
        .await
        .expect("deletes");
    assert_eq!(minutes().await, Some(240));
}
