//! A whole bridge: the SIP edge, the calls that come in over it, the voice, and the engine that they are told to.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    Clock,
    call::{self, Counters, Parts, Rules, unavailable},
    engine::{Address, Client},
    leg::{Incoming, Order},
    settings::{Listen, Model, Settings, Voice},
    sip::{self, Edge, SipError},
    trust::Trust,
    voice::{Provider, Scripted},
};

/// Calls that have come in and have no task yet.
const INCOMING_MAX: usize = 64;
/// What is left for a sentence and for what is told of the call, of the time that running calls have; a third of it, where that is
/// less.
const FAREWELL: Duration = Duration::from_secs(10);
/// What of that is left for the way to phone and engine.
const LAST_STEPS: Duration = Duration::from_millis(500);
/// How long the engine may take to hear the last of it.
const LAST_WORD: Duration = Duration::from_secs(2);

/// What was counted since the start.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    pub sip: sip::Statistics,
    pub calls: call::Reading,
}

/// Where to ask for that, for as long as the bridge runs; what was counted at the edge is zero after that.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    edge: Weak<Edge>,
    calls: Arc<Counters>,
}

impl Counted {
    pub fn read(&self) -> Statistics {
        let edge = self.edge.upgrade();
        Statistics {
            sip: edge.map(|edge| edge.statistics()).unwrap_or_default(),
            calls: self.calls.read(),
        }
    }
}

/// A bridge that takes calls.
#[derive(Debug)]
pub struct Bridge {
    edge: Arc<Edge>,
    calls: Calls,
    within: Duration,
}

impl Bridge {
    /// Listens for calls and connects to the engine. Needs a tokio runtime.
    ///
    /// Errors: what cannot be listened on or read.
    pub async fn start(
        settings: &Settings,
        engine: Address,
        clock: Clock,
    ) -> Result<Self, SipError> {
        let trust = Trust::new(settings.extra_ca_file.as_deref())?;
        let provider = provider(&settings.voice, &trust);
        let calls = Calls::start(settings, provider, engine, trust.clone(), clock);
        let incoming = calls.incoming();
        let edge = sip::listen(&settings.sip, trust, settings.max_calls, incoming).await?;
        Ok(Self {
            edge: Arc::new(edge),
            calls,
            within: Duration::from_secs(settings.shutdown_seconds),
        })
    }

    /// What is listened on, with the ports that were picked.
    pub fn addresses(&self) -> Vec<Listen> {
        self.edge.addresses()
    }

    /// What reads the certificate again; where it cannot be used, the one before stays.
    pub fn reloader(&self) -> impl Fn() + Send + 'static {
        let edge = Arc::downgrade(&self.edge);
        move || match edge.upgrade().map(|edge| edge.reload_tls()) {
            None => {}
            Some(Ok(())) => tracing::info!("the certificate was read again"),
            Some(Err(error)) => tracing::error!(%error, "the certificate stays as it was"),
        }
    }

    /// Where to ask for what is counted.
    pub fn counted(&self) -> Counted {
        Counted {
            edge: Arc::downgrade(&self.edge),
            calls: Arc::clone(&self.calls.counters),
        }
    }

    /// Takes no new calls, lets running ones finish, and hangs up those that have not after `shutdown_seconds`.
    pub async fn stop(self) {
        let Self {
            edge,
            calls,
            within,
        } = self;
        edge.drain();
        let until = Instant::now() + within;
        // As long as calls run, one may still be joined to a person.
        let ended = async {
            calls.finish(within).await;
            let _ = timeout_at(until, edge.parted()).await;
        };
        let told = async {
            sleep(in_peace(within)).await;
            edge.part(until - LAST_STEPS.min(within));
            std::future::pending().await
        };
        tokio::select! {
            () = ended => {}
            () = told => {}
        }
        // Whoever reads what is counted at this moment holds it too, and drops it.
        if let Some(edge) = Arc::into_inner(edge) {
            edge.close().await;
        }
    }
}

fn provider(voice: &Voice, trust: &Trust) -> Arc<dyn Provider> {
    match &voice.model {
        Model::Scripted => Arc::new(Scripted),
        Model::Gemini(gemini) => Arc::new(crate::voice::gemini::Gemini::new(
            gemini.clone(),
            trust.clone(),
            voice.barge_in,
        )),
    }
}

/// The calls of a bridge: a task for each that comes in, and how they end when the bridge stops.
#[derive(Debug)]
pub struct Calls {
    counters: Arc<Counters>,
    incoming: mpsc::Sender<Incoming>,
    closing: oneshot::Sender<()>,
    stop: watch::Sender<Option<Instant>>,
    running: JoinHandle<()>,
    engine: JoinHandle<()>,
}

impl Calls {
    /// Connects to the engine, and takes calls. Needs a tokio runtime.
    pub fn start(
        settings: &Settings,
        provider: Arc<dyn Provider>,
        engine: Address,
        trust: Trust,
        clock: Clock,
    ) -> Self {
        let lost_after = Duration::from_secs(settings.engine_lost_after_seconds);
        let (client, engine) = Client::start(engine, trust, clock, lost_after);
        let (incoming, waiting) = mpsc::channel(INCOMING_MAX);
        let (closing, closed) = oneshot::channel();
        let (stop, stopping) = watch::channel(None);
        let counters: Arc<Counters> = Arc::default();
        let parts = Parts {
            provider,
            rules: rules(settings),
            counters: Arc::clone(&counters),
            stop: stopping,
        };
        Self {
            counters,
            incoming,
            closing,
            stop,
            running: tokio::spawn(accept(client, parts, waiting, closed)),
            engine,
        }
    }

    /// Where calls come in.
    pub fn incoming(&self) -> mpsc::Sender<Incoming> {
        self.incoming.clone()
    }

    /// Takes no new calls, lets running ones finish for a while, then tells the callers and hangs up.
    pub async fn finish(self, within: Duration) {
        let Self {
            closing,
            stop,
            mut running,
            mut engine,
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
        if timeout(LAST_WORD, &mut engine).await.is_err() {
            tracing::warn!("the engine has not heard of the end of every call");
            engine.abort();
        }
    }
}

/// How long running calls may go on before they are told.
fn in_peace(within: Duration) -> Duration {
    within - FAREWELL.min(within / 3)
}

fn rules(settings: &Settings) -> Rules {
    let prices = match &settings.voice.model {
        Model::Scripted => None,
        Model::Gemini(gemini) => Some(gemini.prices),
    };
    Rules {
        barge_in: settings.voice.barge_in,
        prices: prices.filter(|prices| !prices.are_none()),
        engine_lost_after_ms: settings.engine_lost_after_seconds.saturating_mul(1_000),
    }
}

/// Gives every call a task, until no more are taken and all have ended.
async fn accept(
    client: Client,
    parts: Parts,
    mut waiting: mpsc::Receiver<Incoming>,
    mut closed: oneshot::Receiver<()>,
) {
    let mut calls = JoinSet::new();
    loop {
        let incoming = tokio::select! {
            incoming = waiting.recv() => incoming,
            _ = &mut closed => None,
            Some(ended) = calls.join_next() => {
                log(ended);
                continue;
            }
        };
        let Some(incoming) = incoming else {
            break;
        };
        match client.line().await {
            Some(line) => {
                calls.spawn(call::run(parts.clone(), line, incoming));
            }
            None => turn_away(&incoming),
        }
    }
    waiting.close();
    while let Some(incoming) = waiting.recv().await {
        turn_away(&incoming);
    }
    drop(client);
    while let Some(ended) = calls.join_next().await {
        log(ended);
    }
}

fn turn_away(incoming: &Incoming) {
    let refusal = unavailable("The service stops.");
    let _ = incoming.leg.orders.try_send(Order::Reject(refusal));
}

fn log(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a call's task broke");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::in_peace;

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
