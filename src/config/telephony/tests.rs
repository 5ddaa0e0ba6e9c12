//! Tests of the keys of the bridge.

use dikala_entities::VoiceProvider;
use dikala_sip::settings::{AnswerOrder, OutboundIdentity, SessionTimer, TransferMethod};
use dikala_telephony::settings::Prices;

use super::*;
use crate::config::{ConfigError, Layers, Settings as All};

pub(super) fn read(toml: &str, variables: &[(&str, &str)]) -> Result<(Layers, All), ConfigError> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("dikala.toml");
    std::fs::write(&file, toml).expect("written");
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let layers = Layers::load(Some(&file), variables)?;
    let settings = All::new(&layers)?;
    Ok((layers, settings))
}

const TRUNK: &str = r#"
[telephony]
enabled = true
[telephony.sip]
listen = ["udp://127.0.0.1:0", "tls://[::1]:5061"]
tls_certificate_file = "/etc/dikala/sip.pem"
tls_key_file = "/etc/dikala/sip.key"
codecs = ["PCMU", "opus"]
srtp = "required"
rtp_ports = "40000-40099"
nameservers = ["192.0.2.53", "[2001:db8::53]:5353"]
local_networks = ["10.20.0.0/16", "fd00::7"]
[[telephony.sip.trunks]]
name = "jkt"
addresses = ["203.0.113.0/24", "2001:db8::7"]
username = "kopi"
password = "hush-hush-hush"
prefix = "+62"
answer_order = "ours"
register = { registrar = "sip:sip.example.com", username = "u", password = "quiet" }
"#;

#[test]
fn a_bridge_is_told_what_is_configured() {
    let (layers, settings) = read(TRUNK, &[("GEMINI_API_KEY", "g-secret")]).expect("it is right");
    let bridge = settings.telephony().expect("it is enabled");
    let sip = &bridge.sip;
    assert_eq!(sip.listen[1].transport, SipTransport::Tls);
    assert_eq!(
        sip.listen[1].address,
        "[::1]:5061".parse().expect("an address")
    );
    assert_eq!(sip.codecs, [Codec::Pcmu, Codec::Opus]);
    assert_eq!(
        (sip.srtp, sip.rtp_ports.clone()),
        (Srtp::Required, 40_000..=40_099)
    );
    let nameservers: Vec<String> = sip.nameservers.iter().map(ToString::to_string).collect();
    assert_eq!(nameservers, ["192.0.2.53:53", "[2001:db8::53]:5353"]);
    let networks: Vec<String> = sip.local_networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["10.20.0.0/16", "fd00::7/128"]);
    let trunk = &sip.trunks[0];
    assert_eq!((trunk.name.as_str(), trunk.addresses.len()), ("jkt", 2));
    assert_eq!(trunk.answer_order, AnswerOrder::Ours);
    let register = trunk.register.as_ref().expect("it registers");
    assert_eq!(
        (
            register.credentials.password.as_str(),
            register.expires_seconds
        ),
        ("quiet", 600)
    );
    assert!(matches!(&bridge.voice.gemini, Some(gemini) if gemini.api_key == "g-secret"));
    assert_eq!(
        (bridge.sip.max_calls, bridge.engine_lost_after_seconds),
        (200, 30)
    );
    // No secret is shown.
    let shown: Vec<String> = layers
        .entries()
        .map(crate::config::ConfigurationKey::from)
        .map(|shown| shown.value)
        .collect();
    let shown = shown.join("\n");
    assert!(
        shown.contains("name=jkt") && shown.contains(MASK),
        "{shown}"
    );
    for secret in ["hush-hush-hush", "quiet", "g-secret"] {
        assert!(!shown.contains(secret), "{secret} is shown");
        assert!(
            !format!("{settings:?}").contains(secret),
            "{secret} is in what is logged"
        );
    }
}

#[test]
fn what_is_listened_on_may_be_one_text() {
    let toml = "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n[telephony.sip]\n\
                listen = \"udp://0.0.0.0:5060, tcp://[::1]:0,\"\n";
    let (layers, settings) = read(toml, &[]).expect("it is right");
    let listened: Vec<String> = settings
        .telephony()
        .expect("it is enabled")
        .sip
        .listen
        .iter()
        .map(|one| format!("{:?} {}", one.transport, one.address))
        .collect();
    assert_eq!(listened, ["Udp 0.0.0.0:5060", "Tcp [::1]:0"]);
    let shown = layers
        .entries()
        .find(|entry| entry.key == LISTEN)
        .map(|entry| entry.shown());
    assert_eq!(shown.as_deref(), Some("udp://0.0.0.0:5060,tcp://[::1]:0"));
    let error = read("[telephony.sip]\nlisten = \"5060\"\n", &[]).expect_err("no address");
    assert!(error.0.contains("udp://0.0.0.0:5060"), "{error}");
}

/// The registrar of a trunk and its lifetime, as the bridge gets them.
fn registered(register: &str) -> (String, u32) {
    let toml = format!(
        "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n[[telephony.sip.trunks]]\nname = \"a\"\n\
         register = {{ {register}, username = \"u\", password = \"p\" }}\n"
    );
    let (_, settings) = read(&toml, &[]).expect(register);
    let bridge = settings.telephony().expect("it is enabled");
    let told = bridge.sip.trunks[0].register.clone().expect("it registers");
    (told.registrar, told.expires_seconds)
}

#[test]
fn a_registration_may_be_brief_and_its_registrar_written_as_listeners_are() {
    for seconds in [1, 5, 86_400] {
        let register = format!("registrar = \"sip:x\", expires_seconds = {seconds}");
        assert_eq!(registered(&register).1, seconds);
    }
    for (written, told) in [
        ("127.0.0.1:5070", "sip:127.0.0.1:5070"),
        ("sip.example.com", "sip:sip.example.com"),
        ("[::1]:5070", "sip:[::1]:5070"),
        ("udp://127.0.0.1:5070", "sip:127.0.0.1:5070;transport=udp"),
        ("tcp://sip.example.com", "sip:sip.example.com;transport=tcp"),
        (
            "tls://sip.example.com:5061",
            "sip:sip.example.com:5061;transport=tls",
        ),
        ("sip:x;transport=tcp", "sip:x;transport=tcp"),
        ("sips:x", "sips:x"),
    ] {
        assert_eq!(registered(&format!("registrar = \"{written}\"")).0, told);
    }
}

#[test]
fn media_needs_one_pair_of_ports() {
    for (text, told) in [
        ("30000-30001", Some(30_000..=30_001)),
        ("30001-30003", Some(30_001..=30_003)),
        ("30001-30002", None),
        ("30000-30000", None),
        ("65535-65535", None),
        ("30002-30001", None),
        ("1000-2000", None),
    ] {
        assert_eq!(ports(text), told, "{text}");
    }
}

#[test]
fn a_key_of_ones_own_wins_over_that_of_the_environment() {
    let toml = "[telephony]\nenabled = true\n[telephony.gemini]\napi_key = \"mine\"\n";
    let (_, settings) = read(toml, &[("GEMINI_API_KEY", "theirs")]).expect("it is right");
    let gemini = settings.telephony().and_then(|bridge| bridge.voice.gemini);
    assert!(gemini.is_some_and(|gemini| gemini.api_key == "mine"));
    let (_, settings) = read("", &[("GEMINI_API_KEY", "theirs")]).expect("it is right");
    assert!(settings.telephony().is_none(), "a key alone starts nothing");
}

#[test]
fn without_a_key_a_test_voice_stands_in_for_who_asked_for_none() {
    let model = |toml: &str, variables: &[(&str, &str)]| {
        let (_, settings) = read(toml, variables).expect("it is right");
        let provider = settings.bridge_keys().voice.provider;
        let scripted = provider == VoiceProvider::Scripted;
        (scripted, settings.has_stand_in())
    };
    let enabled = "[telephony]\nenabled = true\n";
    assert_eq!(model(enabled, &[]), (true, true));
    assert_eq!(model(enabled, &[("GEMINI_API_KEY", "k")]), (false, false));
    let asked = "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n";
    assert_eq!(model(asked, &[]), (true, false));
    // Another server for the model may need no key, even if the model is chosen by name.
    let own = ("DIKALA_TELEPHONY__GEMINI__URL", "ws://127.0.0.1:9/x");
    assert_eq!(model(enabled, &[own]), (false, false));
    let named = ("DIKALA_TELEPHONY__VOICE__PROVIDER", "gemini");
    assert_eq!(model(enabled, &[own, named]), (false, false));
    let theirs = (
        "DIKALA_TELEPHONY__GEMINI__URL",
        "wss://generativelanguage.googleapis.com/ws/another.version",
    );
    assert!(read(enabled, &[theirs, named]).is_err());
}

#[test]
fn prices_may_have_decimals() {
    let toml = "[telephony.gemini]\napi_key = \"k\"\n[telephony.gemini.idr_per_million]\n\
                text_in = 12_300\naudio_in = 49200.5\naudio_out = \"0.125\"\n";
    let name = "DIKALA_TELEPHONY__GEMINI__IDR_PER_MILLION__TEXT_OUT";
    let (_, settings) = read(toml, &[(name, "7.25")]).expect("it is right");
    let expected = Prices {
        text_in: 12_300_000,
        audio_in: 49_200_500,
        text_out: 7_250,
        audio_out: 125,
        ..Prices::default()
    };
    let voice = settings.bridge_keys().voice;
    assert_eq!(voice.prices(VoiceProvider::Gemini), Some(expected));
    assert_eq!(voice.prices(VoiceProvider::Scripted), None);
}

#[test]
fn a_pipeline_is_whole_or_none() {
    let endpoint = |part: &str, url: &str, key: &str| {
        format!("[telephony.pipeline.{part}]\nurl = \"{url}\"\napi_key = \"{key}\"\n")
    };
    let own = "http://127.0.0.1:8080";
    let enabled = "[telephony]\nenabled = true\n".to_owned();
    let whole = enabled.clone()
        + &endpoint("stt", own, "")
        + &endpoint("llm", "https://api.openai.com/v1", "s-secret")
        + &endpoint("tts", own, "")
        + "voice = \"siti\"\n[telephony.pipeline.idr_per_million]\nseconds = 1.5\ncharacters = 2\n";
    let named = ("DIKALA_TELEPHONY__VOICE__PROVIDER", "pipeline");
    let (layers, settings) = read(&whole, &[named]).expect("it is right");
    let voice = settings.bridge_keys().voice;
    let pipeline = voice.pipeline.as_ref().expect("it is configured");
    assert_eq!(
        (&*pipeline.voice, &*pipeline.llm.api_key),
        ("siti", "s-secret")
    );
    let expected = Prices {
        seconds: 1_500,
        characters: 2_000,
        ..Prices::default()
    };
    assert_eq!(voice.prices(VoiceProvider::Pipeline), Some(expected));
    let mut shown: Vec<String> = layers.entries().map(|entry| entry.shown()).collect();
    shown.push(format!("{voice:?}"));
    assert!(shown.iter().all(|it| !it.contains("s-secret")));
    let (_, settings) = read(&enabled, &[]).expect("it is right");
    assert!(settings.bridge_keys().voice.pipeline.is_none());
    // The language model alone is for chats.
    let chats = enabled.clone() + &endpoint("llm", own, "");
    let (_, settings) = read(&chats, &[]).expect("it is right");
    assert!(settings.bridge_keys().voice.pipeline.is_none() && settings.text_model().is_some());
    let none = format!("{chats}\n[telephony.pipeline]\nchats_per_hour = 0\n");
    let (_, settings) = read(&none, &[]).expect("it is right");
    assert!(settings.text_model().is_none());

    for (toml, variables, expected) in [
        (
            enabled.clone(),
            &[named][..],
            "telephony.pipeline.stt.url is not set",
        ),
        (
            enabled.clone() + &endpoint("tts", own, ""),
            &[],
            "telephony.pipeline.stt.url is not set",
        ),
        (
            endpoint("llm", "https://api.openai.com", ""),
            &[],
            "telephony.pipeline.llm.api_key is not set",
        ),
        (
            whole.replace("s-secret", ""),
            &[],
            "telephony.pipeline.llm.api_key is not set",
        ),
        (
            whole.replace(own, "ws://127.0.0.1"),
            &[],
            "begins with https:// or http://",
        ),
    ] {
        let faults = read(&toml, variables).expect_err(expected).to_string();
        assert!(faults.contains(expected), "{faults}");
    }
}

#[test]
fn the_public_address_is_given_without_brackets() {
    for (written, given) in [
        ("[2001:db8::1]", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("203.0.113.7", "203.0.113.7"),
        ("sip.example.com", "sip.example.com"),
    ] {
        let toml = format!("[telephony.sip]\npublic_address = \"{written}\"\n");
        let (_, settings) = read(&toml, &[]).expect("it is right");
        let public = settings.bridge_keys().sip.public_address;
        assert_eq!(public.as_deref(), Some(given), "{written}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    let trunk = |fields: &str| format!("[[telephony.sip.trunks]]\n{fields}\n");
    for (toml, expected) in [
        (
            "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"gemini\"\n".to_owned(),
            "GEMINI_API_KEY",
        ),
        ("[telephony]\nmax_calls = 0\n".to_owned(), "from 1 to"),
        (
            "[telephony.sip]\nlisten = [\"0.0.0.0:5060\"]\n".to_owned(),
            "udp://0.0.0.0:5060",
        ),
        (
            "[telephony.sip]\nlisten = []\n".to_owned(),
            "1 to 16 entries",
        ),
        (
            "[telephony.sip]\nlisten = [\"tls://0.0.0.0:5061\"]\n".to_owned(),
            "tls_certificate_file",
        ),
        (
            "[telephony.sip]\ncodecs = [\"G729\"]\n".to_owned(),
            "opus, G722, PCMA or PCMU",
        ),
        (
            "[telephony.sip]\nrtp_ports = \"20000\"\n".to_owned(),
            "20000-29999",
        ),
        (
            "[telephony.sip]\nrtp_ports = \"30001-30002\"\n".to_owned(),
            "an even one and the next above it",
        ),
        (
            "[telephony.sip]\nsrtp = \"yes\"\n".to_owned(),
            "off, optional or required",
        ),
        (
            "[telephony.sip]\npublic_address = \"a b\"\n".to_owned(),
            "without a port",
        ),
        (
            "[telephony.sip]\npublic_address = \"[203.0.113.7]\"\n".to_owned(),
            "without a port",
        ),
        (
            "[telephony.sip]\npublic_address = \"[2001:db8::1]:5060\"\n".to_owned(),
            "without a port",
        ),
        (
            "[telephony.sip]\nnameservers = [\"dns.example\"]\n".to_owned(),
            "such as 192.0.2.53",
        ),
        (
            "[telephony.sip]\nlocal_networks = [\"lan\"]\n".to_owned(),
            "such as 192.168.0.0/16",
        ),
        (
            "[telephony.voice]\nprovider = \"parrot\"\n".to_owned(),
            "one of gemini, openai, pipeline, scripted",
        ),
        (
            "[telephony.gemini]\nurl = \"https://x\"\n".to_owned(),
            "wss://",
        ),
        (
            "[telephony.gemini.idr_per_million]\naudio_in = -1\n".to_owned(),
            "from 0 to",
        ),
        (
            "[telephony.gemini.idr_per_million]\naudio_in = 0.0001\n".to_owned(),
            "three decimals",
        ),
        (
            "[telephony.sip]\ntrunks = [\"jkt\"]\n".to_owned(),
            "list of tables",
        ),
        (
            trunk("addresses = [\"203.0.113.7\"]"),
            "trunk 1: missing configuration field \"name\"",
        ),
        (
            trunk("name = \"a\"\nadresses = []"),
            "unknown field `adresses`",
        ),
        (trunk("name = \"a\""), "nobody can call over it"),
        (trunk("name = \"a\"\nusername = \"u\""), "both, or neither"),
        (trunk("name = \"a\"\naddresses = [\"x\"]"), "203.0.113.0/24"),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nprefix = \"062\""),
            "like +62",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nanswer_order = \"mine\""),
            "one of peer, ours",
        ),
        (
            trunk(
                "name = \"a\"\nregister = { registrar = \"http://x\", username = \"u\", password = \"p\" }",
            ),
            "tcp://sip.example.com:5060",
        ),
        (
            trunk(
                "name = \"a\"\nregister = { registrar = \"sip:x\", username = \"u\", password = \"p\", expires_seconds = 0 }",
            ),
            "from 1 to",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nnumber = \"0812\""),
            "like +622150001000",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nextensions = { 5 = \"+622150001000\" }"),
            "2 to 6 digits",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nextensions = { 500 = \"501\" }"),
            "like +622150001000",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\ntransfer = \"never\""),
            "one of auto, refer, bridge",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\nmax_calls = 0"),
            "max_calls must be from 1 to 20000",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\noutbound = { username = \"u\" }"),
            "outbound.username and outbound.password",
        ),
        (
            trunk("name = \"a\"\naddresses = [\"::1\"]\noutbound = { uri = \"http://x\" }"),
            "outbound.uri must be like",
        ),
        (
            trunk(
                "name = \"a\"\nregister = { registrar = \"sip:x\", username = \"u\", password = \"p\", domain = \"a b\" }",
            ),
            "register.domain",
        ),
        (
            format!("{0}{0}", trunk("name = \"a\"\naddresses = [\"::1\"]")),
            "two trunks have the name",
        ),
        (
            format!(
                "{}{}",
                trunk("name = \"a\"\nusername = \"u\"\npassword = \"hush-hush-hush\""),
                trunk("name = \"b\"\nusername = \"u\"\npassword = \"hush-hush-hush\"")
            ),
            "two trunks have the username \"u\"",
        ),
    ] {
        let error = read(&toml, &[]).expect_err(&toml);
        assert!(error.0.contains(expected), "{toml}\n{error}");
        assert!(error.0.contains("telephony."), "{error}");
    }
}

#[test]
fn a_trunk_has_numbers_limits_and_ways_of_its_own() {
    let toml = r#"
[telephony]
enabled = true
[telephony.voice]
provider = "scripted"
[[telephony.sip.trunks]]
name = "ims"
number = "+622150001000"
extensions = { "500" = "+622150001500" }
outbound = { uri = "tcp://out.example", username = "o", password = "quiet", from = "caller" }
transfer = "bridge"
session_timer = "off"
max_calls = 30
calls_per_second = 5
[telephony.sip.trunks.register]
registrar = "reg.example"
proxy = "edge.example:5080"
username = "+6221"
auth_username = "6221@ims"
domain = "ims.example"
password = "quiet"
"#;
    let (_, settings) = read(toml, &[]).expect("it is right");
    let mut bridge = settings.telephony().expect("it is enabled");
    let trunk = bridge.sip.trunks.remove(0);
    assert_eq!(trunk.number.as_deref(), Some("+622150001000"));
    assert_eq!(trunk.extensions["500"], "+622150001500");
    assert_eq!(trunk.transfer, TransferMethod::Bridge);
    assert_eq!(trunk.session_timer, SessionTimer::Off);
    let limits = (trunk.max_calls, trunk.calls_per_second);
    assert_eq!(limits, (Some(30), Some(5)));
    assert_eq!(trunk.outbound.from, OutboundIdentity::Caller);
    let uri = trunk.outbound.uri.as_deref();
    assert_eq!(uri, Some("sip:out.example;transport=tcp"));
    let outbound = trunk.outbound.credentials.expect("a digest");
    assert_eq!(outbound.username, "o");
    let register = trunk.register.expect("it registers");
    assert_eq!(register.proxy.as_deref(), Some("sip:edge.example:5080"));
    assert_eq!(register.domain.as_deref(), Some("ims.example"));
    assert_eq!(register.account.as_deref(), Some("+6221"));
    assert_eq!(register.credentials.username, "6221@ims");
}

/// Guessing passwords is the most common fraud against SIP.
#[test]
fn passwords_that_keep_nobody_out_are_refused() {
    let of = |password: &str| {
        let trunk = "[[telephony.sip.trunks]]\nname = \"a\"\nusername = \"u\"\n";
        read(&format!("{trunk}password = \"{password}\"\n"), &[])
    };
    for (password, expected) in [
        ("geheim", "at least 12 characters"),
        ("elevenchars", "at least 12 characters"),
        ("000000000000", "most common"),
        ("1Q2W3E4R5T6Y", "most common"),
    ] {
        let error = of(password).expect_err(password);
        assert!(error.0.contains(expected), "{error}");
        assert!(!error.0.contains(password), "it is shown: {error}");
    }
    assert!(of("rahasia-sekali").is_ok());
}

#[test]
fn there_is_a_thread_for_each_core_and_two_at_least() {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    for (configured, threads) in [(0, cores.max(2)), (1, 2), (2, 2), (7, 7)] {
        let toml = format!("[telephony]\nenabled = true\nthreads = {configured}\n");
        let (_, settings) = read(&toml, &[("GEMINI_API_KEY", "g-secret")]).expect("it is right");
        let bridge = settings.telephony().expect("it is enabled");
        assert_eq!(bridge.sip.threads, threads, "{configured}");
    }
}

/// Every TOML example in `docs/trunks.md`, as a file of its own.
#[test]
fn the_recipes_for_trunks_are_right() {
    let recipes = include_str!("../../../docs/trunks.md");
    let blocks = recipes.split("```toml\n").skip(1);
    let blocks = blocks.filter_map(|rest| rest.split("```").next());
    let mut names = Vec::new();
    for block in blocks {
        let head = "[telephony]\nenabled = true\n[telephony.voice]\nprovider = \"scripted\"\n";
        let (_, settings) = read(&format!("{head}{block}"), &[]).expect(block);
        let bridge = settings.telephony().expect("it is enabled");
        names.extend(bridge.sip.trunks.into_iter().map(|trunk| trunk.name));
    }
    assert!(names.len() > 10, "{names:?}");
    names.sort();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all, "each recipe has a name of its own");
}
