//! A bridge on its own threads, so that other work of the program does not delay calls.

use dikala_protocol::client::{Address, WallClock};
use dikala_sip::settings::ListenAddress;
use tokio::{
    runtime::{Builder, Runtime},
    sync::mpsc,
};

use crate::{
    bridge::{BridgeStartError, StatisticsReader, TelephonyBridge, WebCall},
    settings::BridgeSettings,
};

#[derive(Debug)]
pub struct BridgeThreads {
    bridge: Option<TelephonyBridge>,
    runtime: Option<Runtime>,
}

impl BridgeThreads {
    /// Starts a bridge. Blocks until it listens, so async threads must not call it.
    ///
    /// Errors: an address cannot be listened on, or a file cannot be read.
    pub fn start(
        settings: &BridgeSettings,
        service: Address,
        clock: WallClock,
    ) -> Result<Self, BridgeStartError> {
        let runtime = Builder::new_multi_thread()
            .thread_name("telephony")
            .worker_threads(settings.sip.threads.max(1))
            .enable_all()
            .build()
            .map_err(BridgeStartError::Threads)?;
        let mut running = Self {
            bridge: None,
            runtime: None,
        };
        let started = runtime.block_on(TelephonyBridge::start(settings, service, clock));
        running.runtime = Some(runtime);
        running.bridge = Some(started?);
        Ok(running)
    }

    /// The addresses listened on; a port of 0 is replaced by the one that was picked.
    pub fn addresses(&self) -> Vec<ListenAddress> {
        self.bridge
            .as_ref()
            .map_or_else(Vec::new, TelephonyBridge::addresses)
    }

    /// A function that reads the TLS certificate again, as long as the bridge runs.
    pub fn reloader(&self) -> impl Fn() + Send + 'static {
        let reload = self.bridge.as_ref().map(TelephonyBridge::reloader);
        move || {
            if let Some(reload) = &reload {
                reload();
            }
        }
    }

    /// The channel for calls from browsers; `None` once the bridge has stopped.
    pub fn web(&self) -> Option<mpsc::Sender<WebCall>> {
        self.bridge.as_ref().map(TelephonyBridge::web)
    }

    pub fn counted(&self) -> StatisticsReader {
        let bridge = self.bridge.as_ref().map(TelephonyBridge::counted);
        bridge.unwrap_or_default()
    }

    /// Stops the bridge as [`TelephonyBridge::stop`] does. Blocks until it has stopped.
    pub fn stop(mut self) {
        if let (Some(bridge), Some(runtime)) = (self.bridge.take(), &self.runtime) {
            runtime.block_on(bridge.stop());
        }
    }
}

impl Drop for BridgeThreads {
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
