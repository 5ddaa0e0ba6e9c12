//! Makes outbound connections: resolve, check every address, dial only checked ones, verify the peer, and add TLS if
//! required.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use actix_rt::net::TcpStream;
use actix_service::Service;
use actix_tls::connect::{ConnectError, ConnectInfo, Connection};
use awc::http::Uri;
use dikala_entities::TenantId;
use futures_util::future::LocalBoxFuture;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio_rustls::TlsConnector;

use super::{
    failure::{DialFailure, ErrorKind},
    guard::{Guard, Reach},
    permission::Permission,
    resolver::{ResolveError, Resolver},
    wire::{Carrier, GuardedStream},
};

/// Limit of addresses tried per name; more hint at abuse.
const ADDRESSES_TRIED_MAX: usize = 4;

/// Timeout of an address while another is left to try: the first of a name may be unreachable.
const ADDRESS_LIMIT: Duration = Duration::from_secs(2);
/// The request has its own timeout.
const NO_LIMIT: Duration = Duration::from_secs(3_600);

/// True if this machine could not even try, for want of a socket, port or memory. These are Linux's error numbers;
/// other systems' errors are not recognised.
fn is_ours(error: &io::Error) -> bool {
    const ENOMEM: i32 = 12;
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const EADDRNOTAVAIL: i32 = 99;
    const ENETDOWN: i32 = 100;
    const ENOBUFS: i32 = 105;
    matches!(
        error.raw_os_error(),
        Some(ENOMEM | ENFILE | EMFILE | EADDRNOTAVAIL | ENETDOWN | ENOBUFS)
    )
}

/// The connector of every client.
#[derive(Clone, Debug)]
pub(super) struct GuardedConnector {
    pub(super) guard: Arc<Guard>,
    pub(super) resolver: Resolver,
    /// The tenant on whose behalf names are resolved.
    pub(super) asker: Option<TenantId>,
    /// TLS settings, if required. The HTTP client is always asked for plain http: its own TLS would come between it
    /// and the [`GuardedStream`].
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) permission: Permission,
}

impl Service<ConnectInfo<Uri>> for GuardedConnector {
    type Response = Connection<Uri, GuardedStream>;
    type Error = ConnectError;
    type Future = LocalBoxFuture<'static, Result<Self::Response, ConnectError>>;

    actix_service::always_ready!();

    fn call(&self, target: ConnectInfo<Uri>) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            match connector.connect(target.request()).await {
                Ok(wire) => Ok(Connection::new(target.request().clone(), wire)),
                // Never `InvalidInput`: the client panics on it.
                Err(kind) => Err(ConnectError::Resolver(Box::new(DialFailure(kind)))),
            }
        })
    }
}

impl GuardedConnector {
    async fn connect(&self, uri: &Uri) -> Result<GuardedStream, ErrorKind> {
        let host = uri.host().ok_or(ErrorKind::Connect)?;
        let default_port = if self.tls.is_some() { 443 } else { 80 };
        let port = uri.port_u16().unwrap_or(default_port);
        let tcp = self.dial(host, port).await?;
        let Some(tls) = &self.tls else {
            return Ok(self.wire(Carrier::Plain(tcp)));
        };
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| ErrorKind::Tls)?;
        let tls = TlsConnector::from(Arc::clone(tls)).connect(name, tcp).await;
        let tls = tls.map_err(|_| ErrorKind::Tls)?;
        Ok(self.wire(Carrier::Tls(Box::new(tls))))
    }

    fn wire(&self, socket: Carrier) -> GuardedStream {
        GuardedStream::new(socket, self.permission.clone())
    }

    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, ErrorKind> {
        if self.tls.is_none() && !self.guard.allow_http {
            return Err(ErrorKind::BlockedTarget);
        }
        let blocked = |_| ErrorKind::BlockedTarget;
        let reach = self.guard.check_host(host, port).map_err(blocked)?;
        let resolved = self.resolver.resolve(self.asker, host).await;
        let addresses = resolved.map_err(|e| match e {
            ResolveError::NotFound => ErrorKind::Dns,
            ResolveError::Busy => ErrorKind::Busy,
        })?;
        self.guard
            .check_all(&addresses, port, reach)
            .map_err(blocked)?;
        self.connect_any(&addresses, port, reach).await
    }

    async fn connect_any(
        &self,
        addresses: &[IpAddr],
        port: u16,
        reach: Reach,
    ) -> Result<TcpStream, ErrorKind> {
        let tried = addresses.len().min(ADDRESSES_TRIED_MAX);
        for (number, address) in (1..).zip(&addresses[..tried]) {
            let connect = TcpStream::connect(SocketAddr::new(*address, port));
            // The last address has all the remaining time.
            let limit = if number < tried {
                ADDRESS_LIMIT
            } else {
                NO_LIMIT
            };
            let stream = match tokio::time::timeout(limit, connect).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) if is_ours(&error) => return Err(ErrorKind::Busy),
                Ok(Err(_)) | Err(_) => continue,
            };
            let peer = stream.peer_addr().map_err(|_| ErrorKind::Connect)?;
            self.guard
                .check(peer.ip(), peer.port(), reach)
                .map_err(|_| ErrorKind::BlockedTarget)?;
            // Requests are small and sent at once: waiting for more data only adds delay.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
        Err(ErrorKind::Connect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_here_is_our_fault() {
        for (errno, ours) in [
            (24, true),
            (23, true),
            (99, true),
            (105, true),
            (111, false),
            (113, false),
            (101, false),
        ] {
            assert_eq!(
                is_ours(&io::Error::from_raw_os_error(errno)),
                ours,
                "{errno}"
            );
        }
        assert!(!is_ours(&io::Error::from(io::ErrorKind::TimedOut)));
    }
}
