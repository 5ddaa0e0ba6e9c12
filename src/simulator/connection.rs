//! The connection of a simulated bridge.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use awc::{
    Client, Connector,
    error::{WsClientError, WsProtocolError},
    http::StatusCode,
    ws::{Frame, Message},
};
use dikala_actors::outbound::{OutboundError, client_config};
use dikala_entities::Secret;
use futures_util::{Sink, Stream};

use super::address::{ServiceUrl, UrlScheme};

const CONNECT_PATH: &str = "/bridge/v1/connect";
const SUBPROTOCOL: &str = "dikala.bridge.v1";
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// Maximum size of a received frame: an agent with all its functions.
const FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The service's address for bridges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BridgeUrl(String);

impl FromStr for BridgeUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url: ServiceUrl = text.parse()?;
        Ok(Self(url.at(CONNECT_PATH, UrlScheme::WebSocket)))
    }
}

impl fmt::Display for BridgeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The peer of a simulated bridge.
#[derive(Clone, Debug)]
pub struct Peer {
    pub url: BridgeUrl,
    pub token: Secret,
    /// Certificate authorities that are trusted in addition to the public ones.
    pub ca_file: Option<PathBuf>,
    /// Time for which a lost connection is retried.
    pub reconnect_within: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("the bridge token is refused by {0}; make one with `dikala bridge create`")]
    Token(String),
    #[error(
        "{url} answers {status}, not as a bridge's address does; is it the public address of the service?"
    )]
    Status { url: String, status: u16 },
    #[error("nothing answers at {url} ({reason}); check --url and that the service runs")]
    Unreachable { url: String, reason: String },
    #[error("--ca-file {path:?} cannot be used: {reason}; give a PEM file of certificates")]
    Authorities { path: PathBuf, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

pub trait SimulatorSocket:
    Stream<Item = Result<Frame, WsProtocolError>> + Sink<Message, Error = WsProtocolError> + Unpin
{
}

impl<S> SimulatorSocket for S where
    S: Stream<Item = Result<Frame, WsProtocolError>>
        + Sink<Message, Error = WsProtocolError>
        + Unpin
{
}

pub struct Dialer {
    client: Client,
    connection: Peer,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}

impl Dialer {
    pub fn new(connection: Peer) -> Result<Self, ConnectError> {
        let tls = client_config(connection.ca_file.as_deref()).map_err(|error| match error {
            OutboundError::ExtraCa { path, reason } => ConnectError::Authorities { path, reason },
            OutboundError::Tls(error) => ConnectError::Tls(error.to_string()),
        })?;
        let connector = Connector::new().rustls_0_23(tls).timeout(CONNECT_WITHIN);
        let client = Client::builder()
            .connector(connector)
            .timeout(CONNECT_WITHIN)
            .disable_redirects()
            .finish();
        Ok(Self { client, connection })
    }

    /// Time for which a lost connection is retried.
    pub fn reconnect_within(&self) -> Duration {
        self.connection.reconnect_within
    }

    pub async fn dial(&self) -> Result<Box<dyn SimulatorSocket>, ConnectError> {
        let url = self.connection.url.to_string();
        let dialled = self
            .client
            .ws(url.as_str())
            .protocols([SUBPROTOCOL])
            .bearer_auth(self.connection.token.expose())
            .max_frame_size(FRAME_BYTES_MAX)
            .connect()
            .await;
        match dialled {
            Ok((_, framed)) => Ok(Box::new(framed)),
            Err(WsClientError::InvalidResponseStatus(StatusCode::UNAUTHORIZED)) => {
                Err(ConnectError::Token(url))
            }
            Err(WsClientError::InvalidResponseStatus(status)) => Err(ConnectError::Status {
                url,
                status: status.as_u16(),
            }),
            Err(error) => Err(ConnectError::Unreachable {
                url,
                reason: error.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_each_spelling() {
        for (given, dialled) in [
            (
                "http://127.0.0.1:8080",
                "ws://127.0.0.1:8080/bridge/v1/connect",
            ),
            (
                "https://calls.example.com/",
                "wss://calls.example.com/bridge/v1/connect",
            ),
            (
                "wss://calls.example.com/bridge/v1/connect",
                "wss://calls.example.com/bridge/v1/connect",
            ),
            ("ws://[::1]:9/voice", "ws://[::1]:9/voice/bridge/v1/connect"),
        ] {
            assert_eq!(
                given
                    .parse::<BridgeUrl>()
                    .map(|url| url.to_string())
                    .as_deref(),
                Ok(dialled),
                "{given}"
            );
        }
    }
}
