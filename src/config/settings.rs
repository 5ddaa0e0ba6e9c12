//! The typed settings; every value is checked once, here.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use dikala_actors::{
    call::{PlanConcurrency, Rules},
    functions::FunctionsConfig,
    outbound::{AllowedHost, AllowedHostError, AllowedHosts},
    webhooks::WebhooksConfig,
};
use dikala_entities::{Secret, TransferPrefixes, UrlPolicy, Vault};
use ipnet::IpNet;
use serde::Deserialize;

use super::{ConfigError, Layers};
use crate::services::{ApiSettings, UNREAD};

const OPERATOR_TOKEN_CHARS_MIN: usize = 16;
/// More have no use: a key is taken out once everything is sealed with the next.
const OLD_KEYS_MAX: i64 = 8;

/// Everything that is configured.
#[derive(Clone, Debug, Deserialize)]
pub struct Settings {
    pub http: Http,
    pub operator: Operator,
    pub database: Database,
    pub node: Node,
    #[serde(default)]
    secrets: Secrets,
    outbound: OutboundSettings,
    webhooks: Webhooks,
    functions: Functions,
    pub calls: Calls,
    bridge: Bridge,
    pub billing: Billing,
    plans: Plans,
    pub retention: Retention,
    pub log: Log,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Http {
    pub listen: SocketAddr,
    pub shutdown_seconds: u64,
    pub body_timeout_seconds: u64,
    pub unauthenticated_requests_per_minute: i64,
    #[serde(default)]
    pub cors_origins: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Operator {
    pub listen: SocketAddr,
    #[serde(default)]
    token: Option<String>,
}

impl Operator {
    /// The token, where one is asked for.
    pub fn token(&self) -> Option<Secret> {
        self.token.clone().map(Secret::new)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct Database {
    pub url: String,
    pub migrate: bool,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Node {
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
    pub sweep_seconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Log {
    pub format: String,
    pub level: String,
}

impl Settings {
    /// Reads and checks the settings.
    pub fn new(layers: &Layers) -> Result<Self, ConfigError> {
        let settings: Self = layers
            .to_config()
            .and_then(config::Config::try_deserialize)
            .map_err(|error| ConfigError(format!("the configuration is not usable: {error}")))?;
        settings.check().map_err(ConfigError)?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        for (key, value, least, most) in self.ranges() {
            if value < least || value > most {
                return Err(format!(
                    "{key} is {value}; it must be from {least} to {most}"
                ));
            }
        }
        if !["auto", "text", "json"].contains(&self.log.format.as_str()) {
            return Err(format!(
                "log.format is {:?}; it must be auto, text or json",
                self.log.format
            ));
        }
        let kinds = ["sqlite://", "postgres://", "postgresql://"];
        if !kinds.iter().any(|kind| self.database.url.starts_with(kind)) {
            return Err("database.url must begin with sqlite:// or postgres://".to_owned());
        }
        self.cidrs()?;
        TransferPrefixes::parse(&self.calls.transfer_prefixes)
            .map_err(|error| format!("calls.transfer_prefixes: {error}"))?;
        self.hosts()?;
        self.check_operator()
    }

    /// Every number with the least and the most that it can be.
    #[rustfmt::skip]
    fn ranges(&self) -> Vec<(&'static str, i64, i64, i64)> {
        let (http, webhooks, plans) = (&self.http, &self.webhooks, &self.plans);
        let waits = &webhooks.retry_schedule_seconds;
        let mut ranges = vec![
            ("http.shutdown_seconds", as_i64(http.shutdown_seconds), 1, 600),
            ("http.body_timeout_seconds", as_i64(http.body_timeout_seconds), 1, 300),
            ("http.unauthenticated_requests_per_minute", http.unauthenticated_requests_per_minute, 1, 1_000_000),
            ("webhooks.timeout_seconds", as_i64(webhooks.timeout_seconds), 1, 600),
            ("webhooks.endpoint_concurrency", as_i64(webhooks.endpoint_concurrency), 1, 256),
            ("webhooks.max_in_flight", as_i64(webhooks.max_in_flight), 4, 65_536),
            ("webhooks.retry_schedule_seconds (its length)", as_i64(waits.len()), 1, 100),
            ("functions.timeout_seconds", as_i64(self.functions.timeout_seconds), 1, 60),
            ("calls.ring_timeout_seconds", self.calls.ring_timeout_seconds, 1, 86_400),
            ("calls.warn_before_seconds", self.calls.warn_before_seconds, 1, 55),
            ("calls.hangup_grace_seconds", self.calls.hangup_grace_seconds, 1, 600),
            ("bridge.lost_after_seconds", self.bridge.lost_after_seconds, 1, 3_600),
            ("billing.ai_cost_idr_per_minute", self.billing.ai_cost_idr_per_minute, 0, 1_000_000),
            ("plans.starter.requests_per_minute", plans.starter.requests_per_minute, 1, 10_000_000),
            ("plans.business.requests_per_minute", plans.business.requests_per_minute, 1, 10_000_000),
            ("plans.enterprise.requests_per_minute", plans.enterprise.requests_per_minute, 1, 10_000_000),
            ("plans.starter.max_concurrent_calls", plans.starter.max_concurrent_calls, 0, 10_000_000),
            ("plans.business.max_concurrent_calls", plans.business.max_concurrent_calls, 0, 10_000_000),
            ("plans.enterprise.max_concurrent_calls", plans.enterprise.max_concurrent_calls, 0, 10_000_000),
            ("plans.starter.max_configuration_bytes", plans.starter.max_configuration_bytes, 262_144, 1_073_741_824),
            ("plans.business.max_configuration_bytes", plans.business.max_configuration_bytes, 262_144, 1_073_741_824),
            ("plans.enterprise.max_configuration_bytes", plans.enterprise.max_configuration_bytes, 262_144, 1_073_741_824),
            ("retention.attempts_days", self.retention.attempts_days, 1, 3_650),
            ("retention.events_days", self.retention.events_days, 1, 3_650),
            ("retention.calls_days", self.retention.calls_days, 0, 36_500),
            ("retention.transcripts_days", self.retention.transcripts_days, 0, 36_500),
            ("retention.sweep_seconds", as_i64(self.retention.sweep_seconds), 1, 86_400),
            ("secrets.old_keys (their number)", as_i64(self.secrets.old_keys.len()), 0, OLD_KEYS_MAX),
            ("node.name (its length)", as_i64(self.node.name.len()), 1, 64),
        ];
        ranges.extend(waits.iter().map(|wait| ("webhooks.retry_schedule_seconds", *wait, 1, 2_592_000)));
        ranges
    }

    fn check_operator(&self) -> Result<(), String> {
        match &self.operator.token {
            None if !self.operator.listen.ip().is_loopback() => Err(format!(
                "operator.listen is {}, which others can reach, and operator.token is not set; set a token of at least \
                 {OPERATOR_TOKEN_CHARS_MIN} characters (DIKALA_OPERATOR__TOKEN_FILE) or listen on 127.0.0.1",
                self.operator.listen
            )),
            Some(token) if token.chars().count() < OPERATOR_TOKEN_CHARS_MIN => Err(format!(
                "operator.token must have at least {OPERATOR_TOKEN_CHARS_MIN} characters"
            )),
            _ => Ok(()),
        }
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

    fn cidrs(&self) -> Result<Vec<IpNet>, String> {
        let parse = |text: &String| {
            text.parse().map_err(|_| {
                format!("outbound.allow_cidrs has {text:?}, which is no address range; write it like 10.20.0.0/16")
            })
        };
        self.outbound.allow_cidrs.iter().map(parse).collect()
    }

    fn hosts(&self) -> Result<Vec<AllowedHost>, String> {
        let parse = |text: &String| {
            text.parse().map_err(|error: AllowedHostError| {
                format!("outbound.allow_hosts has {text:?}, which {error}")
            })
        };
        self.outbound.allow_hosts.iter().map(parse).collect()
    }

    /// What tenants' addresses may look like.
    pub fn url_policy(&self) -> UrlPolicy {
        UrlPolicy {
            allow_http: self.outbound.allow_http,
        }
    }

    /// The address ranges that operators allowed; checked when the settings were read.
    pub fn allowed_cidrs(&self) -> Vec<IpNet> {
        self.cidrs().unwrap_or_default()
    }

    /// The hosts that operators allowed by name; checked when the settings were read.
    pub fn allowed_hosts(&self) -> AllowedHosts {
        AllowedHosts::Only(self.hosts().unwrap_or_default())
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
            urls: self.url_policy(),
            transfers: self.transfers(),
            body_timeout: Duration::from_secs(self.http.body_timeout_seconds),
            unread: UNREAD,
            starter_per_minute: per_minute(self.plans.starter.requests_per_minute),
            business_per_minute: per_minute(self.plans.business.requests_per_minute),
            enterprise_per_minute: per_minute(self.plans.enterprise.requests_per_minute),
            unauthenticated_per_minute: per_minute(self.http.unauthenticated_requests_per_minute),
            starter_configuration_bytes: self.plans.starter.max_configuration_bytes,
            business_configuration_bytes: self.plans.business.max_configuration_bytes,
            enterprise_configuration_bytes: self.plans.enterprise.max_configuration_bytes,
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

fn as_i64(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, ConfigError> {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Settings::new(&Layers::load(None, owned)?)
    }

    #[test]
    fn the_defaults_are_usable_but_for_the_secret() {
        let settings = settings(&[]).expect("the defaults are valid");
        assert_eq!(settings.api().business_per_minute, 300);
        assert!(settings.vault().is_err_and(|e| e.0.contains("openssl")));
    }

    #[test]
    fn values_out_of_range_are_named() {
        for (variable, value, words) in [
            ("DIKALA_HTTP__LISTEN", "nowhere", "http.listen"),
            (
                "DIKALA_HTTP__SHUTDOWN_SECONDS",
                "0",
                "http.shutdown_seconds",
            ),
            ("DIKALA_CALLS__WARN_BEFORE_SECONDS", "60", "1 to 55"),
            (
                "DIKALA_CALLS__WARN_BEFORE_SECONDS",
                "soon",
                "calls.warn_before_seconds",
            ),
            (
                "DIKALA_OUTBOUND__ALLOW_CIDRS",
                "10.0.0.0/8,home",
                "\"home\"",
            ),
            ("DIKALA_CALLS__TRANSFER_PREFIXES", "+62,081", "\"081\""),
            (
                "DIKALA_OUTBOUND__ALLOW_HOSTS",
                "hooks.internal,https://a",
                "\"https://a\"",
            ),
            ("DIKALA_OPERATOR__LISTEN", "0.0.0.0:1", "operator.token"),
            ("DIKALA_OPERATOR__TOKEN", "short", "16"),
            ("DIKALA_LOG__FORMAT", "xml", "json"),
            (
                "DIKALA_WEBHOOKS__RETRY_SCHEDULE_SECONDS",
                "0",
                "retry_schedule_seconds",
            ),
        ] {
            let error = settings(&[(variable, value)]).expect_err(variable);
            assert!(error.0.contains(words), "{variable}={value}: {error}");
        }
    }
}
