//! The settings of a WhatsApp number at Meta, its account, and `dikala check`, with the real program.

use std::{fs, net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf};

use dikala_testkit::{
    certificate, free_port,
    meta::{APP, FakeGraph, MetaCaller, SIP_PASSWORD},
};

use crate::support::{prelude::*, server::CommandResult};

const ID: &str = "106540352242922";
const TOKEN: &str = "EAAB-token-of-the-test";

/// An installation with a WhatsApp trunk, and its settings at Meta.
struct AtMeta {
    installation: Installation,
    graph: FakeGraph,
    port: u16,
    /// Those of the trunk.
    number: &'static str,
    addresses: &'static str,
}

impl AtMeta {
    fn new() -> Self {
        Self::of(Installation::new(Sqlite).unwrap())
    }

    fn of(mut installation: Installation) -> Self {
        installation
            .settings
            .push(("WHATSAPP_TOKEN".to_owned(), TOKEN.to_owned()));
        let graph = FakeGraph::start(ID, TOKEN);
        let mut this = Self {
            installation,
            graph,
            port: free_port(),
            number: "+622150001000",
            addresses: "203.0.113.0/24",
        };
        this.configure("voice.example.com", "");
        this.certificate(certificate::VOICE, certificate::VOICE_KEY);
        let authority = this.path("voice-ca.pem");
        fs::write(&authority, certificate::VOICE_AUTHORITY).unwrap();
        let authority = authority.display().to_string();
        this.installation.set("outbound.extra_ca_file", &authority);
        this
    }

    fn path(&self, name: &str) -> PathBuf {
        self.installation.folder.path().join(name)
    }

    /// Writes the configuration. `fields`: further ones of the trunk.
    fn configure(&mut self, host: &str, fields: &str) {
        let (file, port) = (self.path("dikala.toml"), self.port);
        let text = format!(
            "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n[telephony.sip]\n\
             listen = [\"tls://127.0.0.1:{port}\"]\npublic_address = \"{host}\"\n\
             tls_certificate_file = \"sip.pem\"\ntls_key_file = \"sip.key\"\n[[telephony.sip.trunks]]\n\
             name = \"wa\"\npreset = \"whatsapp\"\naddresses = [\"{}\"]\nnumber = \"{}\"\n{fields}\n",
            self.addresses, self.number
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

/// Another program's server stays unless it may be replaced. That of another app stays in any case.
#[test]
fn setup_replaces_no_server_of_others_unasked() {
    let meta = AtMeta::new();
    let ours = format!("voice.example.com:{}", meta.port);
    let pbx = json!({"app_id": APP, "hostname": "pbx.example.com", "port": 5062});
    let foreign = json!({"app_id": "9", "hostname": "other.example.com", "port": 5061});
    let calling = json!({
        "status": "ENABLED", "srtp_key_exchange_protocol": "SDES",
        "sip": {"status": "ENABLED", "servers": [foreign, pbx]},
    });
    meta.graph.set_calling(calling.clone());
    let refused = meta.setup(&[]);
    assert_eq!(refused.code, Some(6), "{refused:?}");
    for words in [
        "pbx.example.com:5062",
        "--replace-server",
        "nothing was changed",
    ] {
        assert!(refused.stderr.contains(words), "{words}: {refused:?}");
    }
    assert_eq!(meta.graph.calling(), calling);

    let replaced = meta.setup(&["--replace-server"]);
    assert_eq!(replaced.code, Some(0), "{replaced:?}");
    let line = format!(
        "sip.servers: other.example.com:5061, pbx.example.com:5062 → other.example.com:5061, {ours}"
    );
    for words in [&line, "Meta calls other.example.com:5061 too"] {
        assert!(replaced.stdout.contains(words), "{words}: {replaced:?}");
    }
    let again = meta.setup(&["--json"]).json();
    let seen = (&again["changes"], &again["otherServers"]);
    assert_eq!(seen, (&json!([]), &json!(["other.example.com:5061"])));
    let (is_well, detail) = meta.check();
    assert!(
        !is_well && detail.contains("other.example.com:5061 too"),
        "{detail}"
    );

    // A port of our own host is ours to change, and its server's other fields stay where nothing changes.
    let mut calling = meta.graph.calling();
    let moved = json!([{"app_id": APP, "hostname": "voice.example.com", "port": 5999}]);
    calling["sip"]["servers"] = moved;
    meta.graph.set_calling(calling.clone());
    let moved = meta.setup(&[]);
    let line = format!("sip.servers: voice.example.com:5999 → {ours}");
    assert!(moved.stdout.contains(&line), "{moved:?}");
    let mut calling = meta.graph.calling();
    calling["sip"]["status"] = "DISABLED".into();
    calling["sip"]["servers"][0]["request_uri_user_params"] = json!({"tgrp": "1"});
    meta.graph.set_calling(calling.clone());
    assert_eq!(meta.setup(&[]).code, Some(0));
    calling["sip"]["status"] = "ENABLED".into();
    assert_eq!(meta.graph.calling(), calling);
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

#[test]
fn check_examines_the_chain_of_the_certificate() {
    let meta = AtMeta::new();
    assert_eq!(meta.setup(&[]).code, Some(0));
    // Without the authority between, and without one that is known, Meta does not trust it.
    let end = b"-----END CERTIFICATE-----\n";
    let mut windows = certificate::VOICE.windows(end.len());
    let alone = windows.position(|it| it == end).unwrap() + end.len();
    meta.certificate(&certificate::VOICE[..alone], certificate::VOICE_KEY);
    let (is_well, detail) = meta.check();
    assert!(!is_well && detail.contains("fullchain.pem"), "{detail}");
    meta.certificate(certificate::VOICE, certificate::VOICE_KEY);
    let (is_well, detail) = meta.check();
    assert!(is_well && detail.contains("extra_ca_file"), "{detail}");
}

#[test]
fn check_says_that_an_account_is_damaged_and_setup_replaces_it() {
    let meta = AtMeta::new();
    let account = meta.path("whatsapp-622150001000.json");
    fs::write(&account, "{").unwrap();
    let (is_well, detail) = meta.check();
    for words in [
        "out of service",
        "whatsapp-622150001000.json",
        "line 1",
        "dikala whatsapp setup",
    ] {
        assert!(!is_well && detail.contains(words), "{words}: {detail}");
    }
    assert_eq!(meta.setup(&[]).code, Some(0));
    let (is_well, detail) = meta.check();
    assert!(is_well, "{detail}");
}

/// The rest of the program goes on.
#[actix_web::test]
async fn a_damaged_account_puts_its_trunk_out_of_service_alone() {
    let Some(installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let mut meta = AtMeta::of(installation);
    meta.addresses = "127.0.0.1/32";
    meta.configure("127.0.0.1", "account_file = \"account.json\"");
    meta.certificate(certificate::SERVER, certificate::SERVER_KEY);
    fs::write(meta.path("account.json"), "{").unwrap();
    let edge = SocketAddr::from(([127, 0, 0, 1], meta.port));
    let world = TestWorld::on(meta.installation, WorldSetup::new()).await;
    let plan = MetaCaller::new(edge, meta.number, "damaged");
    let refused = plan.call().await.unwrap_err();
    assert!(refused.starts_with("SIP/2.0 503"), "{refused}");
    assert!(refused.contains("out of service"), "{refused}");
    let log = world.server.log();
    let line = "the trunk is out of service: its account_file is damaged: line 1";
    assert!(log.contains(line), "{log}");
}
