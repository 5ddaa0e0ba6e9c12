//! The operators' listener: who may come, metrics and health.

pub mod access;
pub mod health;
pub mod metrics;

use std::sync::Arc;

use actix_web::{HttpResponse, middleware::from_fn, web};

use crate::{
    http::{error::ApiError, middleware::only_reads},
    mails::MailStats,
    node::Node,
};

/// What the operators' pages read.
#[derive(Clone, Debug)]
pub struct OperatorParts {
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
