//! The last minutes of a tenant, used by many calls on two nodes at once.

use std::rc::Rc;

use dikala_testkit::within;
use futures_util::{StreamExt, stream};

use super::{
    fleet::{Fleet, FleetSettings},
    journal::Journal,
    load::LoadBridge,
    sizes::FaultForm,
};
use crate::support::prelude::*;

/// The rest of a minute, after which calls without credit end, and some time for a busy machine.
const OVER_WITHIN: Duration = Duration::from_secs(200);

/// Half of the calls are at each node; there are fewer minutes than calls.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn the_last_minutes_are_used_once_over_two_nodes() {
    let form = FaultForm::asked();
    let calls = form.size("CALLS", 60, 500);
    let minutes = u32::try_from(form.size("MINUTES", 40, 100)).unwrap();
    let wanted = FleetSettings::nodes(2).tenants(1, minutes);
    let Some(fleet) = Fleet::start(Postgres, wanted).await else {
        return;
    };
    let journal = Journal::new();
    let lines = [0, 1].map(|node| LoadBridge::new(&fleet, 0, node, &journal));
    // In the short form most of their first minute is over already.
    let ago = i64::try_from(form.size("TALKED_SECONDS", 40, 0)).unwrap();
    let all = (0..calls).map(|number| ring(&lines[usize::from(number % 2 == 1)], ago));
    let rung: Vec<Option<UnansweredCall>> = stream::iter(all).buffered(50).collect().await;
    // All of them ring before the first is answered: an answered call is granted its next minute in advance.
    let answers = rung.into_iter().flatten().map(answer);
    let taken: Vec<_> = stream::iter(answers).buffered(50).collect().await;
    assert_eq!(
        taken.len(),
        usize::try_from(minutes).unwrap(),
        "a minute for each"
    );
    within(OVER_WITHIN, "every call to be cut", async || {
        let open = fleet.count("calls WHERE outcome IS NULL").await;
        (open == 0).then_some(())
    })
    .await;
    let tenant = &fleet.tenants[0];
    assert_eq!(
        tenant.credits().await,
        (0, i64::from(minutes), i64::from(minutes))
    );
    let mut furthest = 0;
    let ended = tenant.calls().await;
    for (call, answered) in &taken {
        let call = ended.iter().find(|over| over["id"] == **call).unwrap();
        assert_eq!(call["hangupReason"], "credits_exhausted", "{call}");
        let granted = answered.plus(60);
        furthest = furthest.max(Moment::parse(&call["endedAt"]).ms_since(granted).abs());
    }
    println!(
        "{calls} calls on two nodes with {minutes} minutes: {} taken, all minutes used, cut {furthest} ms from what was granted at most",
        taken.len()
    );
    assert!(furthest <= 2_000, "cut {furthest} ms from the granted time");
    let verdict = fleet.cli(&["ledger", "verify"]).await;
    assert_eq!(verdict["differences"], json!([]), "{verdict}");
}

/// A ringing call.
struct UnansweredCall {
    line: Rc<LoadBridge>,
    call: String,
    at: Moment,
}

/// `None` if no minute is left for it.
async fn ring(line: &Rc<LoadBridge>, ago: i64) -> Option<UnansweredCall> {
    let at = Moment::ago(ago);
    let fields = json!({
        "bridgeCallId": format!("sip-{}", super::fleet::fresh()), "did": line.tenant.did, "callerNumber": "+6281",
        "at": at.text(),
    });
    let reply = line.say(&line.message("call.incoming", fields)).await;
    if reply["action"] == "reject" {
        assert_eq!(reply["reason"], "insufficient_credits");
        return None;
    }
    let call = crate::support::tenant::text(&reply, "callId");
    let line = Rc::clone(line);
    Some(UnansweredCall { line, call, at })
}

/// Answers the call at the time of its ring; returns its id and that time.
async fn answer(rung: UnansweredCall) -> (String, Moment) {
    let UnansweredCall { line, call, at } = rung;
    let fields = json!({"callId": call, "at": at.text()});
    let reply = line.say(&line.message("call.answered", fields)).await;
    assert_eq!(reply["ok"], true, "{reply}");
    (call, at)
}
