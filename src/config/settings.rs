//! The typed settings; every value is checked here, once.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use dikala_actors::{
    calls::{CallLimits, PlanConcurrency},
    functions::FunctionsConfig,
    outbound::AllowedHosts,
    webhooks::WebhooksConfig,
};
use dikala_entities::{TransferPrefixes, UrlPolicy, Vault};
use ipnet::IpNet;
use serde::Deserialize;
use url::Url;

use super::{
    ConfigError, ConfigurationKey, Layers, LogLevel,
    checks::check,
    mail::{MailKeys, MailServer},
    nets::parse_net,
    operator::OperatorKeys,
    telemetry,
    telephony::{TRUNKS, TelephonyKeys, WhatsAppTrunk},
};
use crate::{
    api::context::{ApiSettings, UNREAD},
    front::ConnectionLimits,
    http::settings::HttpSettings,
    operations::AgentLimits,
};

#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    pub http: HttpKeys,
    pub operator: OperatorKeys,
    pub database: DatabaseKeys,
    pub node: NodeKeys,
    #[serde(default)]
    secrets: SecretKeys,
    #[serde(default)]
    mail: MailKeys,
    outbound: OutboundSettings,
    webhooks: WebhookKeys,
    functions: FunctionKeys,
    pub calls: CallKeys,
    bridge: BridgeKeys,
    pub billing: BillingKeys,
    plans: PlanKeys,
    pub retention: Retention,
    #[serde(default)]
    telemetry: TelemetryKeys,
    telephony: TelephonyKeys,
    pub log: LogKeys,
    /// Functions may ask this program's public listener over the machine's own addresses, as the example functions of
    /// `dikala dev` do.
    #[serde(skip)]
    pub may_ask_itself: bool,
    /// All keys in displayable form.
    #[serde(skip)]
    pub shown: Arc<[ConfigurationKey]>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct HttpKeys {
    pub listen: SocketAddr,
    #[serde(default)]
    public_url: Option<String>,
    pub shutdown_seconds: u64,
    pub body_timeout_seconds: u64,
    pub unauthenticated_requests_per_minute: i64,
    #[serde(default)]
    pub cors_origins: Vec<String>,
    max_connections: i64,
    connections_per_address: i64,
    #[serde(default)]
    trusted_proxies: Vec<String>,
}

impl HttpKeys {
    /// The limits on connections.
    pub fn bounds(&self) -> ConnectionLimits {
        let figure = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
        ConnectionLimits {
            total: figure(self.max_connections),
            per_address: figure(self.connections_per_address),
            trusted: self.trusted(),
        }
    }

    /// The base URL of links, without a trailing slash: the public URL, or the address of the listener.
    pub fn base(&self, listener: SocketAddr) -> String {
        let public = self
            .public_url
            .as_deref()
            .and_then(|url| Url::parse(url).ok());
        match public {
            Some(url) => url.origin().ascii_serialization(),
            // The unspecified address cannot be dialled; without a public URL the client is on this machine.
            None if listener.ip().is_unspecified() => {
                format!("http://127.0.0.1:{}", listener.port())
            }
            None => format!("http://{listener}"),
        }
    }

    /// True if the operator has configured a public URL.
    pub fn has_public_url(&self) -> bool {
        self.public_url.is_some()
    }

    /// The operator's proxies; checked before.
    fn trusted(&self) -> Vec<IpNet> {
        let nets = self.trusted_proxies.iter();
        nets.filter_map(|text| parse_net(text)).collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct DatabaseKeys {
    pub url: String,
    pub migrate: bool,
    pub allow_unsafe: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct NodeKeys {
    pub name: String,
}

#[derive(Clone, Default, Deserialize)]
struct SecretKeys {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    old_keys: Vec<String>,
}

impl std::fmt::Debug for SecretKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(…)")
    }
}

#[derive(Clone, Debug, Deserialize)]
struct OutboundSettings {
    allow_http: bool,
    #[serde(default)]
    allow_cidrs: Vec<String>,
    #[serde(default)]
    allow_hosts: Vec<String>,
    #[serde(default)]
    extra_ca_file: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
struct WebhookKeys {
    retry_schedule_seconds: Vec<i64>,
    timeout_seconds: u64,
    endpoint_concurrency: usize,
    max_in_flight: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct FunctionKeys {
    timeout_seconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CallKeys {
    pub ring_timeout_seconds: i64,
    pub warn_before_seconds: i64,
    pub hangup_grace_seconds: i64,
    pub default_time_zone: String,
    #[serde(default)]
    transfer_prefixes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct BridgeKeys {
    lost_after_seconds: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct BillingKeys {
    pub ai_cost_idr_per_minute: i64,
}

#[derive(Clone, Debug, Deserialize)]
struct PlanKeys {
    starter: PlanLimits,
    business: PlanLimits,
    enterprise: PlanLimits,
}

/// The limits of a plan.
#[derive(Clone, Copy, Debug, Deserialize)]
struct PlanLimits {
    requests_per_minute: i64,
    /// 0: no limit.
    max_concurrent_calls: i64,
    max_configuration_bytes: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Retention {
    pub attempts_days: i64,
    pub events_days: i64,
    /// 0: forever.
    pub calls_days: i64,
    /// 0: as long as the calls.
    pub transcripts_days: i64,
    /// 0: forever.
    pub audit_days: i64,
    pub sweep_seconds: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct TelemetryKeys {
    #[serde(default)]
    otlp_endpoint: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct LogKeys {
    pub format: String,
    level: String,
}

impl LogKeys {
    /// The log level; checked before.
    pub fn level(&self) -> LogLevel {
        let level = self.level.parse();
        level.expect("the settings were checked when they were read")
    }
}

impl Settings {
    /// Checks and deserialises the settings.
    pub fn new(layers: &Layers) -> Result<Self, ConfigError> {
        check(layers)?;
        let mut settings: Self = layers
            .to_config()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| ConfigError(format!("the configuration is not usable: {error}")))?;
        if layers.wants_stand_in() {
            settings.telephony.stand_in();
        }
        settings.telephony.read_accounts(&layers.folder_of(TRUNKS));
        settings.shown = layers.entries().map(ConfigurationKey::from).collect();
        Ok(settings)
    }

    /// True if the scripted voice answers because the API key is missing.
    pub fn has_stand_in(&self) -> bool {
        self.telephony.has_stand_in()
    }

    /// True if `secrets.key` is set.
    pub fn has_key(&self) -> bool {
        self.secrets.key.is_some()
    }

    /// The vault: seals with `secrets.key`, and opens with `secrets.old_keys` too.
    pub fn vault(&self) -> Result<Vault, ConfigError> {
        let key = self.secrets.key.as_deref().ok_or_else(|| {
            ConfigError(
                "secrets.key is not set; make one with `openssl rand -base64 32` and set DIKALA_SECRETS__KEY or DIKALA_SECRETS__KEY_FILE"
                    .to_owned(),
            )
        })?;
        let vault =
            Vault::from_base64(key).map_err(|error| ConfigError(format!("secrets.key {error}")));
        self.secrets.old_keys.iter().try_fold(vault?, |vault, old| {
            vault
                .with_older(old)
                .map_err(|error| ConfigError(format!("a key in secrets.old_keys {error}")))
        })
    }

    /// True if `secrets.old_keys` is not empty.
    pub fn has_old_keys(&self) -> bool {
        !self.secrets.old_keys.is_empty()
    }

    /// The mail server, if one is configured; checked before.
    pub fn mail(&self) -> Option<MailServer> {
        self.mail.server()
    }

    /// The collector of spans, if one is configured; checked before.
    pub fn traces(&self) -> Option<Url> {
        telemetry::traces(self.telemetry.otlp_endpoint.as_deref()?).ok()
    }

    /// The settings of the bridge in this process, if it is enabled.
    pub fn telephony(&self) -> Option<dikala_telephony::settings::BridgeSettings> {
        self.telephony.enabled.then(|| {
            let alone = self.bridge_keys();
            dikala_telephony::settings::BridgeSettings {
                shutdown_seconds: TelephonyKeys::shutdown_seconds(alone.shutdown_seconds),
                ..alone
            }
        })
    }

    /// The language model of chats, if it is configured.
    pub fn text_model(&self) -> Option<dikala_telephony::settings::TextModelSettings> {
        self.telephony.text_model()
    }

    /// Chats that a tenant can begin within an hour.
    pub fn chats_per_hour(&self) -> u64 {
        self.telephony.chats_per_hour()
    }

    /// Simultaneous calls from browsers. As many as calls of telephones, beside them.
    pub fn web_calls_max(&self) -> usize {
        self.bridge_keys().sip.max_calls
    }

    /// The settings of a bridge that runs on its own.
    pub fn bridge_keys(&self) -> dikala_telephony::settings::BridgeSettings {
        let lost_after = u64::try_from(self.bridge.lost_after_seconds).unwrap_or_default();
        let extra_ca = self.outbound.extra_ca_file.clone();
        self.telephony
            .settings(self.http.shutdown_seconds, lost_after, extra_ca)
    }

    /// The trunks with the preset WhatsApp.
    pub fn whatsapp(&self) -> Vec<WhatsAppTrunk> {
        self.telephony.whatsapp()
    }

    /// The policy for tenants' URLs.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.outbound.allow_http,
        }
    }

    /// The allowed address ranges; checked before.
    pub fn allowed_cidrs(&self) -> Vec<IpNet> {
        let ranges = self.outbound.allow_cidrs.iter();
        ranges.filter_map(|text| text.parse().ok()).collect()
    }

    /// The allowed host names; checked before.
    pub fn allowed_hosts(&self) -> AllowedHosts {
        let hosts = self.outbound.allow_hosts.iter();
        AllowedHosts::Only(hosts.filter_map(|text| text.parse().ok()).collect())
    }

    /// A file of additional certificate authorities.
    pub fn extra_ca_file(&self) -> Option<&std::path::Path> {
        self.outbound.extra_ca_file.as_deref()
    }

    /// The allowed transfer targets; checked before.
    pub fn transfers(&self) -> TransferPrefixes {
        TransferPrefixes::parse(&self.calls.transfer_prefixes).unwrap_or_default()
    }

    /// The settings of the tenants' API.
    pub fn api(&self) -> ApiSettings {
        let per_minute = |figure: i64| u32::try_from(figure).unwrap_or(u32::MAX);
        ApiSettings {
            http: HttpSettings {
                body_timeout: Duration::from_secs(self.http.body_timeout_seconds),
                starter_per_minute: per_minute(self.plans.starter.requests_per_minute),
                business_per_minute: per_minute(self.plans.business.requests_per_minute),
                enterprise_per_minute: per_minute(self.plans.enterprise.requests_per_minute),
                unauthenticated_per_minute: per_minute(
                    self.http.unauthenticated_requests_per_minute,
                ),
                trusted_proxies: self.http.trusted(),
            },
            urls: self.url_policy(),
            agents: AgentLimits {
                transfers: self.transfers(),
                voices: self.telephony.configured_voices(),
                starter_configuration_bytes: self.plans.starter.max_configuration_bytes,
                business_configuration_bytes: self.plans.business.max_configuration_bytes,
                enterprise_configuration_bytes: self.plans.enterprise.max_configuration_bytes,
            },
            unread: UNREAD,
        }
    }

    /// Request settings of the operators' listener, which trusts no proxy.
    pub fn operators_http(&self) -> HttpSettings {
        HttpSettings {
            trusted_proxies: Vec::new(),
            ..self.api().http
        }
    }

    /// The settings of the webhook dispatcher.
    pub fn webhooks(&self) -> WebhooksConfig {
        WebhooksConfig {
            retry_schedule_seconds: self.webhooks.retry_schedule_seconds.clone(),
            timeout: Duration::from_secs(self.webhooks.timeout_seconds),
            endpoint_concurrency: self.webhooks.endpoint_concurrency,
            max_in_flight: self.webhooks.max_in_flight,
        }
    }

    /// The settings of the function invokers.
    pub fn functions(&self) -> FunctionsConfig {
        FunctionsConfig {
            timeout: Duration::from_secs(self.functions.timeout_seconds),
            ..FunctionsConfig::default()
        }
    }

    /// The rules of the call machine.
    pub fn rules(&self) -> CallLimits {
        CallLimits {
            ring_timeout_ms: self.calls.ring_timeout_seconds * 1_000,
            warn_before_ms: self.calls.warn_before_seconds * 1_000,
            hangup_grace_ms: self.calls.hangup_grace_seconds * 1_000,
            lost_after_ms: self.bridge.lost_after_seconds * 1_000,
        }
    }

    /// Concurrent calls by plan.
    pub fn concurrency(&self) -> PlanConcurrency {
        PlanConcurrency {
            starter: self.plans.starter.max_concurrent_calls(),
            business: self.plans.business.max_concurrent_calls(),
            enterprise: self.plans.enterprise.max_concurrent_calls(),
        }
    }
}

impl PlanLimits {
    /// Concurrent calls; none: no limit.
    fn max_concurrent_calls(&self) -> Option<i64> {
        Some(self.max_concurrent_calls).filter(|most| *most > 0)
    }
}

#[cfg(test)]
mod tests;
