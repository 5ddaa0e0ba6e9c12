//! Calls with all their actors on a real store, and what becomes of them when an actor panics.

use std::sync::Arc;

use actix_rt::Arbiter;
use dikala_entities::{
    AgentId, BridgeId, CallId, CallStatus, HangupInitiator, HangupReason, Language, Millis,
    PhoneNumberId, Plan, Secret, Store, TenantId, TransactionType, Vault, agent, agent_version,
    call, credit_account, phone_number, tenant,
};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel};

use super::{
    CallError, CallParts, Incoming, Input, PlanConcurrency, Reply, Rules, actor::Panic, versions,
};
use crate::{
    batches::BatchStats,
    bridges::Bridges,
    clock::{Clock, SharedClock, SystemClock},
    functions::{self, FunctionsConfig},
    journal::{CallJournal, JournalParts},
    ledger::{self, Credit, LedgerParts},
    outbound::{Guard, Outbound},
    outbox::Audience,
    registry::{CallRegistry, Calls},
    testing::sqlite_store,
};

const DID: &str = "+622150001000";
const RULES: Rules = Rules {
    ring_timeout_ms: 60_000,
    warn_before_ms: 30_000,
    hangup_grace_ms: 10_000,
    lost_after_ms: 60_000,
};

struct World {
    _folder: tempfile::TempDir,
    store: Store,
    calls: Calls,
    bridge: BridgeId,
}

impl World {
    async fn new() -> Self {
        // The TLS settings of the outbound client ask for it; another test may have set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (folder, store) = sqlite_store().await;
        let now = SystemClock.now();
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        seed(&store, &vault, now).await;
        let clock: SharedClock = Arc::new(SystemClock);
        let node: Arc<str> = Arc::from("node");
        let here = Arbiter::current();
        let ledger_parts = LedgerParts {
            store: store.clone(),
            clock: clock.clone(),
            node: node.clone(),
            audience: Audience::default(),
        };
        let journal_parts = JournalParts {
            store: store.clone(),
            clock: clock.clone(),
            node: node.clone(),
            audience: Audience::default(),
            stats: Arc::new(BatchStats::default()),
        };
        let outbound = Outbound::new(Guard::default(), None).expect("the defaults");
        let parts = CallParts {
            store: store.clone(),
            vault,
            clock: clock.clone(),
            node,
            rules: RULES,
            ai_cost_idr_per_minute: 100,
            concurrency: PlanConcurrency::default(),
            ledger: ledger::start(&here, &ledger_parts),
            journal: CallJournal::start(&here, journal_parts),
            functions: functions::start(
                std::slice::from_ref(&here),
                &outbound,
                &FunctionsConfig::default(),
            ),
            bridges: Arc::new(Bridges::new(clock)),
        };
        let calls = Calls::new(parts, vec![here.clone()]);
        CallRegistry::start(&here, calls.clone())
            .await
            .expect("the registry starts");
        let bridge = BridgeId::new(now);
        Self {
            _folder: folder,
            store,
            calls,
            bridge,
        }
    }

    async fn incoming(&self, bridge_call: &str) -> CallId {
        match self
            .calls
            .incoming(self.bridge, incoming(bridge_call))
            .await
        {
            Ok(Reply::Taken { call, .. }) => call,
            other => panic!("the call is taken: {other:?}"),
        }
    }

    async fn tell(&self, call: CallId, input: Input) -> Result<Reply, CallError> {
        self.calls.tell(Some(self.bridge), call, input).await
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
        function_secret: vault.seal(tenant, &Secret::new("a-secret-of-some-length")),
        suspended_at: None,
        created_at: now,
        updated_at: now,
    };
    tenant::Entity::insert(row.into_active_model())
        .exec_without_returning(db)
        .await
        .expect("inserts");
    let account = credit_account::Model::empty(tenant, 0);
    credit_account::Entity::insert(account.into_active_model())
        .exec_without_returning(db)
        .await
        .expect("inserts");
    let row = agent::Model {
        id: agent,
        tenant_id: tenant,
        name: "Ayu".into(),
        system_prompt: "You answer.".into(),
        voice_id: None,
        greeting_text: None,
        language: Language::default(),
        max_call_duration_minutes: 10,
        escalation_number: None,
        tools_enabled: "[]".into(),
        is_active: true,
        created_at: now,
        updated_at: now,
        version: 0,
        weight: 0,
    };
    agent::Entity::insert(row.into_active_model())
        .exec_without_returning(db)
        .await
        .expect("inserts");
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
    phone_number::Entity::insert(number.into_active_model())
        .exec_without_returning(db)
        .await
        .expect("inserts");
    let kind = TransactionType::Purchase;
    let credit = Credit {
        tenant,
        minutes: 10,
        kind,
        reference: None,
        description: None,
    };
    ledger::credit(store, &SystemClock, "node", credit)
        .await
        .expect("is booked");
}

fn incoming(bridge_call: &str) -> Incoming {
    Incoming {
        bridge_call_id: bridge_call.to_owned(),
        did: DID.parse().expect("a number"),
        caller_number: "+6281234567890".parse().expect("a caller"),
        metadata: None,
        at: None,
    }
}

fn answered() -> Input {
    Input::Answered {
        at: None,
        message_id: "m".to_owned(),
    }
}

fn hang_up() -> Input {
    let (reason, initiator) = (HangupReason::Normal, HangupInitiator::Caller);
    Input::HangUp {
        at: None,
        reason,
        initiator,
        ai_cost_idr: None,
    }
}

#[actix::test]
async fn a_call_whose_actor_panics_comes_back_from_the_store_and_others_go_on() {
    let world = World::new().await;
    let (broken, other) = (world.incoming("a").await, world.incoming("b").await);
    assert_eq!(world.tell(broken, answered()).await, Ok(Reply::Done));
    assert_eq!(world.tell(other, answered()).await, Ok(Reply::Done));
    for _ in 0..3 {
        assert!(world.calls.panic(broken).await.is_err());
    }
    assert_eq!(
        world.tell(broken, answered()).await,
        Ok(Reply::Done),
        "it is still answered"
    );
    assert_eq!(world.tell(broken, hang_up()).await, Ok(Reply::Done));
    assert_eq!(world.tell(other, hang_up()).await, Ok(Reply::Done));
    for call in [broken, other] {
        let row = world.row(call).await;
        assert_eq!(
            (row.status, row.ai_cost_idr),
            (CallStatus::Ended, Some(100))
        );
    }
    let report = ledger::verify(&world.store, None, SystemClock.now())
        .await
        .expect("is verified");
    assert_eq!(report.differences, Vec::<String>::new());
}

#[actix::test]
async fn a_call_that_keeps_panicking_is_settled_and_ended() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    assert_eq!(world.tell(call, answered()).await, Ok(Reply::Done));
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
    let report = ledger::verify(&world.store, None, SystemClock.now())
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
    // The first actor of all had the number 0.
    world.calls.died(call, 0);
    assert_eq!(world.calls.find(call).await, Ok(successor));
}

#[actix::test]
async fn a_sweep_and_a_message_bring_a_call_back_once() {
    let world = World::new().await;
    // Three actors a round: the call's first, the one in question, and one to show that this was one.
    for number in (1..60).step_by(3) {
        let call = world.incoming(&number.to_string()).await;
        let first = world.calls.find(call).await.expect("is there");
        world.calls.forget(call, &first);
        let lost = [call];
        let (sweep, message) = (world.calls.take_up(&lost), world.calls.find(call));
        let ((), found) = futures_util::future::join(sweep, message).await;
        assert_eq!(world.calls.find(call).await, found);
        world.calls.died(call, number);
        assert_ne!(world.calls.find(call).await, found, "there was another");
        assert_eq!(world.tell(call, hang_up()).await, Ok(Reply::Done));
    }
}

#[actix::test]
async fn a_top_up_is_told_to_the_tenants_own_calls_only() {
    let world = World::new().await;
    let call = world.incoming("a").await;
    let tenant = world.row(call).await.tenant_id;
    assert_eq!(world.calls.of_tenant(tenant), [call]);
    let another = TenantId::new(SystemClock.now());
    assert_eq!(world.calls.of_tenant(another), []);
}

impl Calls {
    async fn panic(&self, call: CallId) -> Result<(), CallError> {
        let addr = self.find(call).await?;
        addr.send(Panic).await.map_err(|_| CallError::Unavailable)
    }
}

/// What a call begins with is stored once for all calls, however heavy it is, and stays what it was.
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
        assert_eq!(settings.system_prompt.len(), 30_000);
    }
    let stored = agent_version::Entity::find()
        .all(db)
        .await
        .expect("is read");
    assert_eq!(stored.len(), 1);
    // The agent changes: a call that runs is not concerned, the next one is.
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
    let again = world.calls.incoming(world.bridge, incoming("1")).await;
    let Ok(Reply::Taken { call, agent }) = again else {
        panic!("the call is there: {again:?}");
    };
    assert_eq!(
        (call, agent["systemPrompt"].as_str().map(str::len)),
        (first, Some(30_000))
    );
    let minutes = versions::durations(db, &rows).await.expect("is read");
    assert_eq!(minutes.get(&first), Some(&10));
}
