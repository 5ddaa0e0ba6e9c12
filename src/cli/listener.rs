//! A client of a running service's operators' listener, for data that only a running process has.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use actix_web::http::{
    Method, Uri,
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
};
use bytes::Bytes;
use clap::Args;
use dikala_actors::outbound::{Head, OutboundClient, exchange};
use dikala_entities::Secret;
use serde_json::Value;

use crate::{
    cli::{
        CliError,
        client::{client, refusal},
    },
    config::{ConfigError, Layers, Settings},
    http::route::OPERATORS_BASE,
    simulator::{ServiceUrl, UrlScheme},
};

/// Timeout of a whole exchange.
const LIMIT: Duration = Duration::from_secs(5);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Which listener, and with what.
#[derive(Clone, Debug, Args)]
pub struct ListenerArgs {
    /// The address of the operators' listener; without one, operator.listen of the configuration, with its token.
    #[arg(long, env = "DIKALA_OPERATORS_URL")]
    url: Option<ServiceUrl>,
    /// operator.token or operator.read_token, where the listener asks for one.
    #[arg(long, env = "DIKALA_OPERATORS_TOKEN", hide_env_values = true, value_parser = |text: &str| Ok::<_, String>(Secret::new(text)))]
    token: Option<Secret>,
    /// A PEM file of certificate authorities to trust besides the public ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A client of the operators' listener.
#[derive(Debug)]
pub struct Listener {
    api: String,
    token: Option<HeaderValue>,
    client: OutboundClient,
}

#[derive(Debug)]
pub enum ListenerError {
    /// A retry may help.
    Away(String),
    /// A retry would not help.
    Refused(CliError),
}

impl Listener {
    /// Takes the configured token only for the configured listener: it is never sent to another address.
    pub fn new(
        args: ListenerArgs,
        layers: impl FnOnce() -> Result<Layers, ConfigError>,
    ) -> Result<Self, CliError> {
        let (api, token) = match args.url {
            Some(url) => (url.at(OPERATORS_BASE, UrlScheme::Http), args.token),
            None => {
                let operator = Settings::new(&layers()?)?.operator;
                let token = args.token.or_else(|| operator.read_token());
                let token = token.or_else(|| operator.token());
                let place = reachable(operator.listen);
                (format!("http://{place}{OPERATORS_BASE}"), token)
            }
        };
        let header = |token: Secret| {
            let text = format!("Bearer {}", token.expose());
            HeaderValue::from_str(&text).map_err(|_| {
                let sentence = "the token is not made of visible ASCII characters; give operator.token or operator.read_token";
                CliError::Usage(sentence.to_owned())
            })
        };
        Ok(Self {
            api,
            token: token.map(header).transpose()?,
            client: client(args.ca_file.as_deref())?,
        })
    }

    /// Its address.
    pub fn place(&self) -> &str {
        self.api.strip_suffix(OPERATORS_BASE).unwrap_or(&self.api)
    }

    /// Reads a path of the operators' API.
    pub async fn get(&self, path: &str) -> Result<Value, ListenerError> {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            headers.insert(AUTHORIZATION, token.clone());
        }
        let uri = format!("{}{path}", self.api);
        let head = Head {
            method: Method::GET,
            uri: uri.parse::<Uri>().unwrap_or_default(),
            headers,
        };
        let answer = exchange(&self.client, head, Bytes::new(), ANSWER_BYTES_MAX, LIMIT).await;
        let answer = answer.map_err(|failure| {
            let (place, why) = (self.place(), failure.kind.as_str());
            ListenerError::Away(format!("nothing answers at {place} ({why})"))
        })?;
        let what = "the operators' listener";
        match answer.status {
            200 => serde_json::from_slice(&answer.body).map_err(|_| {
                ListenerError::Refused(refusal(self.place(), what, answer.status, &answer.body))
            }),
            401 => Err(ListenerError::Refused(CliError::Refused(format!(
                "{} does not take {}; give operator.token or operator.read_token as DIKALA_OPERATORS_TOKEN or --token",
                self.place(),
                match self.token {
                    Some(_) => "this token",
                    None => "requests without a token",
                }
            )))),
            status @ (429 | 500..) => Err(ListenerError::Away(
                refusal(self.place(), what, status, &answer.body).to_string(),
            )),
            status => Err(ListenerError::Refused(refusal(
                self.place(),
                what,
                status,
                &answer.body,
            ))),
        }
    }
}

impl fmt::Display for ListenerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Away(sentence) => f.write_str(sentence),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl From<ListenerError> for CliError {
    fn from(trouble: ListenerError) -> Self {
        match trouble {
            ListenerError::Away(sentence) => Self::Failed(format!(
                "{sentence}; check --url (or DIKALA_OPERATORS_URL) and that the service runs"
            )),
            ListenerError::Refused(error) => error,
        }
    }
}

/// An unspecified address cannot be dialled; its loopback address can, because the command runs on the same
/// machine.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let mut place = listen;
    if listen.ip().is_unspecified() {
        place.set_ip([127, 0, 0, 1].into());
    }
    place
}
