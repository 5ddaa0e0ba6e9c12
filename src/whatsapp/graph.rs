//! A client of Meta's Graph API for the settings of one business number.

use std::{path::Path, time::Duration};

use actix_web::http::{
    Method, Uri,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use bytes::Bytes;
use dikala_actors::outbound::{
    AllowedHosts, ErrorKind, Exchange, Guard, Head, Outbound, OutboundClient, exchange,
};
use dikala_entities::{Secret, with_numbers_masked};
use serde::Deserialize;
use serde_json::{Value, json};
use url::{Host, Url};

use super::settings::CallingSettings;

/// The version of the API. Meta serves each for two years; this one is of October 2025.
const VERSION: &str = "v24.0";
/// The environment variable of the token.
const TOKEN: &str = "WHATSAPP_TOKEN";
/// Timeout of a whole exchange.
const LIMIT: Duration = Duration::from_secs(30);
/// The largest answer that is read.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// The longest message of Meta that is repeated.
const MESSAGE_CHARS_MAX: usize = 300;
const ID_DIGITS_MAX: usize = 32;

/// An error of Meta or on the way to it, which says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The command was given something unusable.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    Refused(String),
    /// Meta cannot be reached, or fails.
    #[error("{0}")]
    Failed(String),
}

/// The token of the environment, if it is set.
pub fn token() -> Option<Secret> {
    let token = std::env::var(TOKEN).ok()?;
    let token = token.trim();
    (!token.is_empty()).then(|| Secret::new(token))
}

/// A client with a token.
#[derive(Debug)]
pub struct Graph {
    client: OutboundClient,
    /// The address of the number.
    number: String,
    phone_number_id: String,
    token: Secret,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    calling: CallingSettings,
}

#[derive(Deserialize)]
struct NamedNumber {
    /// As people write it, such as `+62 21-5000-1000`.
    display_phone_number: String,
}

#[derive(Deserialize)]
struct Refusal {
    error: RefusalDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RefusalDetails {
    message: String,
    code: i64,
}

impl Graph {
    /// Errors: the address, the id or the token cannot be used.
    pub fn new(
        url: &str,
        phone_number_id: &str,
        token: Secret,
        extra_ca: Option<&Path>,
    ) -> Result<Self, GraphError> {
        let digits = phone_number_id.bytes().all(|byte| byte.is_ascii_digit());
        if phone_number_id.is_empty() || phone_number_id.len() > ID_DIGITS_MAX || !digits {
            return Err(GraphError::Usage(format!(
                "{phone_number_id:?} is no phone number id; it is made of digits, is not the telephone number, and stands under API \
                 setup of the app at developers.facebook.com"
            )));
        }
        let guard = Guard {
            allow_hosts: AllowedHosts::All,
            allow_http: true,
            ..Guard::default()
        };
        let outbound = Outbound::new(guard, extra_ca);
        let outbound = outbound.map_err(|error| GraphError::Failed(error.to_string()))?;
        Ok(Self {
            client: outbound.client(None, 1),
            number: format!("{}/{VERSION}/{phone_number_id}", base(url)?),
            phone_number_id: phone_number_id.to_owned(),
            token,
        })
    }

    /// The calling settings, with the passwords for SIP.
    pub async fn settings(&self) -> Result<CallingSettings, GraphError> {
        let of = "/settings?include_sip_credentials=true";
        let answer = self.exchange(Method::GET, of, Bytes::new()).await?;
        let read = serde_json::from_slice::<Answer>(&answer.body);
        // The parser's error may show a password.
        read.map(|answer| answer.calling)
            .map_err(|_| self.unreadable())
    }

    /// Checks that the id is that of this telephone number: the ids of several numbers stand on one page.
    ///
    /// Errors: it is another number's.
    pub async fn check_number(&self, number: &str) -> Result<(), GraphError> {
        let of = "?fields=display_phone_number";
        let answer = self.exchange(Method::GET, of, Bytes::new()).await?;
        let read = serde_json::from_slice::<NamedNumber>(&answer.body);
        let shown = read.map_err(|_| self.unreadable())?.display_phone_number;
        if digits(&shown) == digits(number) {
            return Ok(());
        }
        Err(GraphError::Refused(format!(
            "the id {} is that of {}, and the trunk's number is {}; take the id of that number",
            self.phone_number_id,
            with_numbers_masked(&format!("+{}", digits(&shown))),
            with_numbers_masked(number)
        )))
    }

    fn unreadable(&self) -> GraphError {
        GraphError::Failed(format!(
            "{} does not answer as Meta does; is --graph-url the address of Meta's Graph API?",
            self.number
        ))
    }

    /// Changes one group of features below `calling`.
    pub async fn change(&self, calling: &Value) -> Result<(), GraphError> {
        let body = json!({"calling": calling}).to_string();
        let body = Bytes::from(body);
        self.exchange(Method::POST, "/settings", body).await?;
        Ok(())
    }

    async fn exchange(
        &self,
        method: Method,
        of: &str,
        body: Bytes,
    ) -> Result<Exchange, GraphError> {
        let bearer = HeaderValue::from_str(&format!("Bearer {}", self.token.expose()));
        let bearer = bearer.map_err(|_| {
            GraphError::Usage(format!(
                "{TOKEN} has characters that no token has; copy it again"
            ))
        })?;
        let is_change = method == Method::POST;
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, bearer);
        if is_change {
            let json = HeaderValue::from_static("application/json");
            headers.insert(CONTENT_TYPE, json);
        }
        let uri = format!("{}{of}", self.number);
        let head = Head {
            method,
            uri: uri.parse::<Uri>().unwrap_or_default(),
            headers,
        };
        let answer = exchange(&self.client, head, body, ANSWER_BYTES_MAX, LIMIT).await;
        let answer = answer.map_err(|failure| self.unreachable(failure.kind))?;
        match answer.status {
            200..=299 => Ok(answer),
            status => Err(self.refused(status, &answer.body, is_change)),
        }
    }

    fn unreachable(&self, kind: ErrorKind) -> GraphError {
        GraphError::Failed(format!(
            "nothing answers at {} ({}); check the network and --graph-url",
            self.number,
            kind.as_str()
        ))
    }

    fn refused(&self, status: u16, body: &[u8], is_change: bool) -> GraphError {
        let details = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error);
        let RefusalDetails { message, code } = details.unwrap_or_default();
        let message = message.replace(self.token.expose(), "…");
        let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        explain(status, code, &message, &self.phone_number_id, is_change)
    }
}

fn digits(number: &str) -> String {
    number.chars().filter(char::is_ascii_digit).collect()
}

/// The address without a trailing slash. The token must not cross a network in clear.
fn base(url: &str) -> Result<String, GraphError> {
    let parsed = Url::parse(url).ok();
    let is_here = |url: &Url| match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    let parsed = parsed.filter(|url| match url.scheme() {
        "https" => url.has_host(),
        "http" => is_here(url),
        _ => false,
    });
    let parsed = parsed.filter(|url| url.query().is_none() && url.fragment().is_none());
    let parsed = parsed.ok_or_else(|| {
        GraphError::Usage(format!(
            "--graph-url {url:?} cannot be used; it must be like https://graph.facebook.com (http:// on this machine only)"
        ))
    })?;
    Ok(parsed.as_str().trim_end_matches('/').to_owned())
}

/// A refusal of Meta in words. Codes: Meta's list of errors of the Graph API.
fn explain(status: u16, code: i64, message: &str, id: &str, is_change: bool) -> GraphError {
    let said = match message {
        "" => format!("status {status}"),
        message => format!("status {status}, code {code}: {message}"),
    };
    match (status, code) {
        (401, _) | (_, 190) => GraphError::Refused(format!(
            "Meta refuses {TOKEN} ({said}); it is wrong or has expired: make a new one, best of a system user, at business.facebook.com"
        )),
        (_, 4 | 80_007 | 613) | (429, _) => GraphError::Failed(format!(
            "Meta takes no more requests for now ({said}); try again in an hour"
        )),
        (403, _) | (_, 3 | 10 | 200..=299) => GraphError::Refused(format!(
            "{TOKEN} may not do that ({said}); it needs the permissions whatsapp_business_messaging and whatsapp_business_management, \
             and its app or user must have access to the WhatsApp account"
        )),
        (404, _) => GraphError::NotFound(unknown(id, &said)),
        (_, 100) if message.contains("does not exist") => GraphError::NotFound(unknown(id, &said)),
        (500.., _) => GraphError::Failed(format!("Meta fails ({said}); try again later")),
        _ if is_change => GraphError::Refused(format!(
            "Meta does not take these settings ({said}); SIP needs a number with calling on and an app that is live and sends this \
             number's messages, and Meta must allow SIP for the account"
        )),
        _ => GraphError::Refused(format!("Meta refuses to show the settings ({said})")),
    }
}

fn unknown(id: &str, said: &str) -> String {
    format!(
        "Meta knows no phone number with the id {id}, or the token may not see it ({said}); the id stands under API setup of the app, \
         and is not the telephone number"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_say_what_to_do() {
        let (refused, missing, failed) = ("refused", "missing", "failed");
        for (status, code, message, is_change, kind, expected) in [
            (401, 190, "expired", false, refused, "WHATSAPP_TOKEN"),
            (400, 190, "expired", false, refused, "make a new one"),
            (
                403,
                200,
                "no",
                false,
                refused,
                "whatsapp_business_management",
            ),
            (400, 10, "no", true, refused, "whatsapp_business_messaging"),
            (404, 0, "", false, missing, "id 427"),
            (
                400,
                100,
                "Object '427' does not exist",
                false,
                missing,
                "id 427",
            ),
            (400, 100, "Invalid parameter", true, refused, "calling on"),
            (400, 131_000, "no SIP", true, refused, "allow SIP"),
            (400, 131_000, "no", false, refused, "code 131000: no"),
            (429, 0, "", true, failed, "in an hour"),
            (400, 80_007, "limit", true, failed, "in an hour"),
            (503, 2, "", true, failed, "later"),
        ] {
            let error = explain(status, code, message, "427", is_change);
            let told = match &error {
                GraphError::Refused(_) => refused,
                GraphError::NotFound(_) => missing,
                GraphError::Failed(_) | GraphError::Usage(_) => failed,
            };
            assert_eq!(told, kind, "{status} {code}: {error}");
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn the_token_crosses_no_network_in_clear() {
        for (url, is_usable) in [
            ("https://graph.facebook.com/", true),
            ("http://127.0.0.1:80", true),
            ("http://[::1]:80", true),
            ("http://graph.facebook.com", false),
            ("http://10.0.0.1", false),
            ("ftp://graph.facebook.com", false),
            ("https://graph.facebook.com/?a=b", false),
            ("graph.facebook.com", false),
        ] {
            assert_eq!(base(url).is_ok(), is_usable, "{url}");
        }
    }
}
