//! Faults between nodes and PostgreSQL, and of PostgreSQL itself, under load. The same processes continue
//! afterwards.

use std::time::Instant;

use dikala_testkit::{OwnPostgres, Stop};
use tokio::{task::spawn_blocking, time::sleep};

use super::{
    check::check,
    fleet::{Fleet, FleetSettings},
    load::FaultLoad,
    sizes::FaultForm::{self, Short},
};
use crate::support::{
    link::{DatabaseLink, LostPart},
    prelude::*,
};

/// Nodes on their own PostgreSQL, all behind one link that can fail; `None` if PostgreSQL is not installed.
async fn behind_a_link(wanted: FleetSettings) -> Option<(Fleet, DatabaseLink, OwnPostgres)> {
    let postgres = OwnPostgres::start()?;
    let link = DatabaseLink::to(postgres.port);
    let installation = Installation::at(postgres.place(link.port));
    let mut fleet = Fleet::on(installation, wanted).await;
    fleet.postgres = Some(postgres.clone());
    Some((fleet, link, postgres))
}

/// Runs something on PostgreSQL while the load continues.
async fn meanwhile<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.unwrap()
}

/// PostgreSQL is back: waits for the first acknowledgement.
async fn goes_on(load: &FaultLoad, form: FaultForm, what: &str) {
    let back = Instant::now();
    let first = eventually(what, async || load.journal.first_after(back)).await;
    println!("  {what}: the first success {first:.1?} after it is back");
    // The backlog of this outage is processed before the next one.
    let acknowledgements = if form == Short { 100 } else { 5_000 };
    load.goes_on_for(acknowledgements).await;
}

/// Several outages in sequence, with the same processes.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn outages_of_postgres_lose_nothing() {
    let form = FaultForm::asked();
    let Some((fleet, link, postgres)) = behind_a_link(FleetSettings::nodes(2)).await else {
        return;
    };
    let load = FaultLoad::begin(&fleet, form.rate());
    load.goes_on_for(100).await;
    let away = form.away(4);
    let database = postgres.clone();
    for how in [Stop::Fast, Stop::Immediate] {
        let database = database.clone();
        meanwhile(move || {
            database.stop(how);
            std::thread::sleep(away);
            database.start_again();
        })
        .await;
        goes_on(
            &load,
            form,
            &format!("PostgreSQL stopped ({how:?}) and started"),
        )
        .await;
    }
    let killing = database.clone();
    meanwhile(move || killing.kill_backends()).await;
    goes_on(&load, form, "every backend killed").await;
    link.go_dark();
    sleep(away).await;
    link.light_up();
    goes_on(&load, form, "black-holed").await;
    link.cut_after(0);
    sleep(away).await;
    link.light_up();
    goes_on(&load, form, "reset, and black-holed").await;
    let bytes = meanwhile(move || database.dump()).await;
    goes_on(&load, form, &format!("pg_dump of {bytes} bytes meanwhile")).await;
    let journal = load.end().await;
    println!("PostgreSQL away for {away:?} each time:");
    check(&fleet, &journal).await;
}

/// The connection is lost during COMMIT: the commit happened without an answer, or did not happen.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it"]
async fn commits_whose_connection_is_lost_are_neither_lost_nor_made_twice() {
    let Some((fleet, link, _postgres)) = behind_a_link(FleetSettings::nodes(2)).await else {
        return;
    };
    let load = FaultLoad::begin(&fleet, Short.rate());
    // Batches of calls, and the API's writes, contain their tenant's id.
    for tenant in &fleet.tenants {
        for lost in [LostPart::Commit, LostPart::Answer] {
            let before = link.lost();
            link.lose(&tenant.id, lost);
            eventually("a commit to be lost", async || {
                (link.lost() > before).then_some(())
            })
            .await;
            load.goes_on_for(50).await;
        }
    }
    let journal = load.end().await;
    println!("{} commits lost", link.lost());
    check(&fleet, &journal).await;
}

/// One node is disconnected from PostgreSQL for longer than its lease; the other has its own connection.
#[actix_web::test]
#[ignore = "a minute; .ci/slow runs it, and .ci/faults its long form"]
async fn a_node_that_is_cut_from_the_database_harms_nothing() {
    let form = FaultForm::asked();
    let Some(mut installation) = Installation::migrated(Postgres) else {
        return;
    };
    let url = installation.store.url.clone();
    let port = url.rsplit_once(':').unwrap().1.split_once('/').unwrap().0;
    let link = DatabaseLink::to(port.parse().unwrap());
    installation.set("database.url", &url.replace(port, &link.port.to_string()));
    let fleet = Fleet::on(installation, FleetSettings::nodes(2)).await;
    let load = FaultLoad::begin(&fleet, form.rate());
    load.goes_on_for(100).await;
    let before = fleet.id_of(0).await;
    let away = form.away(18);
    link.go_dark();
    sleep(away).await;
    let of_the_cut = format!("calls WHERE owner = '{before}' AND outcome IS NULL");
    eventually("the other to have all of it", async || {
        (fleet.count(&of_the_cut).await == 0).then_some(())
    })
    .await;
    link.light_up();
    fleet.is_ready(0).await;
    assert_ne!(fleet.id_of(0).await, before, "it comes back as a new node");
    load.goes_on_for(100).await;
    let journal = load.end().await;
    println!("one node cut from PostgreSQL for {away:?}:");
    check(&fleet, &journal).await;
}
