//! Clients for tenants' servers: the state that all requests share, and the connections to one endpoint.

use std::{fmt, io, net::IpAddr, path::Path, sync::Arc, time::Duration};

use awc::Connector;
use dikala_entities::{OutboundUrl, TenantId};
use rustls::ClientConfig;

use super::{
    blocked::BlockedReason,
    connector::GuardedConnector,
    guard::Guard,
    permission::Permission,
    resolver::Resolver,
    tls::{self, OutboundError},
};

/// The `User-Agent` of the service.
const USER_AGENT: &str = concat!("Dikala/", env!("CARGO_PKG_VERSION"));
/// An idle connection older than this is not reused; common servers close theirs after 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// A connection is replaced after this time, so that DNS changes take effect.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(75);
/// Timeout of name resolution when an address is stored.
const REGISTRATION_LOOKUP: Duration = Duration::from_secs(2);
/// Disables the HTTP client's own timeouts: [`exchange`](super::exchange()) has the timeout.
const NEVER: Duration = Duration::from_secs(3_600);

/// The state that outbound requests share: the guard, trusted authorities and the resolver.
#[derive(Clone)]
pub struct Outbound {
    guard: Arc<Guard>,
    resolver: Resolver,
    tls: Arc<ClientConfig>,
    permission: Permission,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// Connections to one endpoint of one tenant. Cheap to create; belongs to one thread. Idle sockets close when it is
/// dropped.
#[derive(Clone)]
pub struct OutboundClient {
    pub(super) plain: awc::Client,
    pub(super) secure: awc::Client,
    /// True if a connection may carry another request after its answer.
    pub(super) keeps: bool,
}

impl fmt::Debug for OutboundClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

impl Outbound {
    /// Creates it from the operator's settings.
    pub fn new(guard: Guard, extra_ca: Option<&Path>) -> Result<Self, OutboundError> {
        Self::with_resolver(guard, extra_ca, Resolver::of_system())
    }

    /// Resolves names with `ask` instead of the system's resolver. `ask` may block.
    pub fn with_names(
        guard: Guard,
        ask: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static,
    ) -> Result<Self, OutboundError> {
        Self::with_resolver(guard, None, Resolver::new(ask))
    }

    fn with_resolver(
        guard: Guard,
        extra_ca: Option<&Path>,
        resolver: Resolver,
    ) -> Result<Self, OutboundError> {
        Ok(Self {
            guard: Arc::new(guard),
            resolver,
            tls: tls::client_config(extra_ca)?,
            permission: Permission::given(),
        })
    }

    /// As `self`, for requests that are written only while permitted.
    pub fn permitted(&self, permission: Permission) -> Self {
        Self {
            permission,
            ..self.clone()
        }
    }

    /// The guard of all connections.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Judges a tenant's address before it is stored. A name that does not resolve now, or not soon enough, is
    /// accepted: every connection is checked again.
    pub async fn check_url(
        &self,
        tenant: TenantId,
        url: &OutboundUrl,
    ) -> Result<(), BlockedReason> {
        let url = url.to_url();
        if url.scheme() != "https" && !self.guard.allow_http {
            return Err(BlockedReason::Insecure);
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(BlockedReason::NotPublic);
        };
        let reach = self.guard.check_host(host, port)?;
        let resolve = self.resolver.resolve(Some(tenant), host);
        match tokio::time::timeout(REGISTRATION_LOOKUP, resolve).await {
            Ok(Ok(addresses)) => self.guard.check_all(&addresses, port, reach),
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// A client for one endpoint, with at most `connections` at the same time, which are reused. Names are resolved
    /// on behalf of `asker`; none: this program itself.
    pub fn client(&self, asker: Option<TenantId>, connections: usize) -> OutboundClient {
        OutboundClient {
            plain: self.http(asker, connections, None),
            secure: self.http(asker, connections, Some(&self.tls)),
            keeps: true,
        }
    }

    /// A client for a single exchange, on a connection of its own.
    pub fn client_for_one(&self, asker: Option<TenantId>) -> OutboundClient {
        OutboundClient {
            keeps: false,
            ..self.client(asker, 1)
        }
    }

    fn http(
        &self,
        asker: Option<TenantId>,
        connections: usize,
        tls: Option<&Arc<ClientConfig>>,
    ) -> awc::Client {
        let connector = GuardedConnector {
            guard: Arc::clone(&self.guard),
            resolver: self.resolver.clone(),
            asker,
            tls: tls.map(Arc::clone),
            permission: self.permission.clone(),
        };
        let connector = Connector::new()
            .connector(connector)
            .timeout(NEVER)
            .conn_keep_alive(KEEP_ALIVE)
            .conn_lifetime(CONNECTION_AGE_MAX)
            .limit(connections);
        awc::Client::builder()
            .connector(connector)
            .disable_redirects()
            .disable_timeout()
            .no_default_headers()
            .add_default_header((awc::http::header::USER_AGENT, USER_AGENT))
            .finish()
    }
}
