//! Bridges whose messages are duplicated, delayed, reordered or lost, and bridges that are disconnected for a
//! while.

use std::{rc::Rc, time::Instant};

use actix_web::rt;
use dikala_testkit::within;
use futures_util::{StreamExt, stream};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::time::sleep;

use super::{
    check::check,
    fleet::{Fleet, FleetSettings},
    journal::{AcknowledgedCall, FinalAnswer, Journal},
    load::{LoadBridge, read},
    sizes::FaultForm::{self, Long, Short},
};
use crate::support::prelude::*;

/// Frequencies of faults, per hundred messages.
const DOUBLED: u32 = 20;
const DELAYED: u32 = 20;
const REORDERED: u32 = 20;
const DROPPED: u32 = 5;

/// A network between bridges and two nodes that loses, duplicates and delays messages.
struct FaultyNetwork {
    lines: [Rc<LoadBridge>; 2],
    latest: Duration,
    /// Delayed copies in transit.
    late: std::cell::RefCell<Vec<rt::task::JoinHandle<()>>>,
    mangled: std::cell::Cell<[usize; 4]>,
}

/// The network's treatment of one message.
#[derive(Clone, Copy, Debug)]
struct MessageFate {
    at: usize,
    dropped: bool,
    doubled: bool,
    delay: Option<Duration>,
}

impl FaultyNetwork {
    fn count(&self, what: usize) {
        let mut counts = self.mangled.get();
        counts[what] += 1;
        self.mangled.set(counts);
    }

    fn fate(&self, random: &mut StdRng) -> MessageFate {
        let mut chance = |percent| random.random_ratio(percent, 100);
        let [dropped, doubled, delayed] = [DROPPED, DOUBLED, DELAYED].map(&mut chance);
        for (what, happens) in [dropped, doubled, delayed].into_iter().enumerate() {
            if happens {
                self.count(what);
            }
        }
        MessageFate {
            at: random.random_range(0..2),
            dropped,
            doubled,
            delay: delayed.then(|| self.latest.mul_f32(random.random())),
        }
    }

    /// Sends a message until it is answered. The network decides when and where copies arrive.
    async fn say(self: &Rc<Self>, message: &Value, random: &mut StdRng) -> FinalAnswer {
        self.answer(message, random).await.1
    }

    async fn answer(self: &Rc<Self>, message: &Value, random: &mut StdRng) -> (Value, FinalAnswer) {
        let fate = self.fate(random);
        let line = self.lines[fate.at].clone();
        if let Some(delay) = fate.delay {
            // The delayed copy arrives in any case, however often the message was sent again by then.
            let (line, message) = (line.clone(), message.clone());
            self.late.borrow_mut().push(rt::spawn(async move {
                sleep(delay).await;
                line.say(&message).await;
            }));
        }
        if fate.doubled {
            let (other, message) = (self.lines[1 - fate.at].clone(), message.clone());
            self.late.borrow_mut().push(rt::spawn(async move {
                other.say(&message).await;
            }));
        }
        if fate.dropped || fate.delay.is_some() {
            // The reply is lost, so the bridge sends the message again.
            sleep(Duration::from_millis(500)).await;
        }
        let reply = line.say(message).await;
        let meaning = if reply["error"].is_null() || message["callId"].is_string() {
            read(&reply)
        } else {
            panic!("{message}: {reply}")
        };
        (reply, meaning)
    }

    /// One call; in some, the hang-up overtakes the answer.
    async fn call(self: Rc<Self>, journal: Rc<Journal>, mut random: StdRng) {
        let line = &self.lines[0];
        let talk_seconds = i64::from(random.random_range(1..=200));
        let started = Moment::ago(talk_seconds + 10);
        let bridge_call = format!("sip-{}", super::fleet::fresh());
        let incoming = line.message(
            "call.incoming",
            json!({"bridgeCallId": bridge_call, "did": line.tenant.did, "callerNumber": "+6281", "at": started.text()}),
        );
        let (reply, _) = self.answer(&incoming, &mut random).await;
        assert_eq!(reply["action"], "answer", "{reply}");
        let call = crate::support::tenant::text(&reply, "callId");
        let at = |seconds| started.plus(seconds).text();
        let about = |kind: &str, mut fields: Value| {
            fields["callId"] = json!(call);
            line.message(kind, fields)
        };
        let answered = about("call.answered", json!({"at": at(2)}));
        let told = about("call.transcript", json!({"summary": "The way."}));
        let ended = about("call.hangup", json!({"at": at(2 + talk_seconds)}));
        let mut entry = AcknowledgedCall {
            tenant: line.number,
            bridge_call,
            talk_seconds,
            answered: FinalAnswer::None,
            called: FinalAnswer::None,
            told: FinalAnswer::None,
            ended: FinalAnswer::None,
        };
        if random.random_ratio(REORDERED, 100) {
            self.count(3);
            entry.ended = self.say(&ended, &mut random).await;
            entry.answered = self.say(&answered, &mut random).await;
        } else {
            entry.answered = self.say(&answered, &mut random).await;
            entry.ended = self.say(&ended, &mut random).await;
        }
        entry.told = self.say(&told, &mut random).await;
        assert_eq!(entry.ended, FinalAnswer::Ok);
        journal.calls.borrow_mut().insert(call.clone(), entry);
    }
}

#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn messages_that_are_doubled_late_reordered_and_lost_do_no_harm() {
    let form = FaultForm::asked();
    let Some(fleet) = Fleet::start(Postgres, FleetSettings::nodes(2).tenants(1, 10_000_000)).await
    else {
        return;
    };
    let seed = form.size("SEED", 13, u64::from(rand::random::<u32>()));
    let calls = form.size("CALLS", 100, 5_000);
    let latest = Duration::from_secs(form.size("DELAY_SECONDS", 5, 120));
    println!("{calls} calls over a network that mangles, DIKALA_FAULTS_SEED={seed}");
    let journal = Journal::new();
    let wild = Rc::new(FaultyNetwork {
        lines: [0, 1].map(|node| LoadBridge::new(&fleet, 0, node, &journal)),
        latest,
        late: std::cell::RefCell::default(),
        mangled: std::cell::Cell::default(),
    });
    let mut random = StdRng::seed_from_u64(seed);
    let began = Instant::now();
    let all = (0..calls).map(|_| {
        let call = wild
            .clone()
            .call(journal.clone(), StdRng::from_rng(&mut random));
        async move { rt::spawn(call).await.expect("a call goes through") }
    });
    let all: Vec<_> = all.collect();
    stream::iter(all)
        .buffer_unordered(100)
        .collect::<Vec<_>>()
        .await;
    let late = std::mem::take(&mut *wild.late.borrow_mut());
    for copy in late {
        copy.await.expect("a late copy is answered");
    }
    let [dropped, doubled, delayed, reordered] = wild.mangled.get();
    println!(
        "  {dropped} messages dropped, {doubled} doubled at the other node, {delayed} delayed by up to {latest:?}, {reordered} ends \
         that overtook answers; {:.0?}",
        began.elapsed()
    );
    check(&fleet, &journal).await;
}

/// Data in a node's memory about a call that moved and ended within a second no longer count.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn a_call_that_ended_at_the_other_node_is_active_nowhere() {
    let Some(fleet) = Fleet::start(Postgres, FleetSettings::nodes(2).tenants(1, 100)).await else {
        return;
    };
    let journal = Journal::new();
    let lines = [0, 1].map(|node| LoadBridge::new(&fleet, 0, node, &journal));
    for _ in 0..10 {
        let call = lines[0].ring(Moment::now(), 0).await;
        let ended = lines[1].about("call.hangup", &call, json!({})).await;
        journal.note(&call, |entry| entry.ended = ended);
    }
    check(&fleet, &journal).await;
}

/// Durations of a bridge's absence in a form.
struct Limits {
    lost_after: u64,
    /// Shorter than the limit.
    short: [u64; 2],
    long: u64,
    calls: u64,
}

fn limits(form: FaultForm) -> Limits {
    let calls = form.size("CALLS", 40, 500);
    match form {
        Short => Limits {
            lost_after: 12,
            short: [1, 5],
            long: 15,
            calls,
        },
        Long => Limits {
            lost_after: 30,
            short: [5, 29],
            long: form.size("CUT_SECONDS", 600, 600),
            calls,
        },
    }
}

/// A bridge with running calls is disconnected and returns at the other node.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_bridge_that_is_cut_keeps_its_calls_as_long_as_it_may() {
    let form = FaultForm::asked();
    let limits = limits(form);
    let wanted = FleetSettings::nodes(2)
        .tenants(1, 1_000_000)
        .set("bridge.lost_after_seconds", limits.lost_after);
    let Some(fleet) = Fleet::start(Postgres, wanted).await else {
        return;
    };
    let journal = Journal::new();
    let line = LoadBridge::new(&fleet, 0, 0, &journal);
    let rung = (0..limits.calls).map(|_| begin(&line, &journal));
    let calls: Vec<String> = stream::iter(rung).buffered(50).collect().await;
    for (times, away) in limits.short.into_iter().enumerate() {
        line.cut(true, 0);
        sleep(Duration::from_secs(away)).await;
        line.cut(false, times + 1);
        let reply = line
            .say(&line.message("heartbeat", json!({"activeCalls": calls})))
            .await;
        assert_eq!(reply["ended"], json!([]), "lost after {away} s");
        println!("cut for {away} s with {} calls: none lost", calls.len());
    }
    // Some calls end normally at the bridge's new node; the others are disconnected for too long.
    let (ended, lost) = calls.split_at(calls.len() / 5);
    for call in ended {
        line.about("call.hangup", call, json!({})).await;
    }
    let last_sign = Moment::now();
    line.cut(true, 0);
    let patience = Duration::from_secs(limits.lost_after + 30);
    within(patience, "every call to be over", async || {
        let open = fleet.count("calls WHERE outcome IS NULL").await;
        (open == 0).then_some(())
    })
    .await;
    let over = Moment::now().ms_since(last_sign);
    sleep(
        Duration::from_secs(limits.long).saturating_sub(Duration::from_millis(over.unsigned_abs())),
    )
    .await;
    line.cut(false, 0);
    let reply = line
        .say(&line.message("heartbeat", json!({"activeCalls": lost})))
        .await;
    assert_eq!(reply["ended"].as_array().unwrap().len(), lost.len());
    let tenant = &fleet.tenants[0];
    let mut furthest = 0;
    for call in tenant
        .calls()
        .await
        .iter()
        .filter(|call| lost.iter().any(|id| call["id"] == **id))
    {
        assert_eq!(
            [&call["status"], &call["hangupReason"]],
            ["dropped", "bridge_lost"]
        );
        furthest = furthest.max(Moment::parse(&call["endedAt"]).ms_since(last_sign).abs());
    }
    println!(
        "cut for {} s: {} calls over after {over} ms, billed to {furthest} ms from the last sign of life at most",
        limits.long,
        lost.len()
    );
    assert!(
        furthest <= 5_000,
        "billed to {furthest} ms from the last sign of life"
    );
    let verdict = fleet.cli(&["ledger", "verify"]).await;
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
}

/// A call that is answered now.
async fn begin(line: &Rc<LoadBridge>, journal: &Rc<Journal>) -> String {
    let call = line.ring(Moment::now(), 0).await;
    let answered = line.about("call.answered", &call, json!({})).await;
    journal.note(&call, |entry| entry.answered = answered);
    assert_eq!(answered, FinalAnswer::Ok);
    call
}
