//! Invocations against real endpoints.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use actix_rt::Arbiter;
use dikala_entities::{CallId, FunctionMethod, Millis, OutboundUrl, Secret, TenantId, UrlPolicy};
use dikala_testkit::{ServerAnswer, TenantServer};
use futures_util::FutureExt;
use serde_json::{Map, Value, json};

use super::{
    CircuitState, EndpointAnswer, FaultCode, FunctionRequest, FunctionSpec, FunctionsConfig,
    FunctionsHandle, Invoke, Outcome, schemas::CompiledSchemas, start,
};
use crate::{
    outbound::{
        Guard, Outbound, Permission,
        testing::{SlowNames, local_outbound},
    },
    runtime::clock::{ManualClock, SharedClock, SystemClock},
    webhooks::signature::Signer,
};

const NOW: Millis = Millis::from_i64(1_768_447_800_000);
/// A timeout for tests that do not expect one.
const AMPLE: Duration = Duration::from_secs(60);

fn functions(outbound: &Outbound) -> FunctionsHandle {
    functions_within(AMPLE, outbound)
}

fn functions_within(timeout: Duration, outbound: &Outbound) -> FunctionsHandle {
    let config = FunctionsConfig {
        timeout,
        max_in_flight: 8,
        tenant_max_in_flight: 4,
        ..FunctionsConfig::default()
    };
    let clock = Arc::new(SystemClock);
    start(&[Arbiter::current()], outbound, &config, clock)
}

fn invoke(endpoint: OutboundUrl, method: FunctionMethod, parameters: Value) -> Invoke {
    let schema = json!({
        "type": "object",
        "properties": { "city": { "type": "string" }, "days": { "type": "integer" } },
        "required": ["city"],
    });
    Invoke {
        call: CallId::new(NOW),
        tenant: TenantId::new(NOW),
        agent: None,
        function: FunctionSpec {
            name: "weather".to_owned(),
            endpoint,
            method,
            parameters: schema.to_string().into(),
        },
        parameters: parameters.as_object().cloned().unwrap_or_default(),
        secret: Secret::new("function-secret"),
        is_test: false,
        traceparent: None,
        permission: Permission::given(),
    }
}

async fn code_of(play: ServerAnswer) -> FaultCode {
    let timeout = match play {
        ServerAnswer::Hang | ServerAnswer::DripHead => Duration::from_millis(400),
        _ => AMPLE,
    };
    let receiver = TenantServer::scripted(move |_| play.clone());
    let handle = functions_within(timeout, &local_outbound());
    let call = invoke(
        receiver.outbound_url("/f"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    let invoked = handle.invoke(call).await;
    match invoked.outcome {
        Outcome::Error { code, message } => {
            assert!(message.ends_with('.'), "{message}");
            code
        }
        Outcome::Ok { result } => panic!("{result:?}"),
    }
}

#[actix::test]
async fn every_method_carries_the_signed_body_and_get_the_query_too() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{\"sunny\":true}"));
    let handle = functions(&local_outbound());
    for method in FunctionMethod::ALL {
        let parameters = json!({"city": "Kota & Tua", "days": 2});
        let call = invoke(receiver.outbound_url("/f?v=1"), *method, parameters.clone());
        let id = call.call;
        let invoked = handle.invoke(call).await;
        let result = Map::from_iter([("sunny".to_owned(), json!(true))]);
        assert_eq!(invoked.outcome, Outcome::Ok { result });
        let seen = receiver.all().pop().expect("a request");
        assert_eq!(seen.method, method.as_str());
        let target = match method {
            FunctionMethod::Get => "/f?v=1&city=Kota+%26+Tua&days=2",
            _ => "/f?v=1",
        };
        assert_eq!(seen.target(), target);
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        let expected = json!({"callId": id, "functionName": "weather", "parameters": parameters});
        assert_eq!(body, expected);
        let signature = Signer::new(&Secret::new("function-secret")).service_signature(&seen.body);
        assert_eq!(seen.headers["x-service-signature"], signature);
        assert_eq!(seen.headers["content-type"], "application/json");
        assert!(!seen.headers.contains_key("x-service-test"));
    }
}

/// The limit of addresses is below that of arguments, with percent-encoding.
#[actix::test]
async fn arguments_that_do_not_fit_into_an_address_are_named() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let handle = functions(&local_outbound());
    let outcome = async |method| {
        let long = json!({"city": "é".repeat(11_000)});
        let call = invoke(receiver.outbound_url("/f"), method, long);
        handle.invoke(call).await.outcome
    };
    let Outcome::Error { code, message } = outcome(FunctionMethod::Get).await else {
        panic!("an address of 66,000 bytes was sent");
    };
    assert_eq!(code, FaultCode::InvalidArguments);
    assert!(message.contains("use POST"), "{message}");
    let sent = outcome(FunctionMethod::Post).await;
    assert!(matches!(sent, Outcome::Ok { .. }), "{sent:?}");
}

#[actix::test]
async fn a_test_shows_the_request_as_it_arrives_and_the_answer_whatever_it_is() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(500, "", b"<p>oops"));
    let handle = functions(&local_outbound());
    for method in FunctionMethod::ALL {
        let endpoint = receiver.outbound_url("/f?v=1");
        let mut call = invoke(endpoint, *method, json!({"city": "Kota & Tua"}));
        assert_eq!(handle.invoke(call.clone()).await.answered, None, "no test");
        call.is_test = true;
        let shown = FunctionRequest::of(&call).expect("a request");
        let invoked = handle.invoke(call).await;
        let body = b"<p>oops".to_vec();
        assert_eq!(invoked.answered, Some(EndpointAnswer { status: 500, body }));
        assert_eq!(invoked.outcome.fault(), Some(FaultCode::HttpStatus));
        let seen = receiver.all().pop().expect("a request");
        assert_eq!(shown.method.as_str(), seen.method);
        assert_eq!(shown.url, receiver.url(&seen.target()));
        assert_eq!(shown.body.as_bytes(), seen.body);
        let names: Vec<&str> = shown
            .headers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(
            names,
            ["content-type", "x-service-signature", "x-service-test"]
        );
        for (name, value) in &shown.headers {
            assert_eq!(seen.header(name), value, "{name}");
        }
    }
}

#[actix::test]
async fn each_fault_has_its_code() {
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    for (play, code) in [
        (ServerAnswer::Hang, FaultCode::Timeout),
        (ServerAnswer::DripHead, FaultCode::Timeout),
        (ServerAnswer::Reset, FaultCode::Connection),
        (
            ServerAnswer::Bytes(b"nonsense\r\n\r\n".to_vec()),
            FaultCode::InvalidResponse,
        ),
        (ServerAnswer::TenGigabytes, FaultCode::TooLarge),
        (
            ServerAnswer::with(200, "", large.as_bytes()),
            FaultCode::TooLarge,
        ),
        (
            ServerAnswer::with(200, "", b"[1]"),
            FaultCode::InvalidResponse,
        ),
        (
            ServerAnswer::with(302, "location: /\r\n", b""),
            FaultCode::HttpStatus,
        ),
        (ServerAnswer::with(500, "", b"{}"), FaultCode::HttpStatus),
    ] {
        let shown = format!("{play:?}").chars().take(60).collect::<String>();
        assert_eq!(code_of(play).await, code, "{shown}");
    }
}

#[actix::test]
async fn nothing_is_sent_with_wrong_arguments_or_to_a_blocked_address() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let handle = functions(&local_outbound());
    for parameters in [
        json!({}),
        json!({"city": 1}),
        json!({"city": "x", "days": "two"}),
    ] {
        let call = invoke(receiver.outbound_url("/"), FunctionMethod::Post, parameters);
        let invoked = handle.invoke(call).await;
        assert!(matches!(
            invoked.outcome,
            Outcome::Error {
                code: FaultCode::InvalidArguments,
                ..
            }
        ));
        assert_eq!(invoked.duration_ms, 0);
    }
    let strict = functions(&Outbound::new(Guard::default(), None).expect("outbound"));
    let url = OutboundUrl::parse("https://127.0.0.1/", UrlPolicy::default()).expect("a URL");
    let invoked = strict
        .invoke(invoke(url, FunctionMethod::Post, json!({"city": "x"})))
        .await;
    assert!(matches!(
        invoked.outcome,
        Outcome::Error {
            code: FaultCode::BlockedTarget,
            ..
        }
    ));
    assert!(receiver.all().is_empty());
}

#[actix::test]
async fn a_tenant_that_hangs_uses_up_his_own_share_only() {
    let hanging = TenantServer::scripted(|_| ServerAnswer::Hang);
    let quick = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let handle = functions(&local_outbound());
    let bad = invoke(
        hanging.outbound_url("/"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    let running: Vec<_> = (0..4)
        .map(|_| {
            let (handle, bad) = (handle.clone(), bad.clone());
            actix_rt::spawn(async move { handle.invoke(bad).await })
        })
        .collect();
    hanging.wait_for_total(4).await;
    assert_eq!(handle.invoke(bad).await.outcome, Outcome::busy());
    let good = invoke(
        quick.outbound_url("/"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    assert!(matches!(
        handle.invoke(good).await.outcome,
        Outcome::Ok { .. }
    ));
    drop(hanging);
    for task in running {
        let outcome = task.await.expect("it ran").outcome;
        assert_eq!(outcome.fault(), Some(FaultCode::Connection));
    }
    assert_eq!(handle.in_flight(), 0);
}

#[actix::test]
async fn a_test_is_marked() {
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let mut call = invoke(
        receiver.outbound_url("/"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    call.is_test = true;
    functions(&local_outbound()).invoke(call).await;
    assert_eq!(receiver.all()[0].headers["x-service-test"], "true");
}

/// A handle with the limits of production.
fn real(clock: SharedClock) -> FunctionsHandle {
    let config = FunctionsConfig {
        timeout: AMPLE,
        ..FunctionsConfig::default()
    };
    start(&[Arbiter::current()], &local_outbound(), &config, clock)
}

#[actix::test]
async fn tenants_that_hang_take_nothing_from_a_healthy_one() {
    let hanging = TenantServer::scripted(|_| ServerAnswer::Hang);
    let quick = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let handle = real(Arc::new(SystemClock));
    let mut running = Vec::new();
    for _ in 0..6 {
        let mut bad = invoke(
            hanging.outbound_url("/"),
            FunctionMethod::Post,
            json!({"city": "x"}),
        );
        for _ in 0..3 {
            bad.call = CallId::new(NOW);
            for _ in 0..16 {
                let (handle, bad) = (handle.clone(), bad.clone());
                running.push(actix_rt::spawn(async move { handle.invoke(bad).await }));
            }
        }
    }
    hanging.wait_for_total(6 * 3 * 16).await;
    for n in 0..10 {
        let good = invoke(
            quick.outbound_url("/"),
            FunctionMethod::Post,
            json!({"city": "x"}),
        );
        let outcome = handle.invoke(good).await.outcome;
        assert!(matches!(outcome, Outcome::Ok { .. }), "{n}: {outcome:?}");
    }
    assert_eq!(handle.in_flight(), 6 * 3 * 16);
    drop(hanging);
    for task in running {
        let outcome = task.await.expect("it ran").outcome;
        assert_eq!(outcome.fault(), Some(FaultCode::Connection));
    }
    assert_eq!(handle.in_flight(), 0);
}

/// Other tenants' functions run on the invoker's thread. While all other threads are busy, work that is ready at once
/// was done on it; the rest waits for another thread.
#[test]
fn arguments_that_take_long_to_check_are_checked_beside_the_invokers_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    runtime.block_on(long_checks_wait_for_a_thread());
}

async fn long_checks_wait_for_a_thread() {
    let schemas = CompiledSchemas::default();
    let items = json!({"type": "string", "pattern": "^[ab]*a[ab]{100}c$|^[ab]*$"});
    let schema = json!({"type": "object", "properties": {"a": {"type": "array", "items": items}}});
    let schema: Arc<str> = schema.to_string().into();
    let arguments = |items| Map::from_iter([("a".to_owned(), json!(vec!["ab".repeat(50); items]))]);
    let (short, long) = (arguments(1), arguments(300));
    let (tenant, other) = (TenantId::new(NOW), TenantId::new(NOW));
    let compiled = schemas.check(tenant, &schema, &short).await;
    assert_eq!(compiled, Ok(()));
    let (free, busy) = std::sync::mpsc::channel::<()>();
    let occupied = tokio::task::spawn_blocking(move || busy.recv());
    let at_once = |tenant, arguments| schemas.check(tenant, &schema, arguments).now_or_never();
    assert_eq!(at_once(tenant, &short), Some(Ok(())));
    assert_eq!(at_once(tenant, &long), None);
    // A slow validation delays neither other tenants nor this tenant's short ones.
    assert_eq!(at_once(other, &short), Some(Ok(())));
    assert_eq!(at_once(tenant, &short), Some(Ok(())));
    drop(free);
    assert!(occupied.await.expect("it ends").is_err());
}

#[actix::test]
async fn an_endpoint_that_keeps_hanging_is_left_alone_until_it_answers() {
    let answers = Arc::new(AtomicBool::new(false));
    let mended = Arc::clone(&answers);
    let receiver = TenantServer::scripted(move |_| {
        if mended.load(SeqCst) {
            ServerAnswer::with(200, "", b"{}")
        } else {
            ServerAnswer::Reset
        }
    });
    let clock = ManualClock::new(NOW);
    let handle = real(Arc::new(clock.clone()));
    let call = invoke(
        receiver.outbound_url("/"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    let code = async || handle.invoke(call.clone()).await.outcome.fault();
    let state = || handle.circuit(call.tenant, &call.function.endpoint);
    for _ in 0..5 {
        assert_eq!(code().await, Some(FaultCode::Connection));
    }
    for _ in 0..20 {
        assert_eq!(code().await, Some(FaultCode::CircuitOpen));
    }
    assert_eq!(receiver.all().len(), 5);
    let until = NOW.plus_ms(5_000);
    assert_eq!(state(), CircuitState::Open { until });

    // One call decides. Arguments that do not fit are not sent and decide nothing.
    clock.advance_ms(5_000);
    assert_eq!(state(), CircuitState::HalfOpen);
    let mut wrong = call.clone();
    wrong.parameters = Map::new();
    let outcome = handle.invoke(wrong).await.outcome;
    assert_eq!(outcome.fault(), Some(FaultCode::InvalidArguments));
    assert_eq!(code().await, Some(FaultCode::Connection));
    assert_eq!(code().await, Some(FaultCode::CircuitOpen));
    assert_eq!(receiver.all().len(), 6);

    // A test is sent anyway, and its answer ends the pause.
    answers.store(true, SeqCst);
    let mut test = call.clone();
    test.is_test = true;
    assert_eq!(handle.invoke(test).await.outcome.fault(), None);
    assert_eq!(state(), CircuitState::Closed);
    assert_eq!(code().await, None);
}

#[actix::test]
async fn tests_have_a_bound_of_their_own() {
    let hanging = TenantServer::scripted(|_| ServerAnswer::Hang);
    let handle = real(Arc::new(SystemClock));
    let mut test = invoke(
        hanging.outbound_url("/"),
        FunctionMethod::Post,
        json!({"city": "x"}),
    );
    test.is_test = true;
    let running: Vec<_> = (0..4)
        .map(|_| {
            let (handle, test) = (handle.clone(), test.clone());
            actix_rt::spawn(async move { handle.invoke(test).await })
        })
        .collect();
    hanging.wait_for_total(4).await;
    assert_eq!(handle.in_flight(), 0, "tests take nothing from calls");
    assert_eq!(handle.invoke(test).await.outcome, Outcome::busy());
    drop(hanging);
    for task in running {
        let outcome = task.await.expect("it ran").outcome;
        assert_eq!(outcome.fault(), Some(FaultCode::Connection));
    }
}

/// An endpoint that sends everything twice, early and late: no invocation receives another's answer.
#[actix::test]
async fn an_answer_belongs_to_its_invocation() {
    let receiver = TenantServer::scripted(|seen| {
        let body: Value = serde_json::from_slice(&seen.body).expect("JSON");
        let answer = json!({"city": body["parameters"]["city"]}).to_string();
        let once = format!(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        ServerAnswer::Bytes(once.repeat(2).into_bytes())
    });
    let handle = real(Arc::new(SystemClock));
    let tenants = [TenantId::new(NOW), TenantId::new(NOW)];
    let running: Vec<_> = (0..60)
        .map(|n| {
            let city = format!("city {n}");
            let method = FunctionMethod::ALL[n % FunctionMethod::ALL.len()];
            let mut call = invoke(receiver.outbound_url("/"), method, json!({"city": city}));
            call.tenant = tenants[n % 2];
            let handle = handle.clone();
            actix_rt::spawn(async move {
                let result = Map::from_iter([("city".to_owned(), json!(city))]);
                assert_eq!(handle.invoke(call).await.outcome, Outcome::Ok { result });
            })
        })
        .collect();
    for task in running {
        task.await.expect("its own answer");
    }
}

#[actix::test]
async fn silent_name_servers_of_one_tenant_hold_up_no_other() {
    let names = SlowNames::start();
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let config = FunctionsConfig {
        timeout: AMPLE,
        ..FunctionsConfig::default()
    };
    let here = [Arbiter::current()];
    let handle = start(&here, &names.outbound, &config, Arc::new(SystemClock));
    let url = SlowNames::url(&receiver, "hang");
    let mut bad = invoke(url, FunctionMethod::Post, json!({"city": "x"}));
    let running: Vec<_> = (0..192)
        .map(|n| {
            bad.function.endpoint = SlowNames::url(&receiver, &format!("hang{n}"));
            let (handle, bad) = (handle.clone(), bad.clone());
            actix_rt::spawn(async move { handle.invoke(bad).await })
        })
        .collect();
    names.wait_for(32).await;
    for n in 0..10 {
        let url = SlowNames::url(&receiver, &format!("quick{n}"));
        let good = invoke(url, FunctionMethod::Post, json!({"city": "x"}));
        let outcome = handle.invoke(good).await.outcome;
        assert!(matches!(outcome, Outcome::Ok { .. }), "{n}: {outcome:?}");
    }
    for task in running {
        let outcome = task.await.expect("it ran").outcome;
        assert!(outcome.fault().is_some(), "{outcome:?}");
    }
    assert_eq!(names.hanging.load(SeqCst), 32);
}

/// The permission was withdrawn while connecting: the endpoint receives nothing and is not blamed.
#[actix::test]
async fn an_invocation_that_may_not_go_out_any_more_does_not() {
    let names = SlowNames::start();
    let receiver = TenantServer::scripted(|_| ServerAnswer::with(200, "", b"{}"));
    let handle = functions(&names.outbound);
    let url = SlowNames::url(&receiver, "hang");
    let may = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&may);
    let withdrawn = Invoke {
        permission: Permission::only_while(move || asked.load(SeqCst)),
        ..invoke(url.clone(), FunctionMethod::Post, json!({"city": "x"}))
    };
    let tenant = withdrawn.tenant;
    let (asking, by) = (handle.clone(), withdrawn.clone());
    let asked = actix_rt::spawn(async move { asking.invoke(by).await });
    names.wait_for(1).await;
    may.store(false, SeqCst);
    drop(names);
    let outcome = asked.await.expect("it ran").outcome;
    assert_eq!(outcome, Outcome::busy());
    for _ in 0..8 {
        assert_eq!(handle.invoke(withdrawn.clone()).await.outcome, outcome);
    }
    assert_eq!(handle.circuit(tenant, &url), CircuitState::Closed);
    assert!(receiver.all().is_empty());
}
