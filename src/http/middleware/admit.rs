//! Admission of requests: the key, the limits and the route.

use std::time::Duration;

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
use dikala_entities::{API_KEY_SCHEME, Credential, IdempotencyScope, Millis, TenantId};

use crate::http::{
    body::keeping,
    context::HttpContext,
    error::{ApiError, Missing},
    extract::Query,
    gate::{UnknownClient, keys::KeyIdentity, rate::Allowance},
    route::{PathMatch, RouteLookup},
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Admits a request with a valid key, within its limit, to an existing route.
pub async fn admit(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let (Some(http), Some(RouteLookup(find))) = (
        req.app_data::<web::Data<HttpContext>>().cloned(),
        req.app_data::<RouteLookup>().copied(),
    ) else {
        return Err(ApiError::Internal.into());
    };
    let found = find(req.match_pattern().as_deref(), req.method());
    let now = http.clock.now();
    let stranger = UnknownClient::of(req.request(), &http.settings, now);
    let mut response = match authenticate(&http, &stranger, req.headers(), now).await {
        Ok(identity) => {
            let shared = (&http.store, &http.member);
            let tenant = (identity.tenant, identity.limit);
            let verdict = http.gate.count(shared, tenant, now).await;
            let mut response = match check(&req, &found, &identity, verdict, now) {
                Ok(()) => {
                    req.extensions_mut().insert(identity.tenant);
                    let scope = IdempotencyScope::Tenant(identity.tenant);
                    req.extensions_mut().insert(scope);
                    req.extensions_mut().insert(identity.key);
                    if req.method() == Method::GET {
                        match http.gate.read(identity.tenant).await {
                            Ok(_turn) => {
                                let response = next.call(req).await?.map_into_boxed_body();
                                held(&http, identity.tenant, response)
                            }
                            Err(error) => req.error_response(error),
                        }
                    } else {
                        // Its effect has happened, so its answer is given in any case.
                        next.call(req).await?.map_into_boxed_body()
                    }
                }
                Err(error) => req.error_response(error),
            };
            // Clients compare it with their own clocks.
            let resets_at = http.clock.on_the_wall(verdict.resets_at);
            insert_limits(
                response.headers_mut(),
                Allowance {
                    resets_at,
                    ..verdict
                },
            );
            response
        }
        Err(error) => {
            log_refusal(&stranger, &error);
            req.error_response(refuse(found, error))
        }
    };
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    Ok(response)
}

/// Counts a large answer's bytes until it is read, because it is in memory until then.
fn held(
    http: &HttpContext,
    tenant: TenantId,
    response: ServiceResponse<BoxBody>,
) -> ServiceResponse<BoxBody> {
    let BodySize::Sized(bytes) = response.response().body().size() else {
        return response;
    };
    match http.unread.hold(tenant, bytes) {
        Ok(None) => response,
        Ok(Some(place)) => response.map_body(|_, body| keeping(body, place)),
        Err(error) => response.error_response(error),
    }
}

/// The key of a long-lived request.
#[derive(Clone, Debug)]
pub struct StreamKey(Credential);

impl StreamKey {
    /// The key of an admitted request.
    pub fn of(req: &HttpRequest) -> Result<Self, ApiError> {
        presented_key(req.headers()).map(Self)
    }

    /// Fails if the key would not be admitted now.
    pub async fn holds(&self, http: &HttpContext) -> Result<(), ApiError> {
        let identity = identify(http, &self.0, http.clock.now()).await?;
        if identity.suspended {
            return Err(ApiError::TenantSuspended);
        }
        Ok(())
    }

    /// Checks the key at this interval, and returns once it is no longer admitted. A database failure does not count.
    pub async fn lost(&self, http: &HttpContext, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            match self.holds(http).await {
                Ok(()) | Err(ApiError::Unavailable | ApiError::RolledBack | ApiError::Internal) => {
                }
                Err(_) => return,
            }
        }
    }
}

/// Authenticates a request. Invalid keys count for the client's address; database failures do not.
async fn authenticate(
    http: &HttpContext,
    stranger: &UnknownClient,
    headers: &HeaderMap,
    now: Millis,
) -> Result<KeyIdentity, ApiError> {
    let strangers = &http.gate.strangers;
    let key = presented_key(headers).map_err(|error| strangers.refused(stranger, error))?;
    let identity = identify(http, &key, now);
    strangers
        .look_up(stranger, key.hash(), identity, is_refusal)
        .await
}

fn is_refusal(error: &ApiError) -> bool {
    matches!(error, ApiError::InvalidApiKey | ApiError::RevokedApiKey)
}

fn log_refusal(stranger: &UnknownClient, error: &ApiError) {
    let code = error.code().as_str();
    tracing::info!(address = %stranger, code, "a request without a valid key was refused");
}

async fn identify(
    http: &HttpContext,
    key: &Credential,
    now: Millis,
) -> Result<KeyIdentity, ApiError> {
    http.gate
        .keys
        .identify(&http.store, &http.settings, key, now)
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
    found: &PathMatch,
    identity: &KeyIdentity,
    verdict: Allowance,
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
    is_there(req, found)
}

/// Fails unless the path has this method and reads all parameters of the query.
fn is_there(req: &ServiceRequest, found: &PathMatch) -> Result<(), ApiError> {
    match found {
        // These handlers check the names and values of their parameters themselves.
        PathMatch::Route { reads_query: true } => Ok(()),
        PathMatch::Route { reads_query: false } => {
            Query::parse(req.query_string()).0.expect_empty()
        }
        PathMatch::OtherMethods(allow) => Err(ApiError::MethodNotAllowed {
            allow: allow.clone(),
        }),
        PathMatch::Nothing => Err(ApiError::NotFound(Missing::Route)),
    }
}

/// Admits an operator's request, which the listener has authenticated.
pub async fn admit_operator(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(RouteLookup(find)) = req.app_data::<RouteLookup>().copied() else {
        return Err(ApiError::Internal.into());
    };
    let found = find(req.match_pattern().as_deref(), req.method());
    let mut response = match is_there(&req, &found) {
        Ok(()) => {
            req.extensions_mut().insert(IdempotencyScope::Operators);
            next.call(req).await?.map_into_boxed_body()
        }
        Err(error) => req.error_response(error),
    };
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    Ok(response)
}

/// The error for a request without a valid key. It reveals only publicly known paths.
fn refuse(found: PathMatch, error: ApiError) -> ApiError {
    match (error, found) {
        (
            error @ (ApiError::RateLimited { .. }
            | ApiError::Unavailable
            | ApiError::RolledBack
            | ApiError::Internal),
            _,
        )
        | (error, PathMatch::Route { .. }) => error,
        (_, PathMatch::OtherMethods(allow)) => ApiError::MethodNotAllowed { allow },
        (_, PathMatch::Nothing) => ApiError::NotFound(Missing::Route),
    }
}

fn insert_limits(headers: &mut HeaderMap, verdict: Allowance) {
    headers.insert(LIMIT, verdict.limit.into());
    headers.insert(REMAINING, verdict.remaining.into());
    headers.insert(RESET, verdict.reset_unix_seconds().into());
}
