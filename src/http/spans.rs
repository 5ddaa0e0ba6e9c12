//! The span of a request. Frequent requests of machines are left out.

use actix_web::{dev::ServiceRequest, http::StatusCode, web::Data};
use dikala_actors::traces::{Span, SpanKind, Traces};
use dikala_entities::{TenantId, TraceParent};

use super::meter::{NO_ROUTE, name_of};

/// Routes that machines request all the time.
const UNTOLD: [&str; 3] = ["/health/live", "/health/ready", "/metrics"];

/// Begins the span of a request, if spans are recorded; its parent is the client's span, if it named one.
pub(super) fn begin(
    req: &ServiceRequest,
    route: Option<&str>,
    trace: Option<&TraceParent>,
) -> Option<Span> {
    let route = route.unwrap_or(NO_ROUTE);
    let traces = req.app_data::<Data<Traces>>()?;
    if UNTOLD.contains(&route) {
        return None;
    }
    let method = name_of(req.method());
    let mut span = traces.span(SpanKind::Server, method, trace)?;
    span.rename(format!("{method} {route}"));
    span.set("http.request.method", method);
    span.set("http.route", route);
    Some(span)
}

/// Ends the span when the head of the answer is complete.
pub(super) fn end(span: Option<Span>, id: &str, status: StatusCode, tenant: Option<TenantId>) {
    let Some(mut span) = span else { return };
    span.set("dikala.request.id", id);
    span.count("http.response.status_code", status.as_u16().into());
    if let Some(tenant) = tenant {
        span.set("dikala.tenant.id", tenant);
    }
    if status.is_server_error() {
        span.failed(status.as_str().to_owned());
    }
    span.end();
}
