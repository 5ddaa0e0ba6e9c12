//! A tenant's webhook server that answers at once and records arrivals, and a bare client that posts the same
//! bodies to it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::try_join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep, sleep_until},
};

use super::thread::{listen, on_thread};
use crate::cli::bench::{Result, bridge::reply::quoted, failed};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A call's id and the event's kind.
pub type EventKey = (Vec<u8>, String);

/// The recorded arrivals.
#[derive(Debug, Default)]
struct Log {
    arrivals: HashMap<EventKey, Instant>,
    last: Option<Instant>,
    body: Vec<u8>,
}

/// A running receiver. It stops with the process.
#[derive(Clone, Debug)]
pub struct WebhookSink {
    pub address: SocketAddr,
    log: Arc<Mutex<Log>>,
}

impl WebhookSink {
    pub async fn start() -> Result<Self> {
        let log = Arc::<Mutex<Log>>::default();
        let shared = Arc::clone(&log);
        let address = listen(move |listener| accept(listener, shared)).await?;
        Ok(Self { address, log })
    }

    fn look<T>(&self, read: impl FnOnce(&mut Log) -> T) -> T {
        read(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Discards all recorded arrivals.
    pub fn forget(&self) {
        self.look(|log| *log = Log::default());
    }

    /// Waits for `count` distinct webhooks, or until none arrives for `patience`. Returns the number and the last
    /// arrival.
    pub async fn wait(&self, count: u64, patience: Duration) -> (u64, Option<Instant>) {
        let mut seen = (0, Instant::now());
        loop {
            let (came, last) = self.look(|log| (log.arrivals.len() as u64, log.last));
            if came > seen.0 {
                seen = (came, Instant::now());
            }
            if came >= count || seen.1.elapsed() > patience {
                return (came, last);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// The arrival of a webhook, if it has arrived.
    pub fn arrival(&self, told: &EventKey) -> Option<Instant> {
        self.look(|log| log.arrivals.get(told).copied())
    }

    /// The body of the latest webhook.
    pub fn body(&self) -> Vec<u8> {
        self.look(|log| log.body.clone())
    }
}

async fn accept(listener: TcpListener, log: Arc<Mutex<Log>>) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::task::spawn_local(serve(socket, Arc::clone(&log)));
    }
}

async fn serve(mut socket: TcpStream, log: Arc<Mutex<Log>>) {
    // A failure costs latency only.
    let _ = socket.set_nodelay(true);
    let mut buffer = Vec::with_capacity(4_096);
    loop {
        while let Some((head, end)) = request(&buffer) {
            let now = Instant::now();
            note(&log, &buffer[head..end], now);
            buffer.drain(..end);
            if socket.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        match socket.read_buf(&mut buffer).await {
            Ok(1..) => {}
            _ => return,
        }
    }
}

fn note(log: &Mutex<Log>, body: &[u8], now: Instant) {
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    let call = quoted(body, b"\"callId\":\"").unwrap_or_default().to_vec();
    let event = quoted(body, b"\"event\":\"").unwrap_or_default();
    let event = String::from_utf8_lossy(event).into_owned();
    // Delivery is at least once: a webhook may arrive twice.
    log.arrivals.entry((call, event)).or_insert(now);
    log.last = Some(now);
    log.body.clear();
    log.body.extend_from_slice(body);
}

/// Start and end of the first request's body, once it is complete.
fn request(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&buffer[..head]).ok()?;
    let length: usize = text
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?
        .1
        .parse()
        .ok()?;
    let end = head.checked_add(length)?;
    (buffer.len() >= end).then_some((head, end))
}

/// Posts a body over several connections for a time, one request after the other on each. Returns the number of
/// requests.
pub async fn post(
    address: SocketAddr,
    body: Vec<u8>,
    connections: usize,
    time: Duration,
) -> Result<u64> {
    on_thread(move || async move {
        let until = Instant::now() + time;
        let request = request_of(&body);
        let posting = (0..connections).map(async |_| {
            let mut poster = Poster::connect(address).await?;
            let mut posted = 0;
            while Instant::now() < until {
                poster.post(&request).await?;
                posted += 1;
            }
            std::io::Result::Ok(posted)
        });
        let posted = try_join_all(posting).await.map_err(failed)?;
        Ok(posted.into_iter().sum())
    })
    .await
}

/// Posts `rate` bodies a second for a time. Returns each latency until the receiver had the body.
pub async fn post_paced(receiver: WebhookSink, rate: u32, time: Duration) -> Result<Vec<Duration>> {
    on_thread(move || async move {
        let mut poster = Poster::connect(receiver.address).await.map_err(failed)?;
        let every = Duration::from_secs(1) / rate;
        let body = String::from_utf8_lossy(&receiver.body()).into_owned();
        let call = quoted(body.as_bytes(), b"\"callId\":\"").unwrap_or_default();
        let call = String::from_utf8_lossy(call).into_owned();
        let mut times = Vec::new();
        let mut next = Instant::now();
        let until = next + time;
        while next < until {
            sleep_until(next).await;
            next += every;
            let fresh = format!("call_{:026}", times.len());
            let request = request_of(body.replace(&call, &fresh).as_bytes());
            let event = quoted(body.as_bytes(), b"\"event\":\"").unwrap_or_default();
            let event = String::from_utf8_lossy(event).into_owned();
            let sent = Instant::now();
            poster.post(&request).await.map_err(failed)?;
            if let Some(came) = receiver.arrival(&(fresh.into_bytes(), event)) {
                times.push(came.saturating_duration_since(sent));
            }
        }
        Ok(times)
    })
    .await
}

fn request_of(body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /hooks HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// A keep-alive connection.
struct Poster(TcpStream);

impl Poster {
    async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self(socket))
    }

    async fn post(&mut self, request: &[u8]) -> std::io::Result<()> {
        self.0.write_all(request).await?;
        let mut answer = [0; ANSWER.len()];
        self.0.read_exact(&mut answer).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_once_it_is_whole() {
        let request_bytes = request_of(b"{}");
        for length in 0..request_bytes.len() {
            assert_eq!(request(&request_bytes[..length]), None);
        }
        let (head, end) = request(&request_bytes).expect("all of it is there");
        assert_eq!(&request_bytes[head..end], b"{}");
    }

    #[actix_web::test]
    async fn what_came_is_known_by_call_and_event() {
        let receiver = WebhookSink::start().await.expect("it listens");
        let mut poster = Poster::connect(receiver.address).await.expect("connects");
        let body = br#"{"event":"call.ended","data":{"callId":"call_1"}}"#;
        for _ in 0..2 {
            poster.post(&request_of(body)).await.expect("posted");
        }
        let told = (b"call_1".to_vec(), "call.ended".to_owned());
        assert!(receiver.arrival(&told).is_some());
        let (count, last) = receiver.wait(1, Duration::from_secs(1)).await;
        assert_eq!(count, 1, "twice is once");
        assert!(last.is_some());
        assert_eq!(receiver.body(), body);
        receiver.forget();
        assert_eq!(receiver.arrival(&told), None);
    }
}
