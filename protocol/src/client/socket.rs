//! Outgoing WebSockets, plain or over TLS.

mod head;
pub mod read_budget;
pub mod silence;

use std::{sync::Arc, time::Duration};

use dikala_entities::Secret;
use futures_util::{SinkExt, stream::SplitSink};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self, Message as Frame,
        client::IntoClientRequest,
        http::{HeaderName, HeaderValue, header},
        protocol::{Role, WebSocketConfig},
    },
};
use url::{Host, Url};

use self::{head::ResponseHead, read_budget::ReadBudget, silence::MonitoredStream};
use crate::SUBPROTOCOL;

/// Time in which sent bytes have to be acknowledged by the other machine.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);
/// Time limit for opening a socket.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// The largest frame of the service: an agent with all its functions.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Unwritten bytes after which a writer has to wait.
const WRITE_BUFFER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes read at once. Every call has a socket, and its buffer grows to eight times this where messages come in bursts.
const READ_BYTES: usize = 4 * 1024;
/// Bytes that are collected before they are written.
const WRITE_BYTES: usize = 16 * 1024;

/// The transport of a WebSocket.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

pub type ClientSocket = WebSocketStream<MonitoredStream>;

#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    #[error("this is no address of a WebSocket; it begins with ws:// or wss://")]
    Address,
    #[error("nothing answers there ({0})")]
    Unreachable(String),
    #[error("nothing answers there within {} seconds", OPEN_WITHIN.as_secs())]
    Slow,
    #[error("its TLS cannot be trusted or spoken ({0})")]
    Tls(String),
    /// The HTTP status in place of an upgrade.
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it does not speak WebSocket ({0})")]
    Protocol(String),
}

/// Opens a socket to the call service. `token` is a bridge token.
pub async fn dial_service(
    url: &str,
    token: &Secret,
    tls: &TlsConnector,
) -> Result<ClientSocket, SocketError> {
    let bearer = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
    let bearer = bearer.map_err(|_| SocketError::Status(401))?;
    let subprotocol = HeaderValue::from_static(SUBPROTOCOL);
    let headers = vec![
        (header::AUTHORIZATION, bearer),
        (header::SEC_WEBSOCKET_PROTOCOL, subprotocol),
    ];
    dial(url, tls, headers, FRAME_BYTES_MAX, None).await
}

/// Opens a socket at a `ws://` or `wss://` address. `headers` go with the request; `message_bytes_max` limits received messages,
/// `budget` the rate of received bytes.
pub async fn dial(
    url: &str,
    tls: &TlsConnector,
    headers: Vec<(HeaderName, HeaderValue)>,
    message_bytes_max: usize,
    budget: Option<Arc<ReadBudget>>,
) -> Result<ClientSocket, SocketError> {
    let opening = open(url, tls, headers, message_bytes_max, budget);
    timeout(OPEN_WITHIN, opening)
        .await
        .unwrap_or(Err(SocketError::Slow))
}

async fn open(
    url: &str,
    tls: &TlsConnector,
    headers: Vec<(HeaderName, HeaderValue)>,
    message_bytes_max: usize,
    budget: Option<Arc<ReadBudget>>,
) -> Result<ClientSocket, SocketError> {
    let place = Url::parse(url).map_err(|_| SocketError::Address)?;
    let is_secure = match place.scheme() {
        "ws" => false,
        "wss" => true,
        _ => return Err(SocketError::Address),
    };
    let host = place.host().ok_or(SocketError::Address)?;
    let port = place.port_or_known_default().ok_or(SocketError::Address)?;
    let connected = match &host {
        Host::Domain(name) => TcpStream::connect((*name, port)).await,
        Host::Ipv4(ip) => TcpStream::connect((*ip, port)).await,
        Host::Ipv6(ip) => TcpStream::connect((*ip, port)).await,
    };
    let unreachable = |error: std::io::Error| SocketError::Unreachable(error.to_string());
    let tcp = connected.map_err(unreachable)?;
    prepare(&tcp).map_err(unreachable)?;
    let stream: Box<dyn ByteStream> = if is_secure {
        let name = match host {
            Host::Domain(name) => {
                ServerName::try_from(name.to_owned()).map_err(|_| SocketError::Address)?
            }
            Host::Ipv4(ip) => ServerName::from(std::net::IpAddr::V4(ip)),
            Host::Ipv6(ip) => ServerName::from(std::net::IpAddr::V6(ip)),
        };
        let secured = tls.connect(name, tcp).await;
        Box::new(secured.map_err(|error| SocketError::Tls(error.to_string()))?)
    } else {
        Box::new(tcp)
    };
    let mut request = url
        .into_client_request()
        .map_err(|_| SocketError::Address)?;
    request.headers_mut().extend(headers);
    let config = WebSocketConfig::default()
        .max_message_size(Some(message_bytes_max))
        .max_frame_size(Some(message_bytes_max))
        .max_write_buffer_size(WRITE_BUFFER_BYTES_MAX)
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES);
    let stream = ResponseHead::new(MonitoredStream::new(stream, budget));
    match client_async_with_config(request, stream, Some(config)).await {
        Ok((socket, _)) => {
            let (stream, rest) = socket.into_inner().into_parts();
            let (role, config) = (Role::Client, Some(config));
            Ok(WebSocketStream::from_partially_read(stream, rest, role, config).await)
        }
        Err(tungstenite::Error::Http(answer)) => Err(SocketError::Status(answer.status().as_u16())),
        Err(error) => Err(SocketError::Protocol(error.to_string())),
    }
}

/// Sends without delay, and breaks the connection if bytes are not acknowledged in time.
fn prepare(tcp: &TcpStream) -> std::io::Result<()> {
    tcp.set_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(tcp).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(())
}

/// Writes frames until their senders are dropped; those that wait at the same moment are flushed together.
pub async fn write(
    sink: &mut SplitSink<ClientSocket, Frame>,
    mut frames: mpsc::Receiver<Frame>,
) -> Result<(), tungstenite::Error> {
    while let Some(frame) = frames.recv().await {
        sink.feed(frame).await?;
        while let Ok(frame) = frames.try_recv() {
            sink.feed(frame).await?;
        }
        sink.flush().await?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use futures_util::StreamExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };
    use tokio_rustls::rustls;
    use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

    use super::*;

    /// Some servers send their first message together with the end of the handshake.
    #[tokio::test]
    async fn a_message_right_behind_the_handshake_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("ws://{}", listener.local_addr().expect("an address"));
        let serving = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_buf(&mut request).await.expect("a request");
            }
            let request = String::from_utf8(request).expect("text");
            let mut lines = request.lines().filter_map(|line| line.split_once(": "));
            let key = lines.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
            let accept = derive_accept_key(key.expect("a key").1.as_bytes());
            let mut answer = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {accept}\r\n\r\n"
            )
            .into_bytes();
            // A text of two letters.
            answer.extend(b"\x81\x02hi");
            stream.write_all(&answer).await.expect("sends");
            stream
        });
        let tls = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let tls = TlsConnector::from(Arc::new(tls));
        let mut socket = dial(&url, &tls, Vec::new(), 1_024, None)
            .await
            .expect("a socket");
        let first = socket.next().await.expect("a message").expect("readable");
        assert_eq!(first, Frame::text("hi"));
        drop(serving.await);
    }

    #[tokio::test]
    async fn a_path_that_swallows_bytes_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let tcp = TcpStream::connect(address).await.expect("a connection");
        prepare(&tcp).expect("options");
        let limit = socket2::SockRef::from(&tcp).tcp_user_timeout();
        assert_eq!(limit.expect("an option"), Some(UNACKNOWLEDGED));
    }
}
