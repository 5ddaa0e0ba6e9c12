//! The calls of a bridge: a task for each that comes in, and how they end when the bridge stops.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use crate::{
    Clock,
    call::{self, Parts, Rules},
    engine::{Address, Client},
    leg::Incoming,
    settings::{Model, Settings},
    voice::Provider,
};

/// Calls that have come in and have no task yet.
const INCOMING_MAX: usize = 64;
/// What is left for a sentence and for what is told of the call, of the time that running calls have.
const FAREWELL: Duration = Duration::from_secs(12);
/// How long the engine may take to hear the last of it.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The calls of a bridge.
#[derive(Debug)]
pub struct Calls {
    incoming: mpsc::Sender<Incoming>,
    stop: watch::Sender<bool>,
    running: JoinHandle<()>,
    engine: JoinHandle<()>,
}

impl Calls {
    /// Connects to the engine, and takes calls. Needs a tokio runtime.
    pub fn start(
        settings: &Settings,
        provider: Arc<dyn Provider>,
        engine: Address,
        clock: Clock,
    ) -> Self {
        let (client, engine) = Client::start(engine, clock);
        let (incoming, waiting) = mpsc::channel(INCOMING_MAX);
        let (stop, stopping) = watch::channel(false);
        let parts = Parts {
            provider,
            rules: rules(settings),
            stop: stopping,
        };
        Self {
            incoming,
            stop,
            running: tokio::spawn(accept(client, parts, waiting)),
            engine,
        }
    }

    /// Where calls come in.
    pub fn incoming(&self) -> mpsc::Sender<Incoming> {
        self.incoming.clone()
    }

    /// Lets running calls finish for a while, then tells the callers and hangs up. Nobody else may hold [`Self::incoming`] by then.
    pub async fn finish(self, within: Duration) {
        let Self {
            incoming,
            stop,
            mut running,
            mut engine,
        } = self;
        drop(incoming);
        let until = Instant::now() + within;
        let in_peace = within.saturating_sub(FAREWELL);
        if timeout(in_peace, &mut running).await.is_err() {
            tracing::info!("calls are told that the bridge stops");
            let _ = stop.send(true);
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

/// Gives every call a task, until nobody brings calls any more and all have ended.
async fn accept(client: Client, parts: Parts, mut waiting: mpsc::Receiver<Incoming>) {
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            incoming = waiting.recv() => {
                let Some(incoming) = incoming else {
                    break;
                };
                let Some(line) = client.line().await else {
                    tracing::error!("the engine's client has stopped, and no call can be taken");
                    break;
                };
                calls.spawn(call::run(parts.clone(), line, incoming));
            }
            Some(ended) = calls.join_next() => log(ended),
        }
    }
    drop(client);
    while let Some(ended) = calls.join_next().await {
        log(ended);
    }
}

fn log(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a call's task broke");
    }
}
