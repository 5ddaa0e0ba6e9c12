//! The checker: after any fault, it compares everything acknowledged with everything stored: minutes, states,
//! events, and that nothing stays open.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dikala_testkit::within;

use super::{
    fleet::{Fleet, endpoint, hook},
    journal::Journal,
};
use crate::support::{prelude::*, rest::RestResponse, scrape::Scrape};

/// Time for all work after the last message; a dead node's share is taken over within 20 s.
const SETTLED_WITHIN: Duration = Duration::from_secs(120);

/// Rows that must be gone when no call is active: table and condition.
const OPEN: [(&str, &str); 6] = [
    ("open calls", "calls WHERE outcome IS NULL"),
    ("open holds", "credit_holds WHERE settled_at IS NULL"),
    ("waiting commands", "bridge_commands WHERE TRUE"),
    ("functions under way", "invocation_claims WHERE TRUE"),
    // A first attempt that is under way has no row yet.
    (
        "events before their first attempt",
        "events WHERE subscribers LIKE 'wh_%' AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.event_id = events.id)",
    ),
    ("pending deliveries", "deliveries WHERE status = 'pending'"),
];
/// Tables without a tenant.
const SHARED: [&str; 2] = ["bridge_commands", "invocation_claims"];

/// Checks all guarantees after a load has ended.
pub async fn check(fleet: &Fleet, journal: &Journal) {
    println!("  {}", journal.figures());
    nothing_stays_open(fleet, &OPEN).await;
    calls_are_as_acknowledged(fleet, journal).await;
    bank(fleet, journal).await;
    let repeated = events(fleet, journal).await;
    functions(fleet, journal).await;
    agents(fleet, journal).await;
    println!("  {repeated} deliveries came again, all with the id of the first");
}

/// Checks what holds if the newest acknowledged writes may be lost: nothing is open, the ledger balances, and no
/// event position is used twice. Returns the numbers of lost calls and agents.
pub async fn check_what_is_left(fleet: &Fleet, journal: &Journal) -> (usize, usize) {
    println!("  {}", journal.figures());
    // A claim whose deletion was lost is back, and stays for a quarter of an hour.
    let mut open = OPEN.to_vec();
    open.retain(|(_, of)| !of.starts_with("invocation_claims"));
    nothing_stays_open(fleet, &open).await;
    ledger(fleet).await;
    places(fleet).await;
    let calls_there: BTreeSet<String> = ids(fleet, "calls").await;
    let agents_there = ids(fleet, "agents").await;
    let calls = journal.calls.borrow();
    let lost_calls = calls
        .keys()
        .filter(|call| !calls_there.contains(*call))
        .count();
    let agents = journal.agents.borrow();
    let lost_agents = agents
        .iter()
        .filter(|(id, made)| !made.deleted && !agents_there.contains(*id));
    (lost_calls, lost_agents.count())
}

async fn ids(fleet: &Fleet, table: &str) -> BTreeSet<String> {
    let sql = format!("SELECT id FROM {table} WHERE {}", fleet.own_rows());
    let rows = fleet.rows::<1>(&sql).await;
    rows.into_iter().map(|[id]| id).collect()
}

async fn ledger(fleet: &Fleet) {
    let verdict = fleet.cli(&["ledger", "verify"]).await;
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
}

async fn places(fleet: &Fleet) {
    let twice = format!(
        "SELECT tenant_id FROM events WHERE position IS NOT NULL AND {} \
         GROUP BY tenant_id, position HAVING COUNT(*) > 1",
        fleet.own_rows()
    );
    let twice = fleet.rows::<1>(&twice).await;
    assert!(
        twice.is_empty(),
        "places in the order of events were given twice"
    );
}

async fn nothing_stays_open(fleet: &Fleet, open: &[(&str, &str)]) {
    for (what, of) in open {
        let is_shared = SHARED.iter().any(|table| of.starts_with(table));
        let of = match is_shared {
            true => (*of).to_owned(),
            false => format!("{of} AND {}", fleet.own_rows()),
        };
        within(SETTLED_WITHIN, &format!("no {what}"), async || {
            (fleet.count(&of).await == 0).then_some(())
        })
        .await;
    }
    for node in fleet.running() {
        within(SETTLED_WITHIN, "no active calls in /metrics", async || {
            let scrape = Scrape::of(&node.operator).await;
            let active = |status| scrape.value("dikala_calls_active", &[("status", status)]);
            let nobody = |status| active(status) < 0.5;
            (nobody("ringing") && nobody("answered")).then_some(())
        })
        .await;
    }
}

/// Asserts that each call has the status and talk time that its bridge knows, that none is stored twice, and that
/// none is unknown.
async fn calls_are_as_acknowledged(fleet: &Fleet, journal: &Journal) {
    let sql = format!(
        "SELECT id, bridge_call_id, status, CAST(COALESCE(talk_time_seconds, 0) AS TEXT) FROM calls WHERE {}",
        fleet.own_rows()
    );
    let mut rows = HashMap::new();
    for [id, bridge_call, status, talk] in fleet.rows::<4>(&sql).await {
        rows.insert(id, (bridge_call, status, talk));
    }
    for (call, entry) in journal.calls.borrow().iter() {
        let Some((bridge_call, status, talk)) = rows.remove(call) else {
            panic!("{call} was acknowledged and is lost: {entry:?}");
        };
        let talked = if entry.costs() > 0 {
            entry.talk_seconds
        } else {
            0
        };
        assert_eq!(
            (&*bridge_call, &*status, talk),
            (&*entry.bridge_call, entry.status(), talked.to_string()),
            "{call}: {entry:?}"
        );
    }
    assert!(rows.is_empty(), "calls that no bridge knows: {rows:?}");
}

/// Asserts that each tenant has its granted minutes minus the cost of its calls.
async fn bank(fleet: &Fleet, journal: &Journal) {
    let mut costs = vec![0; fleet.tenants.len()];
    for entry in journal.calls.borrow().values() {
        costs[entry.tenant] += entry.costs();
    }
    for (tenant, cost) in fleet.tenants.iter().zip(&costs) {
        let answer: RestResponse = rest(fleet, &tenant.key).get("/credits").await;
        let page = answer.expect(200);
        let figure = |name: &str| page[name].as_i64().unwrap();
        assert_eq!(figure("lifetimeUsedMinutes"), *cost, "{page}");
        let left = figure("lifetimePurchasedMinutes") - cost;
        assert_eq!(figure("balanceMinutes"), left, "{page}");
    }
    println!(
        "  {} minutes used, each tenant's exact",
        costs.iter().sum::<i64>()
    );
    ledger(fleet).await;
}

/// Asserts that every event of every acknowledged step arrived, once by id and by position in the tenant's order.
/// Returns the number of repeated deliveries.
async fn events(fleet: &Fleet, journal: &Journal) -> usize {
    let mut came: HashMap<String, BTreeMap<String, BTreeSet<String>>> = HashMap::new();
    let (mut deliveries, mut distinct) = (0, 0);
    for tenant in 0..fleet.tenants.len() {
        let path = hook(tenant);
        deliveries += fleet.receiver.received(&path).len();
        // Verifies every signature, and that all attempts have the same bytes.
        for event in fleet.receiver.events(&path, SECRET) {
            distinct += 1;
            let call = event.data["callId"].as_str().unwrap_or_default().to_owned();
            let kinds = came.entry(call).or_default();
            kinds.entry(event.kind).or_default().insert(event.id);
        }
    }
    for (call, entry) in journal.calls.borrow().iter() {
        let kinds = came.remove(call).unwrap_or_default();
        let told: BTreeSet<&str> = kinds.keys().map(String::as_str).collect();
        assert_eq!(told, entry.announced(), "{call}: {entry:?}");
        for (kind, ids) in kinds {
            assert_eq!(ids.len(), 1, "{call} announced {kind} as {ids:?}");
        }
    }
    came.remove("");
    assert!(
        came.is_empty(),
        "calls that nobody knows announced {came:?}"
    );
    places(fleet).await;
    deliveries - distinct
}

/// Asserts that each invoked function has the one outcome that its bridge received, and that its endpoint was
/// called once: a dead node's invocation is not repeated.
async fn functions(fleet: &Fleet, journal: &Journal) {
    let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for tenant in 0..fleet.tenants.len() {
        for request in fleet.receiver.received(&endpoint(tenant)) {
            let call = request.json()["callId"].as_str().unwrap().to_owned();
            let request = format!("{:?} {:?}", request.arrived, request.headers);
            asked.entry(call).or_default().push(request);
        }
    }
    let rows = fleet
        .rows::<2>("SELECT call_id, outcome FROM invocations")
        .await;
    let mut stored: BTreeMap<String, Value> = BTreeMap::new();
    for [call, outcome] in rows {
        let before = stored.insert(call.clone(), serde_json::from_str(&outcome).unwrap());
        assert!(before.is_none(), "{call} has two outcomes");
    }
    let mut answered = 0;
    for (call, outcome) in journal.outcomes.borrow().iter() {
        assert_eq!(stored.remove(call).as_ref(), Some(outcome), "{call}");
        let requests = asked.remove(call).unwrap_or_default();
        let least = usize::from(outcome["status"] == "ok");
        assert!(
            (least..=1).contains(&requests.len()),
            "{call} was asked for by {requests:#?}: {outcome}"
        );
        if least == 1 {
            assert_eq!(*outcome, json!({"status": "ok", "result": {"order": call}}));
            answered += 1;
        }
    }
    assert!(
        stored.is_empty(),
        "outcomes that no bridge was told: {stored:?}"
    );
    let all = journal.outcomes.borrow().len();
    println!("  {answered} of {all} functions were answered, none has two outcomes");
    assert!(
        answered * 2 >= all,
        "the others could not ask the tenant's server"
    );
}

/// Asserts that created agents exist with their last names, once each, and deleted ones do not.
async fn agents(fleet: &Fleet, journal: &Journal) {
    for (number, tenant) in fleet.tenants.iter().enumerate() {
        let page = rest(fleet, &tenant.key).get("/agents").await.expect(200);
        let page = page["agents"].as_array().unwrap();
        let mut there: BTreeMap<_, _> = page
            .iter()
            .filter(|agent| agent["id"] != *tenant.agent)
            .map(|agent| (agent["id"].as_str().unwrap(), &agent["name"]))
            .collect();
        for (id, made) in journal.agents.borrow().iter() {
            if made.tenant != number {
                continue;
            }
            match (there.remove(&**id), made.deleted) {
                (Some(name), false) => assert_eq!(*name, *made.name, "{id}"),
                (None, true) => {}
                (Some(_), true) => panic!("{id} was deleted and is there"),
                (None, false) => panic!("{id} was acknowledged and is lost: {made:?}"),
            }
        }
        assert!(there.is_empty(), "agents that nobody made: {there:?}");
    }
}

fn rest(fleet: &Fleet, key: &str) -> Rest {
    let node = fleet.running().next().unwrap();
    Rest::new(&format!("{}/api/v1", node.http)).with("x-api-key", key)
}
