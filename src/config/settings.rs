//! The typed settings; every value is checked once, here.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use dikala_actors::{
    calls::{PlanConcurrency, Rules},
    functions::FunctionsConfig,
    outbound::AllowedHosts,
    webhooks::WebhooksConfig,
};
use dikala_entities::{TransferPrefixes, UrlPolicy, Vault};
use ipnet::IpNet;
use serde::Deserialize;
use url::Url;

use super::{
    ConfigError, Layers, LogLevel, Shown,
    checks::check,
    mail::{Mail, MailServer},
    nets::parse_net,
    operator::Operator,
    telemetry,
    telephony::Telephony,
};
use crate::{
    api::context::{ApiSettings, UNREAD},
    front::Bounds,
    http::settings::HttpSettings,
};

/// Everything that is configured.
#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    pub http: Http,
    pub operator: Operator,
    pub database: Database,
    pub node: NodeKeys,
    #[serde(default)]
    secrets: Secrets,
    #[serde(default)]
    mail: Mail,
    outbound: OutboundSettings,
    webhooks: Webhooks,
    functions: Functions,
    pub calls: Calls,
    bridge: Bridge,
    pub billing: Billing,
    plans: Plans,
    pub retention: Retention,
    #[serde(default)]
    telemetry: Telemetry,
    telephony: Telephony,
    pub log: Log,
    /// All keys, as a person may see them.
    #[serde(skip)]
    pub shown: Arc<[Shown]>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Http {
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

impl Http {
    /// How many connections are taken.
    pub fn bounds(&self) -> Bounds {
        let figure = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
        Bounds {
            total: figure(self.max_connections),
            per_address: figure(self.connections_per_address),
            trusted: self.trusted(),
        }
    }

    /// What links to this service begin with, without a slash at the end: the public address, or else that of the listener.
    pub fn base(&self, listener: SocketAddr) -> String {
        let public = self
            .public_url
            .as_deref()
            .and_then(|url| Url::parse(url).ok());
        match public {
            Some(url) => url.origin().ascii_serialization(),
            // Nobody reaches "any address"; whoever asks here is on this machine.
            None if listener.ip().is_unspecified() => {
                format!("http://127.0.0.1:{}", listener.port())
            }
            None => format!("http://{listener}"),
        }
    }

    /// Whether people are known to reach it at an address of its own.
    pub fn has_public_url(&self) -> bool {
        self.public_url.is_some()
    }

    /// Proxies of the operator's; checked when the settings were read.
    fn trusted(&self) -> Vec<IpNet> {
        let nets = self.trusted_proxies.iter();
        nets.filter_map(|text| parse_net(text)).collect()
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Database {
    pub url: String,
    pub migrate: bool,
    pub allow_unsafe: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct NodeKeys {
    pub name: String,
}

#[derive(Clone, Default, Deserialize)]
struct Secrets {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    old_keys: Vec<String>,
}

impl std::fmt::Debug for Secrets {
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
struct Webhooks {
    retry_schedule_seconds: Vec<i64>,
    timeout_seconds: u64,
    endpoint_concurrency: usize,
    max_in_flight: usize,
}

#[derive(Clone, Debug, Deserialize)]
struct Functions {
    timeout_seconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Calls {
    pub ring_timeout_seconds: i64,
    pub warn_before_seconds: i64,
    pub hangup_grace_seconds: i64,
    #[serde(default)]
    transfer_prefixes: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
struct Bridge {
    lost_after_seconds: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Billing {
    pub ai_cost_idr_per_minute: i64,
}

#[derive(Clone, Debug, Deserialize)]
struct Plans {
    starter: PlanLimits,
    business: PlanLimits,
    enterprise: PlanLimits,
}

/// What a plan allows.
#[derive(Clone, Copy, Debug, Deserialize)]
struct PlanLimits {
    requests_per_minute: i64,
    /// 0: any number.
    max_concurrent_calls: i64,
    max_configuration_bytes: i64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Retention {
    pub attempts_days: i64,
    pub events_days: i64,
    /// 0: for ever.
    pub calls_days: i64,
    /// 0: as long as the calls.
    pub transcripts_days: i64,
    /// 0: for ever.
    pub audit_days: i64,
    pub sweep_seconds: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Telemetry {
    #[serde(default)]
    otlp_endpoint: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    pub format: String,
    level: String,
}

impl Log {
    /// What is logged; checked when the settings were read.
    pub fn level(&self) -> LogLevel {
        let level = self.level.parse();
        level.expect("the settings were checked when they were read")
    }
}

impl Settings {
    /// Reads and checks the settings.
    pub fn new(layers: &Layers) -> Result<Self, ConfigError> {
        check(layers)?;
        let mut settings: Self = layers
            .to_config()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| ConfigError(format!("the configuration is not usable: {error}")))?;
        if layers.wants_stand_in() {
            settings.telephony.stand_in();
        }
        settings.shown = layers.entries().map(Shown::from).collect();
        Ok(settings)
    }

    /// Whether the scripted voice answers for want of a key.
    pub fn has_stand_in(&self) -> bool {
        self.telephony.has_stand_in()
    }

    /// Whether `secrets.key` is set.
    pub fn has_key(&self) -> bool {
        self.secrets.key.is_some()
    }

    /// The vault under `secrets.key`, which also opens what `secrets.old_keys` sealed.
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

    /// Whether keys are configured that only open.
    pub fn has_old_keys(&self) -> bool {
        !self.secrets.old_keys.is_empty()
    }

    /// The server that takes mails, where there is one; checked when the settings were read.
    pub fn mail(&self) -> Option<MailServer> {
        self.mail.server()
    }

    /// Where spans are sent, where they are; checked when the settings were read.
    pub fn traces(&self) -> Option<Url> {
        telemetry::traces(self.telemetry.otlp_endpoint.as_deref()?).ok()
    }

    /// The bridge that runs inside, where one does.
    pub fn telephony(&self) -> Option<dikala_telephony::settings::Settings> {
        self.telephony.enabled.then(|| {
            let alone = self.bridge_keys();
            dikala_telephony::settings::Settings {
                shutdown_seconds: Telephony::shutdown_seconds(alone.shutdown_seconds),
                ..alone
            }
        })
    }

    /// The same of one that runs alone.
    pub fn bridge_keys(&self) -> dikala_telephony::settings::Settings {
        let lost_after = u64::try_from(self.bridge.lost_after_seconds).unwrap_or_default();
        let extra_ca = self.outbound.extra_ca_file.clone();
        self.telephony
            .settings(self.http.shutdown_seconds, lost_after, extra_ca)
    }

    /// What tenants' addresses may look like.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.outbound.allow_http,
        }
    }

    /// The address ranges that operators allowed; checked when the settings were read.
    pub fn allowed_cidrs(&self) -> Vec<IpNet> {
        let ranges = self.outbound.allow_cidrs.iter();
        ranges.filter_map(|text| text.parse().ok()).collect()
    }

    /// The hosts that operators allowed by name; checked when the settings were read.
    pub fn allowed_hosts(&self) -> AllowedHosts {
        let hosts = self.outbound.allow_hosts.iter();
        AllowedHosts::Only(hosts.filter_map(|text| text.parse().ok()).collect())
    }

    /// Certificates of authorities that are trusted besides the usual ones.
    pub fn extra_ca_file(&self) -> Option<&std::path::Path> {
        self.outbound.extra_ca_file.as_deref()
    }

    /// Where calls may be transferred to; checked when the settings were read.
    pub fn transfers(&self) -> TransferPrefixes {
        TransferPrefixes::parse(&self.calls.transfer_prefixes).unwrap_or_default()
    }

    /// For the tenants' API.
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
            transfers: self.transfers(),
            unread: UNREAD,
            starter_configuration_bytes: self.plans.starter.max_configuration_bytes,
            business_configuration_bytes: self.plans.business.max_configuration_bytes,
            enterprise_configuration_bytes: self.plans.enterprise.max_configuration_bytes,
        }
    }

    /// How the operators' listener takes requests; no proxy is known in front of it.
    pub fn operators_http(&self) -> HttpSettings {
        HttpSettings {
            trusted_proxies: Vec::new(),
            ..self.api().http
        }
    }

    /// For the dispatcher.
    pub fn webhooks(&self) -> WebhooksConfig {
        WebhooksConfig {
            retry_schedule_seconds: self.webhooks.retry_schedule_seconds.clone(),
            timeout: Duration::from_secs(self.webhooks.timeout_seconds),
            endpoint_concurrency: self.webhooks.endpoint_concurrency,
            max_in_flight: self.webhooks.max_in_flight,
        }
    }

    /// For the function invokers.
    pub fn functions(&self) -> FunctionsConfig {
        FunctionsConfig {
            timeout: Duration::from_secs(self.functions.timeout_seconds),
            ..FunctionsConfig::default()
        }
    }

    /// For the call machine.
    pub fn rules(&self) -> Rules {
        Rules {
            ring_timeout_ms: self.calls.ring_timeout_seconds * 1_000,
            warn_before_ms: self.calls.warn_before_seconds * 1_000,
            hangup_grace_ms: self.calls.hangup_grace_seconds * 1_000,
            lost_after_ms: self.bridge.lost_after_seconds * 1_000,
        }
    }

    /// Calls at the same time, by plan.
    pub fn concurrency(&self) -> PlanConcurrency {
        PlanConcurrency {
            starter: self.plans.starter.max_concurrent_calls(),
            business: self.plans.business.max_concurrent_calls(),
            enterprise: self.plans.enterprise.max_concurrent_calls(),
        }
    }
}

impl PlanLimits {
    /// Calls at the same time; none: any number.
    fn max_concurrent_calls(&self) -> Option<i64> {
        Some(self.max_concurrent_calls).filter(|most| *most > 0)
    }
}

#[cfg(test)]
mod tests;
