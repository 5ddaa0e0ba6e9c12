//! Calls over Dikala's own telephony bridge, with the real service and its real socket.

mod audio;
mod conversation;
mod diagnosis;
mod endurance;
mod faults;
mod flood;
mod gateway;
mod line;
mod microphone;
pub mod phone;
mod pipeline;
mod room;
mod sounds;
mod spoken;
mod timing;
mod tls;
mod web;
mod whatsapp;
mod whatsapp_setup;

use std::{collections::BTreeMap, net::SocketAddr, process::Stdio, sync::Arc};

use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::{Secret, VoiceProvider};
use dikala_protocol::client::Address;
use dikala_sip::settings::{Codec, SipSettings, Srtp};
use dikala_telephony::{
    bridge::CallTasks,
    settings::{BridgeSettings, Voice},
    trust::Trust,
    voice::{Provider, Scripted},
};
use dikala_testkit::{free_port, within};

use self::{line::MemoryLine, phone::TestPhone};
use crate::{
    metrics::{assert_as_documented, documented},
    support::{
        prelude::*,
        scrape::Scrape,
        server::{self, wait_for_line},
        visitor::Visitor,
    },
};

const PATIENCE: Duration = Duration::from_secs(30);

fn settings() -> BridgeSettings {
    BridgeSettings {
        sip: SipSettings {
            threads: 2,
            max_calls: 10,
            listen: Vec::new(),
            public_address: None,
            local_networks: Vec::new(),
            tls: None,
            rtp_ports: 20_000..=20_999,
            codecs: vec![Codec::Pcma],
            srtp: Srtp::Off,
            trunks: Vec::new(),
            nameservers: Vec::new(),
        },
        voice: Voice::default(),
        extra_ca_file: None,
        shutdown_seconds: 20,
        engine_lost_after_seconds: 30,
    }
}

fn service(world: &TestWorld) -> Address {
    let url = world.server.http.replacen("http://", "ws://", 1);
    Address {
        url: format!("{url}/bridge/v1/connect"),
        token: Secret::new(world.tenant.token.clone()),
    }
}

/// The calls of a bridge without a SIP edge.
fn calls(world: &TestWorld) -> CallTasks {
    let clock = Arc::new(|| SystemClock.now());
    let trust = Trust::new(None).unwrap();
    let scripted: Arc<dyn Provider> = Arc::new(Scripted);
    CallTasks::start(
        &settings(),
        BTreeMap::from([(VoiceProvider::Scripted, scripted)]),
        service(world),
        trust,
        clock,
    )
}

/// Gives the agent a function that looks up orders, and lets it hang up.
pub(crate) async fn with_a_function(world: &TestWorld) {
    let order = ServerAnswer::Json(json!({"arrivesInMinutes": 25}));
    world.receiver.answer("/order", [order]);
    let endpoint = world.receiver.url("/order");
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &endpoint)
        .await;
    let tools = ["end_call", "check_order"];
    tenant
        .change_agent(json!({"toolsEnabled": tools, "language": "en"}))
        .await;
}

#[rstest]
#[actix_web::test]
async fn a_caller_is_greeted_asks_gets_an_answer_and_is_hung_up(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store, WorldSetup::new().minutes(10));
    with_a_function(&world).await;
    let calls = calls(&world);
    let mut caller = MemoryLine::dial(&calls, &world.tenant.did, "sip-1").await;
    caller.answered().await;
    caller.press("427#").await;
    caller.hung_up().await;

    let order = world.receiver.wait_for("/order", 1).await;
    let asked: Value = serde_json::from_slice(&order[0].body).unwrap();
    assert!(asked.to_string().contains("\"427\""), "{asked}");
    let listed = world.tenant.calls().await;
    let call = listed[0]["id"].as_str().unwrap();
    let call = world.tenant.call_over(call).await;
    assert_eq!(call["status"], "ended", "{call}");
    assert_eq!(
        (&call["hangupReason"], &call["hangupInitiator"]),
        (&json!("normal"), &json!("agent"))
    );
    let id = call["id"].as_str().unwrap();
    assert_eq!(world.tenant.billed(id).await, Some(1));
    world.event("call.transcript", id).await;
    let transcript = world
        .tenant
        .api
        .get(&format!("/calls/{id}/transcript"))
        .await;
    let told = transcript.expect(200).to_string();
    for said in [
        "the caller pressed 4 2 7 #",
        "check_order",
        "two five",
        "Goodbye!",
    ] {
        assert!(told.contains(said), "{said:?} is not in {told}");
    }
    calls.finish(PATIENCE).await;
    world.assert_ledger_is_exact();
}

// The service dies during a call and returns: the conversation continues, the function is called once, and the call
// is billed.
#[actix_web::test]
async fn a_call_outlives_the_service() {
    let mut world = world!(Sqlite, WorldSetup::new().minutes(10));
    with_a_function(&world).await;
    let calls = calls(&world);
    let mut caller = MemoryLine::dial(&calls, &world.tenant.did, "sip-2").await;
    caller.answered().await;
    eventually("the call to be answered in the books", async || {
        let calls = world.tenant.calls().await;
        (calls[0]["status"] == "answered").then_some(())
    })
    .await;
    world.server.kill9();
    // Key presses, and with them the function, while the service is down.
    caller.press("8#").await;
    world.server.restart();
    caller.hung_up().await;
    assert_eq!(world.receiver.wait_for("/order", 1).await.len(), 1);
    let listed = world.tenant.calls().await;
    let call = world
        .tenant
        .call_over(listed[0]["id"].as_str().unwrap())
        .await;
    assert_eq!(
        (&call["status"], &call["hangupReason"]),
        (&json!("ended"), &json!("normal"))
    );
    assert_eq!(
        world.tenant.billed(call["id"].as_str().unwrap()).await,
        Some(1)
    );
    calls.finish(PATIENCE).await;
    world.assert_ledger_is_exact();
}

/// The Request-URI of a registered trunk may have an account that looks like a number.
#[actix_web::test]
async fn the_first_called_number_that_a_tenant_has_counts() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let calls = calls(&world);
    let did = &world.tenant.did;
    let numbers = ["+62123456", did, "+6299999999"];
    let mut caller = MemoryLine::dial_one_of(&calls, &numbers, "sip-8").await;
    assert_eq!(&caller.answered().await, did);
    let listed = world.tenant.calls().await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(&listed[0]["calleeNumber"], did);
}

#[actix_web::test]
async fn who_cannot_be_served_hears_why() {
    let world = world!(Sqlite, WorldSetup::new().minutes(0));
    let calls = calls(&world);
    let refused = MemoryLine::dial(&calls, &world.tenant.did, "sip-3")
        .await
        .refused()
        .await;
    assert_eq!(refused.status, 402);
    let refused = MemoryLine::dial(&calls, "+6299999999", "sip-4")
        .await
        .refused()
        .await;
    assert_eq!(refused.status, 404);
    world.tenant.change_agent(json!({"isActive": false})).await;
    let refused = MemoryLine::dial(&calls, &world.tenant.did, "sip-5")
        .await
        .refused()
        .await;
    assert_eq!(refused.status, 480);
}

// One call of the service is one on the line: a second one with the same id would not be billed.
#[actix_web::test]
async fn who_calls_again_by_the_same_id_is_refused_while_the_call_goes_on_and_after() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let calls = calls(&world);
    let mut caller = MemoryLine::dial(&calls, &world.tenant.did, "sip-7").await;
    caller.answered().await;
    let again = MemoryLine::dial(&calls, &world.tenant.did, "sip-7").await;
    assert_eq!(again.refused().await.status, 482);
    let listed = world.tenant.calls().await;
    let id = listed[0]["id"].as_str().unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    let hangup = format!("/calls/{id}/hangup");
    world.tenant.api.post(&hangup, json!({})).await.expect(202);
    caller.hung_up().await;
    drop(caller);
    world.tenant.call_over(id).await;
    let after = MemoryLine::dial(&calls, &world.tenant.did, "sip-7").await;
    assert_eq!(after.refused().await.status, 482);
    calls.finish(PATIENCE).await;
    world.assert_ledger_is_exact();
}

// A bridge that stops tells its callers, and reports the ends of their calls.
#[actix_web::test]
async fn a_bridge_that_stops_hangs_up_in_the_books_too() {
    let world = world!(Sqlite, WorldSetup::new().minutes(10));
    let calls = calls(&world);
    let mut caller = MemoryLine::dial(&calls, &world.tenant.did, "sip-6").await;
    caller.answered().await;
    let stopping = calls.finish(Duration::from_secs(12));
    let (heard, ()) = tokio::join!(caller.hung_up(), stopping);
    assert!(heard.contains("stops"), "{heard}");
    let call = &world.tenant.calls().await[0];
    assert_eq!(
        (&call["status"], &call["hangupInitiator"]),
        (&json!("ended"), &json!("bridge"))
    );
}

/// A configuration file with a trunk for callers on this machine.
fn trunk(world: &Installation) -> String {
    let file = world.log().with_file_name("trunks.toml");
    let trunk = "[[telephony.sip.trunks]]\nname = \"here\"\naddresses = [\"127.0.0.0/8\"]\n";
    std::fs::write(&file, trunk).unwrap();
    file.display().to_string()
}

async fn rings(world: &TestWorld, edge: SocketAddr) {
    let phone = TestPhone::call(edge, &world.tenant.did).await;
    phone.hears().await;
    phone.hang_up().await;
    let listed = world.tenant.calls().await;
    let call = world
        .tenant
        .call_over(listed[0]["id"].as_str().unwrap())
        .await;
    assert_eq!(
        (&call["status"], &call["hangupInitiator"]),
        (&json!("ended"), &json!("caller"))
    );
    assert_eq!(call["metadata"]["sip"]["trunk"], "here", "{call}");
}

#[actix_web::test]
async fn serve_has_a_phone_ring() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let port = free_port();
    let file = trunk(&installation);
    installation.set("config", &file);
    installation.set("telephony.enabled", "true");
    installation.set("telephony.voice.provider", "scripted");
    installation.set("telephony.sip.listen", &format!("udp://127.0.0.1:{port}"));
    let mut world = TestWorld::on(installation, WorldSetup::new()).await;
    let edge = SocketAddr::from(([127, 0, 0, 1], port));
    rings(&world, edge).await;
    let scrape = Scrape::of(&world.server.operator).await;
    let answered = scrape.metrics["dikala_telephony_calls_total"].series.iter();
    let answered = answered.filter(|series| {
        series.labels["leg"] == "caller" && series.labels["outcome"] == "answered"
    });
    assert_eq!(
        answered.map(|series| series.value).collect::<Vec<_>>(),
        [1.0]
    );
    let page = Visitor::new(&world.server.operator).open("/bridges").await;
    let shown = page.text();
    assert!(
        shown.contains("Built-in bridge") && shown.contains("1 answered, 0 refused"),
        "{shown}"
    );
    // A single answer has the same upper bound at both percentiles.
    let times = shown.split("p50 / p99").nth(1).unwrap_or_default();
    assert!(times.trim_start().starts_with("≤ "), "{shown}");
    let answers = scrape.value("dikala_telephony_answer_seconds_count", &[]);
    assert_eq!(answers, 1.0);
    assert_eq!(
        scrape.value("dikala_telephony_barge_in_seconds_count", &[]),
        0.0,
        "nobody was interrupted"
    );
    let is_ours = |name: &str| name.starts_with("dikala_telephony_");
    let documented = documented();
    let of_docs: Vec<&String> = documented.keys().filter(|name| is_ours(name)).collect();
    let served = scrape.metrics.iter().filter(|(name, _)| is_ours(name));
    assert_eq!(
        of_docs,
        served.clone().map(|(name, _)| name).collect::<Vec<_>>()
    );
    for (name, metric) in served {
        assert_as_documented(name, metric, &documented);
    }
    // The bridge's identity survives restarts, and nothing else can use its token.
    let bridges = |world: &TestWorld| {
        let listed = world.server.cli(&["bridge", "list"]);
        let listed = listed["bridges"].as_array().unwrap().clone();
        let ours = listed.iter().filter(|one| one["name"] == "telephony@main");
        ours.map(|one| one["id"].clone()).collect::<Vec<_>>()
    };
    let before = bridges(&world);
    assert_eq!(before.len(), 1);
    assert_eq!(world.server.terminate().await, 0);
    world.server.restart();
    rings(&world, edge).await;
    assert_eq!(bridges(&world), before);
}

#[actix_web::test]
async fn the_bridge_runs_alone() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let file = trunk(&installation);
    installation.set("config", &file);
    installation.set("telephony.voice.provider", "scripted");
    installation.set("telephony.sip.listen", "udp://127.0.0.1:0");
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    let token = world.tenant.token.clone();
    let service = world.server.http.clone();
    let command = ["telephony", "--engine", &service, "--token", &token];
    let mut child = world.server.installation.command(&command);
    let mut child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let edge = wait_for_line(&mut child, &world.server.installation.log(), |line| {
        line.strip_prefix("sip udp://")?.parse::<SocketAddr>().ok()
    });
    rings(&world, edge).await;
    server::interrupt(&child);
    let ended = within(PATIENCE, "the bridge to exit", async || {
        child.try_wait().unwrap()
    })
    .await;
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn without_the_voice_that_was_asked_for_nothing_starts() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    installation.set("telephony.voice.provider", "gemini");
    let command = [
        "telephony",
        "--engine",
        "http://127.0.0.1:1",
        "--token",
        "dkb_x",
    ];
    let finished = installation.run(&command);
    assert_eq!(finished.code, Some(3));
    assert!(finished.stderr.contains("GEMINI_API_KEY"), "{finished:?}");
    installation.set("telephony.enabled", "true");
    let finished = installation.run(&["serve"]);
    assert_eq!(finished.code, Some(3));
    assert!(finished.stderr.contains("GEMINI_API_KEY"), "{finished:?}");
}

#[actix_web::test]
async fn without_a_key_a_test_voice_answers_and_operators_are_told() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    installation.set("telephony.enabled", "true");
    installation.set("telephony.sip.listen", "udp://127.0.0.1:0");
    let finished = installation.run(&["check", "--json"]);
    let checks = finished.json()["checks"].clone();
    let mut checks = checks.as_array().unwrap().iter();
    let voice = checks.find(|check| check["name"] == "voice").unwrap();
    assert_eq!(voice["ok"], true, "{voice}");
    let detail = voice["detail"].as_str().unwrap();
    assert!(detail.contains("a test voice answers"), "{detail}");
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    let log = world.server.log();
    assert!(log.contains("a test voice answers"), "{log}");
}

/// A socket on an even port, as a call uses it for media.
fn even_port() -> std::net::UdpSocket {
    loop {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.local_addr().unwrap().port().is_multiple_of(2) {
            return socket;
        }
    }
}

// `check` tests the bridge's requirements before anything is started.
#[test]
fn check_tries_what_the_bridge_needs() {
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let taken = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let media = even_port();
    let first = media.local_addr().unwrap().port();
    let file = installation.log().with_file_name("bridge.toml");
    let registrar = free_port();
    let keys = format!(
        "[telephony]\nenabled = true\n[telephony.sip]\nlisten = [\"udp://127.0.0.1:{port}\", \"tls://127.0.0.1:0\"]\n\
         tls_certificate_file = \"/nowhere.pem\"\ntls_key_file = \"/nowhere.key\"\n\
         rtp_ports = \"{first}-{}\"\n[telephony.voice]\nprovider = \"scripted\"\n\
         [[telephony.sip.trunks]]\nname = \"jkt\"\n\
         register = {{ registrar = \"sip:127.0.0.1:{registrar}\", username = \"u\", password = \"hush\" }}\n",
        first + 1,
    );
    std::fs::write(&file, keys).unwrap();
    installation.set("config", &file.display().to_string());
    let finished = installation.run(&["check", "--json"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    let checks = finished.json()["checks"].clone();
    let found = |name: &str| {
        let mut checks = checks.as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == name).unwrap();
        (check["ok"].as_bool().unwrap(), check["detail"].to_string())
    };
    for (name, expected) in [
        (
            "sip",
            format!("udp://127.0.0.1:{port} cannot be listened on"),
        ),
        ("rtp", format!("telephony.sip.rtp_ports: {first}-")),
        ("certificate", "/nowhere.pem".to_owned()),
        ("registrar", "trunk jkt".to_owned()),
    ] {
        let (is_well, detail) = found(name);
        assert!(!is_well && detail.contains(&expected), "{name}: {detail}");
    }
    assert!(found("voice").0);
    let (is_well, detail) = found("targets");
    let targets = format!("trunk jkt: sip:127.0.0.1:{registrar} is udp://127.0.0.1:{registrar}");
    assert!(is_well && detail.contains(&targets), "{detail}");
    assert!(!finished.stdout.contains("hush"));
}
