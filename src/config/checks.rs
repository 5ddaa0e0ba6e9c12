//! Checks each value on its own: type, range and form. All faults are reported at once, each with key, origin and
//! value.

use std::net::SocketAddr;

use config::ValueKind;
use dikala_actors::outbound::AllowedHost;
use dikala_entities::TransferPrefixes;
use dikala_telephony::settings::{wants_key, wants_openai_key};
use ipnet::IpNet;
use url::Url;

use super::{
    ConfigError, LogLevel,
    entries::{ConfigEntry, ConfigOrigin, Layers},
    mail,
    nets::parse_net,
    price, telemetry, telephony,
};
use crate::pages::format::Zone;

/// Numbers with their least and largest values. For a list, the limits hold for each entry.
#[rustfmt::skip]
const RANGES: &[(&str, i64, i64)] = &[
    ("http.shutdown_seconds", 1, 600),
    ("http.body_timeout_seconds", 1, 300),
    ("http.unauthenticated_requests_per_minute", 1, 1_000_000),
    ("http.max_connections", 16, 1_000_000),
    ("http.connections_per_address", 1, 1_000_000),
    ("webhooks.retry_schedule_seconds", 1, 2_592_000),
    ("webhooks.timeout_seconds", 1, 600),
    ("webhooks.endpoint_concurrency", 1, 256),
    ("webhooks.max_in_flight", 4, 65_536),
    ("functions.timeout_seconds", 1, 60),
    ("calls.ring_timeout_seconds", 1, 86_400),
    ("calls.warn_before_seconds", 1, 55),
    ("calls.hangup_grace_seconds", 1, 600),
    ("bridge.lost_after_seconds", 1, 3_600),
    ("billing.ai_cost_idr_per_minute", 0, 1_000_000),
    ("plans.starter.requests_per_minute", 1, 10_000_000),
    ("plans.business.requests_per_minute", 1, 10_000_000),
    ("plans.enterprise.requests_per_minute", 1, 10_000_000),
    ("plans.starter.max_concurrent_calls", 0, 10_000_000),
    ("plans.business.max_concurrent_calls", 0, 10_000_000),
    ("plans.enterprise.max_concurrent_calls", 0, 10_000_000),
    ("plans.starter.max_configuration_bytes", 262_144, 1_073_741_824),
    ("plans.business.max_configuration_bytes", 262_144, 1_073_741_824),
    ("plans.enterprise.max_configuration_bytes", 262_144, 1_073_741_824),
    ("retention.attempts_days", 1, 3_650),
    ("retention.events_days", 1, 3_650),
    ("retention.calls_days", 0, 36_500),
    ("retention.transcripts_days", 0, 36_500),
    ("retention.audit_days", 0, 36_500),
    ("retention.sweep_seconds", 1, 86_400),
    ("telephony.max_calls", 1, 20_000),
    ("telephony.pipeline.chats_per_hour", 0, 1_000),
    ("telephony.threads", 0, 256),
];
/// Lists with their least and largest number of entries.
const LENGTHS: &[(&str, usize, usize)] = &[
    ("webhooks.retry_schedule_seconds", 1, 100),
    // More are not needed: an old key is removed once everything is sealed with the next.
    ("secrets.old_keys", 0, 8),
    ("telephony.sip.listen", 1, 16),
    ("telephony.sip.codecs", 1, 4),
    ("telephony.sip.nameservers", 0, 3),
    ("telephony.sip.local_networks", 0, 64),
    (telephony::FALLBACK, 0, 4),
];
/// Listening addresses.
const ADDRESSES: &[&str] = &["http.listen", "operator.listen"];
/// Other keys that require a value.
const NEEDED: &[&str] = &[
    "database.url",
    "node.name",
    "calls.default_time_zone",
    "log.level",
    "log.format",
    "telephony.sip.rtp_ports",
    "telephony.sip.srtp",
    "telephony.voice.provider",
    "telephony.gemini.url",
    "telephony.gemini.model",
    "telephony.openai.url",
    "telephony.openai.transcription_model",
    "telephony.openai.turn_detection",
];
const NODE_NAME_BYTES_MAX: usize = 64;
const OPERATOR_TOKEN_CHARS_MIN: usize = 16;

/// The fault of a value, to follow key, value and origin: "it must be …".
type Fault = Option<String>;

pub(super) fn check(layers: &Layers) -> Result<(), ConfigError> {
    ConfigError::all(faults(layers))
}

impl Layers {
    /// Checks the value of one key only.
    pub fn check(&self, key: &str) -> Result<(), ConfigError> {
        ConfigError::all(self.0.get(key).and_then(fault_of).into_iter().collect())
    }

    /// True if nobody chose a provider and the default one lacks its API key.
    pub fn wants_stand_in(&self) -> bool {
        *self.origin("telephony.voice.provider") == ConfigOrigin::Default
            && self.lacks_key("gemini", wants_key)
    }

    /// True if the provider needs an API key and none is set.
    fn lacks_key(&self, provider: &str, wants_key: fn(&str) -> bool) -> bool {
        let key = format!("telephony.{provider}.api_key");
        self.text(&key).is_empty()
            && !self.is_unread(&key)
            && wants_key(&self.text(&format!("telephony.{provider}.url")))
    }
}

fn fault_of(entry: &ConfigEntry) -> Option<ConfigError> {
    let fault = of_type(entry).or_else(|| of_meaning(entry))?;
    Some(ConfigError(format!("{}; {fault}", entry.told())))
}

/// All faults of the values.
pub(super) fn faults(layers: &Layers) -> Vec<ConfigError> {
    let read = layers
        .entries()
        .filter(|entry| !layers.is_unread(&entry.key));
    let mut faults: Vec<ConfigError> = read.filter_map(fault_of).collect();
    faults.extend(listener_without_token(layers).map(ConfigError));
    faults.extend(half_of_mail(layers).map(ConfigError));
    faults.extend(voice_without_key(layers).map(ConfigError));
    let pipeline = pipeline_in_part(layers).or_else(|| chats_without_key(layers));
    faults.extend(pipeline.map(ConfigError));
    faults.extend(half_of_tls(layers).map(ConfigError));
    faults.extend(whatsapp_without_tls(layers).map(ConfigError));
    faults
}

fn of_type(entry: &ConfigEntry) -> Fault {
    let key = entry.key.as_str();
    let range = RANGES.iter().find(|(of, ..)| *of == key);
    let number = |value: &ValueKind| match (whole(value), range) {
        (None, Some((_, least, most))) => {
            Some(format!("it must be a whole number from {least} to {most}"))
        }
        (None, None) => Some("it must be a whole number".to_owned()),
        (Some(value), Some((_, least, most))) if value < *least || value > *most => {
            Some(format!("it must be from {least} to {most}"))
        }
        _ => None,
    };
    match (&entry.default, &entry.value) {
        (ValueKind::I64(_), value) if key.contains(price::PRICES) => price::fault(value),
        (ValueKind::I64(_), value) => number(value),
        (ValueKind::Boolean(_), ValueKind::Boolean(_)) => None,
        (ValueKind::Boolean(_), ValueKind::String(text))
            if ["true", "false"].contains(&text.to_lowercase().as_str()) =>
        {
            None
        }
        (ValueKind::Boolean(_), _) => Some("it must be true or false".to_owned()),
        (ValueKind::Array(_), ValueKind::Array(items)) if key == telephony::TRUNKS => {
            telephony::trunks(items)
        }
        (ValueKind::Array(_), ValueKind::Array(items)) if range.is_some() => items
            .iter()
            .find_map(|item| number(&item.kind))
            .map(|fault| fault.replacen("it", "each entry", 1)),
        (ValueKind::Array(_), ValueKind::Array(items)) => items
            .iter()
            .any(|item| !matches!(item.kind, ValueKind::String(_)))
            .then(|| "it must be a list of texts".to_owned()),
        (ValueKind::Array(_), _) => Some("it must be a list".to_owned()),
        (_, ValueKind::Array(_) | ValueKind::Table(_)) => Some("it must be a text".to_owned()),
        _ => None,
    }
}

/// A whole number, or a text that holds one, as environment variables do.
fn whole(value: &ValueKind) -> Option<i64> {
    match value {
        ValueKind::I64(value) => Some(*value),
        ValueKind::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn of_meaning(entry: &ConfigEntry) -> Fault {
    let items = match &entry.value {
        ValueKind::Array(items) => items.iter().map(|item| item.to_string()).collect(),
        ValueKind::Nil => Vec::new(),
        value => vec![value.to_string()],
    };
    let key = entry.key.as_str();
    if key == telephony::TRUNKS {
        return None;
    }
    if let Some((_, least, most)) = LENGTHS.iter().find(|(of, ..)| *of == key)
        && !(*least..=*most).contains(&items.len())
    {
        return Some(format!("it must have {least} to {most} entries"));
    }
    if items.iter().all(String::is_empty) {
        let needed = NEEDED.contains(&key) || ADDRESSES.contains(&key);
        return needed.then(|| "it must be set".to_owned());
    }
    items.iter().find_map(|text| of_text(key, text))
}

fn of_text(key: &str, text: &str) -> Fault {
    match key {
        _ if ADDRESSES.contains(&key) => text.parse::<SocketAddr>().err().map(|_| {
            "it must be an address with a port, such as 127.0.0.1:8080".to_owned()
        }),
        "http.cors_origins" => origin(text),
        "http.public_url" => public_url(text),
        "http.trusted_proxies" => parse_net(text).is_none().then(|| {
            format!("{text:?} is no address or range; write it like 127.0.0.1 or 10.20.0.0/16")
        }),
        "outbound.allow_cidrs" => text.parse::<IpNet>().err().map(|_| {
            format!("{text:?} is no address range; write it like 10.20.0.0/16")
        }),
        "outbound.allow_hosts" => text.parse::<AllowedHost>().err().map(|error| format!("{text:?} {error}")),
        "calls.transfer_prefixes" => TransferPrefixes::parse(&[text.to_owned()]).err().map(|error| error.to_string()),
        "calls.default_time_zone" => Zone::named(text).is_none()
            .then(|| "it must be a name of the time zone database, such as Asia/Jakarta".to_owned()),
        "mail.url" => mail::url(text).err(),
        "mail.from" => mail::sender(text).err(),
        "telemetry.otlp_endpoint" => telemetry::traces(text).err(),
        "operator.token" | "operator.read_token" => operator_token(text),
        "database.url" => database(text),
        "node.name" => (text.len() > NODE_NAME_BYTES_MAX || text.chars().any(char::is_control))
            .then(|| format!("it must have at most {NODE_NAME_BYTES_MAX} characters, none of them a control character")),
        "log.format" => (!["auto", "text", "json"].contains(&text))
            .then(|| "it must be auto, text or json".to_owned()),
        "log.level" => text.parse::<LogLevel>().err(),
        _ => telephony::of_text(key, text),
    }
}

fn origin(text: &str) -> Fault {
    if text == "*" {
        return Some(
            "any origin cannot be allowed at once; name those whose pages use the API, such as https://app.example.com"
                .to_owned(),
        );
    }
    // The exact text that browsers send; any other spelling would never match.
    let url = Url::parse(text).ok();
    let url = url.filter(|url| matches!(url.scheme(), "http" | "https") && !text.contains('*'));
    let Some(sent) = url.map(|url| url.origin().ascii_serialization()) else {
        return Some(format!(
            "{text:?} is no origin; write it as browsers do, such as https://app.example.com"
        ));
    };
    (sent != text).then(|| format!("{text:?} is no origin; browsers send {sent}: write that"))
}

fn public_url(text: &str) -> Fault {
    let url = Url::parse(text).ok();
    let is_plain = url.filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
    });
    is_plain.is_none().then(|| {
        "it must be scheme and host, with a port where it is not the usual one and no path, such as https://voice.example.com"
            .to_owned()
    })
}

fn operator_token(text: &str) -> Fault {
    if text.chars().count() < OPERATOR_TOKEN_CHARS_MIN {
        return Some(format!(
            "it must have at least {OPERATOR_TOKEN_CHARS_MIN} characters"
        ));
    }
    (!text.bytes().all(|b| b.is_ascii_graphic()))
        .then(|| "it must be made of visible ASCII characters, as it goes into a header".to_owned())
}

fn database(text: &str) -> Fault {
    if let Some(path) = text.strip_prefix("sqlite://") {
        let path = path.split('?').next().unwrap_or_default();
        return path
            .is_empty()
            .then(|| "it names no file; write sqlite://path/to/file.db".to_owned());
    }
    if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
        return Some("it must begin with sqlite:// or postgres://".to_owned());
    }
    text.parse::<url::Url>().err().map(|error| {
        format!("it cannot be read ({error}); special characters of a password are written as %40 for @, %2F for /, %23 for #")
    })
}

/// A mail needs both a server and a sender.
fn half_of_mail(layers: &Layers) -> Option<String> {
    let is_set = |key: &str| layers.is_unread(key) || !layers.text(key).is_empty();
    let (set, other) = match (is_set("mail.url"), is_set("mail.from")) {
        (true, false) => ("mail.url", "mail.from"),
        (false, true) => ("mail.from", "mail.url"),
        _ => return None,
    };
    let told = layers.told(set);
    Some(format!(
        "{told}, and {other} is not set; set both, or neither"
    ))
}

/// Some providers require an API key. Without one, a stand-in voice is used unless the provider was chosen by name.
fn voice_without_key(layers: &Layers) -> Option<String> {
    let is_enabled = layers
        .text("telephony.enabled")
        .eq_ignore_ascii_case("true");
    if !is_enabled || layers.wants_stand_in() {
        return None;
    }
    let named_without_key = |provider: &str, wants_key: fn(&str) -> bool| {
        names(layers, provider).filter(|_| layers.lacks_key(provider, wants_key))
    };
    let (provider, variable, named) = match named_without_key("gemini", wants_key) {
        Some(named) => ("gemini", "GEMINI_API_KEY", named),
        None => (
            "openai",
            "OPENAI_API_KEY",
            named_without_key("openai", wants_openai_key)?,
        ),
    };
    Some(format!(
        "{}, and telephony.{provider}.api_key is not set; set it ({variable}), or name scripted instead, which needs none",
        layers.told(named)
    ))
}

/// A pipeline needs all its endpoints, if it is named or has an endpoint for voices. The language model alone is for chats.
fn pipeline_in_part(layers: &Layers) -> Option<String> {
    let is_enabled = layers
        .text("telephony.enabled")
        .eq_ignore_ascii_case("true");
    if !is_enabled {
        return None;
    }
    let key = |part: &str, field: &str| format!("telephony.pipeline.{part}.{field}");
    let is_set = |key: &String| layers.is_unread(key) || !layers.text(key).is_empty();
    let parts = ["stt", "llm", "tts"];
    let urls = parts.map(|part| key(part, "url"));
    let mut of_voices = urls.iter().filter(|url| **url != key("llm", "url"));
    let named = names(layers, "pipeline").map(str::to_owned);
    let because = named.or_else(|| of_voices.find(|url| is_set(url)).cloned())?;
    let without_key = |part: &&str| layers.lacks_key(&format!("pipeline.{part}"), wants_openai_key);
    let absent = urls.iter().find(|url| !is_set(url)).cloned().or_else(|| {
        let part = parts.into_iter().find(without_key)?;
        Some(key(part, "api_key"))
    })?;
    Some(format!(
        "{}, and {absent} is not set; a pipeline needs telephony.pipeline.stt.url, llm.url and tts.url, and a key for each that is OpenAI's",
        layers.told(&because)
    ))
}

/// The language model of chats, which needs no bridge.
fn chats_without_key(layers: &Layers) -> Option<String> {
    let url = "telephony.pipeline.llm.url";
    let lacks_key = layers.lacks_key("pipeline.llm", wants_openai_key);
    (!layers.text(url).is_empty() && lacks_key).then(|| {
        format!(
            "{}, and telephony.pipeline.llm.api_key is not set; set the key of the server",
            layers.told(url)
        )
    })
}

/// The key that names this provider.
fn names(layers: &Layers, provider: &str) -> Option<&'static str> {
    let mut keys = ["telephony.voice.provider", telephony::FALLBACK].into_iter();
    keys.find(|key| {
        layers
            .text(key)
            .split([' ', ','])
            .any(|name| name == provider)
    })
}

/// TLS needs both a certificate and its key.
fn half_of_tls(layers: &Layers) -> Option<String> {
    let keys = [
        "telephony.sip.tls_certificate_file",
        "telephony.sip.tls_key_file",
    ];
    let is_wanted = layers.text("telephony.sip.listen").contains("tls://");
    let absent = keys.iter().find(|key| layers.text(key).is_empty())?;
    let other = keys.iter().find(|key| !layers.text(key).is_empty());
    let because = match other {
        _ if is_wanted => "telephony.sip.listen",
        Some(other) => other,
        None => return None,
    };
    Some(format!(
        "{}, and {absent} is not set; set it",
        layers.told(because)
    ))
}

/// Meta calls over TLS.
fn whatsapp_without_tls(layers: &Layers) -> Option<String> {
    let trunks = layers.0.get(telephony::TRUNKS)?;
    let is_wanted = telephony::has_whatsapp(&trunks.value);
    let listens = layers.text(telephony::LISTEN).contains("tls://");
    (is_wanted && !listens).then(|| {
        format!(
            "{}, and a trunk has the preset whatsapp, whose calls come over TLS; add tls://0.0.0.0:5061",
            layers.told(telephony::LISTEN)
        )
    })
}

/// A listener that others can reach needs a token.
fn listener_without_token(layers: &Layers) -> Option<String> {
    let value = |key: &str| layers.text(key);
    let is_set = |key: &str| layers.is_unread(key) || !value(key).is_empty();
    let listen: SocketAddr = value("operator.listen").parse().ok()?;
    let (has_token, has_read_token) = (is_set("operator.token"), is_set("operator.read_token"));
    if !listen.ip().is_loopback() && !has_token {
        return Some(format!(
            "{}, which others can reach, and operator.token is not set; set a token of at least {OPERATOR_TOKEN_CHARS_MIN} \
             characters (DIKALA_OPERATOR__TOKEN_FILE) or listen on 127.0.0.1",
            layers.told("operator.listen")
        ));
    }
    if has_read_token && !has_token {
        // Requests without a token could do everything, and requests with this token could only read.
        return Some(format!(
            "{}, and operator.token is not; set that too (DIKALA_OPERATOR__TOKEN_FILE)",
            layers.told("operator.read_token")
        ));
    }
    let same =
        has_token && has_read_token && value("operator.token") == value("operator.read_token");
    (same && !layers.is_unread("operator.token")).then(|| {
        "operator.read_token is the same as operator.token; give who may only look a token of its own".to_owned()
    })
}
