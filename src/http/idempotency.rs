//! `Idempotency-Key`: a repeated request has one effect, and gets the first answer.
//!
//! A row claims the key before the handler runs. Handlers that only write to the store put their answer into that
//! row, in the transaction of their effect ([`IdempotencyClaim::settle`]; a booking passes it to the ledger,
//! [`ClaimedKey::kept`]). Handlers with effects outside the store (`hangup`, `transfer`, `test`, messages in chats) have their answer
//! stored right after; a crash in between leaves a claim without an answer. The next repeat takes over the claim of a
//! node that is gone at once, and any other claim after [`RUNNING_MS_MAX`]. It then carries the request out again,
//! which is safe for all of them.

mod claim;
mod sweep;

use std::{rc::Rc, sync::Arc, time::Instant};

use actix_web::{
    Error, HttpMessage, HttpResponse,
    body::{BoxBody, MessageBody, to_bytes},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method, StatusCode,
        header::{HeaderName, HeaderValue, LOCATION},
    },
    middleware::Next,
    web,
};
use dikala_actors::nodes;
use dikala_entities::{
    CallId, IdempotencyScope, Millis, Store, Vault, idempotency, store::is_transient,
};
use sea_orm::{
    ActiveValue::Set,
    ColumnTrait, DbErr, EntityTrait, QueryFilter,
    sea_query::{Expr, OnConflict},
};
use sha2::{Digest, Sha256};

#[cfg(test)]
pub use self::claim::LARGE_BYTES_MAX;
pub use self::{
    claim::{ClaimedKey, IdempotencyClaim, RUNNING_MS_MAX},
    sweep::sweep,
};
use super::{
    answer::{AboutCall, ApiAnswer},
    body::RawBody,
    context::HttpContext,
    error::{ApiError, Code},
    field::{FieldCode, FieldError},
    request_id::inherit,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// The longest key, in characters.
pub const KEY_LENGTH_MAX: usize = 255;
/// Lifetime of a stored answer.
const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;
/// Ends of the paths of tests, and of messages in chats, which are kept for an hour only.
const BRIEF: [&str; 2] = ["/test", "/messages"];
/// Lifetime of a test's stored answer: it can be large, and a test may be repeated.
const TEST_KEPT_MS: i64 = 10 * 60 * 1_000;

/// Carries out a POST with an `Idempotency-Key` once.
pub async fn once(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if req.method() != Method::POST || !req.headers().contains_key(&IDEMPOTENCY_KEY) {
        return Ok(next.call(req).await?.map_into_boxed_body());
    }
    let http = req
        .app_data::<web::Data<HttpContext>>()
        .cloned()
        .ok_or(ApiError::Internal)?;
    let claim = match claim(&http, &req).await {
        Ok(ClaimResult::Mine(claim)) => claim,
        Ok(ClaimResult::Answered(answer)) => return Ok(req.into_response(replay(answer))),
        Err(error) => return Ok(req.error_response(error)),
    };
    req.extensions_mut().insert(Rc::clone(&claim));
    // Spawned, so that a client's disconnect does not cancel a request halfway.
    let work = inherit(async move {
        let response = next.call(req).await?.map_into_boxed_body();
        finish(&http, &claim, response).await
    });
    match actix_web::rt::spawn(work).await {
        Ok(response) => response,
        Err(_) => Err(ApiError::Internal.into()),
    }
}

enum ClaimResult {
    Mine(Rc<IdempotencyClaim>),
    Answered(ApiAnswer),
}

async fn claim(http: &HttpContext, req: &ServiceRequest) -> Result<ClaimResult, ApiError> {
    let key = sent_key(req)?;
    let scope = *req
        .extensions()
        .get::<IdempotencyScope>()
        .ok_or(ApiError::Internal)?;
    let keyed = KeyedRequest {
        fingerprint: fingerprint(req),
        is_brief: BRIEF.iter().any(|end| req.path().ends_with(end)),
        node: http.member.id(),
    };
    let now = http.clock.now();
    let claimed = ClaimedKey::new(scope, key.clone(), now, http.vault.clone());
    let mine = || {
        Ok(ClaimResult::Mine(Rc::new(IdempotencyClaim::new(
            claimed.clone(),
        ))))
    };
    match insert(&http.store, scope, &key, &keyed, now).await {
        Ok(true) => return mine(),
        Ok(false) => {}
        Err(error) => {
            if is_transient(&error) {
                IdempotencyClaim::new(claimed).release_later(http.store.clone());
            }
            return Err(error.into());
        }
    }
    let read_at = Instant::now();
    let row = idempotency::Entity::find_by_id((scope, key.clone()))
        .one(http.store.reader())
        .await?;
    match row {
        // The claim was released at this moment.
        None => Err(ApiError::IdempotencyInProgress),
        Some(row) if is_over(&row, now) || is_left_behind(http, &row, &keyed).await? => {
            // Never the time of the previous claim: the time identifies a claim.
            let at = now.max(row.created_at.plus_ms(1));
            if take_over(&http.store, &row, &keyed, at).await? {
                Ok(ClaimResult::Mine(Rc::new(IdempotencyClaim::new(
                    ClaimedKey::new(scope, key, at, http.vault.clone()),
                ))))
            } else {
                Err(ApiError::IdempotencyInProgress)
            }
        }
        Some(row) if row.fingerprint != keyed.fingerprint => Err(ApiError::IdempotencyKeyReused),
        Some(row) if row.status.is_some() && row.body.is_none() => {
            Err(ApiError::IdempotencyAnswerGone)
        }
        Some(row) => {
            let answered = stored(row, &claimed)?;
            http.store.confirm(read_at).await?;
            Ok(answered)
        }
    }
}

/// A request with an idempotency key.
struct KeyedRequest {
    fingerprint: String,
    /// Its answer has a short lifetime.
    is_brief: bool,
    /// The node that carries it out.
    node: Arc<str>,
}

fn sent_key(req: &ServiceRequest) -> Result<String, ApiError> {
    let error = |code, predicate: &str| {
        Err(ApiError::field(FieldError::new(
            "Idempotency-Key",
            code,
            predicate,
        )))
    };
    let mut sent = req.headers().get_all(&IDEMPOTENCY_KEY);
    let key = sent.next().map(HeaderValue::as_bytes).unwrap_or_default();
    if sent.next().is_some() {
        return error(FieldCode::Duplicate, "must be sent once");
    }
    if key.is_empty() {
        return error(FieldCode::Required, "is required");
    }
    if key.len() > KEY_LENGTH_MAX {
        return error(
            FieldCode::TooLong,
            &format!("must have at most {KEY_LENGTH_MAX} characters"),
        );
    }
    match std::str::from_utf8(key) {
        Ok(key) if key.bytes().all(|b| (b' '..=b'~').contains(&b)) => Ok(key.to_owned()),
        _ => error(
            FieldCode::InvalidFormat,
            "must have printable ASCII characters only",
        ),
    }
}

/// SHA-256 over method, path and body.
fn fingerprint(req: &ServiceRequest) -> String {
    let extensions = req.extensions();
    let body = extensions
        .get::<RawBody>()
        .map(|body| &body.0[..])
        .unwrap_or_default();
    let mut hash = Sha256::new();
    for part in [
        req.method().as_str().as_bytes(),
        req.path().as_bytes(),
        body,
    ] {
        hash.update(part);
        hash.update([0]);
    }
    hex::encode(hash.finalize())
}

async fn insert(
    store: &Store,
    scope: IdempotencyScope,
    key: &str,
    keyed: &KeyedRequest,
    now: Millis,
) -> Result<bool, DbErr> {
    let row = idempotency::ActiveModel {
        scope: Set(scope),
        key: Set(key.to_owned()),
        fingerprint: Set(keyed.fingerprint.clone()),
        status: Set(None),
        body: Set(None),
        location: Set(None),
        created_at: Set(now),
        size: Set(0),
        is_brief: Set(keyed.is_brief),
        node: Set(keyed.node.to_string()),
        call_id: Set(None),
    };
    let target = [idempotency::Column::Scope, idempotency::Column::Key];
    let inserted = idempotency::Entity::insert(row)
        .on_conflict(OnConflict::columns(target).do_nothing().to_owned())
        .exec_without_returning(store.writer())
        .await;
    match inserted {
        Ok(rows) => Ok(rows == 1),
        Err(DbErr::RecordNotInserted) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True if the row is obsolete: an expired answer, or a claim whose request died.
fn is_over(row: &idempotency::Model, now: Millis) -> bool {
    let age_ms = now.since(row.created_at);
    let kept_ms = if row.is_brief { TEST_KEPT_MS } else { KEPT_MS };
    age_ms >= kept_ms || (row.status.is_none() && age_ms >= RUNNING_MS_MAX)
}

/// True if the same request was claimed by a node that is gone. If that node only hung, it finds its claim gone in
/// its transaction, and writes nothing.
async fn is_left_behind(
    http: &HttpContext,
    row: &idempotency::Model,
    keyed: &KeyedRequest,
) -> Result<bool, DbErr> {
    let may_be = row.status.is_none()
        && row.fingerprint == keyed.fingerprint
        && !row.node.is_empty()
        && *row.node != *keyed.node;
    Ok(may_be && nodes::is_gone(http.store.critical_reader(), &row.node).await?)
}

async fn take_over(
    store: &Store,
    old: &idempotency::Model,
    keyed: &KeyedRequest,
    at: Millis,
) -> Result<bool, DbErr> {
    let taken = idempotency::Entity::update_many()
        .col_expr(
            idempotency::Column::Fingerprint,
            Expr::value(keyed.fingerprint.as_str()),
        )
        .col_expr(idempotency::Column::IsBrief, Expr::value(keyed.is_brief))
        .col_expr(idempotency::Column::Size, Expr::value(0_i64))
        .col_expr(idempotency::Column::Status, Expr::value(None::<i64>))
        .col_expr(idempotency::Column::Body, Expr::value(None::<String>))
        .col_expr(idempotency::Column::Location, Expr::value(None::<String>))
        .col_expr(idempotency::Column::CallId, Expr::value(None::<CallId>))
        .col_expr(idempotency::Column::CreatedAt, Expr::value(at))
        .col_expr(idempotency::Column::Node, Expr::value(&*keyed.node))
        .filter(idempotency::Column::Scope.eq(old.scope))
        .filter(idempotency::Column::Key.eq(&old.key))
        .filter(idempotency::Column::CreatedAt.eq(old.created_at))
        .filter(match old.status {
            Some(_) => idempotency::Column::Status.is_not_null(),
            None => idempotency::Column::Status.is_null(),
        })
        .exec(store.writer())
        .await?;
    Ok(taken.rows_affected == 1)
}

/// The stored answer, decrypted if it is sealed. Sealed text never looks like JSON.
fn stored(row: idempotency::Model, claimed: &ClaimedKey) -> Result<ClaimResult, ApiError> {
    let status = row.status.and_then(|status| u16::try_from(status).ok());
    let status = status.and_then(|status| StatusCode::from_u16(status).ok());
    let status = status.ok_or(ApiError::IdempotencyInProgress)?;
    let mut body = row.body.unwrap_or_default();
    let is_secret = Vault::is_sealed(&body);
    if is_secret {
        // The key that sealed it may be gone.
        let opened = claimed.open(&body);
        let opened = opened.ok_or(ApiError::IdempotencyAnswerGone)?;
        body = opened.expose().to_owned();
    }
    Ok(ClaimResult::Answered(ApiAnswer {
        status,
        body,
        location: row.location,
        is_secret,
        about: None,
    }))
}

fn replay(answer: ApiAnswer) -> HttpResponse {
    let mut response = answer.into_response();
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// Stores the answer if it is one to store, otherwise releases the key.
async fn finish(
    http: &HttpContext,
    claim: &IdempotencyClaim,
    response: ServiceResponse,
) -> Result<ServiceResponse, Error> {
    let (response, kept) = if claim.is_settled() {
        (response, Ok(()))
    } else if depends_on_state(&response) {
        let (answer, response) = copy(response).await;
        let stored = claim.settle(http.store.writer(), &answer).await;
        (response, stored.map(|_| claim.committed(&answer)))
    } else {
        (response, claim.release(&http.store).await)
    };
    // The effect has happened, so the client gets its answer even if it could not be stored.
    if let Err(error) = kept {
        tracing::warn!(%error, "could not store the answer to an Idempotency-Key");
        if !depends_on_state(&response) {
            IdempotencyClaim::new(claim.claimed().clone()).release_later(http.store.clone());
        }
    }
    if claim.is_large()
        && let Err(error) = claim.cut(&http.store).await
    {
        tracing::warn!(%error, "could not remove old answers to Idempotency-Keys; the next large answer tries again");
    }
    Ok(response)
}

async fn copy(response: ServiceResponse) -> (ApiAnswer, ServiceResponse) {
    let (request, response) = response.into_parts();
    let (head, body) = response.into_parts();
    let body = to_bytes(body).await.unwrap_or_default();
    let location = head.headers().get(LOCATION);
    let answer = ApiAnswer {
        status: head.status(),
        body: String::from_utf8_lossy(&body).into_owned(),
        location: location
            .and_then(|location| location.to_str().ok())
            .map(str::to_owned),
        is_secret: false,
        about: head
            .extensions()
            .get::<AboutCall>()
            .map(|&AboutCall(call)| call),
    };
    let response = head.set_body(BoxBody::new(body));
    (answer, ServiceResponse::new(request, response))
}

fn depends_on_state(response: &ServiceResponse) -> bool {
    let error = response
        .response()
        .error()
        .and_then(|error| error.as_error::<ApiError>());
    match error.map(ApiError::code) {
        None => response.status().is_success(),
        Some(Code::IdempotencyInProgress | Code::ChatAnswering | Code::RouteNotFound) => false,
        Some(code) => matches!(code.status(), 404 | 409),
    }
}
