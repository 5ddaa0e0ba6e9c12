//! WhatsApp: the settings at Meta, and calls as Meta's gateway sends them, with the real service.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use dikala_telephony::voice::Phrase;
use dikala_testkit::{
    certificate, free_port,
    meta::{FakeGraph, MetaCall, MetaCaller, SIP_PASSWORD},
};

use super::tls::StandaloneBridge;
use crate::support::{prelude::*, server::CommandResult};

const ID: &str = "106540352242922";
const TOKEN: &str = "EAAB-token-of-the-test";

/// An installation with a WhatsApp trunk, and its settings at Meta.
struct AtMeta {
    installation: Installation,
    graph: FakeGraph,
    port: u16,
    /// That of the trunk.
    number: &'static str,
}

impl AtMeta {
    fn new() -> Self {
        let mut installation = Installation::new(Sqlite).unwrap();
        installation
            .settings
            .push(("WHATSAPP_TOKEN".to_owned(), TOKEN.to_owned()));
        let graph = FakeGraph::start(ID, TOKEN);
        let mut this = Self {
            installation,
            graph,
            port: free_port(),
            number: "+622150001000",
        };
        this.configure("voice.example.com", "");
        this.certificate(certificate::VOICE, certificate::VOICE_KEY);
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.installation.folder.path().join(name)
    }

    /// Writes the configuration. `fields`: further ones of the trunk.
    fn configure(&mut self, host: &str, fields: &str) {
        let (file, port) = (self.path("dikala.toml"), self.port);
        let text = format!(
            "[telephony]\nenabled = true\n[telephony.voice]\nmodel = \"scripted\"\n[telephony.sip]\n\
             listen = [\"tls://127.0.0.1:{port}\"]\npublic_address = \"{host}\"\n\
             tls_certificate_file = \"sip.pem\"\ntls_key_file = \"sip.key\"\n[[telephony.sip.trunks]]\n\
             name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"203.0.113.0/24\"]\nnumber = \"{}\"\n{fields}\n",
            self.number
        );
        fs::write(&file, text).unwrap();
        self.installation.set("config", &file.display().to_string());
    }

    fn certificate(&self, certificate: &[u8], key: &[u8]) {
        fs::write(self.path("sip.pem"), certificate).unwrap();
        fs::write(self.path("sip.key"), key).unwrap();
    }

    fn setup(&self, more: &[&str]) -> CommandResult {
        self.setup_of(ID, more)
    }

    fn setup_of(&self, id: &str, more: &[&str]) -> CommandResult {
        let url = self.graph.url();
        let command = [
            "whatsapp",
            "setup",
            "--trunk",
            "wa",
            "--phone-number-id",
            id,
        ];
        let graph = ["--graph-url", &url];
        let finished = (self.installation).run(&[&command[..], &graph, more].concat());
        for secret in [TOKEN, SIP_PASSWORD] {
            let shown = format!("{finished:?}");
            assert!(!shown.contains(secret), "{secret} is shown: {shown}");
        }
        finished
    }

    /// The row of `check` about the trunk.
    fn check(&self) -> (bool, String) {
        let checks = self.installation.run(&["check", "--json"]).json();
        let mut checks = checks["checks"].as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == "whatsapp").unwrap();
        let detail = check["detail"].as_str().unwrap().to_owned();
        (check["ok"].as_bool().unwrap(), detail)
    }
}

#[test]
fn setup_changes_what_meta_has_once_and_stores_the_password() {
    let meta = AtMeta::new();
    let finished = meta.setup(&[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let server = format!("voice.example.com:{}", meta.port);
    for line in [
        "sip.status: DISABLED → ENABLED".to_owned(),
        format!("sip.servers: none → {server}"),
        "srtp_key_exchange_protocol: DTLS → SDES".to_owned(),
        "password: none → in ".to_owned(),
    ] {
        assert!(finished.stdout.contains(&line), "{line}: {finished:?}");
    }
    let servers = json!([{"hostname": "voice.example.com", "port": meta.port}]);
    let sip = json!({"calling": {"sip": {"status": "ENABLED", "servers": servers}}});
    let sdes = json!({"calling": {"srtp_key_exchange_protocol": "SDES"}});
    assert_eq!(meta.graph.changes(), [sip, sdes]);
    let file = meta.path("whatsapp-622150001000.json");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let stored = fs::read_to_string(&file).unwrap();
    assert!(stored.contains(SIP_PASSWORD) && stored.contains(ID));

    let again = meta.setup(&[]);
    assert!(again.stdout.contains("nothing was changed"), "{again:?}");
    let again = meta.setup(&["--json"]).json();
    assert_eq!(again["changes"], json!([]), "{again}");
    assert_eq!(meta.graph.changes().len(), 2);

    let shown = meta.installation.run(&["config", "show"]);
    assert!(!shown.stdout.contains(SIP_PASSWORD), "{shown:?}");
}

#[test]
fn setup_says_what_to_do_about_what_meta_refuses() {
    let mut meta = AtMeta::new();
    let told = |finished: CommandResult, code: i32, words: &str| {
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert!(finished.stderr.contains(words), "{words}: {finished:?}");
    };
    told(
        meta.setup_of("427", &[]),
        5,
        "no phone number with the id 427",
    );
    told(meta.setup_of("403", &[]), 6, "whatsapp_business_management");
    told(
        meta.setup_of("+622150001000", &[]),
        2,
        "not the telephone number",
    );
    let other = [
        "whatsapp",
        "setup",
        "--trunk",
        "nobody",
        "--phone-number-id",
        ID,
    ];
    told(meta.installation.run(&other), 5, "there is wa");
    meta.configure("voice.example.com", "account_file = \"/nowhere/a.json\"");
    told(meta.setup(&[]), 1, "account_file");
    meta.number = "+622150002000";
    meta.configure("voice.example.com", "");
    told(meta.setup(&[]), 6, "take the id of that number");
    meta.number = "+622150001000";
    assert_eq!(meta.graph.changes().len(), 0);

    meta.configure("unwelcome.example.com", "");
    told(meta.setup(&[]), 6, "Meta must allow SIP");
    meta.configure("203.0.113.7", "");
    told(meta.setup(&[]), 6, "telephony.sip.public_address");
    meta.configure("voice.example.com", "password = \"mine\"");
    told(meta.setup(&[]), 6, "remove it from the configuration");

    let token = meta.installation.settings.iter_mut();
    let token = { token }
        .find(|(name, _)| name == "WHATSAPP_TOKEN")
        .unwrap();
    token.1 = "EAAB-expired".to_owned();
    told(meta.setup(&[]), 6, "make a new one");
    let name = "WHATSAPP_TOKEN";
    meta.installation.settings.retain(|(held, _)| held != name);
    told(meta.setup(&[]), 2, "WHATSAPP_TOKEN is not set");
    assert!(!meta.path("whatsapp-622150001000.json").exists());
}

/// A password in the configuration is left there, and wins.
#[test]
fn setup_with_the_password_in_the_configuration_stores_none() {
    let mut meta = AtMeta::new();
    meta.configure(
        "voice.example.com",
        &format!("password = \"{SIP_PASSWORD}\""),
    );
    let finished = meta.setup(&[]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let stored = fs::read_to_string(meta.path("whatsapp-622150001000.json")).unwrap();
    assert!(!stored.contains(SIP_PASSWORD), "{stored}");
    let (is_well, detail) = meta.check();
    assert!(is_well, "{detail}");
}

#[test]
fn check_compares_with_what_meta_has() {
    let mut meta = AtMeta::new();
    let (is_well, detail) = meta.check();
    assert!(
        !is_well && detail.contains("no password for SIP"),
        "{detail}"
    );
    assert_eq!(meta.setup(&[]).code, Some(0));
    let (is_well, detail) = meta.check();
    assert!(is_well && detail.contains("with SDES"), "{detail}");

    let good = meta.graph.calling();
    for (pointer, value, expected) in [
        (
            "/srtp_key_exchange_protocol",
            json!("DTLS"),
            "is DTLS, not SDES",
        ),
        ("/sip/status", json!("DISABLED"), "is DISABLED, not ENABLED"),
        (
            "/sip/servers/0/hostname",
            json!("pbx.example.com"),
            "pbx.example.com",
        ),
        ("/status", json!("DISABLED"), "switched off at Meta"),
    ] {
        let mut calling = good.clone();
        *calling.pointer_mut(pointer).unwrap() = value;
        meta.graph.set_calling(calling);
        let (is_well, detail) = meta.check();
        assert!(!is_well && detail.contains(expected), "{pointer}: {detail}");
    }
    meta.graph.set_calling(good);

    meta.configure("voice.example.com", "password = \"another one\"");
    let (is_well, detail) = meta.check();
    assert!(
        !is_well && detail.contains("not the one that Meta has"),
        "{detail}"
    );
    meta.configure("voice.example.com", "");
    meta.certificate(certificate::SERVER, certificate::SERVER_KEY);
    let (is_well, detail) = meta.check();
    assert!(
        !is_well && detail.contains("is not for voice.example.com"),
        "{detail}"
    );
    meta.certificate(certificate::VOICE, certificate::VOICE_KEY);

    let asked = meta.graph.requests();
    let name = "WHATSAPP_TOKEN";
    meta.installation.settings.retain(|(held, _)| held != name);
    let (is_well, detail) = meta.check();
    assert!(
        is_well && detail.contains("WHATSAPP_TOKEN is not set"),
        "{detail}"
    );
    assert_eq!(meta.graph.requests(), asked);
}

/// Milliseconds of a step, and steps of what is compared: 1.5 s, and of them the first syllable.
const STEP_MS: usize = 5;
const COMPARED: usize = 300;
const SYLLABLE: usize = 60;
/// Steps that are looked at one by one, and the mean loudness below which they are silence.
const CHUNK: usize = 10;
const QUIET: u64 = 300;

/// The mean loudness of each step.
fn loudness(samples: &[i16], rate: usize) -> Vec<u64> {
    let step = rate * STEP_MS / 1_000;
    let mean = |step: &[i16]| {
        let sum: u64 = step.iter().map(|it| u64::from(it.unsigned_abs())).sum();
        sum / step.len() as u64
    };
    samples.chunks_exact(step).map(mean).collect()
}

/// True if what was heard begins as what was said does: its first 0.3 s are there, as loud as they should be.
fn begins_as(heard: &[i16], said: &[i16]) -> bool {
    let (heard, said) = (loudness(heard, 16_000), loudness(said, 24_000));
    let begins = said.iter().position(|step| *step > QUIET).unwrap();
    let said = &said[begins..begins + COMPARED];
    let difference = |part: &&[u64]| {
        let pairs = part.iter().zip(said);
        pairs.map(|(one, other)| one.abs_diff(*other)).sum::<u64>()
    };
    // Silence before what was heard, so that a missing beginning has its place.
    let heard = [vec![0; SYLLABLE], heard].concat();
    let Some(best) = heard.windows(COMPARED).min_by_key(difference) else {
        return false;
    };
    let chunks = |steps: &'_ [u64]| -> Vec<u64> {
        let chunks = steps[..SYLLABLE].chunks_exact(CHUNK);
        chunks.map(|chunk| chunk.iter().sum()).collect()
    };
    let is_there = |(there, wanted): (u64, u64)| {
        let is_quiet = wanted < QUIET * CHUNK as u64;
        is_quiet || (there * 2 > wanted && there < wanted * 2)
    };
    let mut pairs = chunks(best).into_iter().zip(chunks(said));
    difference(&best) * 2 < said.iter().sum() && pairs.all(is_there)
}

#[test]
fn a_beginning_that_is_cut_off_is_noticed() {
    let (_, said) = Phrase::Greeting.spoken("en");
    let at_16 = |samples: &[i16]| -> Vec<i16> {
        samples
            .chunks_exact(3)
            .flat_map(|it| [it[0], it[1]])
            .collect()
    };
    let heard = [vec![0; 16_000], at_16(&said)].concat();
    assert!(begins_as(&heard, &said));
    let begins = said.iter().position(|it| it.unsigned_abs() > 600).unwrap();
    for cut_ms in [120, 200, 300] {
        let cut = at_16(&said[begins + cut_ms * 24..]);
        assert!(!begins_as(&cut, &said), "{cut_ms} ms");
        let quiet = [vec![0; 16_000], cut].concat();
        assert!(!begins_as(&quiet, &said), "{cut_ms} ms after silence");
    }
}

#[derive(Debug, Clone, Copy)]
enum Hangup {
    Caller,
    Tenant,
    Both,
}

/// Waits until the service has the call of this WhatsApp id; returns its own.
async fn id_of(world: &TestWorld, wacid: &str) -> String {
    eventually("the call to be listed", async || {
        let calls = world.tenant.calls().await;
        let mut calls = calls.iter();
        let call = calls.find(|call| call["metadata"]["whatsapp"]["callId"] == wacid)?;
        Some(call["id"].as_str().unwrap().to_owned())
    })
    .await
}

/// One call: the greeting is heard from its beginning, and somebody hangs up.
async fn passes(world: &TestWorld, plan: MetaCaller, said: &[i16], hangup: Hangup) {
    let wacid = format!("wacid.{}", plan.id);
    let mut call: MetaCall = plan.call().await.unwrap();
    eventually(
        &format!("{wacid}: the greeting to be heard whole"),
        async || begins_as(&call.media.heard(), said).then_some(()),
    )
    .await;
    match hangup {
        Hangup::Caller => call.hang_up().await,
        Hangup::Tenant | Hangup::Both => {
            let path = format!("/calls/{}/hangup", id_of(world, &wacid).await);
            world.tenant.api.post(&path, json!({})).await.expect(202);
            call.hung_up().await;
        }
    }
    assert_eq!(call.forbidden(), Vec::<String>::new());
    assert_eq!(call.media.packets().1, 0, "every packet is authentic");
}

#[actix_web::test]
async fn fifty_calls_from_whatsapp_are_greeted_whole_and_settled_once_whoever_hangs_up() {
    let Some(installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let mut world = TestWorld::on(installation, WorldSetup::new().minutes(100)).await;
    world.tenant.change_agent(json!({"language": "en"})).await;
    let folder = world.server.installation.folder.path().to_owned();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).unwrap();
    write("sip.pem", certificate::SERVER);
    write("sip.key", certificate::SERVER_KEY);
    let text = format!(
        "[telephony.voice]\nmodel = \"scripted\"\n[telephony.sip]\nlisten = [\"tls://127.0.0.1:0\"]\nsrtp = \"off\"\n\
         tls_certificate_file = \"sip.pem\"\ntls_key_file = \"sip.key\"\n[[telephony.sip.trunks]]\n\
         name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"127.0.0.0/8\"]\nnumber = \"{}\"\n",
        world.tenant.did
    );
    write("wa.toml", text.as_bytes());
    let file = folder.join("wa.toml").display().to_string();
    world.server.installation.set("config", &file);
    let service = world.server.http.clone();
    let bridge = StandaloneBridge::start(&world, &service, "wa.log");
    let (edge, did) = (bridge.addresses[0], world.tenant.did.clone());
    let (_, said) = Phrase::Greeting.spoken("en");
    let run = format!("{:x}", rand::random::<u32>());
    for batch in 0..10 {
        let calls = (0..5).map(|at| {
            let number = 5 * batch + at;
            let hangup = [Hangup::Caller, Hangup::Tenant, Hangup::Both][number % 3];
            let plan = MetaCaller::new(edge, &did, &format!("{run}-{number}"));
            let plan = MetaCaller {
                hangs_up_too: matches!(hangup, Hangup::Both),
                ..plan
            };
            passes(&world, plan, &said, hangup)
        });
        futures_util::future::join_all(calls).await;
    }
    // A doubled INVITE beside a running call is not another one.
    let plan = MetaCaller {
        caller: "ID.13491208655302741918".to_owned(),
        ..MetaCaller::new(edge, &did, &format!("{run}-50"))
    };
    let mut call = plan.call().await.unwrap();
    let doubled = MetaCaller {
        id: format!("{run}-doubled"),
        ..plan
    };
    let refused = doubled.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 482"), "{refused}");
    call.hears(Duration::from_millis(500)).await;
    call.hang_up().await;

    let calls = world.tenant.calls().await;
    assert_eq!(calls.len(), 51);
    for call in &calls {
        let over = world.tenant.call_over(call["id"].as_str().unwrap()).await;
        assert_eq!(over["status"], "ended", "{over}");
        let billed = world.tenant.billed(over["id"].as_str().unwrap()).await;
        assert_eq!(billed, Some(1), "{over}");
        assert_eq!(over["metadata"]["sip"]["codec"], "opus", "{over}");
    }
    let mut callers = calls.iter().map(|call| call["callerNumber"].clone());
    assert!(callers.any(|caller| caller == "ID.13491208655302741918"));
    world.assert_ledger_is_exact();
}
