//! PostgreSQL dies for good, and Patroni promotes its standby by itself, with the shipped configurations of Patroni and haproxy.

use dikala_testkit::{Loss, PatroniPair};
use tokio::task::spawn_blocking;

use super::{
    check::check,
    fleet::{Fleet, FleetSettings},
    load::FaultLoad,
    proxy::Balancer,
    sizes::FaultForm::Long,
};
use crate::support::prelude::*;

async fn fails_over(loss: Loss) {
    let Some(pair) = spawn_blocking(PatroniPair::start).await.unwrap() else {
        return;
    };
    let Some(balancer) = Balancer::to_primary(pair.ports) else {
        return;
    };
    let (asked, port) = (pair.clone(), balancer.port);
    let place = spawn_blocking(move || asked.place(port)).await.unwrap();
    let installation = Installation::at(place);
    let fleet = Fleet::on(installation, FleetSettings::nodes(2)).await;
    let load = FaultLoad::begin(&fleet, Long.rate());
    load.goes_on_for(500).await;
    let losing = pair.clone();
    spawn_blocking(move || losing.lose_the_primary(loss))
        .await
        .unwrap();
    load.goes_on_for(500).await;
    let journal = load.end().await;
    check(&fleet, &journal).await;
}

#[actix_web::test]
#[ignore = "needs patroni and etcd; .ci/slow runs it"]
async fn a_primary_that_dies_is_followed_by_itself_and_nothing_is_lost() {
    fails_over(Loss::Process).await;
}

#[actix_web::test]
#[ignore = "needs patroni and etcd; .ci/slow runs it"]
async fn a_primary_that_dies_with_its_machine_is_followed_by_itself_and_nothing_is_lost() {
    fails_over(Loss::Machine).await;
}
