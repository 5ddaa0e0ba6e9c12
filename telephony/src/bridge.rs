//! A whole bridge: the SIP edge, its calls, the voice provider, and the client of the call service.

use std::{
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use dikala_entities::Millis;
use dikala_protocol::client::{Address, ServiceClient, WallClock};
use dikala_sip::{
    Edge, LadderMessage, SipError, leg::OfferedCall, quality::CallQuality, settings::ListenAddress,
    statistics::EdgeStatistics,
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use crate::{
    USER_AGENT,
    call::{self, CallCounters, CallRules, Providers, TaskDeps},
    incoming::accept,
    settings::BridgeSettings,
    trust::{Trust, TrustError},
    voice,
};

/// Calls that have come in and have no task yet.
const INCOMING_MAX: usize = 64;
/// The end of the shutdown time, reserved for a farewell sentence and the last messages to the service. At most a third of it.
const FAREWELL: Duration = Duration::from_secs(10);
/// The end of [`FAREWELL`], reserved for the way to phone and service.
const LAST_STEPS: Duration = Duration::from_millis(500);
/// Time that the service gets to acknowledge the last messages.
const LAST_WORD: Duration = Duration::from_secs(2);

pub use crate::incoming::WebCall;

/// Why a bridge cannot start.
#[derive(Debug, thiserror::Error)]
pub enum BridgeStartError {
    #[error("the threads of the bridge cannot be started: {0}")]
    Threads(io::Error),
    #[error("tls:// needs telephony.sip.tls_certificate_file and telephony.sip.tls_key_file")]
    NoCertificate,
    #[error("telephony.sip.public_address `{0}` has no address in the DNS")]
    PublicAddress(String),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Sip(SipError),
}

impl From<SipError> for BridgeStartError {
    fn from(error: SipError) -> Self {
        match error {
            SipError::NoCertificate => Self::NoCertificate,
            SipError::PublicAddress(name) => Self::PublicAddress(name),
            other => Self::Sip(other),
        }
    }
}

/// Counts since the start.
#[derive(Debug, Clone, Default)]
pub struct BridgeStatistics {
    pub sip: EdgeStatistics,
    pub calls: call::CallStatistics,
}

/// Reads the [`BridgeStatistics`], and what the bridge keeps of single calls. It does not keep the edge alive; once the bridge has
/// stopped, the edge's counts are zero and its calls are unknown.
#[derive(Debug, Clone, Default)]
pub struct StatisticsReader {
    edge: Weak<Edge>,
    calls: Arc<CallCounters>,
    /// One moment, by both clocks; `None` if no bridge was started.
    begun: Option<(std::time::Instant, Millis)>,
}

/// The SIP messages of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLadder {
    /// With their times, oldest first.
    pub messages: Vec<(Millis, LadderMessage)>,
    /// Older messages that were forgotten.
    pub forgotten: u64,
}

impl StatisticsReader {
    pub fn read(&self) -> BridgeStatistics {
        let edge = self.edge.upgrade();
        BridgeStatistics {
            sip: edge.map(|edge| edge.statistics()).unwrap_or_default(),
            calls: self.calls.read(),
        }
    }

    /// The SIP messages of the call with this id of the bridge; `None` if they are not kept here.
    pub fn ladder(&self, id: &str) -> Option<CallLadder> {
        let ladder = self.edge.upgrade()?.ladder(id)?;
        let begun = self.begun?;
        let messages = ladder.messages.into_iter();
        let dated = messages.map(|message| (dated(begun, message.at), message));
        Some(CallLadder {
            messages: dated.collect(),
            forgotten: ladder.forgotten,
        })
    }

    /// Forgets the SIP messages of a call.
    pub fn forget_ladder(&self, id: &str) {
        if let Some(edge) = self.edge.upgrade() {
            edge.forget_ladder(id);
        }
    }

    /// The quality of the call with this id of the bridge; `None` if it is not kept here.
    pub fn quality(&self, id: &str) -> Option<CallQuality> {
        self.edge.upgrade()?.quality(id)
    }
}

/// The date of an instant. The clock was read once, so a step of it since then moves no message.
fn dated((instant, clock): (std::time::Instant, Millis), at: std::time::Instant) -> Millis {
    let since = at.saturating_duration_since(instant).as_millis();
    clock.plus_ms(i64::try_from(since).unwrap_or(i64::MAX))
}

#[derive(Debug)]
pub struct TelephonyBridge {
    edge: Arc<Edge>,
    calls: CallTasks,
    within: Duration,
    begun: (std::time::Instant, Millis),
}

impl TelephonyBridge {
    /// Listens for calls and connects to the service. Needs a tokio runtime.
    ///
    /// Errors: an address cannot be listened on, or a file cannot be read.
    pub async fn start(
        settings: &BridgeSettings,
        service: Address,
        clock: WallClock,
    ) -> Result<Self, BridgeStartError> {
        let trust = Trust::new(settings.extra_ca_file.as_deref())?;
        let providers = voice::providers(&settings.voice, &trust);
        let tls = trust.client_config();
        let begun = (std::time::Instant::now(), clock());
        let calls = CallTasks::start(settings, providers, service, trust, clock);
        let edge = Edge::start(settings.sip.clone(), USER_AGENT, tls, calls.incoming()).await?;
        Ok(Self {
            edge: Arc::new(edge),
            calls,
            within: Duration::from_secs(settings.shutdown_seconds),
            begun,
        })
    }

    /// The addresses listened on; a port of 0 is replaced by the one that was picked.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.edge.addresses()
    }

    /// A function that reads the TLS certificate again. If the new one is unusable, the old one stays.
    pub fn reloader(&self) -> impl Fn() + Send + 'static {
        let edge = Arc::downgrade(&self.edge);
        move || match edge.upgrade().map(|edge| edge.reload_tls()) {
            None => {}
            Some(Ok(())) => tracing::info!("the certificate was read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }

    /// The channel for calls from browsers.
    pub fn web(&self) -> mpsc::Sender<WebCall> {
        self.calls.web()
    }

    pub fn counted(&self) -> StatisticsReader {
        StatisticsReader {
            edge: Arc::downgrade(&self.edge),
            calls: Arc::clone(&self.calls.counters),
            begun: Some(self.begun),
        }
    }

    /// Drains the bridge: takes no new calls, lets running ones finish, and hangs up the rest after `shutdown_seconds`.
    pub async fn stop(self) {
        let Self {
            edge,
            calls,
            within,
            ..
        } = self;
        edge.drain();
        calls.finish(within).await;
        // A reader of the statistics may hold the edge at this moment. It drops it, which closes the sockets.
        if let Some(edge) = Arc::into_inner(edge) {
            edge.close().await;
        }
    }
}

/// The calls of a bridge, one task each, and how they end when the bridge stops.
#[derive(Debug)]
pub struct CallTasks {
    counters: Arc<CallCounters>,
    incoming: mpsc::Sender<OfferedCall>,
    web: mpsc::Sender<WebCall>,
    closing: oneshot::Sender<()>,
    stop: watch::Sender<Option<Instant>>,
    running: JoinHandle<()>,
    service: JoinHandle<()>,
}

impl CallTasks {
    /// Connects to the service and takes calls. Needs a tokio runtime.
    pub fn start(
        settings: &BridgeSettings,
        providers: Providers,
        service: Address,
        trust: Trust,
        clock: WallClock,
    ) -> Self {
        let lost_after = Duration::from_secs(settings.engine_lost_after_seconds);
        let (client, service) =
            ServiceClient::start(service, trust.connector(), Arc::clone(&clock), lost_after);
        let (incoming, waiting) = mpsc::channel(INCOMING_MAX);
        let (web, from_web) = mpsc::channel(INCOMING_MAX);
        let (closing, closed) = oneshot::channel();
        let (stop, stopping) = watch::channel(None);
        let counters: Arc<CallCounters> = Arc::default();
        let deps = TaskDeps {
            rules: rules(settings, &providers),
            providers: Arc::new(providers),
            counters: Arc::clone(&counters),
            stop: stopping,
        };
        Self {
            counters,
            incoming,
            web,
            closing,
            stop,
            running: tokio::spawn(accept(client, clock, deps, (waiting, from_web), closed)),
            service,
        }
    }

    /// The channel for new calls.
    pub fn incoming(&self) -> mpsc::Sender<OfferedCall> {
        self.incoming.clone()
    }

    /// The channel for calls from browsers.
    pub fn web(&self) -> mpsc::Sender<WebCall> {
        self.web.clone()
    }

    /// Drains the calls: takes no new ones, waits, says the farewell in those still running, and hangs up at `within`.
    pub async fn finish(self, within: Duration) {
        let Self {
            closing,
            stop,
            mut running,
            mut service,
            ..
        } = self;
        let _ = closing.send(());
        let until = Instant::now() + within;
        if timeout(in_peace(within), &mut running).await.is_err() {
            tracing::info!("callers are told that the bridge stops");
            let _ = stop.send(Some(until - LAST_STEPS.min(within)));
            if timeout_at(until, &mut running).await.is_err() {
                tracing::warn!("not every call ended in time");
                running.abort();
                let _ = running.await;
            }
        }
        if timeout(LAST_WORD, &mut service).await.is_err() {
            tracing::warn!("the service has not heard of the end of every call");
            service.abort();
        }
    }
}

/// The part of the shutdown time in which running calls are left alone.
fn in_peace(within: Duration) -> Duration {
    within - FAREWELL.min(within / 3)
}

fn rules(settings: &BridgeSettings, providers: &Providers) -> CallRules {
    let voice = &settings.voice;
    let voices = providers.keys();
    let default = std::iter::once(voice.provider);
    CallRules {
        barge_in: voice.barge_in,
        voices: voices.map(|name| (*name, voice.prices(*name))).collect(),
        preferred: default.chain(voice.fallback.iter().copied()).collect(),
        opens_early: false,
        service_lost_after_ms: settings.engine_lost_after_seconds.saturating_mul(1_000),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn messages_are_dated_from_one_moment() {
        let instant = std::time::Instant::now();
        let date = |later| {
            let begun = (instant + Duration::from_secs(10), Millis::from_i64(5_000));
            dated(begun, instant + Duration::from_millis(later)).as_i64()
        };
        assert_eq!(
            [0, 10_000, 10_001, 12_500].map(date),
            [5_000, 5_000, 5_001, 7_500]
        );
    }

    #[rstest]
    #[case(0, 0)]
    #[case(9, 6)]
    #[case(24, 16)]
    #[case(30, 20)]
    #[case(300, 290)]
    fn calls_have_most_of_the_time(#[case] within: u64, #[case] peace: u64) {
        let within = Duration::from_secs(within);
        assert_eq!(in_peace(within), Duration::from_secs(peace));
    }
}
