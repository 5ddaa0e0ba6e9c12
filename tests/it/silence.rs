//! PostgreSQL behind a link that falls silent: no error, no close, no answer. Acknowledged writes exist once,
//! others can be repeated, and the service recovers soon after new connections work.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use actix_web::rt;
use awc::http::Method;
use dikala_testkit::within;
use sea_orm::{ConnectionTrait, Database, TransactionTrait};

use crate::support::{
    link::{LostPart, linked},
    prelude::*,
    tenant::text,
};

/// Time to recover once new connections work: ten seconds, and more on a busy machine.
const BACK_WITHIN: Duration = Duration::from_secs(20);
/// Interval between a writer's writes: the number of a tenant's agents is limited.
const PACE: Duration = Duration::from_millis(100);
const WRITERS: usize = 4;

/// Creates agents, and repeats each under its `Idempotency-Key` until it is acknowledged.
#[derive(Default)]
struct Writers {
    stop: Cell<bool>,
    acknowledged: RefCell<Vec<(String, String)>>,
    repeated: Cell<usize>,
}

impl Writers {
    async fn write(self: Rc<Self>, api: Rest, writer: usize) {
        for number in 0.. {
            if self.stop.get() {
                return;
            }
            let name = format!("{writer}-{number}");
            let api = api.clone().with("idempotency-key", &name);
            let agent = json!({"name": name, "systemPrompt": "Answer kindly."});
            loop {
                let answer = api
                    .try_send(Method::POST, "/agents", Some(agent.clone()))
                    .await;
                let answer = answer.expect("an answer, whatever it is");
                if answer.status == 201 {
                    let written = (text(&answer.body, "id"), name);
                    self.acknowledged.borrow_mut().push(written);
                    break;
                }
                let code = answer.body["error"]["code"].as_str().unwrap();
                let again = ["unavailable", "idempotency_in_progress"];
                assert!(again.contains(&code), "{answer:?}");
                self.repeated.set(self.repeated.get() + 1);
                rt::time::sleep(PACE).await;
            }
            rt::time::sleep(PACE).await;
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.borrow().len()
    }
}

/// A call that is unknown to the service.
fn incoming(world: &TestWorld) -> Value {
    thread_local!(static CALLS: Cell<u32> = const { Cell::new(0) });
    CALLS.set(CALLS.get() + 1);
    let number = CALLS.get();
    json!({"did": world.tenant.did, "callerNumber": "+6281", "bridgeCallId": format!("c-{number}")})
}

/// Waits until everything works: writes, reads, a whole call, readiness.
async fn is_back(world: &TestWorld, bridge: &TestBridge) {
    within(
        BACK_WITHIN,
        "a write, a read, a call and readiness",
        async || {
            let agent = json!({"name": "back", "systemPrompt": "Answer kindly."});
            let wrote = world.tenant.api.post("/agents", agent).await.status == 201;
            let read = world.tenant.api.get("/agents").await.status == 200;
            let ready = world.server.rest().get("/health/ready").await.status == 200;
            let reply = bridge.ask("call.incoming", incoming(world)).await;
            (wrote && read && ready && reply["ok"] == true).then_some(())
        },
    )
    .await;
}

/// Asserts that each acknowledged agent exists once.
async fn all_are_there_once(world: &TestWorld, writers: &Writers) {
    let agents = world.tenant.api.get("/agents").await.expect(200);
    let agents = agents["agents"].as_array().unwrap();
    for (id, name) in writers.acknowledged.borrow().iter() {
        let named: Vec<_> = agents.iter().filter(|a| a["name"] == **name).collect();
        assert_eq!(named.len(), 1, "{name}: {named:?}");
        assert_eq!(named[0]["id"], **id);
    }
}

async fn load(world: &TestWorld) -> (Rc<Writers>, Vec<rt::task::JoinHandle<()>>) {
    let writers = Rc::<Writers>::default();
    let tasks = (0..WRITERS)
        .map(|writer| rt::spawn(writers.clone().write(world.tenant.api.clone(), writer)))
        .collect();
    eventually("some writes", async || (writers.count() > 20).then_some(())).await;
    (writers, tasks)
}

async fn end(world: &TestWorld, writers: &Writers, tasks: Vec<rt::task::JoinHandle<()>>) {
    let before = writers.count();
    eventually("more writes", async || {
        (writers.count() > before + 20).then_some(())
    })
    .await;
    writers.stop.set(true);
    for task in tasks {
        task.await.unwrap();
    }
    all_are_there_once(world, writers).await;
}

#[actix_web::test]
async fn connections_that_fall_silent_are_left_for_new_ones() {
    let Some((world, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    let (writers, tasks) = load(&world).await;
    for _ in 0..3 {
        let before = link.made();
        link.freeze_connections();
        is_back(&world, &bridge).await;
        assert!(link.made() > before, "the service noticed");
    }
    end(&world, &writers, tasks).await;
    bridge.hang_up(&call).await;
    assert_eq!(world.tenant.billed(&call).await, Some(1));
    world.event("call.ended", &call).await;
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_link_that_is_dark_for_a_while_refuses_in_time_and_loses_nothing() {
    let Some((world, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let (writers, tasks) = load(&world).await;
    link.go_dark();
    let public = world.server.rest();
    eventually("not ready", async || {
        (public.get("/health/ready").await.status == 503).then_some(())
    })
    .await;
    public.get("/health/live").await.expect(200);
    let answer = world.tenant.api.get("/agents").await;
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_eq!(answer.expect(503)["error"]["code"], "unavailable");
    let refused = bridge.refused("call.incoming", incoming(&world)).await;
    assert_eq!(refused["code"], "unavailable", "{refused}");
    eventually("every writer to be refused", async || {
        (writers.repeated.get() > WRITERS).then_some(())
    })
    .await;
    link.light_up();
    is_back(&world, &bridge).await;
    end(&world, &writers, tasks).await;
    bridge.hang_up(&call).await;
    assert_eq!(world.tenant.billed(&call).await, Some(1));
    world.assert_ledger_is_exact();
}

/// Creates an agent, with a single request.
async fn write(world: &TestWorld, api: &Rest, name: &str) -> u16 {
    let agent = json!({"name": name, "systemPrompt": "Answer kindly."});
    let status = api.post("/agents", agent).await.status;
    let agents = world.tenant.api.get("/agents").await.expect(200);
    let agents = agents["agents"].as_array().unwrap();
    let count = agents.iter().filter(|agent| agent["name"] == name).count();
    assert_eq!(count, usize::from(status == 201), "{name}");
    status
}

/// The answer to a commit is in transit, so only the database knows the outcome.
#[actix_web::test]
async fn a_commit_whose_answer_is_lost_is_found_out() {
    let Some((world, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let api = world.tenant.api.clone();
    for (lost, expected) in [(LostPart::Answer, 201), (LostPart::Commit, 503)] {
        let name = format!("{lost:?} was lost");
        let before = link.lost();
        // The claim of the key is a separate transaction without the name.
        let key = format!("key {before}");
        let once = api.clone().with("idempotency-key", &key);
        link.lose(&name, lost);
        // The write happened and is acknowledged, or it did not happen and never will.
        assert_eq!(write(&world, &once, &name).await, expected, "{name}");
        assert_eq!(link.lost(), before + 1, "{name}");
        assert_eq!(write(&world, &once, &name).await, 201, "again: {name}");
    }
}

/// The same for the ledger, at each step of a call: its transactions contain the tenant's id.
#[rstest]
#[actix_web::test]
async fn a_call_whose_commits_are_not_answered_is_taken_and_billed_once(
    #[values(LostPart::Answer, LostPart::Commit)] lost: LostPart,
) {
    let Some((world, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let bridge = world.tenant.bridge(Socket).await;
    let opening = incoming(&world);
    let mut call = Value::Null;
    for (done, step) in ["call.incoming", "call.answered", "call.hangup"]
        .into_iter()
        .enumerate()
    {
        link.lose(&world.tenant.id, lost);
        let now = Moment::now().text();
        eventually(step, async || {
            let data = match step {
                "call.incoming" => opening.clone(),
                _ => json!({"callId": call, "at": now}),
            };
            let reply = bridge.ask(step, data).await;
            if reply["ok"] == true && step == "call.incoming" {
                call = reply["callId"].clone();
            }
            (reply["ok"] == true).then_some(())
        })
        .await;
        eventually("the commit", async || {
            (link.lost() == done + 1).then_some(())
        })
        .await;
    }
    let call = call.as_str().unwrap();
    assert_eq!(world.tenant.billed(call).await, Some(1));
    let kinds = world.kinds(call, "call.ended").await;
    assert_eq!(kinds, ["call.started", "call.answered", "call.ended"]);
    assert_eq!(world.tenant.calls().await.len(), 1);
    world.assert_ledger_is_exact();
}

/// The service cannot find out in time that the transcript was committed, so its bridge sends it again.
#[rstest]
#[actix_web::test]
async fn a_transcript_that_was_committed_and_refused_is_announced_once(
    #[values(true, false)] is_repeated_first: bool,
) {
    let Some((world, link)) = linked(WorldSetup::new()).await else {
        return;
    };
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let turns = json!([{"role": "caller", "text": "Halo"}]);
    let summary = "A greeting.";
    let transcript = json!({"callId": call, "summary": summary, "turns": turns});
    let url = &world.server.installation.store.url;
    let connection = Database::connect(url).await.unwrap();
    link.lose_statement(summary, LostPart::Answer);
    let mut refused = bridge.begin(&bridge.message("call.transcript", transcript.clone()));
    // The next tries wait for the lock, until the service gives up.
    let written =
        format!("SELECT id FROM events WHERE call_id = '{call}' AND kind = 'call.transcript'");
    eventually("the commit", async || {
        let rows = world.server.installation.store.rows::<1>(&written).await;
        (!rows.is_empty()).then_some(())
    })
    .await;
    let holder = connection.begin().await.unwrap();
    let lock = format!("SELECT 1 FROM calls WHERE id = '{call}' FOR UPDATE");
    holder.execute_unprepared(&lock).await.unwrap();
    let reply = refused.arrives().await.unwrap();
    assert_eq!(reply["error"]["code"], "unavailable", "{reply}");
    holder.rollback().await.unwrap();
    connection.close().await.unwrap();
    let mut steps = [
        ("call.transcript", transcript),
        ("call.hangup", json!({"callId": call})),
    ];
    if !is_repeated_first {
        steps.reverse();
    }
    for (kind, fields) in steps {
        eventually(kind, async || {
            let reply = bridge.ask(kind, fields.clone()).await;
            (reply["ok"] == true).then_some(())
        })
        .await;
    }
    let kinds = world.kinds(&call, "call.ended").await;
    let once = [
        "call.started",
        "call.answered",
        "call.transcript",
        "call.ended",
    ];
    assert_eq!(kinds, once);
    assert_eq!(world.tenant.call(&call).await["transcriptSummary"], summary);
}
