//! Compares the simulation's tables with the real statements. Both get the same requests, in any order and by any owner. They
//! must answer alike and end in the same state. A guard that is changed in only one of them fails here.

use std::{cell::RefCell, rc::Rc, sync::Arc};

use dikala_entities::{credit_hold, credit_transaction, event};
use dikala_protocol::CalleeNames;
use sea_orm::QueryOrder;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::{
    calls::{
        ending::CallEnding,
        events,
        look_up::Callee,
        open::new_row,
        owned::update,
        ownership::take_over_addressed,
        simulated::{SimulatedOwnership, take_over},
    },
    commit::{CallWrite, CommitEntry, CommitHandle, simulated::SimulatedLedger},
    ledger::{Admission, Admit, Extend, Settle},
    nodes::lease::Reason,
    runtime::simulated::{
        chance::Chance,
        clock::{BEGAN, NodeClock, TrueTime},
        ids::Ids,
        tables::{EventRow, Tables},
        tasks::Tasks,
        wire::{NetworkRequest, SimulatedNetwork},
    },
};

const STEPS: usize = 120;
const OWNERS: [&str; 2] = ["node", "other"];

/// A request about a call, by its owner or another.
#[derive(Clone, Debug)]
enum Step {
    Admit(Option<i64>),
    Answer,
    Extend(i64, i64, i64),
    End(CallStatus, i64),
    Note,
    Credit(i64, i64),
    TakeOver,
}

fn step(chance: &mut Chance) -> Step {
    match chance.below(12) {
        0..=2 => Step::Admit(chance.happens(500).then_some(2)),
        3..=4 => Step::Answer,
        5..=6 => Step::Extend(
            chance.between(0, 3),
            chance.between(0, 3),
            chance.between(0, 4),
        ),
        7..=8 => Step::End(
            chance.pick(&[CallStatus::Ringing, CallStatus::Answered]),
            chance.between(0, 4),
        ),
        9 => Step::Note,
        10 => Step::Credit(chance.between(-3, 4), chance.between(0, 2)),
        _ => Step::TakeOver,
    }
}

/// The ledger and the tables of the simulation, where every request is answered at once.
struct Model {
    ledger: CommitHandle,
    tables: Tables,
    asks: UnboundedReceiver<NetworkRequest<Tables>>,
    tasks: Tasks,
}

impl Model {
    fn new() -> Self {
        let (wire, asks) = SimulatedNetwork::new();
        let clock = NodeClock::new(TrueTime::default(), 0, 0);
        let node = Membership::outside("node");
        let (books, ledger) = SimulatedLedger::new(wire, clock, node, None);
        let tasks = Tasks::default();
        tasks.spawn(books.run(|_| ()));
        Self {
            ledger,
            tables: Tables::default(),
            asks,
            tasks,
        }
    }

    fn wait_for<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let done = Rc::new(RefCell::new(None));
        let told = Rc::clone(&done);
        self.tasks.spawn(async move {
            let outcome = work.await;
            told.replace(Some(outcome));
        });
        loop {
            self.tasks.run();
            if let Some(outcome) = done.take() {
                return outcome;
            }
            let asked = self.asks.try_recv().expect("it asks for what it waits for");
            (asked.carry_out)(&mut self.tables, 0)();
        }
    }

    fn told(&self) -> Vec<String> {
        let tables = &self.tables;
        let mut events: Vec<&EventRow> = tables.events.iter().collect();
        events.sort_by_key(|event| event.position);
        let accounts = tables.accounts.values().map(|row| format!("{row:?}"));
        let calls = tables.calls.values().map(of_call);
        let holds = tables.holds.values().map(of_hold);
        let transactions = tables.transactions.iter().map(of_transaction);
        let events = events
            .into_iter()
            .map(|event| of_event(event.position, event.call, event.kind.as_str()));
        accounts
            .chain(calls)
            .chain(holds)
            .chain(transactions)
            .chain(events)
            .collect()
    }
}

fn of_call(row: &call::Model) -> String {
    format!(
        "{} {} of {} {}, {:?} {:?} {:?}",
        row.id,
        row.status,
        row.owner,
        row.epoch,
        row.pending,
        row.answered_at,
        row.talk_time_seconds
    )
}

fn of_hold(row: &credit_hold::Model) -> String {
    let credit_hold::Model { settled_at, .. } = row;
    let row = credit_hold::Model {
        created_at: BEGAN,
        settled_at: settled_at.map(|_| BEGAN),
        ..row.clone()
    };
    format!("{row:?}")
}

fn of_transaction(row: &credit_transaction::Model) -> String {
    // A transaction without a reference is keyed by its own id.
    let key = row.idempotency_key.split("txn_").next();
    format!("{} {key:?} {} {}", row.seq, row.minutes, row.balance_after)
}

fn of_event(position: i64, call: Option<CallId>, kind: &str) -> String {
    format!("{position} {call:?} {kind}")
}

async fn told_by_store(store: &Store) -> Vec<String> {
    let db = store.reader();
    let accounts = credit_account::Entity::find().all(db).await.expect("reads");
    let calls = call::Entity::find().order_by_asc(call::Column::Id);
    let holds = credit_hold::Entity::find().order_by_asc(credit_hold::Column::CallId);
    let transactions = credit_transaction::Entity::find();
    let transactions = transactions.order_by_asc(credit_transaction::Column::Seq);
    let events = event::Entity::find().order_by_asc(event::Column::Position);
    let events = events.all(db).await.expect("reads");
    let events = events
        .iter()
        .map(|row| of_event(row.position.unwrap_or(0), row.call_id, row.kind.as_str()));
    let accounts = accounts.iter().map(|row| format!("{row:?}"));
    let calls = calls.all(db).await.expect("reads");
    let holds = holds.all(db).await.expect("reads");
    let transactions = transactions.all(db).await.expect("reads");
    accounts
        .chain(calls.iter().map(of_call))
        .chain(holds.iter().map(of_hold))
        .chain(transactions.iter().map(of_transaction))
        .chain(events)
        .collect()
}

/// Returns the ledger's answer. `row` is the call as the requester believes it to be.
async fn ask(ledger: CommitHandle, step: Step, row: call::Model) -> String {
    let (call, tenant, epoch) = (row.id, row.tenant_id, row.epoch);
    let owner: Arc<str> = Arc::from(row.owner.as_str());
    let written =
        |row: &call::Model, was| CallWrite::Update(Box::new(update(row, was, row.last_sign_at)));
    match step {
        Step::Admit(max_concurrent) => {
            let admit = Admit {
                call,
                tenant,
                owner,
                epoch,
                max_concurrent,
            };
            let then = move |admission| match admission {
                Admission::Granted => CommitEntry {
                    call: Some(CallWrite::Insert(Box::new(row.clone()))),
                    events: vec![events::started(&row, BEGAN)],
                    ..CommitEntry::of(tenant)
                },
                Admission::Refused(_) => CommitEntry::of(tenant),
            };
            format!("{:?}", ledger.admit(admit, then).await)
        }
        Step::Answer => {
            let next = call::Model {
                status: CallStatus::Answered,
                answered_at: Some(BEGAN),
                ..row
            };
            let entry = CommitEntry {
                call: Some(written(&next, CallStatus::Ringing)),
                events: vec![events::answered(&next, BEGAN, BEGAN)],
                ..CommitEntry::of(tenant)
            };
            format!("{:?}", ledger.write(entry).await)
        }
        Step::Extend(request, started, want) => {
            let extend = Extend {
                call,
                tenant,
                owner,
                epoch,
                request,
                started,
                want,
            };
            format!("{:?}", ledger.extend(extend).await)
        }
        Step::End(was, minutes) => {
            let settle = Settle {
                call,
                tenant,
                owner,
                epoch,
                minutes,
            };
            let ending = CallEnding {
                status: CallStatus::Dropped,
                reason: HangupReason::BridgeLost,
                initiator: HangupInitiator::System,
                at: BEGAN,
                duration_seconds: 0,
                talk_seconds: minutes,
            };
            let then = move |_| {
                let next = call::Model {
                    status: ending.status,
                    talk_time_seconds: Some(minutes),
                    ..row.clone()
                };
                CommitEntry {
                    call: Some(CallWrite::Update(Box::new(update(
                        &next,
                        was,
                        row.last_sign_at,
                    )))),
                    events: vec![events::ended(&next, &ending, 0, BEGAN)],
                    ..CommitEntry::of(tenant)
                }
            };
            format!("{:?}", ledger.settle(settle, then).await)
        }
        Step::Note => {
            let next = call::Model {
                pending: Some("{}".to_owned()),
                ..row
            };
            let entry = CommitEntry {
                call: Some(written(&next, next.status)),
                ..CommitEntry::of(tenant)
            };
            format!("{:?}", ledger.write(entry).await)
        }
        Step::Credit(minutes, reference) => {
            let credit = Credit {
                tenant,
                minutes,
                kind: TransactionType::Adjustment,
                reference: (reference > 0).then(|| reference.to_string()),
                description: None,
            };
            let booked = ledger.credit(credit, None, |_| None).await;
            let booked = booked.map(|it| (of_transaction(&it.transaction), it.is_new));
            format!("{booked:?}")
        }
        Step::TakeOver => String::new(),
    }
}

/// The calls of the requests, not stored yet.
fn rows(deps: &CallDeps, tenant: TenantId) -> Vec<call::Model> {
    let ids = Ids::of(2);
    let callee = Callee {
        tenant,
        plan: Plan::Starter,
        is_suspended: false,
        max_concurrent: None,
        number: Some(PhoneNumberId::new(BEGAN)),
        draft: None,
        number_active: true,
        agent: None,
        agent_active: true,
        names: CalleeNames::default(),
    };
    let bridge = BridgeId::new(BEGAN);
    let row = |number: i64| {
        let came = incoming(&format!("phone {number}"));
        new_row(deps, ids.next("call", BEGAN), bridge, came, &callee, BEGAN)
    };
    (0..4).map(row).collect()
}

#[actix::test]
async fn the_tables_of_the_simulation_keep_what_the_statements_keep() {
    let mut answers = std::collections::BTreeSet::new();
    for seed in 0..5 {
        let world = World::with_clock(Arc::new(ManualClock::new(BEGAN))).await;
        let deps = Arc::clone(world.calls.deps());
        let account = credit_account::Entity::find()
            .one(world.store.reader())
            .await;
        let account = account.expect("reads").expect("is there");
        let mut model = Model::new();
        let booked = credit_transaction::Entity::find()
            .all(world.store.reader())
            .await;
        model.tables.transactions = booked.expect("reads");
        let tenant = account.tenant_id;
        model.tables.accounts.insert(tenant, account);
        let (rows, mut chance) = (rows(&deps, tenant), Chance::new(seed));
        for number in 0..STEPS {
            let step = step(&mut chance);
            let row = call::Model {
                owner: chance.pick(&OWNERS).to_owned(),
                epoch: chance.between(1, 2),
                ..rows[usize::try_from(chance.below(4)).expect("small")].clone()
            };
            // Usually the requester knows the call's current state.
            let known = model.tables.calls.get(&row.id);
            let row = known
                .filter(|_| chance.happens(700))
                .cloned()
                .unwrap_or(row);
            let told = format!("seed {seed}, step {number}: {step:?} of {row:?}");
            if matches!(step, Step::TakeOver) {
                let me = chance.pick(&OWNERS);
                let taker = CallDeps {
                    node: Membership::outside(me),
                    ..(*deps).clone()
                };
                take_over_addressed(&taker, &row).await.expect("takes");
                take_over(
                    &mut model.tables,
                    &[SimulatedOwnership::from(&row)],
                    me,
                    Reason::SpokenTo,
                );
            } else {
                let real = ask(deps.ledger.clone(), step.clone(), row.clone()).await;
                let simulated = model.wait_for(ask(model.ledger.clone(), step, row));
                assert_eq!(real, simulated, "{told}");
                answers.insert(real);
            }
            assert_eq!(told_by_store(&world.store).await, model.told(), "{told}");
        }
    }
    // Otherwise no guard was tested.
    assert!(answers.len() > 20, "{answers:?}");
}
