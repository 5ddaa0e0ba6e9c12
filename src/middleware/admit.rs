//! The key, the limits and the route: what may come in.

use std::{
    net::IpAddr,
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::{
    Error, HttpMessage, HttpRequest,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{CACHE_CONTROL, HeaderMap, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};
use bytes::Bytes;
use dikala_entities::{API_KEY_SCHEME, Credential, Millis, TenantId};

use super::{
    keys::{Identity, Keys},
    rate::{Limiter, Verdict},
};
use crate::{
    api::listing::Place,
    error::{ApiError, Missing},
    extract::Query,
    routes::{self, Found},
    services::Services,
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const TENANTS_MAX: usize = 1_000_000;
const ADDRESSES_MAX: usize = 50_000;

/// Known keys and used-up limits of this process.
#[derive(Debug)]
pub struct Gate {
    keys: Keys,
    tenants: Limiter<TenantId>,
    addresses: Limiter<IpAddr>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            tenants: Limiter::new(TENANTS_MAX),
            addresses: Limiter::new(ADDRESSES_MAX),
        }
    }
}

impl Gate {
    /// Forgets what it knows of keys and tenants, after this process changed one.
    pub fn forget_keys(&self) {
        self.keys.forget();
    }
}

/// Lets in who shows a key that is known, is within its limit, and asks for something that is there.
pub async fn admit(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let services = req
        .app_data::<web::Data<Services>>()
        .cloned()
        .ok_or(ApiError::Internal)?;
    let found = routes::find(req.match_pattern().as_deref(), req.method());
    let now = services.clock.now();
    let mut response = match authenticate(&services, req.headers(), now).await {
        Ok(identity) => {
            let verdict = services
                .gate
                .tenants
                .count(identity.tenant, identity.limit, now);
            let mut response = match check(&req, &found, &identity, verdict, now) {
                Ok(()) => {
                    req.extensions_mut().insert(identity.tenant);
                    req.extensions_mut().insert(identity.key);
                    let is_read = req.method() == Method::GET;
                    let response = next.call(req).await?.map_into_boxed_body();
                    if is_read {
                        held(&services, identity.tenant, response)
                    } else {
                        // What it did is done: its answer is given in any case.
                        response
                    }
                }
                Err(error) => req.error_response(error),
            };
            // Clients compare it with their own clocks.
            let resets_at = services.clock.on_the_wall(verdict.resets_at);
            insert_limits(
                response.headers_mut(),
                Verdict {
                    resets_at,
                    ..verdict
                },
            );
            response
        }
        Err(error) => {
            let error = refuse(&services, &req, found, error, now);
            req.error_response(error)
        }
    };
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    Ok(response)
}

/// A large answer is in memory until it is read: its bytes are counted for as long.
fn held(
    services: &Services,
    tenant: TenantId,
    response: ServiceResponse<BoxBody>,
) -> ServiceResponse<BoxBody> {
    let BodySize::Sized(bytes) = response.response().body().size() else {
        return response;
    };
    match services.lists.hold(tenant, bytes) {
        Ok(None) => response,
        Ok(Some(place)) => response.map_body(|_, body| {
            BoxBody::new(Held {
                body,
                _place: place,
            })
        }),
        Err(error) => response.error_response(error),
    }
}

/// A body with the right to be on its way.
struct Held {
    body: BoxBody,
    _place: Place,
}

impl MessageBody for Held {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}

/// The key of a request that stays open.
#[derive(Debug)]
pub struct Pass(Credential);

impl Pass {
    /// Takes the key from a request that was let in.
    pub fn of(req: &HttpRequest) -> Result<Self, ApiError> {
        presented_key(req.headers()).map(Self)
    }

    /// Whether its holder would be let in now as well.
    pub async fn holds(&self, services: &Services) -> Result<(), ApiError> {
        let identity = identify(services, &self.0, services.clock.now()).await?;
        if identity.suspended {
            return Err(ApiError::TenantSuspended);
        }
        Ok(())
    }
}

async fn authenticate(
    services: &Services,
    headers: &HeaderMap,
    now: Millis,
) -> Result<Identity, ApiError> {
    identify(services, &presented_key(headers)?, now).await
}

async fn identify(
    services: &Services,
    key: &Credential,
    now: Millis,
) -> Result<Identity, ApiError> {
    services
        .gate
        .keys
        .identify(&services.store, &services.settings, key, now)
        .await
}

fn presented_key(headers: &HeaderMap) -> Result<Credential, ApiError> {
    let mut sent = headers.get_all(&API_KEY);
    let key = sent.next().ok_or(ApiError::MissingApiKey)?;
    if sent.next().is_some() {
        return Err(ApiError::InvalidApiKey);
    }
    key.to_str()
        .ok()
        .and_then(|text| API_KEY_SCHEME.parse(text))
        .ok_or(ApiError::InvalidApiKey)
}

fn check(
    req: &ServiceRequest,
    found: &Found,
    identity: &Identity,
    verdict: Verdict,
    now: Millis,
) -> Result<(), ApiError> {
    if !verdict.allowed {
        return Err(ApiError::RateLimited {
            retry_after_seconds: verdict.retry_after_seconds(now),
        });
    }
    if identity.suspended {
        return Err(ApiError::TenantSuspended);
    }
    match found {
        // Handlers with parameters check them together with their values.
        Found::Route(route) if route.query.is_empty() => {
            Query::parse(req.query_string()).0.expect_empty()
        }
        Found::Route(_) => Ok(()),
        Found::OtherMethods(allow) => Err(ApiError::MethodNotAllowed {
            allow: allow.clone(),
        }),
        Found::Nothing => Err(ApiError::NotFound(Missing::Route)),
    }
}

/// What somebody without a valid key gets. A database that is away is never his fault.
fn refuse(
    services: &Services,
    req: &ServiceRequest,
    found: Found,
    error: ApiError,
    now: Millis,
) -> ApiError {
    if matches!(error, ApiError::Unavailable | ApiError::Internal) {
        return error;
    }
    if let Some(peer) = req.peer_addr() {
        let limit = services.settings.unauthenticated_per_minute;
        let verdict = services
            .gate
            .addresses
            .count(network(peer.ip()), limit, now);
        if !verdict.allowed {
            return ApiError::RateLimited {
                retry_after_seconds: verdict.retry_after_seconds(now),
            };
        }
    }
    match found {
        Found::Route(_) => error,
        Found::OtherMethods(allow) => ApiError::MethodNotAllowed { allow },
        Found::Nothing => ApiError::NotFound(Missing::Route),
    }
}

/// An IPv4 address, or the /64 of an IPv6 address, of which one client has all.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 => v4,
    }
}

fn insert_limits(headers: &mut HeaderMap, verdict: Verdict) {
    headers.insert(LIMIT, verdict.limit.into());
    headers.insert(REMAINING, verdict.remaining.into());
    headers.insert(RESET, verdict.reset_unix_seconds().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_of_ipv6_is_one_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8:0:1::1"), network("2001:db8::1"));
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_ne!(network("192.0.2.2"), network("192.0.2.1"));
    }
}
