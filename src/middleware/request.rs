//! The request id, and the one error body for whatever went wrong in any layer.

use actix_web::{
    Error, HttpResponse, ResponseError,
    body::{BodySize, BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    error::InternalError,
    http::header::{ALLOW, HeaderMap, HeaderName, HeaderValue},
    middleware::Next,
    web,
};
use dikala_actors::clock::{Clock, SystemClock};
use dikala_entities::RequestId;
use tracing::Instrument;

use crate::{error::ApiError, refusal::Refusal, services::Services};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const REQUEST_ID_LENGTH_MAX: usize = 64;

tokio::task_local! {
    static CURRENT: String;
}

/// The id of the request that this task works for; empty outside of one.
pub fn current_request_id() -> String {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Runs a future that outlives its request's connection under the request's id and span.
pub(super) fn inherit<F: Future>(future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(current_request_id(), future.in_current_span())
}

/// Gives the request its id (the client's, where it is usable), puts it on the answer and on every log line in between, and
/// gives every error that comes without a body the one that all errors have. Wraps the whole application.
pub async fn request_scope(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let id = sent_id(req.headers()).unwrap_or_else(|| new_id(&req));
    let span = tracing::info_span!("request", request_id = %id, method = %req.method(), route = req.match_pattern().unwrap_or_default());
    let header = HeaderValue::from_str(&id).expect("ids are made of header characters");
    let work = async {
        match next.call(req).await {
            Ok(response) => Ok(with_error_body(response.map_into_boxed_body())),
            Err(error) => Err(own_error(&error)),
        }
    };
    match CURRENT.scope(id, work.instrument(span)).await {
        Ok(mut response) => {
            response.headers_mut().insert(REQUEST_ID, header);
            Ok(response)
        }
        Err(mut response) => {
            response.headers_mut().insert(REQUEST_ID, header);
            Err(InternalError::from_response("answered", response).into())
        }
    }
}

fn sent_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(&REQUEST_ID)?.to_str().ok()?;
    let usable = (1..=REQUEST_ID_LENGTH_MAX).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    usable.then(|| text.to_owned())
}

fn new_id(req: &ServiceRequest) -> String {
    let now = req
        .app_data::<web::Data<Services>>()
        .map_or_else(|| SystemClock.now(), |services| services.clock.now());
    RequestId::new(now).to_string()
}

fn own_error(error: &Error) -> HttpResponse {
    if is_ours(error) {
        return error.error_response();
    }
    let status = error.as_response_error().status_code();
    ApiError::from_status(status, None).error_response()
}

fn is_ours(error: &Error) -> bool {
    error.as_error::<ApiError>().is_some() || error.as_error::<Refusal>().is_some()
}

/// Leaves alone what has a body of its own making; replaces the plain text and the emptiness of a library's errors.
fn with_error_body(response: ServiceResponse) -> ServiceResponse {
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let foreign = match response.response().error() {
        Some(error) => !is_ours(error),
        None => matches!(
            response.response().body().size(),
            BodySize::None | BodySize::Sized(0)
        ),
    };
    if !foreign {
        return response;
    }
    let allow = response
        .headers()
        .get(ALLOW)
        .and_then(|allow| allow.to_str().ok());
    let own = ApiError::from_status(status, allow.map(str::to_owned)).error_response();
    response.into_response(own)
}
