//! A server for tests that behaves as badly as it is told to. Plain sockets: no HTTP library would do most of this.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use dikala_entities::{OutboundUrl, UrlPolicy};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, Semaphore},
};

use super::{Guard, Outbound, resolver::Resolver};

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

/// What the server does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Play {
    /// Sends these bytes and waits for the next request.
    Raw(Vec<u8>),
    /// The same after a while.
    After(Duration, Vec<u8>),
    /// The same once the test gives a permit for it.
    When(Arc<Semaphore>, Vec<u8>),
    /// Never says anything.
    Hang,
    /// Sends the bytes one at a time, for ever.
    Drip(Vec<u8>),
    /// Sends a head, then body without end.
    Endless,
    /// Closes the connection at once.
    Reset,
}

impl Play {
    /// A complete answer.
    pub(crate) fn answer(status: u16, headers: &str, body: &[u8]) -> Self {
        let mut raw = format!(
            "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n",
            body.len()
        )
        .into_bytes();
        raw.extend_from_slice(body);
        Self::Raw(raw)
    }
}

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    came: Arc<Notify>,
    open: Arc<AtomicUsize>,
}

type Script = Rc<dyn Fn(&Seen) -> Play>;

impl Receiver {
    /// Listens on a free port of the loopback and answers each request as the script says.
    pub(crate) async fn start(script: impl Fn(&Seen) -> Play + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let receiver = Self {
            address: listener.local_addr().expect("an address"),
            seen: Arc::default(),
            came: Arc::default(),
            open: Arc::default(),
        };
        let (script, server): (Script, _) = (Rc::new(script), receiver.clone());
        actix_rt::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                actix_rt::spawn(server.clone().serve(socket, Rc::clone(&script)));
            }
        });
        receiver
    }

    pub(crate) fn url(&self, path: &str) -> OutboundUrl {
        let url = format!("http://{}{path}", self.address);
        OutboundUrl::parse(&url, UrlPolicy { allow_http: true }).expect("an address")
    }

    /// Connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no test panics with it").clone()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Seen> {
        let reached = async {
            loop {
                let came = self.came.notified();
                if self.seen().len() >= count {
                    return self.seen();
                }
                came.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reached)
            .await
            .unwrap_or_else(|_| panic!("{} of {count} requests came", self.seen().len()))
    }

    async fn serve(self, socket: TcpStream, script: Script) {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.converse(socket, script).await;
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    async fn converse(&self, mut socket: TcpStream, script: Script) {
        let mut buffer = Vec::new();
        while let Some(seen) = read_request(&mut socket, &mut buffer).await {
            let play = script(&seen);
            self.seen.lock().expect("no test panics with it").push(seen);
            self.came.notify_waiters();
            if !perform(&mut socket, play).await {
                return;
            }
        }
    }
}

/// Returns whether the connection goes on.
async fn perform(socket: &mut TcpStream, play: Play) -> bool {
    match play {
        Play::Raw(bytes) => socket.write_all(&bytes).await.is_ok(),
        Play::After(wait, bytes) => {
            tokio::time::sleep(wait).await;
            socket.write_all(&bytes).await.is_ok()
        }
        Play::When(permits, bytes) => {
            let Ok(permit) = permits.acquire().await else {
                return false;
            };
            permit.forget();
            socket.write_all(&bytes).await.is_ok()
        }
        Play::Hang => std::future::pending().await,
        Play::Drip(bytes) => {
            for byte in bytes.iter().chain(std::iter::repeat(&b'x')) {
                if socket.write_all(&[*byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
        }
        Play::Endless => {
            let _ = socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n")
                .await;
            while socket.write_all(&[b'e'; 8192]).await.is_ok() {}
            false
        }
        Play::Reset => {
            let _ = socket.set_zero_linger();
            false
        }
    }
}

async fn read_request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers
        .get("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    let body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    Some(Seen {
        method: first.next()?,
        target: first.next()?,
        headers,
        body,
    })
}

fn local_guard() -> Guard {
    Guard {
        allow_cidrs: vec!["127.0.0.0/8".parse().expect("a range")],
        allow_http: true,
        ..Guard::default()
    }
}

/// Outbound requests that may go to the loopback.
pub(crate) fn local_outbound() -> Outbound {
    Outbound::new(local_guard(), None).expect("outbound")
}

/// A name server of which every name is this machine, and which never answers for those that begin with `hang`, as long as
/// this is kept.
pub(crate) struct SlowNames {
    pub(crate) outbound: Outbound,
    /// Names that were asked for and have no answer.
    pub(crate) hanging: Arc<AtomicUsize>,
    _release: std::sync::mpsc::Sender<()>,
}

impl SlowNames {
    pub(crate) fn start() -> Self {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let released = Mutex::new(released);
        let hanging = Arc::new(AtomicUsize::new(0));
        let asked = Arc::clone(&hanging);
        let resolver = Resolver::new(move |name| {
            if name.starts_with("hang") {
                asked.fetch_add(1, Ordering::SeqCst);
                // One waits for the channel's end, the others for his lock.
                let _ = released.lock().map(|released| released.recv());
            }
            Ok(vec![std::net::IpAddr::from([127, 0, 0, 1])])
        });
        let outbound = Outbound::with_resolver(local_guard(), None, resolver);
        Self {
            outbound: outbound.expect("outbound"),
            hanging,
            _release: release,
        }
    }

    /// The address of a receiver under a name.
    pub(crate) fn url(receiver: &Receiver, name: &str) -> OutboundUrl {
        let url = format!("http://{name}.example.com:{}/", receiver.address.port());
        OutboundUrl::parse(&url, UrlPolicy { allow_http: true }).expect("an address")
    }

    /// Waits until so many look-ups hang.
    pub(crate) async fn wait_for(&self, count: usize) {
        let reached = async {
            while self.hanging.load(Ordering::SeqCst) < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), reached)
            .await
            .expect("the names are asked for");
    }
}
