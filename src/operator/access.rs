//! Authentication at the operators' listener. An admitted request has a [`Right`] in its data.

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, Uri,
        header::{self, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web::Data,
};
use dikala_entities::{CredentialHash, Secret};
use futures_util::future::LocalBoxFuture;
use subtle::ConstantTimeEq;

use crate::{
    front::{is_loopback_host, is_same_origin},
    http::{context::HttpContext, error::ApiError, gate::UnknownClient},
};

/// The permissions of an operator's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Reads and writes.
    Full,
    /// Reads only.
    Read,
}

/// The operators' tokens. Without any, the listener is on the loopback interface and checks `Host` and `Origin`,
/// because a foreign web page can make its own name resolve to this machine.
#[derive(Clone, Debug)]
pub struct OperatorTokens {
    pub full: Option<Secret>,
    /// Only set together with `full`.
    pub read: Option<Secret>,
}

impl OperatorTokens {
    /// True if requests need a token.
    pub fn are_asked_for(&self) -> bool {
        self.full.is_some()
    }

    /// The right of the token with this hash.
    pub fn right_of_hash(&self, hash: &CredentialHash) -> Option<Right> {
        let is = |token: &Option<Secret>| {
            let own = token
                .as_ref()
                .map(|token| CredentialHash::of(token.expose()));
            let given = hash.as_str().as_bytes();
            own.is_some_and(|own| own.as_str().as_bytes().ct_eq(given).into())
        };
        if is(&self.full) {
            return Some(Right::Full);
        }
        is(&self.read).then_some(Right::Read)
    }

    /// The right of a token. Both tokens are compared, so that the time reveals nothing.
    fn right_of(&self, given: &str) -> Option<Right> {
        let is = |token: &Option<Secret>| {
            let token = token.as_ref();
            token.is_some_and(|token| given.as_bytes().ct_eq(token.expose().as_bytes()).into())
        };
        let (full, read) = (is(&self.full), is(&self.read));
        if full {
            Some(Right::Full)
        } else {
            read.then_some(Right::Read)
        }
    }

    /// The right of the presented token. Clients that failed too often are refused before it is checked.
    pub async fn prove(
        &self,
        http: &HttpContext,
        request: &HttpRequest,
        token: Option<&str>,
    ) -> Result<Right, ApiError> {
        let stranger = UnknownClient::of(request, &http.settings, http.clock.now());
        let strangers = &http.gate.strangers;
        let right = match token {
            None => Err(strangers.refused(&stranger, ApiError::MissingOperatorToken)),
            Some(token) => {
                // The address is part of the key, so that guesses from another address gain nothing from this
                // success.
                let here = CredentialHash::of(&format!("{stranger} {token}"));
                let right = async { self.right_of(token).ok_or(ApiError::InvalidOperatorToken) };
                let is_refusal = |error: &ApiError| *error == ApiError::InvalidOperatorToken;
                strangers.look_up(&stranger, here, right, is_refusal).await
            }
        };
        right.inspect_err(|error| {
            let code = error.code().as_str();
            tracing::info!(address = %stranger, code, "a request to the operators' listener was refused");
        })
    }
}

/// Recognizes requests with authentication of their own, by a browser's session. Application data.
#[derive(Clone, Copy, Debug)]
pub struct SessionRoutes(pub fn(&ServiceRequest) -> bool);

/// Gives the right of a browser's session. Application data, present where sessions exist.
#[derive(Clone, Copy, Debug)]
pub struct SessionRights(pub fn(&ServiceRequest) -> LocalBoxFuture<'_, Option<Right>>);

/// Paths that a browser's session may read too. They are no pages, and a foreign page cannot read them.
const READ_WITH_A_SESSION: [&str; 2] = ["/metrics", "/operator/openapi.json"];

/// Admits authenticated requests, and only reads with [`Right::Read`]. Health checks need no token.
pub async fn let_in(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if has_own_door(&req) {
        return Ok(next.call(req).await?.map_into_boxed_body());
    }
    let is_read = matches!(*req.method(), Method::GET | Method::HEAD);
    let signed_in = match is_read {
        true => right_of_session(&req).await,
        false => None,
    };
    let right = match signed_in {
        Some(right) => right,
        None => match right_of(&req).await {
            Ok(right) => right,
            Err(error) => return Ok(req.error_response(error)),
        },
    };
    if right == Right::Read && !is_read && !is_health(&req) {
        return Ok(req.error_response(ApiError::ReadOnlyToken));
    }
    req.extensions_mut().insert(right);
    Ok(next.call(req).await?.map_into_boxed_body())
}

/// Health checks are exempt: they change nothing, and refuse other methods themselves.
fn is_health(req: &ServiceRequest) -> bool {
    req.path().starts_with("/health/")
}

/// Without tokens nothing bypasses this check, so that requests from foreign pages are refused here.
fn has_own_door(req: &ServiceRequest) -> bool {
    let tokens = req.app_data::<Data<OperatorTokens>>();
    let door = req.app_data::<SessionRoutes>().copied();
    tokens.is_some_and(|tokens| tokens.are_asked_for())
        && door.is_some_and(|SessionRoutes(is)| is(req))
}

async fn right_of_session(req: &ServiceRequest) -> Option<Right> {
    let tokens = req.app_data::<Data<OperatorTokens>>()?;
    let shows_a_token = req.headers().contains_key(header::AUTHORIZATION);
    if !tokens.are_asked_for() || shows_a_token || !READ_WITH_A_SESSION.contains(&req.path()) {
        return None;
    }
    let SessionRights(right_of) = req.app_data::<SessionRights>()?;
    right_of(req).await
}

async fn right_of(req: &ServiceRequest) -> Result<Right, ApiError> {
    let tokens = req
        .app_data::<Data<OperatorTokens>>()
        .ok_or(ApiError::Internal)?;
    if tokens.full.is_none() {
        let is_read = matches!(*req.method(), Method::GET | Method::HEAD);
        return match is_meant_for_us(req.uri(), req.headers(), is_read) {
            true => Ok(Right::Full),
            false => Err(ApiError::ForeignHost),
        };
    }
    if is_health(req) {
        return Ok(Right::Read);
    }
    let http = req
        .app_data::<Data<HttpContext>>()
        .ok_or(ApiError::Internal)?;
    let token = given(req.headers());
    tokens.prove(http, req.request(), token).await
}

/// Checks that `Host`, and a host in the target, name this machine, and that `Origin`, if present, is the same.
/// Another site's request may show in `Sec-Fetch-Site` alone. Only HTTP/1.0, which no browser speaks, may omit the
/// host.
fn is_meant_for_us(target: &Uri, headers: &HeaderMap, is_read: bool) -> bool {
    let site = HeaderName::from_static("sec-fetch-site");
    let mut sites = headers.get_all(site);
    let is_ours = is_read || sites.all(|site| site == "same-origin");
    let is_here = target
        .authority()
        .is_none_or(|it| is_loopback_host(it.as_str()));
    is_ours && is_here && names_us(headers)
}

fn names_us(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let mut hosts = headers.get_all(header::HOST).map(text);
    let Some(host) = hosts.next() else {
        return !headers.contains_key(header::ORIGIN);
    };
    let mut origins = headers.get_all(header::ORIGIN).map(text);
    hosts.next().is_none()
        && is_loopback_host(&host)
        && origins.all(|origin| is_same_origin(&origin, &host))
}

impl OperatorTokens {
    /// The right of a request that presents a token itself, as commands do, not a session.
    pub async fn shown(&self, http: &HttpContext, request: &HttpRequest) -> Option<Right> {
        let token = given(request.headers())?;
        self.prove(http, request, Some(token)).await.ok()
    }
}

/// The token of a request. The scheme's name is case-insensitive (RFC 9110, 11.1).
fn given(headers: &HeaderMap) -> Option<&str> {
    let mut sent = headers.get_all(header::AUTHORIZATION);
    let text = sent.next()?.to_str().ok()?;
    if sent.next().is_some() {
        return None;
    }
    let (scheme, token) = text.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then_some(token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tokens_only_what_is_meant_for_this_machine_is_taken() {
        let taken = |target: &str, host: &str, site: Option<&str>, is_read| {
            let target: Uri = target.parse().expect("a target");
            let value = |text: &str| HeaderValue::from_str(text).expect("a value");
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, value(host));
            if let Some(site) = site {
                headers.insert(HeaderName::from_static("sec-fetch-site"), value(site));
            }
            is_meant_for_us(&target, &headers, is_read)
        };
        let (path, here) = ("/operator/v1/ledger/verify", "localhost:8081");
        assert!(taken(path, here, None, false), "a program");
        assert!(taken(path, here, Some("same-origin"), false));
        for site in ["cross-site", "same-site", "none"] {
            assert!(!taken(path, here, Some(site), false), "{site}");
            assert!(
                taken(path, here, Some(site), true),
                "{site}: a link that is followed"
            );
        }
        assert!(!taken(path, "evil.example", None, true));
        assert!(taken("http://127.0.0.1:8081/health/live", here, None, true));
        assert!(!taken("http://evil.example/health/live", here, None, true));
    }

    #[test]
    fn each_token_lets_its_holder_do_what_it_is_for() {
        let secret = |text: &str| Some(Secret::new(text));
        let both = OperatorTokens {
            full: secret("the-full-one-0001"),
            read: secret("the-read-one-0001"),
        };
        let full = OperatorTokens {
            read: None,
            ..both.clone()
        };
        for (tokens, given, right) in [
            (&both, "the-full-one-0001", Some(Right::Full)),
            (&both, "the-read-one-0001", Some(Right::Read)),
            (&both, "the-full-one-000", None),
            (&both, "the-full-one-00011", None),
            (&both, "", None),
            (&full, "the-full-one-0001", Some(Right::Full)),
            (&full, "the-read-one-0001", None),
            (&full, "", None),
        ] {
            assert_eq!(tokens.right_of(given), right, "{given:?}");
        }
    }
}
