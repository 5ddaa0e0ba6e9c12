//! A customer's server that records every request and answers as it is told.
//!
//! It speaks HTTP/1.1 on plain sockets and a thread of its own, because HTTP libraries do not allow most of its
//! faults.

mod answer;
mod bomb;
mod received;
pub mod signature;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use dikala_entities::{OutboundUrl, UrlPolicy};
use socket2::{Domain, Socket, Type};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

pub use self::{
    answer::ServerAnswer,
    received::{ReceivedEvent, ReceivedRequest},
};
use self::{answer::give, received::distinct};
use crate::{
    aside::ServerThread,
    wait::{PATIENCE, eventually},
};

/// A running server; dropping it stops the server.
#[derive(Debug)]
pub struct TenantServer {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _serving: ServerThread,
}

/// Computes the answer to a request.
type Script = Box<dyn Fn(&ReceivedRequest) -> ServerAnswer + Send + Sync>;

struct Shared {
    state: Mutex<State>,
    count: watch::Sender<usize>,
    /// The answers of paths that [`TenantServer::answer`] has not set.
    script: Script,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    received: Vec<ReceivedRequest>,
    answers: HashMap<String, VecDeque<ServerAnswer>>,
    /// Number of open connections.
    open: usize,
}

impl TenantServer {
    /// Answers 200 until it is told otherwise.
    pub fn start() -> Self {
        Self::start_on(0)
    }

    /// Listens on the given port; 0 takes any.
    pub fn start_on(port: u16) -> Self {
        Self::listen(Ipv4Addr::LOCALHOST.into(), port, |_| {
            ServerAnswer::Status(200)
        })
    }

    /// Answers each request by the script.
    pub fn scripted(
        script: impl Fn(&ReceivedRequest) -> ServerAnswer + Send + Sync + 'static,
    ) -> Self {
        Self::listen(Ipv4Addr::LOCALHOST.into(), 0, script)
    }

    /// As [`Self::scripted`], on another address: Linux accepts all of 127.0.0.0/8.
    pub fn listen(
        ip: IpAddr,
        port: u16,
        script: impl Fn(&ReceivedRequest) -> ServerAnswer + Send + Sync + 'static,
    ) -> Self {
        let listener = bind((ip, port).into());
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            count: watch::Sender::new(0),
            script: Box::new(script),
        });
        let serving = shared.clone();
        let aside = ServerThread::run(move || accept(listener, serving));
        Self {
            address,
            shared,
            _serving: aside,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// As [`Self::url`], in the type of stored tenants' addresses.
    pub fn outbound_url(&self, path: &str) -> OutboundUrl {
        OutboundUrl::parse(&self.url(path), UrlPolicy { allow_http: true }).unwrap()
    }

    /// Sets the answers of a path, in order; the last one is repeated.
    pub fn answer(&self, path: &str, answers: impl IntoIterator<Item = ServerAnswer>) {
        let answers = answers.into_iter().collect();
        self.shared
            .state
            .lock()
            .unwrap()
            .answers
            .insert(path.to_owned(), answers);
    }

    /// All requests to a path so far.
    pub fn received(&self, path: &str) -> Vec<ReceivedRequest> {
        let state = self.shared.state.lock().unwrap();
        state
            .received
            .iter()
            .filter(|request| request.path == path)
            .cloned()
            .collect()
    }

    /// Number of requests so far, on all paths.
    pub fn total(&self) -> usize {
        self.shared.state.lock().unwrap().received.len()
    }

    /// Number of open connections.
    pub fn open(&self) -> usize {
        self.shared.state.lock().unwrap().open
    }

    /// All requests so far, on all paths.
    pub fn all(&self) -> Vec<ReceivedRequest> {
        self.since(0)
    }

    /// All requests except the first ones.
    pub fn since(&self, first: usize) -> Vec<ReceivedRequest> {
        self.shared.state.lock().unwrap().received[first..].to_vec()
    }

    /// All requests, once every connection has ended. After a client's death this includes everything that it sent.
    pub async fn settled(&self) -> Vec<ReceivedRequest> {
        // Connections are accepted in order: once this one is served, no earlier one is outstanding.
        let mut last = TcpStream::connect(self.address).await.unwrap();
        let request = b"GET /settled HTTP/1.1\r\nhost: x\r\n\r\n";
        last.write_all(request).await.unwrap();
        last.shutdown().await.unwrap();
        last.read_to_end(&mut Vec::new()).await.unwrap();
        eventually("every connection to be over", async || {
            let state = self.shared.state.lock().unwrap();
            (state.open == 0).then(|| state.received.clone())
        })
        .await
    }

    /// Waits for at least `count` requests on all paths.
    pub async fn wait_for_total(&self, count: usize) -> Vec<ReceivedRequest> {
        let what = format!("{count} requests");
        self.wait(PATIENCE, &what, || self.all(), |all| all.len() >= count)
            .await
    }

    /// Waits for at least `count` requests on a path.
    pub async fn wait_for(&self, path: &str, count: usize) -> Vec<ReceivedRequest> {
        self.wait_until(path, &format!("{count} requests"), |received| {
            received.len() >= count
        })
        .await
    }

    /// Waits until the requests to a path are as wanted.
    pub async fn wait_until(
        &self,
        path: &str,
        what: &str,
        wanted: impl Fn(&[ReceivedRequest]) -> bool,
    ) -> Vec<ReceivedRequest> {
        self.wait_long(PATIENCE, path, what, wanted).await
    }

    /// As [`Self::wait_until`], with another timeout.
    pub async fn wait_long(
        &self,
        patience: Duration,
        path: &str,
        what: &str,
        wanted: impl Fn(&[ReceivedRequest]) -> bool,
    ) -> Vec<ReceivedRequest> {
        let what = format!("{path}: {what}");
        self.wait(patience, &what, || self.received(path), wanted)
            .await
    }

    async fn wait(
        &self,
        patience: Duration,
        what: &str,
        received: impl Fn() -> Vec<ReceivedRequest>,
        wanted: impl Fn(&[ReceivedRequest]) -> bool,
    ) -> Vec<ReceivedRequest> {
        let mut count = self.shared.count.subscribe();
        let waiting = async {
            loop {
                let received = received();
                if wanted(&received) {
                    return received;
                }
                count.changed().await.unwrap();
            }
        };
        timeout(patience, waiting).await.unwrap_or_else(|_| {
            let received = received();
            let shown: Vec<_> = received
                .iter()
                .rev()
                .take(20)
                .map(ReceivedRequest::text)
                .collect();
            panic!(
                "waited for {what}; {} requests came, the last: {shown:#?}",
                received.len()
            )
        })
    }

    /// The distinct events sent to a path, in the order of their first attempts. Each attempt is verified.
    pub fn events(&self, path: &str, secret: &str) -> Vec<ReceivedEvent> {
        distinct(&self.received(path), secret)
    }

    /// Waits until the distinct events are as wanted.
    pub async fn wait_for_events(
        &self,
        path: &str,
        secret: &str,
        what: &str,
        wanted: impl Fn(&[ReceivedEvent]) -> bool,
    ) -> Vec<ReceivedEvent> {
        let received = self
            .wait_until(path, what, |received| wanted(&distinct(received, secret)))
            .await;
        distinct(&received, secret)
    }

    /// Waits for an event of this kind, and of this call unless `call` is empty.
    pub async fn wait_for_event(
        &self,
        path: &str,
        secret: &str,
        kind: &str,
        call: &str,
    ) -> ReceivedEvent {
        let is_it = |event: &ReceivedEvent| {
            event.kind == kind && (call.is_empty() || event.data["callId"] == call)
        };
        let what = format!("{kind} {call}");
        let events = self
            .wait_for_events(path, secret, &what, |events| events.iter().any(is_it))
            .await;
        events.into_iter().find(is_it).unwrap()
    }
}

/// A listener with a backlog for hundreds of concurrent connections. The standard library's is 128, and a client
/// beyond that retries after a second.
fn bind(address: SocketAddr) -> std::net::TcpListener {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket.listen(1_024).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.into()
}

async fn accept(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let shared = shared.clone();
        shared.state.lock().unwrap().open += 1;
        tokio::spawn(async move {
            // The peer may disconnect at any time.
            let _ = serve(stream, &shared).await;
            shared.state.lock().unwrap().open -= 1;
        });
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await? {
        let scripted = (shared.script)(&request);
        let (number, answer) = {
            let mut state = shared.state.lock().unwrap();
            let answers = state.answers.get_mut(&request.path);
            let answer = answers.and_then(|queue| match queue.len() {
                0 | 1 => queue.front().cloned(),
                _ => queue.pop_front(),
            });
            let number = state.received.len();
            state.received.push(request);
            (number, answer.unwrap_or(scripted))
        };
        shared.count.send_modify(|count| *count += 1);
        let goes_on = give(&mut stream, answer).await?;
        shared.state.lock().unwrap().received[number].answered = Some(Instant::now());
        if !goes_on {
            break;
        }
    }
    Ok(())
}

async fn read_request(
    stream: &mut BufReader<TcpStream>,
) -> std::io::Result<Option<ReceivedRequest>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read_until(b'\n', &mut head).await? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head);
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Ok(None);
    };
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut body = Vec::new();
    if let Some(length) = headers.get("content-length") {
        body.resize(length.parse().unwrap_or(0), 0);
        stream.read_exact(&mut body).await?;
    } else if headers.contains_key("transfer-encoding") {
        read_chunks(stream, &mut body).await?;
    }
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (target.to_owned(), None),
    };
    Ok(Some(ReceivedRequest {
        method: method.to_owned(),
        path,
        query,
        headers,
        body,
        arrived: Instant::now(),
        answered: None,
    }))
}

async fn read_chunks(stream: &mut BufReader<TcpStream>, body: &mut Vec<u8>) -> std::io::Result<()> {
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let length = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let start = body.len();
        body.resize(start + length, 0);
        stream.read_exact(&mut body[start..]).await?;
        stream.read_line(&mut line).await?;
        if length == 0 {
            return Ok(());
        }
    }
}
