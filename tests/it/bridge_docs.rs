//! The protocol's documentation is correct: every exchange in it is played, and its example bridge runs.

use std::{
    collections::{HashMap, HashSet},
    process::{Command, Stdio},
};

use awc::http::Method;

use crate::support::{
    bridge::post_raw,
    prelude::*,
    server::finished,
    tenant::{fresh_did, text},
};

/// The documentation's current time.
const ITS_NOW: &str = "2026-01-15T03:40:00.000Z";
/// Tolerance of `secondsLeft` on a busy machine.
const SECONDS_OFF: i64 = 10;

fn documentation() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/bridges.md")).unwrap()
}

/// The lines of every block of exchanges.
fn exchanges(text: &str) -> Vec<Vec<&str>> {
    let blocks = text.split("```json\n").skip(1);
    blocks
        .map(|block| block.split("```").next().unwrap().lines().collect())
        .collect()
}

/// Maps the documentation's ids and numbers to those of this run.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    /// The documentation's value with this run's names.
    fn ours(&self, theirs: &Value) -> Value {
        match theirs {
            Value::String(text) => json!(self.our_text(text)),
            Value::Array(items) => items.iter().map(|item| self.ours(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                Value::Object(
                    fields
                        .map(|(name, value)| (name.clone(), self.ours(value)))
                        .collect(),
                )
            }
            other => other.clone(),
        }
    }

    fn our_text(&self, text: &str) -> String {
        let moment = json!(text.replace('Z', ".000Z"));
        if text.len() == "2026-01-15T03:40:00Z".len() && text.ends_with('Z') && text.contains('T') {
            let ago = Moment::parse(&json!(ITS_NOW)).ms_since(Moment::parse(&moment));
            return Moment::now().plus_ms(-ago).text();
        }
        self.0.get(text).cloned().unwrap_or_else(|| text.to_owned())
    }

    /// True if a value of ours matches the documentation's. Ids that occur for the first time are recorded.
    fn fits(&mut self, field: &str, theirs: &Value, ours: &Value) -> bool {
        match (theirs, ours) {
            (Value::String(theirs), Value::String(ours)) => {
                let is_id = theirs.len() > 20
                    && ["call_", "cmd_", "agent_"]
                        .iter()
                        .any(|p| theirs.starts_with(p));
                match self.0.get(theirs) {
                    Some(known) => known == ours,
                    None if is_id => {
                        self.0.insert(theirs.clone(), ours.clone());
                        theirs.split('_').next() == ours.split('_').next()
                            && theirs.len() == ours.len()
                    }
                    None => theirs == ours,
                }
            }
            (Value::Array(theirs), Value::Array(ours)) => {
                theirs.len() == ours.len()
                    && theirs
                        .iter()
                        .zip(ours)
                        .all(|(theirs, ours)| self.fits("", theirs, ours))
            }
            // The agent is shown in full only once.
            (Value::Object(theirs), Value::Object(_)) if field == "agent" && theirs.is_empty() => {
                true
            }
            (Value::Object(theirs), Value::Object(ours)) => {
                theirs.len() == ours.len()
                    && theirs.iter().all(|(name, theirs)| {
                        ours.get(name)
                            .is_some_and(|ours| self.fits(name, theirs, ours))
                    })
            }
            (Value::Number(theirs), Value::Number(ours)) if field == "secondsLeft" => {
                (theirs.as_i64().unwrap() - ours.as_i64().unwrap()).abs() <= SECONDS_OFF
            }
            _ => theirs == ours,
        }
    }

    #[track_caller]
    fn assert_fits(&mut self, theirs: &Value, ours: &Value) {
        assert!(
            self.fits("", theirs, ours),
            "documented: {theirs}\n    answered: {ours}"
        );
    }
}

/// Creates the documentation's setting: an agent, its functions, and a number without an agent.
async fn stage(world: &TestWorld) -> Names {
    let (tenant, receiver) = (&world.tenant, &world.receiver);
    for name in ["check_order", "old_menu"] {
        tenant
            .create_function(name, "POST", &receiver.url("/check"))
            .await;
    }
    receiver.answer(
        "/check",
        [
            ServerAnswer::Json(json!({"arrivesInMinutes": 20})),
            ServerAnswer::Status(500),
        ],
    );
    let agent = json!({
        "name": "Ayu", "systemPrompt": "You answer for Kopi Senja.", "voiceId": "Kore",
        "greetingText": "Kopi Senja, selamat pagi!", "maxCallDurationMinutes": 10, "escalationNumber": "+622150009999",
        "toolsEnabled": ["end_call", "transfer_to_human", "check_order"],
    });
    tenant.change_agent(agent).await;
    let without_agent = fresh_did();
    let number = [
        "number",
        "add",
        "--tenant",
        &tenant.id,
        "--did",
        &without_agent,
        "--label",
        "Side",
    ];
    world.server.cli(&number);
    let numbers = [
        ("+622150001000", tenant.did.clone()),
        ("+622150002000", without_agent),
        ("+622150003000", fresh_did()),
    ];
    let names = [("Kopi Senja", "Toko"), ("Main line", "Main")];
    let names = names.map(|(theirs, ours)| (theirs, ours.to_owned()));
    let all = numbers.into_iter().chain(names);
    Names(
        all.map(|(theirs, ours)| (theirs.to_owned(), ours))
            .collect(),
    )
}

#[actix_web::test]
async fn every_exchange_of_the_documentation_is_what_happens() {
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    let mut names = stage(&world).await;
    let bridge = tenant.bridge(Socket).await;
    let documentation = documentation();
    let mut replies = HashMap::new();
    let (mut kinds, mut seen) = (HashSet::new(), 0);
    for line in exchanges(&documentation).concat() {
        seen += 1;
        if let Some(message) = line.strip_prefix("→ ") {
            let message = names.ours(&serde_json::from_str(message).unwrap());
            kinds.insert(text(&message, "type"));
            replies.insert(text(&message, "id"), bridge.send(&message).await);
        } else if let Some(posted) = line.strip_prefix("POST ") {
            let (path, body) = posted.split_once(' ').unwrap();
            let body = names.ours(&serde_json::from_str(body).unwrap());
            match path.strip_prefix("/api/v1/calls/") {
                Some(call_and_what) => {
                    let (call, what) = call_and_what.split_once('/').unwrap();
                    let path = format!("/calls/{}/{what}", names.our_text(call));
                    tenant
                        .api
                        .send(Method::POST, &path, Some(body))
                        .await
                        .expect(202);
                }
                None => {
                    let token = format!("Bearer {}", tenant.token);
                    let answer = post_raw(&world.server.http, Some(&token), body).await;
                    replies.insert("posted".to_owned(), answer.body);
                }
            }
        } else {
            let documented: Value =
                serde_json::from_str(line.strip_prefix("← ").expect(line)).unwrap();
            let said = match (
                documented["replyTo"].as_str(),
                documented["command"].as_str(),
            ) {
                (Some(id), _) => replies.remove(id).unwrap(),
                (None, Some(command)) => {
                    let call = names.our_text(documented["callId"].as_str().unwrap());
                    kinds.insert(command.to_owned());
                    bridge.command(command, &call).await
                }
                (None, None) => replies.remove("posted").unwrap(),
            };
            names.assert_fits(&documented, &said);
        }
    }
    assert!(replies.is_empty(), "not documented: {replies:?}");
    assert!(seen > 50, "{seen} lines");
    for kind in WORDS[..10].iter() {
        assert!(kinds.contains(*kind), "{kind} has no example");
    }
    world.assert_ledger_is_exact();
}

/// Every word of the protocol: messages and commands (which have an exchange), then errors, outcomes, reasons,
/// initiators.
const WORDS: [&str; 55] = [
    "call.incoming",
    "call.answered",
    "call.function",
    "call.transcript",
    "call.hangup",
    "call.failed",
    "heartbeat",
    "hangup",
    "warn",
    "transfer",
    "invalid_message",
    "unknown_type",
    "unknown_number",
    "unknown_call",
    "invalid_transition",
    "busy",
    "unavailable",
    "too_large",
    "timeout",
    "connection",
    "blocked_target",
    "http_status",
    "invalid_response",
    "invalid_arguments",
    "unknown_function",
    "disabled",
    "circuit_open",
    "normal",
    "transferred",
    "max_duration",
    "credits_exhausted",
    "requested",
    "operator",
    "silence",
    "abandoned",
    "media_lost",
    "ai_error",
    "bridge_lost",
    "answer_timeout",
    "bridge_error",
    "rejected",
    "no_agent",
    "agent_inactive",
    "number_inactive",
    "insufficient_credits",
    "concurrency_limit",
    "tenant_suspended",
    "caller",
    "agent",
    "bridge",
    "tenant",
    "operator",
    "system",
    "ended",
    "activeCalls",
];

#[test]
fn every_word_of_the_protocol_is_explained() {
    let documentation = documentation();
    for word in WORDS {
        assert!(documentation.contains(&format!("`{word}`")), "{word}");
    }
}

/// Skipped without Python; `DIKALA_REQUIRE_PYTHON` makes its absence a failure.
#[actix_web::test]
async fn the_example_bridge_holds_a_call_and_obeys() {
    let python = Command::new("python3").arg("--version").output();
    if python.is_err() {
        assert!(
            std::env::var_os("DIKALA_REQUIRE_PYTHON").is_none(),
            "there is no python3"
        );
        println!("python3 is not at hand: skipped");
        return;
    }
    let world = world!(Sqlite);
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/check"))
        .await;
    world.receiver.answer(
        "/check",
        [ServerAnswer::Json(json!({"arrivesInMinutes": 20}))],
    );
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/bridge.py");
    let run = |seconds: &str, calls: &str| {
        Command::new("python3")
            .args([
                example,
                "--did",
                &tenant.did,
                "--talk-seconds",
                seconds,
                "--calls",
                calls,
            ])
            .env("DIKALA_URL", &world.server.http)
            .env("DIKALA_BRIDGE_TOKEN", &tenant.token)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let done = finished(run("2", "2"), Duration::from_secs(60)).await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{done:?}");
    let calls = tenant.calls().await;
    assert_eq!(calls.len(), 2, "{done:?}");
    for call in &calls {
        assert_eq!(call["hangupReason"], "normal");
        assert!(call["transcriptSummary"].is_string());
        assert_eq!(tenant.billed(&text(call, "id")).await, Some(1));
    }

    // If the tenant ends a call, the bridge hangs up with that reason.
    let talking = run("600", "1");
    let call = eventually("a call that talks", async || {
        let calls = tenant.calls().await;
        calls.into_iter().find(|call| call["status"] == "answered")
    })
    .await;
    let path = format!("/calls/{}/hangup", text(&call, "id"));
    tenant.api.post(&path, json!({})).await.expect(202);
    let done = finished(talking, Duration::from_secs(60)).await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{done:?}");
    let call = tenant.call(&text(&call, "id")).await;
    assert_eq!(
        (&call["hangupReason"], &call["hangupInitiator"]),
        (&json!("requested"), &json!("tenant"))
    );
    world.assert_ledger_is_exact();
}
