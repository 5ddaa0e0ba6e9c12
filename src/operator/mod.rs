//! The operators' listener: metrics and health. Off the loopback interface it asks for the operator token.

pub mod health;
pub mod metrics;

use actix_web::{
    Error, HttpRequest,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{self, HeaderMap, HeaderValue},
    middleware::Next,
    web,
};
use dikala_entities::Secret;
use subtle::ConstantTimeEq;

use crate::{
    front::{is_loopback_host, is_same_origin},
    http::denied::Denied,
};

/// Who may come to the operators' listener.
#[derive(Clone, Debug)]
pub struct OperatorParts {
    pub token: Option<Secret>,
}

/// Lets only those in who have the operator token, where one is configured. Health is asked by machines that have none.
/// Without a token the listener is on the loopback interface, and takes what is meant for it: a web page of somebody else's
/// can have its own name lead here.
pub async fn require_token(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let parts = request.app_data::<web::Data<OperatorParts>>();
    match parts.and_then(|parts| parts.token.as_ref()) {
        Some(token) => {
            let open = request.path().starts_with("/health/");
            if !open && !carries(request.request(), token) {
                let message =
                    "The operators' listener asks for `Authorization: Bearer` and operator.token.";
                tracing::info!("a request without the operator token was refused");
                return Err(Denied::unauthorized("invalid_operator_token", message).into());
            }
        }
        None if !is_meant_for_us(request.headers()) => {
            let message = "Without operator.token this listener answers requests to localhost or 127.0.0.1 only, and from no other page.";
            return Err(Denied::forbidden("foreign_host", message).into());
        }
        None => {}
    }
    next.call(request).await
}

/// Whether `Host` names this machine, and `Origin`, which browsers send, is the same. Only HTTP/1.0, which no browser speaks,
/// can do without a host.
fn is_meant_for_us(headers: &HeaderMap) -> bool {
    let text = |value: &HeaderValue| value.to_str().map(str::to_owned).unwrap_or_default();
    let Some(host) = headers.get(header::HOST).map(text) else {
        return true;
    };
    let mut origins = headers.get_all(header::ORIGIN).map(text);
    is_loopback_host(&host) && origins.all(|origin| is_same_origin(&origin, &host))
}

fn carries(request: &HttpRequest, token: &Secret) -> bool {
    let header = request.headers().get(header::AUTHORIZATION);
    header
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.strip_prefix("Bearer "))
        .is_some_and(|given| given.as_bytes().ct_eq(token.expose().as_bytes()).into())
}
