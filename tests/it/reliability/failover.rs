//! PostgreSQL dies for good, and its standby is promoted by hand, behind haproxy. With a synchronous standby
//! nothing is lost. With a lagging one, the newest writes may be, and followers of events are told.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    rc::Rc,
    time::Instant,
};

use actix_web::rt;
use dikala_testkit::{OwnPostgres, Stop, within};
use futures_util::{StreamExt, future::join};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    check::{check, check_what_is_left},
    fleet::{Fleet, FleetSettings},
    journal::{FinalAnswer, Journal},
    load::{FaultLoad, LoadBridge},
    proxy::{Balancer, ServedProtocol},
    sizes::FaultForm,
};
use crate::support::{
    link::{DatabaseLink, LostPart},
    prelude::*,
    rest::client,
    scrape::Scrape,
    tenant::text,
};

/// A call that is open in the store and in no node's memory is detected after at most two and a half minutes.
const ENDED_WITHIN: Duration = Duration::from_secs(180);

/// Two nodes, their PostgreSQL and its standby, haproxy between them, and a link that loses selected messages.
/// `None` if a program is not installed.
struct Pair {
    fleet: Fleet,
    primary: OwnPostgres,
    standby: OwnPostgres,
    link: DatabaseLink,
    _balancer: Balancer,
}

impl Pair {
    async fn start(synchronous: bool) -> Option<Self> {
        let primary = OwnPostgres::start()?;
        let standby = primary.standby();
        let behind = [&primary, &standby].map(|server| format!("127.0.0.1:{}", server.port));
        let balancer = Balancer::start(ServedProtocol::Postgres, &behind)?;
        let link = DatabaseLink::to(balancer.port);
        let installation = Installation::at(primary.place(link.port));
        if synchronous {
            primary.waits_for_its_standby();
        }
        let fleet = Fleet::on(installation, FleetSettings::nodes(2)).await;
        Some(Self {
            fleet,
            primary,
            standby,
            link,
            _balancer: balancer,
        })
    }

    /// The primary dies; the standby is promoted after a while.
    async fn fail_over(&self, after: Duration) {
        let (primary, standby) = (self.primary.clone(), self.standby.clone());
        let done = spawn_blocking(move || {
            primary.stop(Stop::Immediate);
            std::thread::sleep(after);
            standby.promote();
        });
        done.await.unwrap();
    }
}

#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_failover_to_a_synchronous_standby_loses_nothing() {
    let form = FaultForm::asked();
    let Some(pair) = Pair::start(true).await else {
        return;
    };
    let load = FaultLoad::begin(&pair.fleet, form.rate());
    load.goes_on_for(200).await;
    pair.fail_over(form.away(3)).await;
    let promoted = Instant::now();
    let first = eventually("a success", async || load.journal.first_after(promoted)).await;
    println!(
        "failed over to a synchronous standby: the first success {first:.1?} after it is promoted"
    );
    load.goes_on_for(200).await;
    let journal = load.end().await;
    check(&pair.fleet, &journal).await;
}

/// A follower of a tenant's events that resumes after the last event it has seen.
#[derive(Debug, Default)]
struct Follower {
    seen: RefCell<BTreeSet<String>>,
    last: RefCell<String>,
    /// True if it was told that its last event no longer exists.
    told: Cell<bool>,
    stop: Cell<bool>,
}

impl Follower {
    fn begin(fleet: &Fleet, tenant: usize) -> Rc<Self> {
        let follower = Rc::<Self>::default();
        let (address, key) = (
            fleet.addresses[0].clone(),
            fleet.tenants[tenant].key.clone(),
        );
        let following = follower.clone();
        rt::spawn(async move {
            while !following.stop.get() {
                following.follow(&address, &key).await;
                sleep(Duration::from_millis(200)).await;
            }
        });
        follower
    }

    /// One stream until its end.
    async fn follow(&self, address: &str, key: &str) {
        let last = self.last.borrow().clone();
        let asked = client(None)
            .get(format!("{address}/api/v1/events/stream"))
            .insert_header(("x-api-key", key))
            .insert_header(("last-event-id", last))
            .send();
        let Ok(mut stream) = asked.await else {
            return;
        };
        if stream.status() == 422 {
            self.told.set(true);
            self.last.borrow_mut().clear();
            return;
        }
        let mut text = String::new();
        while let Some(Ok(piece)) = stream.next().await {
            text.push_str(&String::from_utf8_lossy(&piece));
            while let Some((line, rest)) = text.split_once('\n') {
                if let Some(id) = line.strip_prefix("id: ") {
                    id.clone_into(&mut self.last.borrow_mut());
                    self.seen.borrow_mut().insert(id.to_owned());
                }
                text = rest.to_owned();
            }
        }
    }
}

/// The standby lags when the primary dies.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_failover_to_a_standby_that_is_behind_loses_the_newest_and_says_so() {
    let form = FaultForm::asked();
    let Some(pair) = Pair::start(false).await else {
        return;
    };
    let fleet = &pair.fleet;
    let load = FaultLoad::begin(fleet, form.rate());
    let follower = Follower::begin(fleet, 0);
    load.goes_on_for(200).await;
    pair.standby.fall_behind();
    let before = load.journal.acknowledgements();
    load.goes_on_for(200).await;
    pair.fail_over(Duration::from_secs(form.size("PROMOTED_SECONDS", 1, 5)))
        .await;
    let at_risk = load.journal.acknowledgements() - before;
    load.goes_on_for(200).await;
    let lines = load.lines.clone();
    let journal = load.end().await;
    // Like bridges, they regularly report that they have no calls. Nodes detect calls whose ends were lost before
    // that.
    within(
        ENDED_WITHIN,
        "calls whose ends were lost to be over",
        async || {
            for line in &lines {
                line.say(&line.message("heartbeat", json!({"activeCalls": []})))
                    .await;
            }
            sleep(Duration::from_secs(2)).await;
            let open = fleet.count("calls WHERE outcome IS NULL").await;
            (open == 0).then_some(())
        },
    )
    .await;
    println!("failed over to a standby that was {at_risk} acknowledgements behind:");
    let (calls, agents) = check_what_is_left(fleet, &journal).await;
    println!("  {calls} calls and {agents} agents that were acknowledged are lost");
    assert!(calls > 0, "the standby was not behind");
    // Followers of events are told that their last event no longer exists, and start anew: a reused position does
    // not go unnoticed.
    let sql = format!(
        "SELECT id FROM events WHERE tenant_id = '{}'",
        fleet.tenants[0].id
    );
    sleep(Duration::from_secs(5)).await;
    let there = fleet.rows::<1>(&sql).await;
    let (missed, saw_what_is_lost) = {
        let seen = follower.seen.borrow();
        let there: BTreeSet<&String> = there.iter().map(|[id]| id).collect();
        (
            there.iter().filter(|id| !seen.contains(**id)).count(),
            seen.iter().any(|id| !there.contains(id)),
        )
    };
    follower.stop.set(true);
    println!(
        "  a follower missed {missed} events, told so: {}",
        follower.told.get()
    );
    assert!(
        follower.told.get() || !saw_what_is_lost && missed == 0,
        "a follower missed {missed} events and does not know"
    );
}

/// Calls that the standby had not received are gone from all memories, too.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn a_call_that_the_database_has_lost_is_active_nowhere() {
    let Some(fleet) = Fleet::start(Postgres, FleetSettings::nodes(2).tenants(1, 100)).await else {
        return;
    };
    let journal = Journal::new();
    let line = LoadBridge::new(&fleet, 0, 0, &journal);
    let lost = line.ring(Moment::now(), 0).await;
    let kept = line.ring(Moment::now(), 0).await;
    let store = &fleet.node(0).installation.store;
    for (table, column) in [("credit_holds", "call_id"), ("calls", "id")] {
        let forget = format!("DELETE FROM {table} WHERE {column} = '{lost}'");
        store.execute(&forget).await;
    }
    eventually("one active call", async || {
        let scrape = Scrape::of(&fleet.node(0).operator).await;
        let ringing = scrape.value("dikala_calls_active", &[("status", "ringing")]);
        (ringing < 1.5).then_some(())
    })
    .await;
    assert_eq!(
        line.about("call.answered", &lost, json!({})).await,
        FinalAnswer::Lost
    );
    assert_eq!(
        line.about("call.answered", &kept, json!({})).await,
        FinalAnswer::Ok
    );
}

/// After a failover the new primary reuses transaction numbers, so they do not tell the outcome of a commit that it never
/// received.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn a_commit_that_the_standby_never_heard_of_is_not_taken_for_another() {
    let Some(pair) = Pair::start(false).await else {
        return;
    };
    let fleet = &pair.fleet;
    let api = Rest::new(&format!("{}/api/v1", fleet.addresses[0]))
        .with("x-api-key", &fleet.tenants[0].key)
        .with("idempotency-key", "lost");
    let agent = json!({"name": "Lost in between", "systemPrompt": "Answer kindly."});
    pair.standby.fall_behind();
    pair.link.lose("Lost in between", LostPart::Answer);
    let failing = async {
        eventually("the commit's answer to be lost", async || {
            (pair.link.lost() == 1).then_some(())
        })
        .await;
        pair.fail_over(Duration::ZERO).await;
        // More numbers than the primary assigned since the standby's last update.
        let standby = pair.standby.clone();
        let numbers =
            "DO 'BEGIN FOR i IN 1..1000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'";
        spawn_blocking(move || standby.sql(numbers)).await.unwrap();
    };
    let (answer, ()) = join(api.post("/agents", agent.clone()), failing).await;
    assert_eq!(answer.status, 503, "{}", answer.text);
    let made = eventually("the agent to be made", async || {
        let again = api.post("/agents", agent.clone()).await;
        (again.status == 201).then_some(again)
    })
    .await;
    let there = fleet
        .rows::<1>("SELECT id FROM agents WHERE name = 'Lost in between'")
        .await;
    assert_eq!(there, [[text(&made.body, "id")]]);
}
