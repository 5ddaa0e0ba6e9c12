//! Receives a body whole, with limits on size and time; without a time limit a slow body would be waited for forever.

use actix_web::{
    Error, HttpMessage,
    body::{BoxBody, MessageBody},
    dev::{Payload, ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{CONTENT_ENCODING, CONTENT_LENGTH},
    },
    middleware::Next,
    web,
};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use crate::http::{
    body::{BODY_BYTES_MAX, RawBody},
    context::HttpContext,
    error::ApiError,
    gate::UnknownClient,
};

/// Receives the bodies of POST and PATCH; bodies of other methods are ignored.
pub async fn receive_body(
    mut req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    if !matches!(*req.method(), Method::POST | Method::PATCH) {
        return Ok(next.call(req).await?.map_into_boxed_body());
    }
    match receive(&mut req, BODY_BYTES_MAX).await {
        Ok(bytes) => {
            req.extensions_mut().insert(RawBody(bytes));
            Ok(next.call(req).await?.map_into_boxed_body())
        }
        Err(error) => Ok(req.error_response(error)),
    }
}

/// Counts a request to an address that is open to everybody, before its body is read.
pub async fn count_visit(
    req: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    let counted = match req.app_data::<web::Data<HttpContext>>() {
        Some(http) => {
            let visitor = UnknownClient::of(req.request(), &http.settings, http.clock.now());
            http.gate.strangers.visit(&visitor)
        }
        None => Err(ApiError::Internal),
    };
    match counted {
        Ok(()) => Ok(next.call(req).await?.map_into_boxed_body()),
        Err(error) => Ok(req.error_response(error)),
    }
}

/// The whole body of a request, at most `bytes_max` bytes.
pub async fn receive(req: &mut ServiceRequest, bytes_max: usize) -> Result<Bytes, ApiError> {
    let http = req
        .app_data::<web::Data<HttpContext>>()
        .cloned()
        .ok_or(ApiError::Internal)?;
    let header = |name| {
        req.headers()
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    if header(CONTENT_ENCODING).is_some_and(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(ApiError::UnsupportedMediaType(
            "sent without a Content-Encoding",
        ));
    }
    let announced = header(CONTENT_LENGTH).and_then(|length| length.parse::<usize>().ok());
    if announced.is_some_and(|length| length > bytes_max) {
        return Err(ApiError::BodyTooLarge);
    }
    let payload = req.take_payload();
    tokio::time::timeout(http.settings.body_timeout, collect(payload, bytes_max))
        .await
        .unwrap_or(Err(ApiError::RequestTimeout))
}

async fn collect(mut payload: Payload, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = payload.next().await {
        let chunk = chunk.map_err(|_| ApiError::InvalidJson("it ends too early".to_owned()))?;
        if body.len() + chunk.len() > bytes_max {
            return Err(ApiError::BodyTooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}
