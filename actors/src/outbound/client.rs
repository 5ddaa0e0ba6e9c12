//! One HTTP exchange with a tenant's server, held to a time and a size whatever the server does.

use std::{
    error::Error as _,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use awc::{
    ClientResponse, Connector,
    error::{ConnectError, PayloadError, SendRequestError},
    http::{
        Method, StatusCode, Uri,
        header::{HOST, HeaderMap, HeaderValue},
    },
};
use bytes::Bytes;
use dikala_entities::{OutboundUrl, TenantId};
use futures_util::StreamExt;
use rustls::ClientConfig;

use super::{
    connector::{DialError, GuardedConnector},
    guard::{Blocked, Guard},
    resolver::Resolver,
    tls,
};

/// How the service introduces itself.
const USER_AGENT: &str = concat!("Dikala/", env!("CARGO_PKG_VERSION"));
/// An unused connection older than this is not used again; common servers close theirs after 5 s.
const KEEP_ALIVE: Duration = Duration::from_secs(4);
/// A connection is made anew after this, so that a changed DNS answer is followed.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(75);
/// How long a registration waits for a name server.
const REGISTRATION_LOOKUP: Duration = Duration::from_secs(2);
/// The HTTP client's own limits are put out of the way: [`exchange`] holds the time.
const NEVER: Duration = Duration::from_secs(3_600);

/// What outbound requests share: the guard, the trusted authorities, the resolver.
#[derive(Clone)]
pub struct Outbound {
    guard: Arc<Guard>,
    resolver: Resolver,
    tls: Arc<ClientConfig>,
}

impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("guard", &self.guard)
            .finish_non_exhaustive()
    }
}

/// The outbound settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error(
        "outbound.extra_ca_file {path:?} cannot be used: {reason}; give a PEM file of certificates"
    )]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    #[error("TLS cannot be set up: {0}")]
    Tls(rustls::Error),
}

/// Connections to one endpoint of one tenant. Cheap to make; belongs to one thread. Idle sockets close when it is dropped.
#[derive(Clone)]
pub struct Client {
    plain: awc::Client,
    secure: awc::Client,
    /// Whether a connection may carry another request when its answer is over.
    keeps: bool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client(…)")
    }
}

/// What is asked, without the body.
#[derive(Clone, Debug)]
pub struct Head {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub status: u16,
    /// The `Retry-After` header as it came.
    pub retry_after: Option<String>,
    /// The beginning of the body.
    pub body: Vec<u8>,
    /// Whether the body went on beyond the limit.
    pub truncated: bool,
}

/// No answer, or one that broke off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub kind: ErrorKind,
    /// The status, where the head of an answer had come.
    pub status: Option<u16>,
    /// What had come of the body.
    pub body: Vec<u8>,
}

impl Failure {
    /// Nothing had come of an answer.
    pub const fn without_answer(kind: ErrorKind) -> Self {
        Self {
            kind,
            status: None,
            body: Vec::new(),
        }
    }
}

/// As much of an answer as has come.
#[derive(Debug, Default)]
struct Come {
    status: Option<StatusCode>,
    body: Vec<u8>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal,)*) => {
        /// What went wrong in an exchange without a complete answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorKind { $($(#[$doc])* $kind,)* }

        /// Every kind as it is stored and shown.
        pub const ERROR_KINDS: &[&str] = &[$($word,)*];

        impl ErrorKind {
            /// The kind as it is stored and shown.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

kinds! {
    /// The name has no address.
    Dns = "dns",
    /// The address may not be dialled.
    BlockedTarget = "blocked_target",
    /// Nobody answered at the address.
    Connect = "connect",
    /// The TLS handshake failed.
    Tls = "tls",
    /// The exchange was not over in its time.
    Timeout = "timeout",
    /// The server closed the connection in the middle.
    Reset = "reset",
    /// The answer was not HTTP.
    InvalidResponse = "invalid_response",
    /// We could not try: nobody's fault but ours.
    Busy = "busy",
}

impl ErrorKind {
    /// Whether the fault is the service's own, so that no attempt is used up.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Busy)
    }
}

impl Outbound {
    /// Takes the operator's settings.
    pub fn new(guard: Guard, extra_ca: Option<&Path>) -> Result<Self, OutboundError> {
        Self::with_resolver(guard, extra_ca, Resolver::of_system())
    }

    pub(super) fn with_resolver(
        guard: Guard,
        extra_ca: Option<&Path>,
        resolver: Resolver,
    ) -> Result<Self, OutboundError> {
        Ok(Self {
            guard: Arc::new(guard),
            resolver,
            tls: tls::client_config(extra_ca)?,
        })
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

/// One exchange: connect, send, read the answer up to `body_max` bytes, all within `limit`. An answer whose body does not
/// end is cut at `body_max` and counts by its status.
pub async fn exchange(
    client: &Client,
    head: Head,
    body: Bytes,
    body_max: usize,
    limit: Duration,
) -> Result<Exchange, Failure> {
    let mut come = Come::default();
    let talk = talk(client, head, body, body_max, &mut come);
    let ended = tokio::time::timeout(limit, talk).await;
    match ended.unwrap_or(Err(ErrorKind::Timeout)) {
        Ok(rest) => Ok(Exchange {
            status: rest.status,
            retry_after: rest.retry_after,
            body: come.body,
            truncated: rest.truncated,
        }),
        Err(kind) => Err(Failure {
            kind,
            status: come.status.map(|status| status.as_u16()),
            body: come.body,
        }),
    }
}

/// An answer that is read as it comes.
pub struct Open {
    pub status: u16,
    response: ClientResponse,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open")
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Asks, and waits at most `limit` for the beginning of an answer that may last.
pub async fn open(client: &Client, head: Head, limit: Duration) -> Result<Open, ErrorKind> {
    let asked = tokio::time::timeout(limit, send(client, head, Bytes::new())).await;
    let response = asked.unwrap_or(Err(ErrorKind::Timeout))?;
    Ok(Open {
        status: response.status().as_u16(),
        response,
    })
}

impl Open {
    /// The next piece, waited for at most `limit`; none at the end.
    pub async fn chunk(&mut self, limit: Duration) -> Result<Option<Bytes>, ErrorKind> {
        let chunk = tokio::time::timeout(limit, self.response.next()).await;
        let chunk = chunk.map_err(|_| ErrorKind::Timeout)?;
        chunk.transpose().map_err(|error| broken_off(&error))
    }
}

async fn send(client: &Client, head: Head, body: Bytes) -> Result<ClientResponse, ErrorKind> {
    let (uri, host) = as_plain(&head.uri).ok_or(ErrorKind::Connect)?;
    let http = match head.uri.scheme_str() {
        Some("https") => &client.secure,
        _ => &client.plain,
    };
    // Some servers take the body of these for the next request: nothing may come after it.
    let misread = !body.is_empty() && matches!(head.method, Method::GET | Method::DELETE);
    let mut request = http.request(head.method, uri).no_decompress();
    if misread || !client.keeps {
        request = request.force_close();
    }
    for (name, value) in head.headers {
        request.headers_mut().insert(name, value);
    }
    request.headers_mut().insert(HOST, host);
    let sent = request.send_body(body).await;
    sent.map_err(|error| kind_of(&error))
}

/// The address without TLS, which the connector adds, and what the server is told it was asked as.
fn as_plain(uri: &Uri) -> Option<(Uri, HeaderValue)> {
    let authority = uri.authority()?;
    let plain = Uri::builder()
        .scheme("http")
        .authority(authority.clone())
        .path_and_query(uri.path_and_query()?.clone())
        .build()
        .ok()?;
    Some((plain, HeaderValue::from_str(authority.as_str()).ok()?))
}

/// What an answer says besides its body.
struct Told {
    status: u16,
    retry_after: Option<String>,
    truncated: bool,
}

async fn talk(
    client: &Client,
    head: Head,
    body: Bytes,
    body_max: usize,
    come: &mut Come,
) -> Result<Told, ErrorKind> {
    let mut response = send(client, head, body).await?;
    come.status = Some(response.status());
    let retry_after = response
        .headers()
        .get("retry-after")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let mut truncated = false;
    while let Some(chunk) = response.next().await {
        let chunk = chunk.map_err(|error| broken_off(&error))?;
        let room = body_max - come.body.len();
        come.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            truncated = true;
            break;
        }
    }
    Ok(Told {
        status: response.status().as_u16(),
        retry_after,
        truncated,
    })
}

fn kind_of(error: &SendRequestError) -> ErrorKind {
    match error {
        SendRequestError::Connect(ConnectError::Resolver(inner)) => inner
            .downcast_ref::<DialError>()
            .map_or(ErrorKind::Dns, |dial| dial.0),
        SendRequestError::Connect(ConnectError::Timeout) | SendRequestError::Timeout => {
            ErrorKind::Timeout
        }
        SendRequestError::Connect(ConnectError::Disconnected)
        | SendRequestError::Send(_)
        | SendRequestError::Body(_) => ErrorKind::Reset,
        SendRequestError::Connect(_) | SendRequestError::Url(_) => ErrorKind::Connect,
        // The parser's error type has no public name here; a socket's fault is its source.
        SendRequestError::Response(parse) => parse
            .source()
            .and_then(|source| source.downcast_ref())
            .map_or(ErrorKind::InvalidResponse, kind_of_io),
        _ => ErrorKind::InvalidResponse,
    }
}

fn broken_off(error: &PayloadError) -> ErrorKind {
    match error {
        PayloadError::Io(error) | PayloadError::Incomplete(Some(error)) => kind_of_io(error),
        _ => ErrorKind::Reset,
    }
}

/// What the [`Wire`](super::wire::Wire) says of an answer, and the system of a socket.
fn kind_of_io(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::InvalidData => ErrorKind::InvalidResponse,
        _ => ErrorKind::Reset,
    }
}
