//! Readiness with a stuck actor.

use std::sync::{Arc, mpsc};

use actix_web::body::to_bytes;
use dikala_actors::{
    nodes::Membership,
    outbound::{Guard, Outbound},
    runtime::clock::SystemClock,
    traces::Traces,
};
use dikala_entities::Vault;
use dikala_testkit::eventually;

use super::*;
use crate::{
    app::actors::ActorSystem,
    config::{Layers, Settings},
};

async fn asked(parts: &web::Data<HealthChecks>) -> (u16, Value) {
    let answer = ready(parts.clone()).await;
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body()).await.expect("a body");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[actix_web::test]
async fn an_actor_that_is_stuck_is_named() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (_keep, store) = dikala_testkit::sqlite().await;
    let layers = Layers::load(None, []).expect("the defaults");
    let settings = Settings::new(&layers).expect("the defaults");
    let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
    let outbound = || Outbound::new(Guard::default(), None);
    let actors = ActorSystem::start(
        &settings,
        store,
        vault,
        Arc::new(SystemClock),
        Membership::outside("main"),
        Traces::default(),
        outbound,
    )
    .await;
    let actors = actors.expect("they start");
    let (stop, stopping) = watch::channel(false);
    let parts = web::Data::new(HealthChecks::new(actors.runtime.clone(), stopping, false));
    let is_ready = async || (asked(&parts).await.0 == 200).then_some(());
    eventually("actors that answer", is_ready).await;
    let [core, webhooks, ..] = &actors.arbiters[..] else {
        panic!("no threads");
    };
    for (thread, stuck) in [
        (core, &["callRegistry", "creditLedger"][..]),
        (webhooks, &["webhookDispatcher"]),
    ] {
        let (free, blocked) = mpsc::channel::<()>();
        thread.spawn_fn(move || {
            let _ = blocked.recv();
        });
        // Retried: an actor may answer just before its thread is blocked, and the machine may be busy.
        let these_are_named = async || {
            let (status, body) = asked(&parts).await;
            let problems = body["problems"].as_array().map_or(0, Vec::len);
            let named = stuck.iter().all(|name| body["checks"][name] == false);
            (status == 503 && problems == stuck.len() && named).then_some(())
        };
        eventually("the stuck ones to be named", these_are_named).await;
        drop(free);
        eventually("all to answer again", is_ready).await;
    }
    stop.send(true).expect("somebody listens");
    let (status, body) = asked(&parts).await;
    assert_eq!((status, &body["checks"]["running"]), (503, &json!(false)));
    assert!(
        body["problems"][0]
            .as_str()
            .expect("words")
            .contains("stopping")
    );
    for arbiter in &actors.arbiters {
        arbiter.stop();
    }
}
