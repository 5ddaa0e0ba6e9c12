//! Repeated `kill -9` under load: every committed event arrives, and only deliveries in flight arrive twice.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    time::Instant,
};

use actix_web::rt;

use crate::support::{prelude::*, tenant::Tenant, world::ALL_EVENTS};

/// Deliveries of each process before it is killed: during the load, and just after the start.
const KILLED_AFTER: [usize; 6] = [300, 1, 500, 60, 5, 150];
const MAX_IN_FLIGHT: usize = 16;
const TENANTS: usize = 4;
const HOOKS: usize = 3;
/// Concurrent calls of a tenant.
const CALLERS: usize = 6;
/// Time after a restart until every endpoint with pending deliveries gets some.
const GOES_ON_WITHIN: Duration = Duration::from_secs(15);
/// An answer older than this was recorded, however busy the machine.
const RECORDED_WITHIN: Duration = Duration::from_secs(5);

/// A killed process as seen from outside.
struct KilledProcess {
    at: Instant,
    /// Number of requests received by then, from all processes.
    requests: usize,
    /// Deliveries that were not recorded, with the paths of their endpoints.
    pending: HashMap<OwedDelivery, String>,
}

/// An event and a webhook.
type OwedDelivery = [String; 2];

#[rstest]
#[actix_web::test]
async fn kills_lose_nothing_and_repeat_only_what_was_in_flight(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new()
        .minutes(10_000)
        .set("webhooks.max_in_flight", MAX_IN_FLIGHT);
    let mut world = world!(store, setup);
    let mut tenants = Vec::new();
    let mut hooks = HashMap::new();
    for number in 0..TENANTS {
        let tenant = world.another_tenant(10_000).await;
        for hook in 0..HOOKS {
            let path = format!("/hooks/{number}/{hook}");
            // Slow enough that some are always in flight.
            let slow = ServerAnswer::Slow(Duration::from_millis(10));
            world.receiver.answer(&path, [slow]);
            let url = world.receiver.url(&path);
            let id = tenant.subscribe(&url, &ALL_EVENTS, SECRET).await;
            hooks.insert(id, path);
        }
        tenants.push(tenant);
    }

    let mut kills = Vec::new();
    for deliveries in KILLED_AFTER {
        begin_calls(&tenants).await;
        let wanted = world.receiver.total() + deliveries;
        eventually(&format!("{wanted} requests before a kill"), async || {
            (world.receiver.total() >= wanted).then_some(())
        })
        .await;
        let killed = kill(&mut world, &hooks).await;
        world.server.restart();
        goes_on(&world.receiver, &killed, Instant::now()).await;
        kills.push(killed);
    }
    every_event_arrives(&world, &hooks).await;
    assert_eq!(world.server.terminate().await, 0);
    let requests = world.receiver.settled().await;
    only_what_was_in_flight_arrives_twice(&requests, &hooks, &kills);
}

/// The delivery of a request.
fn owed(request: &ReceivedRequest, hooks: &HashMap<String, String>) -> Option<OwedDelivery> {
    let event = request.headers.get("webhook-id")?;
    let (hook, _) = hooks.iter().find(|(_, path)| **path == request.path)?;
    Some([event.clone(), hook.clone()])
}

/// Calls ring, are answered and end, many at a time, until the server is gone.
async fn begin_calls(tenants: &[Tenant]) {
    for tenant in tenants {
        let bridge = Rc::new(tenant.bridge(Socket).await);
        for _ in 0..CALLERS {
            rt::spawn(call_again_and_again(bridge.clone(), tenant.did.clone()));
        }
    }
}

async fn call_again_and_again(bridge: Rc<TestBridge>, did: String) {
    let ask = async |message: Value| {
        if !bridge.is_open() {
            return None;
        }
        let reply = bridge.begin(&message).reply_if_any().await?;
        assert_eq!(reply["ok"], true, "{message}: {reply}");
        Some(reply)
    };
    loop {
        let mut incoming = bridge.message(
            "call.incoming",
            json!({"did": did, "callerNumber": "+6281"}),
        );
        incoming["bridgeCallId"] = incoming["id"].clone();
        let Some(reply) = ask(incoming).await else {
            return;
        };
        for kind in ["call.answered", "call.hangup"] {
            let message = bridge.message(kind, json!({"callId": reply["callId"]}));
            if ask(message).await.is_none() {
                return;
            }
        }
    }
}

async fn kill(world: &mut TestWorld, hooks: &HashMap<String, String>) -> KilledProcess {
    world.server.kill9();
    let at = Instant::now();
    let requests = world.receiver.settled().await.len();
    let pending = "SELECT e.id, w.id FROM events e JOIN webhooks w ON w.tenant_id = e.tenant_id \
        LEFT JOIN deliveries d ON d.event_id = e.id AND d.webhook_id = w.id \
        WHERE e.subscribers LIKE '%' || w.id || '%' AND (d.id IS NULL OR d.status = 'pending')";
    let pending: Vec<OwedDelivery> = world.server.installation.store.rows(pending).await;
    let path = |owed: OwedDelivery| Some((owed.clone(), hooks.get(&owed[1])?.clone()));
    KilledProcess {
        at,
        requests,
        pending: pending.into_iter().filter_map(path).collect(),
    }
}

/// Asserts that every endpoint with pending deliveries soon gets some, without new events. A kill just after a
/// start may have found nothing pending.
async fn goes_on(receiver: &TenantServer, killed: &KilledProcess, ready: Instant) {
    let mut waiting: HashSet<_> = killed.pending.values().collect();
    let mut last = ready;
    eventually("endpoints to get what was left", async || {
        for request in receiver.since(killed.requests) {
            if waiting.remove(&request.path) {
                last = last.max(request.arrived);
            }
        }
        waiting.is_empty().then_some(())
    })
    .await;
    let took = last - ready;
    assert!(took <= GOES_ON_WITHIN, "delivery went on after {took:?}");
}

/// Asserts that each stored event arrives, signed, at each of its tenant's webhooks.
async fn every_event_arrives(world: &TestWorld, hooks: &HashMap<String, String>) {
    let owed = "SELECT events.id, webhooks.id FROM events \
        JOIN webhooks ON webhooks.tenant_id = events.tenant_id";
    let owed: Vec<[String; 2]> = world.server.installation.store.rows(owed).await;
    assert!(
        owed.len() > KILLED_AFTER.iter().sum::<usize>(),
        "{}",
        owed.len()
    );
    eventually("every event at every webhook", async || {
        let mut came = HashSet::new();
        for path in hooks.values() {
            let events = world.receiver.events(path, SECRET);
            came.extend(events.into_iter().map(|event| (event.id, path)));
        }
        let missing = owed
            .iter()
            .filter(|[event, hook]| !came.contains(&(event.clone(), &hooks[hook])));
        (missing.count() == 0).then_some(())
    })
    .await;
}

/// Asserts that no process sends a delivery twice. A delivery sent by two processes was unrecorded when the first
/// was killed: its request was in flight, or its answer had just arrived.
fn only_what_was_in_flight_arrives_twice(
    requests: &[ReceivedRequest],
    hooks: &HashMap<String, String>,
    kills: &[KilledProcess],
) {
    let process = |request: usize| kills.partition_point(|killed| killed.requests <= request);
    let mut last_sent = HashMap::new();
    let mut repeated = vec![Vec::new(); kills.len()];
    for (number, request) in requests.iter().enumerate() {
        let Some(owed) = owed(request, hooks) else {
            continue;
        };
        let Some(before) = last_sent.insert(owed.clone(), number) else {
            continue;
        };
        assert_ne!(
            process(before),
            process(number),
            "{owed:?} was sent twice by one process"
        );
        for killed in &kills[process(before)..process(number)] {
            assert!(
                killed.pending.contains_key(&owed),
                "{owed:?} was sent again although it was recorded"
            );
        }
        repeated[process(before)].push(&requests[before]);
    }
    for (killed, repeated) in kills.iter().zip(&repeated) {
        let answered = |request: &&&ReceivedRequest| request.answered.filter(|at| *at < killed.at);
        let unrecorded: Vec<_> = repeated
            .iter()
            .filter_map(|request| answered(&request))
            .collect();
        let in_flight = repeated.len() - unrecorded.len();
        println!(
            "{in_flight} in flight and {} unrecorded at a kill came again",
            unrecorded.len()
        );
        assert!(
            in_flight <= MAX_IN_FLIGHT,
            "{in_flight} repeated requests were in flight at once"
        );
        for at in unrecorded {
            let age = killed.at - at;
            assert!(
                age < RECORDED_WITHIN,
                "an attempt that was answered {age:?} before the kill was made again"
            );
        }
    }
    let met = repeated.iter().filter(|of_one| !of_one.is_empty()).count();
    assert!(
        met >= kills.len() / 2,
        "only {met} kills met a request in flight"
    );
}
