//! A listener: admits connections within its limits and serves HTTP/1.1 on them.

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
    connection::ClientConnection,
    places::{ConnectionSlots, LimitReached},
    refused::too_many,
};

/// Longest time for the head of a connection's first request.
const FIRST_HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Longest wait of a connection for its next request.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Longest time that a client may go on sending after an answer that ends the connection.
const DISCONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Time before a listener closes, to accept open connections and receive their requests.
const LAST_TAKEN_WITHIN: Duration = Duration::from_millis(200);
/// Longest time that sent bytes may stay unacknowledged by the peer.
#[cfg(target_os = "linux")]
const UNREAD: Duration = Duration::from_secs(30);

/// The parameters of a listener.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    pub name: &'static str,
    pub workers: usize,
    pub places: Arc<ConnectionSlots>,
    /// Longest time for requests to finish when the service stops, in seconds.
    pub shutdown_seconds: u64,
}

/// Serves an application until it is stopped.
pub fn serve<F, I, S, B>(
    door: ListenerOptions,
    socket: TcpListener,
    app: F,
) -> std::io::Result<Server>
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
        // Above this number the server would stop accepting, without any answer to waiting clients.
        .max_concurrent_connections(door.places.total().saturating_mul(2))
        .shutdown_timeout(door.shutdown_seconds)
        .disable_signals();
    let stopping = builder.graceful_shutdown_signal();
    let listening = builder.listen(door.name, socket, move || {
        let (places, stopping) = (Arc::clone(&door.places), stopping.clone());
        let http = HttpService::<ClientConnection, _, B>::build()
            .graceful_shutdown_signal(move || {
                let stopping = stopping.clone();
                async move { stopping.notified().await }
            })
            .keep_alive(KEEP_ALIVE)
            .client_request_timeout(FIRST_HEAD_WITHIN)
            .client_disconnect_timeout(DISCONNECT_WITHIN)
            .on_connect_ext(|connection: &ClientConnection, data| {
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

/// Stops new connections and lets the existing ones be accepted. Otherwise the system resets connections in the queue
/// of a closing listener, and the library's threads do the same to theirs. `socket` is a second handle of the
/// listener.
pub async fn take_the_last(socket: TcpListener) {
    #[cfg(target_os = "linux")]
    if let Err(error) = socket2::SockRef::from(&socket).attach_filter(&no_beginnings()) {
        tracing::debug!(%error, "could not stop new connections before the listener closes");
    }
    sleep(LAST_TAKEN_WITHIN).await;
}

/// A packet filter that drops the first packet of new connections. The client repeats it a second later and is
/// refused.
#[cfg(target_os = "linux")]
fn no_beginnings() -> [socket2::SockFilter; 4] {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    /// The offset of the TCP flags, and the flag of a connection's first packet.
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    [
        socket2::SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        socket2::SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        socket2::SockFilter::new(RETURN, 0, 0, 0),
        socket2::SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// Admits a connection or refuses it.
fn enter(
    stream: TcpStream,
    places: &Arc<ConnectionSlots>,
) -> Result<(ClientConnection, Option<std::net::SocketAddr>), ()> {
    let peer = stream.peer_addr().map_err(drop)?;
    match places.take(peer.ip()) {
        Ok(place) => {
            limit_unread(&stream);
            answer_at_once(&stream);
            Ok((ClientConnection::new(stream, place, peer), Some(peer)))
        }
        Err(full) => {
            turn_away(&stream, full, peer.ip());
            Err(())
        }
    }
}

/// Disables Nagle's algorithm. With it, a reply waits until the peer has acknowledged the previous one: tens of
/// milliseconds for an idle peer, or until a busy bridge's next message.
fn answer_at_once(stream: &TcpStream) {
    // A broken connection fails at its first read.
    let _ = stream.set_nodelay(true);
}

fn turn_away(stream: &TcpStream, full: LimitReached, address: std::net::IpAddr) {
    tracing::debug!(%address, ?full, "refused a connection: a limit is reached");
    // The send buffer of a new connection has room for it, and a surplus client is not waited for.
    let _ = socket2::SockRef::from(stream).send(&too_many(full));
}

/// Cuts off a peer that acknowledges nothing. An endless answer to it, such as a stream of events, is not polled
/// meanwhile and cannot end itself.
fn limit_unread(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    {
        // If the system refuses, its own limit of some minutes applies.
        let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(UNREAD));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncWriteExt, time::timeout};

    use super::*;
    use crate::front::ConnectionLimits;

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
        let bounds = ConnectionLimits {
            total: 4,
            per_address: 2,
            trusted: Vec::new(),
        };
        let stream = TcpStream::from_std(stream).expect("a stream");
        let entered = enter(stream, &ConnectionSlots::new(bounds)).expect("there is room");
        assert!(probe.nodelay().expect("the setting"));
        drop(entered);
    }
}
