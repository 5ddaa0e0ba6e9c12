//! One node's wall clock is set forward and back by an hour under load, with Debian's `faketime`. Skipped if that
//! is not installed; `DIKALA_REQUIRE_FAKETIME` makes its absence a failure.

use std::{fs, path::Path, rc::Rc, time::Instant};

use tokio::time::sleep;

use super::{
    check::check,
    fleet::{Fleet, FleetSettings, fresh},
    journal::{FinalAnswer, Journal},
    load::{FaultLoad, LoadBridge},
    sizes::FaultForm::Short,
};
use crate::support::{prelude::*, tenant::Tenant};

const HOUR: &str = "3600";
/// Talk time across a step of the clock, by a correct clock.
const TALKS: Duration = Duration::from_secs(8);

fn library() -> Option<&'static str> {
    let found = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    ]
    .into_iter()
    .find(|library| Path::new(library).exists());
    if found.is_none() {
        let required = std::env::var_os("DIKALA_REQUIRE_FAKETIME").is_some();
        assert!(!required, "there is no libfaketime");
        println!("libfaketime is not at hand: skipped");
    }
    found
}

#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn a_clock_that_is_set_changes_no_bill() {
    let Some(library) = library() else {
        return;
    };
    let Some(mut installation) = Installation::migrated(Postgres) else {
        return;
    };
    let others = installation.settings.clone();
    let offset = installation.folder.path().join("offset");
    fs::write(&offset, "+0").unwrap();
    let file = offset.to_str().unwrap();
    let faked = [
        ("LD_PRELOAD", library),
        ("FAKETIME_TIMESTAMP_FILE", file),
        ("FAKETIME_CACHE_DURATION", "1"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    for (name, value) in faked {
        installation
            .settings
            .push((name.to_owned(), value.to_owned()));
    }
    let mut fleet = Fleet::on(installation, FleetSettings::nodes(1)).await;
    fleet.join(others).await;
    let set = |by: &str| {
        // Renamed into place, so that no process reads a partial file.
        let new = offset.with_extension("new");
        fs::write(&new, by).unwrap();
        fs::rename(&new, &offset).unwrap();
    };
    let load = FaultLoad::begin(&fleet, Short.rate());
    for by in [format!("+{HOUR}"), "+0".to_owned(), format!("-{HOUR}")] {
        // The node itself dates messages without a time.
        let tenant = &fleet.tenants[0];
        let journal = Journal::new();
        let lines = [0, 1].map(|node| LoadBridge::new(&fleet, 0, node, &journal));
        let mut calls = Vec::new();
        for _ in 0..4 {
            calls.push(talk(&lines[0]).await);
        }
        let steps = fleet
            .node(0)
            .log()
            .matches("the wall clock was set")
            .count();
        set(&by);
        eventually("the node to notice", async || {
            let log = fleet.node(0).log();
            (log.matches("the wall clock was set").count() > steps).then_some(())
        })
        .await;
        sleep(TALKS.saturating_sub(calls[0].began.elapsed())).await;
        for (number, call) in calls.iter().enumerate() {
            // Half of them end at the node whose clock was not set.
            call.end(tenant, &lines[number % 2], &load.journal).await;
        }
        println!("clock of one node set to {by} s: billed for the time that passed");
        load.goes_on_for(50).await;
    }
    let journal = load.end().await;
    check(&fleet, &journal).await;
}

struct AnsweredCall {
    call: String,
    bridge_call: String,
    began: Instant,
}

/// A call that is answered now.
async fn talk(line: &Rc<LoadBridge>) -> AnsweredCall {
    let bridge_call = format!("sip-{}", fresh());
    let fields = json!({
        "bridgeCallId": bridge_call, "did": line.tenant.did, "callerNumber": "+6281",
    });
    let reply = line.say(&line.message("call.incoming", fields)).await;
    let call = crate::support::tenant::text(&reply, "callId");
    line.about("call.answered", &call, json!({})).await;
    AnsweredCall {
        call,
        bridge_call,
        began: Instant::now(),
    }
}

impl AnsweredCall {
    /// Ends the call, which must be billed by the elapsed time, and records it in the journal.
    async fn end(&self, tenant: &Tenant, line: &Rc<LoadBridge>, journal: &Journal) {
        let talked = i64::try_from(self.began.elapsed().as_millis()).unwrap();
        let ended = line.about("call.hangup", &self.call, json!({})).await;
        assert_eq!(ended, FinalAnswer::Ok);
        let over = tenant.call(&self.call).await;
        let at = |field: &str| Moment::parse(&over[field]);
        let off = (at("endedAt").ms_since(at("answeredAt")) - talked).abs();
        assert!(off <= 5_000, "billed {off} ms off: {over}");
        journal.note_ended(&self.call, line.number, &self.bridge_call, &over);
    }
}
