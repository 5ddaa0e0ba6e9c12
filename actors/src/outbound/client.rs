//! Who makes requests to tenants' servers: what all of them share, and the connections to one endpoint.

use std::{fmt, io, net::IpAddr, path::Path, sync::Arc, time::Duration};

use awc::Connector;
use dikala_entities::{OutboundUrl, TenantId};
use rustls::ClientConfig;

use super::{
    blocked::Blocked,
    connector::GuardedConnector,
    guard::Guard,
    permission::Permission,
    resolver::Resolver,
    tls::{self, OutboundError},
};

/// How the service introduces itself.
const USER_AGENT: &str = concat!("Dikala/", env!("CARGO_PKG_VERSION"));
/// An unused connection older than this is not used again; common servers close theirs after 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// A connection is made anew after this, so that a changed DNS answer is followed.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(75);
/// How long a registration waits for a name server.
const REGISTRATION_LOOKUP: Duration = Duration::from_secs(2);
/// The HTTP client's own limits are put out of the way: [`exchange`](super::exchange()) holds the time.
const NEVER: Duration = Duration::from_secs(3_600);

/// What outbound requests share: the guard, the trusted authorities, the resolver.
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

/// Connections to one endpoint of one tenant. Cheap to make; belongs to one thread. Idle sockets close when it is dropped.
#[derive(Clone)]
pub struct Client {
    pub(super) plain: awc::Client,
    pub(super) secure: awc::Client,
    /// Whether a connection may carry another request when its answer is over.
    pub(super) keeps: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

impl Outbound {
    /// Takes the operator's settings.
    pub fn new(guard: Guard, extra_ca: Option<&Path>) -> Result<Self, OutboundError> {
        Self::with_resolver(guard, extra_ca, Resolver::of_system())
    }

    /// With names that are looked up by `ask` instead of the system; it may block.
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

    /// The same for requests that go out only while they are permitted.
    pub fn permitted(&self, permission: Permission) -> Self {
        Self {
            permission,
            ..self.clone()
        }
    }

    /// The rule that connections are held to.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The verdict on an address of a tenant's before it is stored. A name that does not resolve now, or not soon, is
    /// accepted: every connection is checked again.
    pub async fn check_url(&self, tenant: TenantId, url: &OutboundUrl) -> Result<(), Blocked> {
        let url = url.to_url();
        if url.scheme() != "https" && !self.guard.allow_http {
            return Err(Blocked::Insecure);
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(Blocked::NotPublic);
        };
        let reach = self.guard.check_host(host, port)?;
        let resolve = self.resolver.resolve(Some(tenant), host);
        match tokio::time::timeout(REGISTRATION_LOOKUP, resolve).await {
            Ok(Ok(addresses)) => self.guard.check_all(&addresses, port, reach),
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// A client of its own for one endpoint, with at most `connections` at the same time, which are used again. Names are
    /// looked up for `asker`; none is this program itself.
    pub fn client(&self, asker: Option<TenantId>, connections: usize) -> Client {
        Client {
            plain: self.http(asker, connections, None),
            secure: self.http(asker, connections, Some(&self.tls)),
            keeps: true,
        }
    }

    /// A client for one exchange, on a connection of its own.
    pub fn client_for_one(&self, asker: Option<TenantId>) -> Client {
        Client {
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
