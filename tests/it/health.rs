//! Health endpoints for load balancers, scrapers and outages.

use dikala_testkit::within;

use crate::support::{prelude::*, scrape::Scrape, world::HOOK};

#[rstest]
#[actix_web::test]
async fn health_tells_how_it_is(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let public = world.server.rest();
    for path in ["/health/live", "/health/ready"] {
        public.get(path).await.expect(200);
    }
    assert_eq!(
        public.get("/metrics").await.status,
        404,
        "metrics are for operators"
    );
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world.event("call.answered", &call).await;

    let operator = Rest::new(&world.server.operator);
    operator.get("/metrics").await;
    bridge.hang_up(&call).await;
}

/// Frequent readiness requests do not query the parts frequently. A problem is reported at its first sign.
#[rstest]
#[actix_web::test]
async fn readiness_that_is_asked_often_asks_its_parts_seldom(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let operator = Rest::new(&world.server.operator);
    let counted = async |actor: &str| {
        let pings = [("actor", actor), ("message", "Ping")];
        let scrape = Scrape::of(&world.server.operator).await;
        scrape
            .find("dikala_actor_handle_seconds_count", &pings)
            .unwrap_or(0.0) as u64
    };
    let scrape = Scrape::of(&world.server.operator).await;
    let not_ready = [("route", "/health/ready"), ("status", "503")];
    assert_eq!(scrape.value("dikala_http_requests_total", &not_ready), 0.0);
    let actors = ["call_registry", "webhook_dispatcher"];
    let began = std::time::Instant::now();
    let mut before = Vec::new();
    for actor in actors {
        before.push(counted(actor).await);
    }
    for _ in 0..200 {
        operator.get("/health/ready").await.expect(200);
    }
    for (actor, before) in actors.into_iter().zip(before) {
        let pings = counted(actor).await - before;
        let most = began.elapsed().as_secs() + 3;
        // Every scrape queries them once a second already.
        assert!(before > 0 && pings <= most, "{actor}: {pings} of {most}");
    }
}

/// While a delivery delays a stop, the operators' listener answers and says what it waits for.
#[rstest]
#[actix_web::test]
async fn a_stop_is_told_until_it_is_done(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut world = world!(store);
    world.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let bridge = world.tenant.bridge(Http).await;
    bridge.ring(&world.tenant.did).await;
    world.receiver.wait_for(HOOK, 1).await;
    let operator = Rest::new(&world.server.operator);
    operator.get("/health/ready").await.expect(200);
    world.server.send_sigterm();
    let answer = eventually("not ready", async || {
        let answer = operator.get("/health/ready").await;
        (answer.status == 503).then_some(answer.body)
    })
    .await;
    assert_eq!(answer["checks"]["running"], false, "{answer}");
    assert_eq!(answer["checks"]["store"], true, "{answer}");
    let problem = answer["problems"][0].as_str().unwrap();
    assert!(problem.contains("stopping"), "{answer}");
    assert_eq!(operator.get("/metrics").await.status, 200);
    world.server.kill9();
}

#[rstest]
#[actix_web::test]
async fn a_database_that_is_away_is_unavailable_and_comes_back() {
    let world = world!(Postgres);
    let tenant = &world.tenant;
    let public = world.server.rest();
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let database = world.server.installation.store.database().unwrap();
    database.go_away();
    let answer = eventually("not ready", async || {
        let answer = public.get("/health/ready").await;
        (answer.status == 503).then_some(answer.body)
    })
    .await;
    assert_eq!(answer["checks"]["store"], false, "{answer}");
    let problem = answer["problems"][0].as_str().unwrap();
    assert!(problem.contains("database"), "{answer}");
    public.get("/health/live").await.expect(200);
    let answer = tenant.api.get("/agents").await;
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_eq!(answer.expect(503)["error"]["code"], "unavailable");
    let wrong = "dkl_0000000000000000000000000000000000000";
    let stranger = Rest::new(&format!("{}/api/v1", world.server.http)).with("x-api-key", wrong);
    stranger.get("/agents").await.expect(401);

    database.come_back();
    let patience = Duration::from_secs(120);
    within(patience, "ready again", async || {
        (public.get("/health/ready").await.status == 200).then_some(())
    })
    .await;
    within(patience, "the call to be answered for", async || {
        let hangup = bridge.ask("call.hangup", json!({"callId": call})).await;
        (hangup["ok"] == true).then_some(())
    })
    .await;
    assert_eq!(tenant.billed(&call).await, Some(1));
    world.event("call.ended", &call).await;
    world.assert_ledger_is_exact();
}

/// A right path with a wrong method is answered as such, on every listener.
#[actix_web::test]
async fn what_is_there_says_which_methods_it_takes() {
    use awc::http::Method;

    let world = world!(Sqlite);
    let public = world.server.rest();
    let operators = Rest::new(&world.server.operator);
    let bridge = Rest::new(&world.server.http)
        .with("authorization", &format!("Bearer {}", world.tenant.token));
    let reads = [Method::GET, Method::HEAD];
    for (rest, path, takes) in [
        (&public, "/", &reads[..]),
        (&public, "/docs", &reads),
        (&public, "/docs/", &reads),
        (&public, "/docs/swagger-ui-bundle.js", &reads),
        (&public, "/openapi.json", &reads),
        (&public, "/health/live", &reads),
        (&public, "/health/ready", &reads),
        (&operators, "/health/live", &reads),
        (&operators, "/health/ready", &reads),
        (&operators, "/metrics", &reads),
        (&bridge, "/bridge/v1/connect", &reads[..1]),
        (&bridge, "/bridge/v1/messages", &[Method::POST]),
    ] {
        let allow: Vec<&str> = takes.iter().map(Method::as_str).collect();
        for method in [
            Method::GET,
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ] {
            let is_head = method == Method::HEAD;
            let is_taken = takes.contains(&method);
            let answer = rest.send(method.clone(), path, None).await;
            assert_eq!(
                answer.status != 405,
                is_taken,
                "{method} {path}: {answer:?}"
            );
            if !is_taken {
                assert_eq!(answer.header("allow"), Some(&*allow.join(", ")), "{path}");
                if !is_head {
                    let code = &answer.body["error"]["code"];
                    assert_eq!(code, "method_not_allowed", "{method} {path}");
                }
            }
        }
    }
    // An unknown path is 404 for every method.
    for path in ["/nothing", "/health/nothing", "/doc"] {
        for method in [Method::GET, Method::PUT] {
            let answer = public.send(method, path, None).await;
            let answer = answer.expect(404);
            assert_eq!(answer["error"]["code"], "route_not_found", "{path}");
        }
    }
}
