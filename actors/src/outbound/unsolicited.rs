//! Servers that send more, earlier or later than requested: no request receives another's answer.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use awc::http::{Method, header::HeaderMap};
use bytes::Bytes;

use dikala_testkit::{ServerAnswer, TenantServer};

use super::{
    ErrorKind, Exchange, Failure, Head, OutboundClient, exchange, testing::local_outbound,
};

const LIMIT: Duration = Duration::from_secs(10);
const INTERIM: [&[u8]; 3] = [
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 102 Processing\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n",
];

/// A server on bare sockets that counts its connections.
struct RawServer {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

impl RawServer {
    /// Answers each request; `answer` gets the socket and the request's body.
    fn start(answer: impl Fn(&mut TcpStream, &str) + Clone + Send + 'static) -> Self {
        Self::serve(move |socket| {
            let mut buffer = Vec::new();
            while let Some(body) = request(socket, &mut buffer) {
                answer(socket, &body);
            }
        })
    }

    /// Serves each connection on a thread of its own.
    fn serve(connection: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let raw = Self {
            address: listener.local_addr().expect("an address"),
            connections: Arc::default(),
        };
        let connections = Arc::clone(&raw.connections);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let Ok(mut socket) = socket else { return };
                connections.fetch_add(1, SeqCst);
                let connection = connection.clone();
                std::thread::spawn(move || {
                    let _ = socket.set_nodelay(true);
                    connection(&mut socket);
                });
            }
        });
        raw
    }

    fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    async fn ask(
        &self,
        client: &OutboundClient,
        method: Method,
        body: String,
    ) -> Result<Exchange, Failure> {
        let head = Head {
            method,
            uri: format!("http://{}/", self.address)
                .parse()
                .expect("an address"),
            headers: HeaderMap::new(),
        };
        exchange(client, head, Bytes::from(body), 1024, LIMIT).await
    }
}

fn request(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(buffer);
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().expect("a number"));
            if rest.len() >= length {
                let body = rest[..length].to_owned();
                let taken = head.len() + 4 + length;
                buffer.drain(..taken);
                return Some(body);
            }
        }
        let mut bytes = [0; 4096];
        let count = socket.read(&mut bytes).ok().filter(|count| *count > 0)?;
        buffer.extend_from_slice(&bytes[..count]);
    }
}

fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn send(socket: &mut TcpStream, bytes: &[u8]) {
    let _ = socket.write_all(bytes);
}

/// Sixty requests from six concurrent workers, each with a unique body that the server echoes.
async fn sixty(raw: &RawServer, client: &OutboundClient) {
    let workers: Vec<_> = (0..6)
        .map(|worker| {
            let client = client.clone();
            let raw = RawServer {
                address: raw.address,
                connections: Arc::clone(&raw.connections),
            };
            actix_rt::spawn(async move {
                for n in 0..10 {
                    let own = format!("request {worker}-{n}");
                    let answer = raw.ask(&client, Method::POST, own.clone()).await;
                    let answer = answer.expect("an answer");
                    assert_eq!((answer.status, answer.body), (200, own.into_bytes()));
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("it ran");
    }
}

#[actix::test]
async fn interim_answers_are_no_answers_whenever_they_come() {
    for count in [1, 5, 32] {
        let raw = RawServer::start(move |socket, body| {
            for n in 0..count {
                send(socket, INTERIM[n % 3]);
            }
            send(socket, &ok(body));
        });
        sixty(&raw, &local_outbound().client(None, 6)).await;
        assert_eq!(
            raw.connections(),
            6,
            "a connection with interim answers is kept"
        );
    }
    // Late: the real answer comes long after the client received the interim one.
    let late = RawServer::start(|socket, body| {
        send(socket, INTERIM[body.len() % 3]);
        std::thread::sleep(Duration::from_millis(3));
        send(socket, &ok(body));
    });
    sixty(&late, &local_outbound().client(None, 6)).await;
    let in_pieces = RawServer::start(|socket, body| {
        let whole = [INTERIM.concat(), ok(body)].concat();
        whole.iter().for_each(|byte| send(socket, &[*byte]));
    });
    sixty(&in_pieces, &local_outbound().client(None, 6)).await;
}

#[actix::test]
async fn what_goes_on_with_interim_answers_or_another_protocol_is_no_answer() {
    let client = local_outbound().client(None, 2);
    for bytes in [
        INTERIM[1].repeat(33),
        INTERIM[2].repeat(100_000),
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
            .to_vec(),
    ] {
        // Then silence: the fault shows at once, not at the timeout.
        let raw = RawServer::start(move |socket, _| {
            send(socket, &bytes);
            std::thread::park();
        });
        let answer = raw.ask(&client, Method::POST, String::new()).await;
        let fault = Failure::without_answer(ErrorKind::InvalidResponse);
        assert_eq!(answer, Err(fault));
    }
}

#[actix::test]
async fn a_second_answer_belongs_to_nobody() {
    // In one piece with the first.
    let twice = RawServer::start(|socket, body| {
        send(socket, &[ok(body), ok("somebody else's")].concat());
    });
    sixty(&twice, &local_outbound().client(None, 6)).await;
    assert_eq!(twice.connections(), 60);

    // After the first was received and before the next request.
    let (tell, told) = std::sync::mpsc::channel();
    let (go, wait) = std::sync::mpsc::channel();
    let wait = Arc::new(std::sync::Mutex::new(wait));
    let later = RawServer::start(move |socket, body| {
        send(socket, &ok(body));
        let _ = wait.lock().expect("no panics").recv();
        send(socket, &ok("somebody else's"));
        let _ = tell.send(());
    });
    let client = local_outbound().client(None, 1);
    for n in 0..5 {
        let own = format!("request {n}");
        let mut answer = later.ask(&client, Method::POST, own.clone()).await;
        if n > 0 && answer == Err(Failure::without_answer(ErrorKind::Reset)) {
            // The kept connection was refused before anything was sent on it.
            answer = later.ask(&client, Method::POST, own.clone()).await;
        }
        assert_eq!(answer.expect("an answer").body, own.into_bytes());
        go.send(()).expect("the server waits");
        told.recv().expect("the server said more");
    }
    assert_eq!(later.connections(), 5);
}

#[actix::test]
async fn a_body_of_get_or_delete_is_never_anybodys_request() {
    for method in [Method::GET, Method::DELETE] {
        // Ignores bodies here, so it takes what follows the head for the next request and answers that too.
        let raw = RawServer::serve(bodiless);
        let client = local_outbound().client(None, 4);
        for n in 0..10 {
            let answer = raw
                .ask(&client, method.clone(), format!("{{\"n\":{n}}}"))
                .await;
            let answer = answer.expect("an answer");
            assert_eq!((answer.status, answer.body), (200, b"close".to_vec()));
        }
        assert_eq!(raw.connections(), 10);
    }
}

/// Answers each head with the connection header that it asks for, and anything else with 400.
fn bodiless(socket: &mut TcpStream) {
    let mut buffer = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&buffer).into_owned();
        if let Some((head, rest)) = text.split_once("\r\n\r\n") {
            let asked = head
                .lines()
                .find_map(|line| line.strip_prefix("connection: "));
            send(socket, &ok(asked.unwrap_or("keep-alive")));
            if !rest.is_empty() {
                send(
                    socket,
                    b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n",
                );
            }
            buffer.clear();
        }
        let mut bytes = [0; 4096];
        match socket.read(&mut bytes) {
            Ok(count) if count > 0 => buffer.extend_from_slice(&bytes[..count]),
            _ => return,
        }
    }
}

#[actix::test]
async fn a_client_for_one_keeps_nothing() {
    let raw = RawServer::start(|socket, body| send(socket, &ok(body)));
    let client = local_outbound().client_for_one(None);
    for n in 0..5 {
        let own = format!("request {n}");
        let answer = raw.ask(&client, Method::POST, own.clone()).await;
        assert_eq!(answer.expect("an answer").body, own.into_bytes());
    }
    assert_eq!(raw.connections(), 5);
}

#[actix::test]
async fn an_answer_may_end_with_the_connection() {
    for head in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.0 200 OK\r\nserver: old\r\n\r\n",
    ] {
        let raw = RawServer::start(move |socket, body| {
            send(socket, format!("{head}{body}").as_bytes());
            let _ = socket.shutdown(Shutdown::Both);
        });
        let client = local_outbound().client(None, 1);
        for n in 0..3 {
            let own = format!("request {n}");
            let answer = raw.ask(&client, Method::POST, own.clone()).await;
            let answer = answer.expect("an answer");
            assert_eq!((answer.body, answer.truncated), (own.into_bytes(), false));
        }
        assert_eq!(raw.connections(), 3);
    }
}

#[actix::test]
async fn trailers_and_extensions_are_read_and_bounded() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let some = RawServer::start(move |socket, body| {
        let chunk = format!(
            "{:x};a=\"b\"\r\n{body}\r\n0\r\nx-sum: 1\r\n\r\n",
            body.len()
        );
        send(socket, format!("{head}{chunk}").as_bytes());
    });
    sixty(&some, &local_outbound().client(None, 6)).await;
    assert_eq!(some.connections(), 6);
    for endless in ["1;", "0\r\nx: ", "0\r\n"] {
        let receiver = TenantServer::scripted(move |_| {
            let filler = if endless.ends_with("0\r\n") {
                "x: y\r\n"
            } else {
                "yyyyyy"
            };
            ServerAnswer::Bytes(format!("{head}{endless}{}", filler.repeat(10_000)).into_bytes())
        });
        let head = Head {
            method: Method::POST,
            uri: receiver
                .outbound_url("/")
                .as_str()
                .parse()
                .expect("an address"),
            headers: HeaderMap::new(),
        };
        let client = local_outbound().client(None, 1);
        let answer = exchange(&client, head, Bytes::new(), 1024, LIMIT).await;
        let failure = answer.expect_err("no answer");
        assert_eq!(
            (failure.kind, failure.status),
            (ErrorKind::InvalidResponse, Some(200))
        );
    }
}
