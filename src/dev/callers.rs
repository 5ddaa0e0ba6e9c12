//! The customers of the demo: a simulated bridge that places a call every few seconds until it is stopped.

use std::{net::SocketAddr, time::Duration};

use dikala_entities::Secret;

use super::demo::Demo;
use crate::cli::simulate::{Bridge, BridgeUrl, Connection, Scenario};

/// A call begins this often.
const CALL_EVERY_US: i64 = 4_000_000;
const CONCURRENT_CALLS: usize = 8;
/// The service is on this machine; if it does not come back in this time it is stopping.
const RECONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Places calls until `stop` completes, then hangs up.
pub async fn place_calls(service: SocketAddr, demo: Demo, stop: impl Future<Output = ()>) {
    let Ok(url) = format!("http://{service}").parse::<BridgeUrl>() else {
        return;
    };
    let connection = Connection {
        url,
        token: Secret::new(demo.bridge_token),
        reconnect_within: RECONNECT_WITHIN,
    };
    let scenario = Scenario {
        dids: demo.dids,
        calls: None,
        concurrency: CONCURRENT_CALLS,
        interval_us: CALL_EVERY_US,
        ring_ms: (500, 2_500),
        talk_ms: (3_000, 20_000),
        functions_per_mille: 350,
        abandon_per_mille: 150,
        shows_first: true,
        forgets_earlier_calls: true,
    };
    if let Err(error) = Bridge::new(connection, scenario, rand::random())
        .run(stop, |_| {})
        .await
    {
        tracing::warn!(%error, "the simulated bridge stopped");
    }
}
