//! Reads of the API, beside a bare handler with the same SQL, on tables of growing size.

use std::{net::SocketAddr, time::Duration};

use dikala_entities::{Millis, Store};
use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::Instant,
};

use super::ScenarioResult;
use crate::cli::bench::{
    Result, failed,
    figure::{BenchFigure, Durations, Goal, median, per_second},
    ground::{
        BenchEnvironment, Tenants,
        filling::{HistoricCalls, call_id},
        thread::on_thread,
    },
    limits::api::serve,
    progress::BenchProgress,
};

/// Connections that each always have a request outstanding.
const CONNECTIONS: usize = 32;
/// The request rate on the largest table must be at least this fraction of the rate on the smallest.
const FLAT: f64 = 0.8;

/// Makes the path of a request for the call with this number.
type PathOf = fn(i64) -> String;

const ROUTES: [(&str, PathOf); 3] = [
    ("api_call", |n| format!("/calls/{}", call_id(n))),
    ("api_calls", |_| "/calls?limit=50".to_owned()),
    ("api_credits", |_| "/credits".to_owned()),
];

/// Measures all routes on all table sizes, alternating between service and bare handler, and compares the largest
/// table with the smallest.
pub async fn reads(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let sizes = &ground.sizes;
    let tenants = Tenants {
        count: 1,
        webhooks: None,
    };
    let place = ground.place(tenants).await?;
    let store = Store::connect(&place.setup.database)
        .await
        .map_err(failed)?;
    let bare = serve(&place.setup.database, place.tenant).await?;
    let server = place.serve()?;
    let mut found = ScenarioResult::default();
    let mut rates: Vec<[f64; 3]> = Vec::new();
    let mut filled = 0;
    for &calls in &sizes.tables {
        progress.say(&format!("filling a table with {calls} calls"));
        let more = HistoricCalls {
            tenant: place.tenant,
            number: place.number,
            agent: place.agent,
            from: filled,
            to: calls,
            // Fixed, like the bare handler's rows: no request depends on the date.
            first: Millis::from_i64(1_700_000_000_000),
        };
        more.fill(&store).await.map_err(failed)?;
        filled = calls;
        let mut of_size = [0.0; 3];
        for ((name, path), rate) in ROUTES.into_iter().zip(&mut of_size) {
            let load = Load {
                key: place.key.clone(),
                calls,
                path,
            };
            let figure = load
                .compare(ground, bare, server.http, format!("{name}_{calls}"))
                .await?;
            *rate = figure.value;
            found.add(figure, progress);
        }
        rates.push(of_size);
    }
    if let (Some(few), Some(many)) = (rates.first(), rates.last()) {
        for ((name, _), (few, many)) in ROUTES.into_iter().zip(few.iter().zip(many)) {
            let flat = BenchFigure::new(format!("{name}_flat"), *many, "requests/s");
            found.add(
                flat.beside(*few).reaching(Goal::ShareOfLimit(FLAT)),
                progress,
            );
        }
    }
    store.close().await;
    Ok(found)
}

/// The requests of a client.
#[derive(Clone)]
struct Load {
    key: String,
    calls: i64,
    path: PathOf,
}

impl Load {
    /// Alternates between service and bare handler; the median of each side counts.
    async fn compare(
        &self,
        ground: &BenchEnvironment,
        bare: SocketAddr,
        service: SocketAddr,
        name: String,
    ) -> Result<BenchFigure> {
        let sizes = &ground.sizes;
        for server in [bare, service] {
            self.turn(server, sizes.warm_up.min(sizes.turn)).await?;
        }
        let mut rates = [Vec::new(), Vec::new()];
        let mut times = Durations::default();
        for _ in 0..sizes.turns {
            let (taken, time) = self.turn(bare, sizes.turn).await?;
            rates[0].push(per_second(taken.count(), time));
            let (taken, time) = self.turn(service, sizes.turn).await?;
            rates[1].push(per_second(taken.count(), time));
            times.add(&taken);
        }
        let [bare, service] = rates.map(median);
        let figure = BenchFigure::new(name, service, "requests/s").beside(bare);
        Ok(figure.reaching(Goal::ShareOfLimit(0.8)).with(&times))
    }

    /// Loads one server from a dedicated thread.
    async fn turn(&self, server: SocketAddr, time: Duration) -> Result<(Durations, Duration)> {
        let load = self.clone();
        on_thread(move || async move {
            let began = Instant::now();
            let clients =
                (0..CONNECTIONS).map(|n| load.client(server, n as u64 * 7_919 + 1, began + time));
            let mut times = Durations::default();
            for client in try_join_all(clients).await? {
                times.add(&client);
            }
            Ok((times, began.elapsed()))
        })
        .await
    }

    /// Sends requests one after the other on a keep-alive connection.
    async fn client(&self, server: SocketAddr, mut seed: u64, until: Instant) -> Result<Durations> {
        let mut socket = TcpStream::connect(server).await.map_err(failed)?;
        socket.set_nodelay(true).map_err(failed)?;
        let mut buffer = Vec::with_capacity(64 * 1_024);
        let mut times = Durations::default();
        loop {
            let began = Instant::now();
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let call = i64::try_from(seed >> 33).unwrap_or_default() % self.calls;
            let request = format!(
                "GET /api/v1{} HTTP/1.1\r\nhost: bench\r\nx-api-key: {}\r\n\r\n",
                (self.path)(call),
                self.key
            );
            socket.write_all(request.as_bytes()).await.map_err(failed)?;
            buffer.clear();
            while !is_whole(&buffer) {
                if socket.read_buf(&mut buffer).await.map_err(failed)? == 0 {
                    return Err(failed("a server closed the connection"));
                }
            }
            if !buffer.starts_with(b"HTTP/1.1 200") {
                let answer: String = String::from_utf8_lossy(&buffer).chars().take(300).collect();
                return Err(failed(format!(
                    "a request was not answered with 200: {answer}"
                )));
            }
            times.record(began.elapsed());
            // Checked last, so that even a slow machine completes one request per turn.
            if Instant::now() >= until {
                return Ok(times);
            }
        }
    }
}

/// True once the answer is complete.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_with_its_last_byte() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        for length in 0..answer.len() {
            assert!(!is_whole(&answer[..length]));
        }
        assert!(is_whole(answer));
    }
}
