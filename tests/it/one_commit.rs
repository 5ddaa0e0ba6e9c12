//! One message is one commit in a few round trips, counted on the link to PostgreSQL, which is also cut after each
//! of them.

use actix_web::rt;
use futures_util::future::Either;

use crate::support::{
    link::{DatabaseLink, linked},
    prelude::*,
};

/// Maximum round trips to the database before the acknowledgement, once the tenant's rows are known: the look-up of an incoming
/// call, and one statement that writes.
const STEPS: [(&str, usize); 3] = [
    ("call.incoming", 2),
    ("call.answered", 1),
    ("call.hangup", 1),
];
/// The same if the rows have to be read: because they are not known, or because somebody else changed them, which the writing
/// statement finds out first.
const STEPS_WITH_READS: [usize; 3] = [6, 5, 6];
/// Minimum round trips before any acknowledgement, without and with reads.
const AT_LEAST: [usize; 2] = [1, 4];
/// Periodic work beside messages happens twice a second, with longer pauses.
const QUIET: Duration = Duration::from_millis(100);
/// Most measured calls. Other work is counted too, so the minimum counts; on a busy machine it comes late.
const CALLS: usize = 80;

fn opening(world: &TestWorld, name: &str) -> Value {
    json!({"did": world.tenant.did, "callerNumber": "+6281", "bridgeCallId": name})
}

async fn step(
    world: &TestWorld,
    bridge: &TestBridge,
    step: &str,
    name: &str,
    call: &mut String,
) -> Value {
    let data = match step {
        "call.incoming" => opening(world, name),
        "call.hangup" => json!({"callId": call, "reason": "normal", "initiator": "caller"}),
        _ => json!({"callId": call}),
    };
    let reply = bridge.ask(step, data).await;
    if let Some(id) = reply["callId"].as_str() {
        id.clone_into(call);
    }
    reply
}

#[actix_web::test]
async fn a_message_waits_for_the_database_a_few_times() {
    let Some((world, link)) = linked(WorldSetup::new().minutes(100)).await else {
        return;
    };
    let bridge = world.tenant.bridge(Socket).await;
    let mut least = STEPS.map(|_| usize::MAX);
    let is_reached = |least: &[usize; 3]| {
        least
            .iter()
            .zip(STEPS)
            .all(|(least, (_, most))| *least <= most)
    };
    for number in 0..CALLS {
        if is_reached(&least) {
            break;
        }
        let (name, mut call) = (format!("call {number}"), String::new());
        for (least, (message, _)) in least.iter_mut().zip(STEPS) {
            let before = quiet(&link).await;
            let reply = step(&world, &bridge, message, &name, &mut call).await;
            assert_eq!(reply["ok"], true, "{message}: {reply}");
            *least = (*least).min(link.rounds() - before);
        }
    }
    for (least, (message, most)) in least.into_iter().zip(STEPS) {
        assert!((1..=most).contains(&least), "{message}: {least} rounds");
    }
}

/// The round trips so far, once the link is idle, which means that the message is fully handled.
async fn quiet(link: &DatabaseLink) -> usize {
    eventually("a quiet moment", async || {
        let before = link.rounds();
        rt::time::sleep(QUIET).await;
        (link.rounds() == before).then_some(before)
    })
    .await
}

/// The stored state of calls: status, events, minutes held or used, and charges.
async fn stored(world: &TestWorld) -> Vec<String> {
    let sql = "SELECT c.status || ', ' || (SELECT COUNT(*) FROM events e WHERE e.call_id = c.id) || ' events, ' || \
               COALESCE((SELECT h.held + h.used FROM credit_holds h WHERE h.call_id = c.id), -1) || ' minutes, ' || \
               (SELECT COUNT(*) FROM credit_transactions t WHERE t.call_id = c.id) || ' charges' FROM calls c";
    let rows = world.server.installation.store.rows::<1>(sql).await;
    rows.into_iter().flatten().collect()
}

/// The call before and after each message.
const STAGES: [&[&str]; 4] = [
    &[],
    &["ringing, 1 events, 1 minutes, 0 charges"],
    &["answered, 2 events, 1 minutes, 0 charges"],
    &["ended, 3 events, 1 minutes, 1 charges"],
];

#[rstest]
#[case(0, false)]
#[case(1, false)]
#[case(2, false)]
#[case(1, true)]
#[case(2, true)]
#[actix_web::test]
async fn a_kill_between_any_two_statements_leaves_all_of_a_message_or_nothing(
    #[case] stage: usize,
    #[case] others_write: bool,
) {
    let message = STEPS[stage].0;
    // A server that has just started knows no rows.
    let reads = others_write || stage == 0;
    let most = if reads {
        STEPS_WITH_READS[stage]
    } else {
        STEPS[stage].1
    };
    // One more point of interruption than round trips: at the last one, the message was answered.
    for rounds in 0..=most {
        let Some((mut world, link)) = linked(WorldSetup::new()).await else {
            return;
        };
        let bridge = world.tenant.bridge(Socket).await;
        let mut call = String::new();
        for (earlier, _) in &STEPS[..stage] {
            let reply = step(&world, &bridge, earlier, "one", &mut call).await;
            assert_eq!(reply["ok"], true, "{earlier}: {reply}");
        }
        if others_write {
            let change = "UPDATE credit_accounts SET version = version + 1; UPDATE event_positions SET stamped_at = stamped_at + 1";
            world.server.installation.store.execute(change).await;
        }
        cut_off(&mut world, &link, (stage, rounds, reads), bridge, &mut call).await;
        // Repeated messages have the same result as if nothing had happened.
        let bridge = world.tenant.bridge(Socket).await;
        for (message, _) in &STEPS[stage..] {
            let reply = step(&world, &bridge, message, "one", &mut call).await;
            assert_eq!(
                reply["ok"], true,
                "{message} after {rounds} rounds: {reply}"
            );
        }
        assert_eq!(stored(&world).await, STAGES[3], "{message} {rounds}");
        let order = ["call.started", "call.answered", "call.ended"];
        assert_eq!(world.kinds(&call, "call.ended").await, order);
        world.assert_ledger_is_exact();
    }
}

/// Kills the server after this many answers of the link. The store then has all of the message or nothing.
async fn cut_off(
    world: &mut TestWorld,
    link: &DatabaseLink,
    (stage, rounds, reads): (usize, usize, bool),
    bridge: TestBridge,
    call: &mut String,
) {
    let before = quiet(link).await;
    link.cut_after(rounds);
    let (message, _) = STEPS[stage];
    let cut = eventually("the cut", async || {
        (link.rounds() >= before + rounds).then_some(())
    });
    let asked = step(world, &bridge, message, "one", call);
    let is_taken = match futures_util::future::select(Box::pin(asked), Box::pin(cut)).await {
        Either::Left((reply, _)) => reply["ok"] == true,
        Either::Right(_) => false,
    };
    if rounds < AT_LEAST[usize::from(reads)] {
        assert!(!is_taken, "{message} was answered after {rounds} rounds");
    }
    world.server.kill9();
    bridge.cut();
    let now = stored(world).await;
    assert!(
        now == STAGES[stage] || now == STAGES[stage + 1],
        "{message} after {rounds} rounds: {now:?}"
    );
    link.light_up();
    world.server.restart();
}
