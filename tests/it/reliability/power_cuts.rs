//! PostgreSQL crashes while commits wait for a slow disk, and restarts on the same log. It reuses the numbers of unflushed
//! transactions. Everything acknowledged is there nevertheless, and nothing that was repeated is there twice.

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use actix_web::rt;
use awc::http::Method;
use dikala_testkit::{OwnPostgres, Stop, within};
use futures_util::future::join_all;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::{
    task::spawn_blocking,
    time::{sleep, timeout},
};

use super::{
    fleet::{Fleet, FleetSettings, fresh},
    sizes::FaultForm,
};
use crate::support::{prelude::*, rest::RestResponse, tenant::text};

/// The simulated time of a flush to disk, in microseconds.
const FLUSH_US: u32 = 20_000;
const TENANTS: usize = 6;
/// Of this many clients one writes by REST and one books minutes. The others are bridges that ring over HTTP.
const KINDS: u64 = 6;
/// A client without an answer by then tries again.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);
const AGAIN_AFTER: Duration = Duration::from_millis(50);
/// After the last crash, every repeat is acknowledged within this time.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

/// Everything acknowledged: the ids that were returned, or the booked minutes.
#[derive(Default)]
struct AcknowledgedWrites {
    rung: RefCell<BTreeSet<String>>,
    ended: RefCell<BTreeSet<String>>,
    agents: RefCell<BTreeMap<String, String>>,
    samples: RefCell<BTreeSet<String>>,
    booked: RefCell<BTreeMap<String, String>>,
    /// Bookings that were answered 503, so their outcome is unknown.
    unknown: RefCell<BTreeSet<String>>,
    is_over: Cell<bool>,
}

/// A client of the service.
struct Client {
    rest: Rest,
    journal: Rc<AcknowledgedWrites>,
}

impl Client {
    async fn try_once(&self, path: &str, body: &Value, key: Option<&str>) -> Option<RestResponse> {
        let mut rest = self.rest.clone();
        if let Some(key) = key {
            rest = rest.with("idempotency-key", key);
        }
        let asked = rest.try_send(Method::POST, path, Some(body.clone()));
        timeout(ANSWERED_WITHIN, asked).await.ok()?.ok()
    }

    /// Repeats under the same key until it is accepted.
    async fn until(&self, path: &str, body: &Value, key: &str) -> Value {
        loop {
            match self.try_once(path, body, Some(key)).await {
                Some(answer) if answer.status < 300 => return answer.body,
                Some(answer) => assert!(
                    matches!(answer.status, 503 | 429 | 409),
                    "{path}: {} {}",
                    answer.status,
                    answer.text
                ),
                None => {}
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// The same message of a bridge until it is answered with more than "not now".
    async fn say(&self, mut message: Value) -> Value {
        message["id"] = json!(format!("p{}", fresh()));
        let body = json!({"messages": [message]});
        loop {
            let answer = self.try_once("/bridge/v1/messages", &body, None).await;
            if let Some(answer) = answer.filter(|answer| answer.status == 200) {
                let reply = &answer.body["replies"][0];
                let code = reply["error"]["code"].as_str().unwrap_or_default();
                if !matches!(code, "busy" | "unavailable") {
                    return reply.clone();
                }
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    async fn rings(&self, did: &str) {
        while !self.journal.is_over.get() {
            let ring = json!({
                "type": "call.incoming", "bridgeCallId": format!("sip-{}", fresh()), "did": did,
                "callerNumber": "+6281234567890",
            });
            let reply = self.say(ring).await;
            let call = text(&reply, "callId");
            self.journal.rung.borrow_mut().insert(call.clone());
            let hangup = json!({"type": "call.hangup", "callId": call});
            // A lost answer is counted in the end.
            if self.say(hangup).await["ok"] == true {
                self.journal.ended.borrow_mut().insert(call);
            }
        }
    }

    async fn writes(&self) {
        while !self.journal.is_over.get() {
            let name = format!("agent {}", fresh());
            let agent = json!({"name": name, "systemPrompt": "Answer kindly."});
            let made = self.until("/agents", &agent, &name).await;
            let id = text(&made, "id");
            self.journal.agents.borrow_mut().insert(name, id);
            let sample = json!({"event": "call.ended"});
            let answer = self.try_once("/events/sample", &sample, None).await;
            if let Some(answer) = answer.filter(|answer| answer.status == 202) {
                let id = text(&answer.body, "id");
                self.journal.samples.borrow_mut().insert(id);
            }
        }
    }

    /// Every other purchase has a key and is repeated under it. The others are tried once.
    async fn books(&self, tenant: &str) {
        let path = format!("/operator/v1/tenants/{tenant}/credits/transactions");
        while !self.journal.is_over.get() {
            let name = format!("purchase {}", fresh());
            let purchase = json!({"minutes": 1, "description": name});
            let booked = self.until(&path, &purchase, &name).await;
            let note = |name: String, booked: &Value| {
                let id = text(booked, "id");
                self.journal.booked.borrow_mut().insert(name, id);
            };
            note(name, &booked);
            let name = format!("purchase {}", fresh());
            let purchase = json!({"minutes": 1, "description": name});
            match self.try_once(&path, &purchase, None).await {
                Some(answer) if answer.status == 201 => note(name, &answer.body),
                other => {
                    let status = other.map(|answer| answer.status);
                    assert!(matches!(status, None | Some(503 | 429)), "{status:?}");
                    self.journal.unknown.borrow_mut().insert(name);
                }
            }
        }
    }
}

/// Nodes over a PostgreSQL whose commits take as long as on a slow disk.
pub async fn on_a_slow_disk(nodes: usize) -> Option<(Fleet, OwnPostgres)> {
    let postgres = OwnPostgres::start()?;
    let installation = Installation::at(postgres.place(postgres.port));
    postgres.sql(&format!("ALTER SYSTEM SET commit_delay = {FLUSH_US}"));
    postgres.sql("ALTER SYSTEM SET commit_siblings = 0");
    postgres.sql("SELECT pg_reload_conf()");
    let wanted = FleetSettings::nodes(nodes).tenants(TENANTS, 10_000_000);
    let mut fleet = Fleet::on(installation, wanted).await;
    fleet.postgres = Some(postgres.clone());
    Some((fleet, postgres))
}

#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn what_is_acknowledged_outlives_crashes_of_postgres() {
    let form = FaultForm::asked();
    let Some((fleet, postgres)) = on_a_slow_disk(1).await else {
        return;
    };
    let seed = form.size("SEED", 17, u64::from(rand::random::<u32>()));
    let times = form.size("CRASHES", 2, 50);
    let count = form.size("CLIENTS", 2 * KINDS, 6 * KINDS);
    println!("PostgreSQL crashes {times} times, DIKALA_FAULTS_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let journal = Rc::new(AcknowledgedWrites::default());
    let mut clients = Vec::new();
    for number in 0..count {
        let kind = number % KINDS;
        let tenant = fleet.tenants[number as usize / KINDS as usize % TENANTS].clone();
        let journal = journal.clone();
        let node = fleet.node(0);
        let (http, operator) = (node.http.clone(), node.operator.clone());
        clients.push(rt::spawn(async move {
            let client = |rest| Client { rest, journal };
            if kind > 1 {
                let bearer = format!("Bearer {}", tenant.token);
                let bridge = client(Rest::new(&http).with("authorization", &bearer));
                bridge.rings(&tenant.did).await;
            } else if kind == 1 {
                let api = Rest::new(&format!("{http}/api/v1")).with("x-api-key", &tenant.key);
                client(api).writes().await;
            } else {
                client(Rest::new(&operator)).books(&tenant.id).await;
            }
        }));
    }
    for _ in 0..times {
        let before = journal.rung.borrow().len();
        within(TAKEN_WITHIN, "calls to be taken", async || {
            (journal.rung.borrow().len() > before + clients.len()).then_some(())
        })
        .await;
        sleep(Duration::from_millis(random.random_range(0..1_500))).await;
        let away = Duration::from_millis(random.random_range(100..2_000));
        let crashing = postgres.clone();
        let crash = spawn_blocking(move || {
            crashing.stop(Stop::Immediate);
            std::thread::sleep(away);
            crashing.start_again();
        });
        crash.await.unwrap();
    }
    journal.is_over.set(true);
    let all = timeout(TAKEN_WITHIN, join_all(clients)).await;
    for client in all.expect("everybody is answered in the end") {
        client.unwrap();
    }
    all_is_there(&fleet, &journal).await;
}

/// Ids of a table by a distinguishing column.
async fn stored(fleet: &Fleet, columns: &str) -> BTreeMap<String, Vec<String>> {
    let mut stored: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let sql = format!("SELECT {columns} AND {}", fleet.own_rows());
    for [name, id] in fleet.rows::<2>(&sql).await {
        stored.entry(name).or_default().push(id);
    }
    stored
}

async fn all_is_there(fleet: &Fleet, journal: &AcknowledgedWrites) {
    let calls = stored(fleet, "id, status FROM calls WHERE TRUE").await;
    let events = stored(fleet, "id, kind FROM events WHERE TRUE").await;
    let agents = stored(fleet, "name, id FROM agents WHERE TRUE").await;
    let bookings = "description, id FROM credit_transactions WHERE description IS NOT NULL";
    let bookings = stored(fleet, bookings).await;
    let verdict = fleet.cli(&["ledger", "verify"]).await;
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
    let is_lost = |table: &BTreeMap<String, Vec<String>>, id: &String| !table.contains_key(id);
    let rung = journal.rung.borrow();
    let rings = rung.iter().filter(|call| is_lost(&calls, call)).count();
    let ended = journal.ended.borrow();
    let open = |call: &&String| {
        calls
            .get(*call)
            .is_some_and(|status| status == &["ringing"])
    };
    let ends = ended.iter().filter(open).count();
    let samples = journal.samples.borrow();
    let lost_samples = samples.iter().filter(|id| is_lost(&events, id)).count();
    let not_as = |stored: &BTreeMap<String, Vec<String>>, told: &BTreeMap<String, String>| {
        let differ = |(name, id): &(&String, &String)| {
            stored.get(*name).is_none_or(|ids| ids != &[(*id).clone()])
        };
        told.iter().filter(differ).count()
    };
    let made = journal.agents.borrow();
    let wrong_agents = not_as(&agents, &made);
    let booked = journal.booked.borrow();
    let wrong_bookings = not_as(&bookings, &booked);
    let unknown = journal.unknown.borrow();
    let twice = |name: &&String| bookings.get(*name).is_some_and(|ids| ids.len() > 1);
    println!(
        "  lost {rings} of {} rings, {ends} of {} ends, {lost_samples} of {} events, {wrong_agents} of {} agents, \
         {wrong_bookings} of {} purchases; of {} purchases nobody knows",
        rung.len(),
        ended.len(),
        samples.len(),
        made.len(),
        booked.len(),
        unknown.len(),
    );
    assert_eq!(unknown.iter().filter(twice).count(), 0, "booked twice");
    let lost = [rings, ends, lost_samples, wrong_agents, wrong_bookings];
    assert_eq!(lost, [0; 5], "acknowledged, and not there");
}
