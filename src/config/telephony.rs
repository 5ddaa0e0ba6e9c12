//! The built-in bridge: its keys, their checks, and its settings.

mod account;
mod trunk_tables;
mod trunks;
mod voice;
mod whatsapp;

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZero,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    thread::available_parallelism,
};

use config::{Value, ValueKind};
use dikala_sip::settings::{Codec, ListenAddress, SipSettings, SipTransport, Srtp, TlsFiles};
use dikala_telephony::settings::{BridgeSettings, PROVIDERS, TextModelSettings, Voice};
use serde::Deserialize;

use self::{
    trunk_tables::TrunkTable,
    voice::{GeminiKeys, OpenAiKeys, PipelineKeys, VoiceKeys},
};
use super::{mask::MASK, nets::parse_net};
use crate::operations::ConfiguredVoices;

pub use self::account::{WhatsAppAccount, WhatsAppTrunk};
pub(super) use self::{trunks::trunks, voice::FALLBACK, whatsapp::has_whatsapp};

/// The only list that may be a comma-separated text in the file.
pub(super) const LISTEN: &str = "telephony.sip.listen";
/// The only list of tables.
pub(super) const TRUNKS: &str = "telephony.sip.trunks";
/// Threads for media, and as many for signalling.
const THREADS_MIN: usize = 2;
/// Seconds of the shutdown time that remain for webhooks of the ended calls and for connections. At most a quarter of
/// the time.
const SHUTDOWN_SECONDS_LEFT: u64 = 5;

/// The keys of the section `telephony`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct TelephonyKeys {
    pub(super) enabled: bool,
    max_calls: usize,
    threads: usize,
    sip: SipKeys,
    voice: VoiceKeys,
    gemini: GeminiKeys,
    openai: OpenAiKeys,
    pipeline: PipelineKeys,
}

#[derive(Clone, Debug, Deserialize)]
struct SipKeys {
    listen: Vec<String>,
    #[serde(default)]
    public_address: Option<String>,
    local_networks: Vec<String>,
    #[serde(default)]
    tls_certificate_file: Option<PathBuf>,
    #[serde(default)]
    tls_key_file: Option<PathBuf>,
    rtp_ports: String,
    codecs: Vec<String>,
    srtp: String,
    nameservers: Vec<String>,
    #[serde(default)]
    trunks: Vec<TrunkTable>,
    /// The folder of the file that has the trunks.
    #[serde(skip)]
    folder: PathBuf,
}

impl TelephonyKeys {
    /// Selects the scripted voice, because nobody chose a provider and the default one lacks its API key.
    pub(super) fn stand_in(&mut self) {
        self.voice.stand_in();
    }

    /// The providers that have what they need, and the one of agents that name none.
    pub(super) fn configured_voices(&self) -> ConfiguredVoices {
        let voice = self.voices();
        let providers = PROVIDERS.iter().copied();
        ConfiguredVoices {
            default: voice.provider,
            available: providers.filter(|it| voice.is_configured(*it)).collect(),
        }
    }

    /// The language model of chats, if it is configured and there are to be any.
    pub(super) fn text_model(&self) -> Option<TextModelSettings> {
        let model = self.pipeline.text_model();
        model.filter(|_| self.chats_per_hour() > 0)
    }

    /// Chats that a tenant can begin within an hour.
    pub(super) fn chats_per_hour(&self) -> u64 {
        self.pipeline.chats_per_hour
    }

    fn voices(&self) -> Voice {
        (self.voice).settings(&self.gemini, &self.openai, &self.pipeline)
    }

    /// True if the scripted voice was selected as a stand-in.
    pub(super) fn has_stand_in(&self) -> bool {
        self.voice.has_stand_in()
    }

    /// Reads the accounts of WhatsApp trunks. Their files are in this folder, unless a trunk names another one.
    pub(super) fn read_accounts(&mut self, folder: &Path) {
        self.sip.folder = folder.to_owned();
        for trunk in &mut self.sip.trunks {
            trunk.read_account(folder);
        }
    }

    /// The trunks with the preset WhatsApp.
    pub(super) fn whatsapp(&self) -> Vec<WhatsAppTrunk> {
        let trunks = self.sip.trunks.iter();
        trunks
            .filter_map(|trunk| trunk.whatsapp(&self.sip.folder))
            .collect()
    }

    /// The part of the shutdown time for the bridge in this process.
    pub(super) fn shutdown_seconds(all: u64) -> u64 {
        all - SHUTDOWN_SECONDS_LEFT.min(all / 4)
    }

    /// The bridge's settings; checked before.
    pub(super) fn settings(
        &self,
        shutdown_seconds: u64,
        engine_lost_after_seconds: u64,
        extra_ca_file: Option<PathBuf>,
    ) -> BridgeSettings {
        let sip = &self.sip;
        let tls = sip
            .tls_certificate_file
            .clone()
            .zip(sip.tls_key_file.clone());
        let codecs = sip.codecs.iter().filter_map(|text| codec(text));
        BridgeSettings {
            sip: SipSettings {
                threads: threads(self.threads),
                max_calls: self.max_calls,
                listen: sip.listen.iter().filter_map(|text| listen(text)).collect(),
                public_address: sip
                    .public_address
                    .as_deref()
                    .and_then(host)
                    .map(str::to_owned),
                local_networks: (sip.local_networks.iter())
                    .filter_map(|text| parse_net(text))
                    .collect(),
                tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
                rtp_ports: ports(&sip.rtp_ports).unwrap_or(20_000..=29_999),
                codecs: codecs.collect(),
                srtp: srtp(&sip.srtp).unwrap_or(Srtp::Optional),
                nameservers: sip
                    .nameservers
                    .iter()
                    .filter_map(|text| nameserver(text))
                    .collect(),
                trunks: sip
                    .trunks
                    .iter()
                    .filter_map(|table| table.read().ok())
                    .collect(),
            },
            voice: self.voices(),
            extra_ca_file,
            shutdown_seconds,
            engine_lost_after_seconds,
        }
    }
}

/// The fault of a text below `telephony`, if it has one: "it must be …".
pub(super) fn of_text(key: &str, text: &str) -> Option<String> {
    let fault = match key {
        LISTEN => listen(text).is_none().then_some(
            "each entry must be udp://, tcp:// or tls:// with an address and a port, such as udp://0.0.0.0:5060",
        ),
        "telephony.sip.public_address" => host(text).is_none().then_some(
            "it must be an address or a name without a port, such as 203.0.113.7 or sip.example.com",
        ),
        "telephony.sip.local_networks" => parse_net(text).is_none().then_some(
            "each entry must be an address or range, such as 192.168.0.0/16",
        ),
        "telephony.sip.rtp_ports" => ports(text)
            .is_none()
            .then_some(
                "it must be the first and the last of ports from 1024, with an even one and the next above it among them, such as 20000-29999",
            ),
        "telephony.sip.codecs" => codec(text)
            .is_none()
            .then_some("each entry must be opus, G722, PCMA or PCMU"),
        "telephony.sip.srtp" => srtp(text)
            .is_none()
            .then_some("it must be off, optional or required"),
        "telephony.sip.nameservers" => nameserver(text)
            .is_none()
            .then_some("each entry must be an address, such as 192.0.2.53 or 192.0.2.53:5353"),
        _ => return voice::of_text(key, text),
    };
    fault.map(str::to_owned)
}

/// The configured number of threads, or one for each core. With two, one that the system delays does not delay all calls.
fn threads(configured: usize) -> usize {
    let cores = || available_parallelism().map_or(THREADS_MIN, NonZero::get);
    match configured {
        0 => cores(),
        some => some,
    }
    .max(THREADS_MIN)
}

fn listen(text: &str) -> Option<ListenAddress> {
    let (transport, address) = text.split_once("://")?;
    let transport = match transport {
        "udp" => SipTransport::Udp,
        "tcp" => SipTransport::Tcp,
        "tls" => SipTransport::Tls,
        _ => return None,
    };
    let address = address.parse::<SocketAddr>().ok()?;
    Some(ListenAddress { transport, address })
}

/// An address or a name. An IPv6 address may have brackets, which are removed.
fn host(text: &str) -> Option<&str> {
    let bracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(bare) = bracketed {
        return bare.parse::<Ipv6Addr>().is_ok().then_some(bare);
    }
    if text.parse::<IpAddr>().is_ok() {
        return Some(text);
    }
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let is_name = text.len() <= 253
        && text.bytes().all(of_name)
        && text.bytes().any(|b| b.is_ascii_alphabetic());
    is_name.then_some(text)
}

/// An address of a nameserver, by default with the usual port.
fn nameserver(text: &str) -> Option<SocketAddr> {
    let ip = text.parse::<IpAddr>().ok();
    let usual = ip.map(|ip| SocketAddr::new(ip, 53));
    usual.or_else(|| text.parse().ok())
}

fn ports(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    // A call takes an even port for RTP, and the next one for RTCP.
    let has_pair = first.checked_next_multiple_of(2)? < last;
    (first >= 1_024 && has_pair).then_some(first..=last)
}

fn codec(text: &str) -> Option<Codec> {
    match text.to_ascii_lowercase().as_str() {
        "opus" => Some(Codec::Opus),
        "g722" => Some(Codec::G722),
        "pcma" => Some(Codec::Pcma),
        "pcmu" => Some(Codec::Pcmu),
        _ => None,
    }
}

fn srtp(text: &str) -> Option<Srtp> {
    match text {
        "off" => Some(Srtp::Off),
        "optional" => Some(Srtp::Optional),
        "required" => Some(Srtp::Required),
        _ => None,
    }
}

/// A table in displayable form: `{name=jkt-1 password=********}`.
pub(super) fn shown(table: &config::Map<String, Value>) -> String {
    let mut fields: Vec<(&String, &Value)> = table.iter().collect();
    fields.sort_by_key(|(name, _)| *name);
    let field = |(name, value): (&String, &Value)| {
        let value = match &value.kind {
            _ if name.contains("password") => MASK.to_owned(),
            ValueKind::Table(table) => shown(table),
            ValueKind::Array(items) => {
                let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                items.join(" ")
            }
            other => other.to_string(),
        };
        format!("{name}={value}")
    };
    let fields: Vec<String> = fields.into_iter().map(field).collect();
    format!("{{{}}}", fields.join(" "))
}

#[cfg(test)]
mod tests;
