//! A bridge on its own threads, so that other work of the program does not delay calls.

use std::{io, num::NonZero, thread::available_parallelism};

use tokio::runtime::{Builder, Runtime};

use crate::{
    Clock,
    bridge::{Bridge, Counted},
    engine::Address,
    settings::{Listen, Settings},
    sip::SipError,
};

/// Calls wait more than they compute.
const THREADS_MAX: usize = 2;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the threads of the bridge cannot be started: {0}")]
    Threads(io::Error),
    #[error(transparent)]
    Sip(#[from] SipError),
}

#[derive(Debug)]
pub struct Running {
    bridge: Option<Bridge>,
    runtime: Option<Runtime>,
}

impl Running {
    /// Starts a bridge. Blocks until it listens, so async threads must not call it.
    ///
    /// Errors: an address cannot be listened on, or a file cannot be read.
    pub fn start(settings: &Settings, engine: Address, clock: Clock) -> Result<Self, StartError> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let runtime = Builder::new_multi_thread()
            .thread_name("telephony")
            .worker_threads(cores.min(THREADS_MAX))
            .enable_all()
            .build()
            .map_err(StartError::Threads)?;
        let mut running = Self {
            bridge: None,
            runtime: None,
        };
        let started = runtime.block_on(Bridge::start(settings, engine, clock));
        running.runtime = Some(runtime);
        running.bridge = Some(started?);
        Ok(running)
    }

    /// The addresses listened on; a port of 0 is replaced by the one that was picked.
    pub fn addresses(&self) -> Vec<Listen> {
        self.bridge
            .as_ref()
            .map_or_else(Vec::new, Bridge::addresses)
    }

    /// A function that reads the TLS certificate again, as long as the bridge runs.
    pub fn reloader(&self) -> impl Fn() + Send + 'static {
        let reload = self.bridge.as_ref().map(Bridge::reloader);
        move || {
            if let Some(reload) = &reload {
                reload();
            }
        }
    }

    pub fn counted(&self) -> Counted {
        let bridge = self.bridge.as_ref().map(Bridge::counted);
        bridge.unwrap_or_default()
    }

    /// Stops the bridge as [`Bridge::stop`] does. Blocks until it has stopped.
    pub fn stop(mut self) {
        if let (Some(bridge), Some(runtime)) = (self.bridge.take(), &self.runtime) {
            runtime.block_on(bridge.stop());
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The bridge needs its runtime while it is dropped.
        if let Some(runtime) = self.runtime.take() {
            let entered = runtime.enter();
            drop(self.bridge.take());
            drop(entered);
            runtime.shutdown_background();
        }
    }
}
