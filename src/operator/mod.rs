//! The operators' listener: metrics and health. Off the loopback interface it asks for the operator token.

pub mod health;
pub mod metrics;

use std::sync::Arc;

use actix_web::{
    Error, HttpRequest, HttpResponse,
    body::MessageBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{self, HeaderMap, HeaderValue},
    middleware::{Next, from_fn},
    web,
};
use dikala_entities::Secret;
use subtle::ConstantTimeEq;

use crate::{
    front::{is_loopback_host, is_same_origin},
    http::{denied::Denied, error::ApiError, middleware::only_reads},
    mails::MailStats,
    node::Node,
};

/// What the operators' pages read.
#[derive(Clone, Debug)]
pub struct OperatorParts {
    pub token: Option<Secret>,
    pub node: Node,
    /// None where no mails are sent.
    pub mails: Option<Arc<MailStats>>,
}

/// Mounts `/metrics`.
pub fn configure(cfg: &mut web::ServiceConfig) {
    cfg.service(
        web::resource("/metrics")
            .wrap(from_fn(only_reads))
            .to(show_metrics),
    );
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

async fn show_metrics(parts: web::Data<OperatorParts>) -> Result<HttpResponse, ApiError> {
    let mut scrape = metrics::Scrape::default();
    scrape.actors();
    scrape.batches(&[("credit_ledger", parts.node.ledger.stats())]);
    scrape.gauge(
        "dikala_calls_in_memory",
        "Calls with an actor now",
        one(parts.node.calls.in_memory()),
    );
    scrape.gauge(
        "dikala_bridges_connected",
        "Bridges with an open socket",
        one(parts.node.bridges.connected_count()),
    );
    scrape.gauge(
        "dikala_clock_stepped_milliseconds",
        "By how much the wall clock was set since the start; instants follow it at the next start",
        vec![(Vec::new(), parts.node.clock.stepped_ms())],
    );
    scrape.gauge(
        "dikala_event_followers",
        "Streams of events that are open",
        one(parts.node.feed.followers()),
    );
    scrape.webhooks(&parts.node.webhooks.stats());
    if let Some(mails) = &parts.mails {
        scrape.mails(&mails.outcomes());
    }
    scrape.store(&parts.node.store).await?;
    let text = scrape.encode().map_err(|_| ApiError::Internal)?;
    Ok(HttpResponse::Ok()
        .content_type("application/openmetrics-text; version=1.0.0; charset=utf-8")
        .body(text))
}

fn one(value: usize) -> Vec<(Vec<(&'static str, String)>, i64)> {
    vec![(Vec::new(), i64::try_from(value).unwrap_or(i64::MAX))]
}
