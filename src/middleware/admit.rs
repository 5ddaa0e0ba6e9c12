//! The key, the limits and the route: what may come in.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
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
use dikala_actors::turns::{Turn, Turns};
use dikala_entities::{API_KEY_SCHEME, Credential, Millis, TenantId};

use super::{
    keys::{Identity, Keys},
    rate::{Limiter, Verdict},
    strangers::{Stranger, Strangers},
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
/// Reads that are worked on at once, as many as have a connection of the store, and those of one tenant: they share the
/// machine's cores with calls.
const READS_MAX: usize = 4;
const READS_EACH: usize = READS_MAX / 2;
/// How long a read waits for others.
const READ_WITHIN: Duration = Duration::from_secs(5);

/// Known keys and used-up limits of this process.
#[derive(Debug)]
pub struct Gate {
    keys: Keys,
    tenants: Limiter<TenantId>,
    reads: Turns<TenantId>,
    pub strangers: Strangers,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            keys: Keys::default(),
            tenants: Limiter::new(TENANTS_MAX),
            reads: Turns::new(READS_MAX, READS_EACH),
            strangers: Strangers::default(),
        }
    }
}

impl Gate {
    /// Forgets what it knows of keys and tenants, after this process changed one.
    pub fn forget_keys(&self) {
        self.keys.forget();
    }

    /// The right of a tenant to have something read, in turn with other tenants.
    async fn read(&self, tenant: TenantId) -> Result<Turn<TenantId>, ApiError> {
        let turn = tokio::time::timeout(READ_WITHIN, self.reads.take(tenant)).await;
        turn.map_err(|_| ApiError::Unavailable)
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
    let stranger = Stranger::of(&services, req.request());
    let mut response = match authenticate(&services, &stranger, req.headers(), now).await {
        Ok(identity) => {
            let verdict = services
                .gate
                .tenants
                .count(identity.tenant, identity.limit, now);
            let mut response = match check(&req, &found, &identity, verdict, now) {
                Ok(()) => {
                    req.extensions_mut().insert(identity.tenant);
                    req.extensions_mut().insert(identity.key);
                    if req.method() == Method::GET {
                        match services.gate.read(identity.tenant).await {
                            Ok(_turn) => {
                                let response = next.call(req).await?.map_into_boxed_body();
                                held(&services, identity.tenant, response)
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
#[derive(Clone, Debug)]
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

    /// Waits until its holder would not be let in any more, looking `every` so often. A database that is away says nothing.
    pub async fn lost(&self, services: &Services, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            match self.holds(services).await {
                Ok(()) | Err(ApiError::Unavailable | ApiError::Internal) => {}
                Err(_) => return,
            }
        }
    }
}

/// Who asks. What somebody does without a valid key counts for his address; a database that is away is never his fault.
async fn authenticate(
    services: &Services,
    stranger: &Stranger,
    headers: &HeaderMap,
    now: Millis,
) -> Result<Identity, ApiError> {
    let strangers = &services.gate.strangers;
    let key = presented_key(headers).map_err(|error| strangers.refused(stranger, error))?;
    let identity = identify(services, &key, now);
    strangers
        .look_up(stranger, &key, identity, is_refusal)
        .await
}

fn is_refusal(error: &ApiError) -> bool {
    matches!(error, ApiError::InvalidApiKey | ApiError::RevokedApiKey)
}

fn log_refusal(stranger: &Stranger, error: &ApiError) {
    let code = error.code().as_str();
    tracing::info!(address = %stranger, code, "a request without a valid key was refused");
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

/// What somebody without a valid key gets: as much as everybody may know of the paths there are.
fn refuse(found: Found, error: ApiError) -> ApiError {
    match (error, found) {
        (
            error @ (ApiError::RateLimited { .. } | ApiError::Unavailable | ApiError::Internal),
            _,
        )
        | (error, Found::Route(_)) => error,
        (_, Found::OtherMethods(allow)) => ApiError::MethodNotAllowed { allow },
        (_, Found::Nothing) => ApiError::NotFound(Missing::Route),
    }
}

fn insert_limits(headers: &mut HeaderMap, verdict: Verdict) {
    headers.insert(LIMIT, verdict.limit.into());
    headers.insert(REMAINING, verdict.remaining.into());
    headers.insert(RESET, verdict.reset_unix_seconds().into());
}
