//! The key, the limits and the route: what may come in.

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
    gate::{Stranger, keys::Identity, rate::Allowance},
    route::{AtPath, Lookup},
};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Lets in who shows a key that is known, is within its limit, and asks for something that is there.
pub async fn admit(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let (Some(http), Some(Lookup(find))) = (
        req.app_data::<web::Data<HttpContext>>().cloned(),
        req.app_data::<Lookup>().copied(),
    ) else {
        return Err(ApiError::Internal.into());
    };
    let found = find(req.match_pattern().as_deref(), req.method());
    let now = http.clock.now();
    let stranger = Stranger::of(req.request(), &http.settings, now);
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
                        // What it did is done: its answer is given in any case.
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

/// A large answer is in memory until it is read: its bytes are counted for as long.
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

/// The key of a request that stays open.
#[derive(Clone, Debug)]
pub struct Pass(Credential);

impl Pass {
    /// Takes the key from a request that was let in.
    pub fn of(req: &HttpRequest) -> Result<Self, ApiError> {
        presented_key(req.headers()).map(Self)
    }

    /// Whether its holder would be let in now as well.
    pub async fn holds(&self, http: &HttpContext) -> Result<(), ApiError> {
        let identity = identify(http, &self.0, http.clock.now()).await?;
        if identity.suspended {
            return Err(ApiError::TenantSuspended);
        }
        Ok(())
    }

    /// Waits until its holder would not be let in any more, looking `every` so often. A database that is away says nothing.
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

/// Who asks. What somebody does without a valid key counts for his address; a database that is away is never his fault.
async fn authenticate(
    http: &HttpContext,
    stranger: &Stranger,
    headers: &HeaderMap,
    now: Millis,
) -> Result<Identity, ApiError> {
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

fn log_refusal(stranger: &Stranger, error: &ApiError) {
    let code = error.code().as_str();
    tracing::info!(address = %stranger, code, "a request without a valid key was refused");
}

async fn identify(http: &HttpContext, key: &Credential, now: Millis) -> Result<Identity, ApiError> {
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
    found: &AtPath,
    identity: &Identity,
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

/// Whether there is something at the path for this method, and nothing in the query that it does not read.
fn is_there(req: &ServiceRequest, found: &AtPath) -> Result<(), ApiError> {
    match found {
        // Handlers with parameters check them together with their values.
        AtPath::Route { reads_query: true } => Ok(()),
        AtPath::Route { reads_query: false } => Query::parse(req.query_string()).0.expect_empty(),
        AtPath::OtherMethods(allow) => Err(ApiError::MethodNotAllowed {
            allow: allow.clone(),
        }),
        AtPath::Nothing => Err(ApiError::NotFound(Missing::Route)),
    }
}

/// Takes what somebody asks who was let in by the operators' listener.
pub async fn admit_operator(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let Some(Lookup(find)) = req.app_data::<Lookup>().copied() else {
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

/// What somebody without a valid key gets: as much as everybody may know of the paths there are.
fn refuse(found: AtPath, error: ApiError) -> ApiError {
    match (error, found) {
        (
            error @ (ApiError::RateLimited { .. }
            | ApiError::Unavailable
            | ApiError::RolledBack
            | ApiError::Internal),
            _,
        )
        | (error, AtPath::Route { .. }) => error,
        (_, AtPath::OtherMethods(allow)) => ApiError::MethodNotAllowed { allow },
        (_, AtPath::Nothing) => ApiError::NotFound(Missing::Route),
    }
}

fn insert_limits(headers: &mut HeaderMap, verdict: Allowance) {
    headers.insert(LIMIT, verdict.limit.into());
    headers.insert(REMAINING, verdict.remaining.into());
    headers.insert(RESET, verdict.reset_unix_seconds().into());
}
