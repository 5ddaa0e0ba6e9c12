//! A client of a running service, over its public address.

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use actix_web::http::{
    Method, Uri,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use bytes::Bytes;
use clap::Args;
use dikala_actors::outbound::{
    AllowedHosts, ErrorKind, Guard, Head, Outbound, OutboundClient, OutboundError, exchange,
};
use dikala_entities::{API_KEY_SCHEME, Credential, Secret};
use serde::Deserialize;
use serde_json::Value;

use super::CliError;
use crate::{
    http::route::BASE,
    simulator::{ServiceUrl, UrlScheme},
};

/// Timeout of a whole exchange.
const LIMIT: Duration = Duration::from_secs(15);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Which service, and as whom.
#[derive(Clone, Debug, Args)]
pub struct ServiceArgs {
    /// The public address of the service.
    #[arg(long, env = "DIKALA_URL", default_value = "http://127.0.0.1:8080")]
    url: ServiceUrl,
    /// The tenant's API key.
    #[arg(long, env = "DIKALA_API_KEY", hide_env_values = true, value_parser = |text: &str| Ok::<_, String>(Secret::new(text)), value_name = "dkl_…")]
    key: Secret,
    /// A PEM file of certificate authorities to trust besides the public ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// A service's client.
#[derive(Debug)]
pub struct Service {
    api: String,
    pub key: Credential,
    pub client: OutboundClient,
}

impl Service {
    pub fn new(args: ServiceArgs) -> Result<Self, CliError> {
        let client = client(args.ca_file.as_deref())?;
        // Checked here, because the argument parser would print the key that it refuses.
        let key = API_KEY_SCHEME.parse(args.key.expose()).ok_or_else(|| {
            let sentence =
                "--key (or DIKALA_API_KEY) is no API key; they begin with dkl_, `dikala key create` makes one";
            CliError::Usage(sentence.to_owned())
        })?;
        Ok(Self {
            api: args.url.at(BASE, UrlScheme::Http),
            key,
            client,
        })
    }

    /// The head of a request to a path of the API.
    pub fn head(&self, method: Method, path: &str) -> Head {
        let uri = format!("{}{path}", self.api);
        let key = HeaderValue::from_str(self.key.expose()).expect("a key is letters and digits");
        let mut headers = HeaderMap::new();
        headers.insert(API_KEY, key);
        Head {
            method,
            uri: uri.parse::<Uri>().unwrap_or_default(),
            headers,
        }
    }

    /// Sends JSON and returns the body of a successful answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Bytes, CliError> {
        let mut head = self.head(Method::POST, path);
        let json = HeaderValue::from_static("application/json");
        head.headers.insert(CONTENT_TYPE, json);
        let body = Bytes::from(body.to_string());
        let answer = exchange(&self.client, head, body, ANSWER_BYTES_MAX, LIMIT).await;
        let answer = answer.map_err(|failure| self.unreachable(failure.kind))?;
        match answer.status {
            200..=299 => Ok(answer.body.into()),
            status => Err(self.refusal(status, &answer.body)),
        }
    }

    /// The error for an answer that is not a success.
    pub fn refusal(&self, status: u16, body: &[u8]) -> CliError {
        refusal(&self.api, "the public address of the service", status, body)
    }

    /// The error for a missing answer.
    pub fn unreachable(&self, kind: ErrorKind) -> CliError {
        CliError::Failed(format!(
            "nothing answers at {} ({}); check --url (or DIKALA_URL) and that the service runs",
            self.api,
            kind.as_str()
        ))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.api)
    }
}

/// Creates an HTTP client. It may dial any address, because the person who runs the command chooses it.
pub fn client(ca_file: Option<&Path>) -> Result<OutboundClient, CliError> {
    let guard = Guard {
        allow_hosts: AllowedHosts::All,
        allow_http: true,
        ..Guard::default()
    };
    let outbound = Outbound::new(guard, ca_file).map_err(unusable)?;
    Ok(outbound.client(None, 2))
}

/// The error for an answer that is not a success; `what` describes the address that was expected.
pub fn refusal(at: &str, what: &str, status: u16, body: &[u8]) -> CliError {
    #[derive(Deserialize)]
    struct Body {
        error: Content,
    }
    #[derive(Deserialize)]
    struct Content {
        #[serde(default)]
        code: String,
        message: String,
        #[serde(default)]
        fields: Vec<Field>,
    }
    #[derive(Deserialize)]
    struct Field {
        message: String,
    }
    let Ok(Body { error }) = serde_json::from_slice(body) else {
        return CliError::Failed(format!(
            "{at} answers {status}, not as the API does; is it {what}?"
        ));
    };
    let fields = error.fields.into_iter().map(|field| field.message);
    let sentence = fields.reduce(|all, next| format!("{all} {next}"));
    let mut sentence = format!("{at}: {}", sentence.unwrap_or(error.message));
    // The public and the operators' listener are easily confused.
    if error.code == "route_not_found" {
        sentence = format!("{sentence} Is it {what}?");
    }
    match status {
        400..=428 => CliError::Refused(sentence),
        _ => CliError::Failed(sentence),
    }
}

fn unusable(error: OutboundError) -> CliError {
    match error {
        OutboundError::ExtraCa { path, reason } => CliError::Failed(format!(
            "--ca-file {path:?} cannot be used: {reason}; give a PEM file of certificates"
        )),
        other => CliError::Failed(other.to_string()),
    }
}
