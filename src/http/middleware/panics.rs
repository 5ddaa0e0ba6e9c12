//! Catches panics of handlers, which would otherwise close the connection without an answer.

use std::panic::AssertUnwindSafe;

use actix_web::{
    Error,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
};
use futures_util::FutureExt;

use crate::http::error::ApiError;

/// Answers 500 if the handler panics. Wraps a resource, not a scope: while paths are matched, no other reference to
/// the request may exist.
pub async fn catch_panic(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let request = req.request().clone();
    match AssertUnwindSafe(next.call(req)).catch_unwind().await {
        Ok(response) => Ok(response?.map_into_boxed_body()),
        Err(_) => {
            tracing::error!("a request's handler panicked; the request gets 500");
            Ok(ServiceResponse::from_err(ApiError::Internal, request))
        }
    }
}
