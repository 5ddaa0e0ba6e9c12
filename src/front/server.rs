//! A listener: takes connections within its bounds and serves HTTP/1.1 on them.

use std::{fmt, net::TcpListener, sync::Arc, time::Duration};

use actix_http::{HttpService, Request, Response, body::MessageBody};
use actix_server::Server;
use actix_service::{
    IntoServiceFactory, ServiceFactory, ServiceFactoryExt, fn_service, map_config,
};
use actix_web::{
    dev::AppConfig,
    rt::{net::TcpStream, time::sleep},
};

use super::{
    connection::Connection,
    places::{Full, Places},
    refused::too_many,
};

/// How long the head of a connection's first request may take.
const FIRST_HEAD_WITHIN: Duration = Duration::from_secs(5);
/// How long a connection waits for its next request.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long a client may go on sending after an answer that ends the connection.
const DISCONNECT_WITHIN: Duration = Duration::from_secs(1);
/// How long those who have connected have to be taken, and their requests to come, before a listener closes.
const LAST_TAKEN_WITHIN: Duration = Duration::from_millis(200);
/// How long a peer may leave what was sent to it unacknowledged.
#[cfg(target_os = "linux")]
const UNREAD: Duration = Duration::from_secs(30);

/// How a listener serves.
#[derive(Clone, Debug)]
pub struct Door {
    pub name: &'static str,
    /// Threads.
    pub workers: usize,
    pub places: Arc<Places>,
    /// How long requests may take to finish when the service stops.
    pub shutdown_seconds: u64,
}

/// Serves an application until it is told to stop.
pub fn serve<F, I, S, B>(door: Door, socket: TcpListener, app: F) -> std::io::Result<Server>
where
    F: Fn() -> I + Send + Clone + 'static,
    I: IntoServiceFactory<S, Request>,
    S: ServiceFactory<Request, Config = AppConfig> + 'static,
    S::Error: Into<Response<actix_http::body::BoxBody>> + 'static,
    S::InitError: fmt::Debug,
    S::Response: Into<Response<B>> + 'static,
    <S::Service as actix_service::Service<Request>>::Future: 'static,
    S::Service: 'static,
    B: MessageBody + 'static,
{
    let builder = Server::build()
        .workers(door.workers)
        // Above this the server would stop to take connections, without a word to those who wait.
        .max_concurrent_connections(door.places.total().saturating_mul(2))
        .shutdown_timeout(door.shutdown_seconds)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let listening = builder.listen(door.name, socket, move || {
        let (places, stopping) = (Arc::clone(&door.places), stopping.clone());
        let http = HttpService::<Connection, _, B>::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(FIRST_HEAD_WITHIN)
            .client_disconnect_timeout(DISCONNECT_WITHIN)
            .on_connect_ext(|connection: &Connection, data| {
                data.insert(connection.progress());
            })
            .h1(map_config(app(), |_| AppConfig::default()));
        fn_service(move |stream: TcpStream| {
            let places = Arc::clone(&places);
            async move { enter(stream, &places) }
        })
        .and_then(http.map_err(drop))
    })?;
    Ok(listening.run())
}

/// From here on nobody connects any more, and who has connected is taken: the system resets what still waits in the queue of a
/// listener that closes, and so do the library's threads with what waits for them when they are told to stop. `socket` is a
/// second handle of the listener.
pub async fn take_the_last(socket: TcpListener) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(&socket).attach_filter(&no_beginnings()) {
        tracing::debug!(%error, "connections begin until the listener closes");
    }
    sleep(LAST_TAKEN_WITHIN).await;
}

/// A filter of packets that lets everything pass but the first of a connection. Its sender says it again a second later, and
/// finds nobody.
#[cfg(target_os = "linux")]
fn no_beginnings() -> [socket2::SockFilter; 4] {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    /// Where TCP has its flags, and the one of a first packet.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    [
        socket2::SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        socket2::SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        socket2::SockFilter::new(RETURN, 0, 0, 0),
        socket2::SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// Gives a connection its place, or sends it away.
fn enter(
    stream: TcpStream,
    places: &Arc<Places>,
) -> Result<(Connection, Option<std::net::SocketAddr>), ()> {
    let peer = stream.peer_addr().map_err(drop)?;
    match places.take(peer.ip()) {
        Ok(place) => {
            limit_unread(&stream);
            answer_at_once(&stream);
            Ok((Connection::new(stream, place, peer), Some(peer)))
        }
        Err(full) => {
            turn_away(&stream, full, peer.ip());
            Err(())
        }
    }
}

/// Without this, an acknowledgement waits until the peer has confirmed the one before it, which a peer that has nothing to
/// send does tens of milliseconds later, and a busy bridge with its next message.
fn answer_at_once(stream: &TcpStream) {
    // A connection that is gone already says so at its first read.
    let _ = stream.set_nodelay(true);
}

fn turn_away(stream: &TcpStream, full: Full, address: std::net::IpAddr) {
    tracing::debug!(%address, ?full, "a connection was not taken");
    // A new connection has room for so little; and who is one too many is not waited for.
    let _ = socket2::SockRef::from(stream).send(&too_many(full));
}

/// A peer that takes nothing of what is sent to it is cut off: what waits for it, a stream of events for example, is not
/// polled meanwhile and cannot end itself.
fn limit_unread(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        // Where the system refuses, its own patience of some minutes holds.
        let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(UNREAD));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, time::timeout};

    use super::*;
    use crate::front::Bounds;

    #[cfg(target_os = "linux")]
    #[actix_web::test]
    async fn before_a_listener_closes_nobody_connects_and_who_has_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a setting");
        let address = listener.local_addr().expect("an address");
        let mut early = TcpStream::connect(address).await.expect("a connection");
        early.write_all(b"GET").await.expect("it is connected");
        let last = take_the_last(listener.try_clone().expect("the same socket"));
        let late = timeout(LAST_TAKEN_WITHIN / 2, TcpStream::connect(address));
        let ((), late) = tokio::join!(last, late);
        late.expect_err("nobody connects");
        let (_, peer) = listener.accept().expect("the early one");
        assert_eq!(peer, early.local_addr().expect("an address"));
        let nobody = listener.accept().expect_err("there is nobody else");
        assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[actix_web::test]
    async fn an_answer_waits_for_no_confirmation_of_the_one_before() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let _client = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().expect("the connection");
        stream.set_nonblocking(true).expect("a setting");
        let probe = stream.try_clone().expect("the same socket");
        let bounds = Bounds {
            total: 4,
            per_address: 2,
            trusted: Vec::new(),
        };
        let stream = TcpStream::from_std(stream).expect("a stream");
        let entered = enter(stream, &Places::new(bounds)).expect("there is room");
        assert!(probe.nodelay().expect("the setting"));
        drop(entered);
    }
}
