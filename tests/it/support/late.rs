//! A tenant's server that accepts no connections until it is opened: its backlog is full.

use std::{
    collections::HashSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use dikala_testkit::eventually;
use tokio::net::TcpSocket;

/// The kernel's code for a connection attempt (`SYN_SENT`).
const ASKED_FOR: &str = "02";

/// The data received on one connection.
type Connection = Arc<Mutex<ReceivedData>>;

#[derive(Debug, Default)]
struct ReceivedData {
    bytes: Vec<u8>,
    is_over: bool,
}

/// Answers every request with `{}` once it is open. Connections are served on threads until the process ends.
#[derive(Debug)]
pub struct LateServer {
    pub address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
    closed: Option<(TcpListener, Vec<TcpStream>)>,
}

impl LateServer {
    pub fn closed() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(0).unwrap().into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        let address = listener.local_addr().unwrap();
        let mut fills = Vec::new();
        let brief = Duration::from_millis(500);
        while let Ok(stream) = TcpStream::connect_timeout(&address, brief) {
            fills.push(stream);
        }
        Self {
            address,
            connections: Arc::default(),
            closed: Some((listener, fills)),
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Waits until a client tries to connect.
    pub async fn asked_for(&self) {
        let wanted = format!(":{:04X} {ASKED_FOR} ", self.address.port());
        eventually("a connection to be asked for", async || {
            let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
            sockets.contains(&wanted).then_some(())
        })
        .await;
    }

    /// Accepts connections from now on, including waiting ones.
    pub fn open(&mut self) {
        let (listener, fills) = self.closed.take().expect("it is closed");
        let own: HashSet<_> = fills
            .iter()
            .map(|fill| fill.local_addr().unwrap())
            .collect();
        let connections = Arc::clone(&self.connections);
        thread::spawn(move || {
            while let Ok((stream, peer)) = listener.accept() {
                if !own.contains(&peer) {
                    let connection = Connection::default();
                    connections.lock().unwrap().push(Arc::clone(&connection));
                    thread::spawn(move || serve(stream, &connection));
                }
            }
        });
        drop(fills);
    }

    /// The number of open connections on which nothing was received.
    pub fn silent(&self) -> usize {
        let connections = self.connections.lock().unwrap();
        let is_silent = |connection: &&Connection| {
            let came = connection.lock().unwrap();
            came.bytes.is_empty() && !came.is_over
        };
        connections.iter().filter(is_silent).count()
    }

    /// All received data.
    pub fn came(&self) -> String {
        let connections = self.connections.lock().unwrap();
        let bytes = connections.iter().flat_map(|connection| {
            let came = connection.lock().unwrap();
            came.bytes.clone()
        });
        String::from_utf8(bytes.collect()).unwrap()
    }
}

fn serve(mut stream: TcpStream, connection: &Connection) {
    let mut buffer = [0; 64 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let mut came = connection.lock().unwrap();
        came.bytes.extend_from_slice(&buffer[..length]);
        // The body is a JSON object, and nothing follows it before the answer.
        if came.bytes.ends_with(b"}") {
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            let _ = stream.write_all(answer);
        }
    }
    connection.lock().unwrap().is_over = true;
}
