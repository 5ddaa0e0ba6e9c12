//! The demo's callers: a simulated bridge that places a call every few seconds.

use std::{net::SocketAddr, pin::pin, time::Duration};

use dikala_entities::Secret;
use futures_util::future::{FusedFuture, FutureExt};
use tokio::time::sleep;

use super::demo::Demo;
use crate::simulator::{BridgeUrl, CallScenario, Peer, SimulatedBridge};

/// Interval between calls.
const CALL_EVERY: Duration = Duration::from_secs(4);
const CONCURRENT_CALLS: usize = 8;
/// Time within which the bridge reconnects to the local service before it starts anew.
const RECONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Delay before it starts anew.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Places calls until `stop` completes, then hangs up. A failure of the simulated bridge does not end the service.
pub async fn place_calls(service: SocketAddr, demo: Demo, stop: impl Future<Output = ()>) {
    let Ok(url) = format!("http://{service}").parse::<BridgeUrl>() else {
        return;
    };
    let connection = Peer {
        url,
        token: Secret::new(demo.bridge_token),
        ca_file: None,
        reconnect_within: RECONNECT_WITHIN,
    };
    let scenario = CallScenario {
        dids: demo.dids,
        calls: None,
        concurrency: CONCURRENT_CALLS,
        interval: CALL_EVERY,
        ring_ms: (500, 2_500),
        talk_ms: (3_000, 20_000),
        functions_per_mille: 350,
        abandon_per_mille: 150,
        shows_first: true,
        forgets_earlier_calls: true,
    };
    let mut stop = pin!(stop.fuse());
    loop {
        let bridge = SimulatedBridge::new(connection.clone(), scenario.clone(), rand::random());
        let ended = bridge.run(stop.as_mut(), |_| {}).await;
        if stop.is_terminated() {
            return;
        }
        let fault = match ended {
            Ok(summary) => summary.fault.unwrap_or_default(),
            Err(error) => error.to_string(),
        };
        tracing::warn!(fault, "the simulated bridge stopped; it begins anew");
        tokio::select! {
            () = stop.as_mut() => return,
            () = sleep(AGAIN_AFTER) => {}
        }
    }
}
