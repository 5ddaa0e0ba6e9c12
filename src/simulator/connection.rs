//! The connection of a simulated bridge.

use std::{fmt, path::PathBuf, str::FromStr, time::Duration};

use dikala_actors::outbound::{OutboundError, client_config};
use dikala_entities::Secret;
use dikala_protocol::{
    CONNECT_PATH,
    client::socket::{ClientSocket, SocketError, dial_service},
};
use tokio_rustls::TlsConnector;

use super::address::{ServiceUrl, UrlScheme};

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

pub struct Dialer {
    tls: TlsConnector,
    connection: Peer,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.connection.fmt(f)
    }
}

impl Dialer {
    pub fn new(connection: Peer) -> Result<Self, ConnectError> {
        let config = client_config(connection.ca_file.as_deref()).map_err(|error| match error {
            OutboundError::ExtraCa { path, reason } => ConnectError::Authorities { path, reason },
            OutboundError::Tls(error) => ConnectError::Tls(error.to_string()),
        })?;
        let tls = TlsConnector::from(config);
        Ok(Self { tls, connection })
    }

    /// Time for which a lost connection is retried.
    pub fn reconnect_within(&self) -> Duration {
        self.connection.reconnect_within
    }

    pub async fn dial(&self) -> Result<ClientSocket, ConnectError> {
        let url = self.connection.url.to_string();
        let dialled = dial_service(&url, &self.connection.token, &self.tls).await;
        dialled.map_err(|error| match error {
            SocketError::Status(401) => ConnectError::Token(url),
            SocketError::Status(status) => ConnectError::Status { url, status },
            SocketError::Unreachable(reason) => ConnectError::Unreachable { url, reason },
            error => {
                let reason = error.to_string();
                ConnectError::Unreachable { url, reason }
            }
        })
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
