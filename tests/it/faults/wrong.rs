//! Wrong states: of the machine's clock, the database's clock, and the ledger.

use std::fs;

use super::{Alert, FaultSigns, IS_COUNTED, WatchedWorld};
use crate::support::{clock, prelude::*};

const HOUR_MS: i64 = 3_600_000;

#[actix_web::test]
async fn a_clock_of_the_machine_that_was_set_shows() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let clock = installation.folder.path().join("clock");
    fs::write(&clock, "0").unwrap();
    let variable = ("FAIL_POINT_CLOCK".to_owned(), clock.display().to_string());
    installation.settings.push(variable);
    let watched = WatchedWorld::on(installation, WorldSetup::new()).await;
    fs::write(&clock, HOUR_MS.to_string()).unwrap();
    watched
        .shows(FaultSigns {
            problem: ("clock_off", None, "min ahead"),
            metric: ("dikala_clock_step_seconds", &[], |ahead| ahead > 3_000.0),
            alert: (Alert::ClockOff, "instance", &watched.instance()),
            unready: None,
        })
        .await;
}

#[actix_web::test]
async fn a_clock_of_the_database_that_was_set_shows() {
    let Some(installation) = Installation::migrated(Postgres) else {
        return;
    };
    clock::can_be_set(&installation.store).await;
    let watched = WatchedWorld::on(installation, WorldSetup::new()).await;
    clock::set(&watched.world.server.installation.store, -HOUR_MS).await;
    watched
        .shows(FaultSigns {
            problem: ("database_clock_off", None, "min behind"),
            metric: ("dikala_clock_database_seconds", &[], |ahead| {
                ahead < -3_000.0
            }),
            alert: (Alert::ClockOff, "instance", &watched.instance()),
            unready: None,
        })
        .await;
}

/// Something changed the ledger's tables directly while the process was down.
#[actix_web::test]
async fn books_that_do_not_add_up_show() {
    let Some(mut watched) = WatchedWorld::start(Sqlite, WorldSetup::new()).await else {
        return;
    };
    let world = &mut watched.world;
    let bridge = world.tenant.bridge(Http).await;
    bridge.ring(&world.tenant.did).await;
    world.server.kill9();
    let forged = "UPDATE credit_holds SET held = held + 1";
    world.server.installation.store.execute(forged).await;
    world.server.restart();
    watched
        .shows(FaultSigns {
            problem: ("ledger_differences", None, "do not add up"),
            metric: ("dikala_ledger_differences", &[], IS_COUNTED),
            alert: (Alert::LedgerDifferences, "instance", &watched.instance()),
            unready: None,
        })
        .await;
}
