//! Common handling of page requests and answers: origin checks, form parsing and security headers.

use actix_web::{
    Error,
    dev::ServiceRequest,
    http::{
        Method,
        header::{
            CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
            HeaderValue, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
        },
    },
};

use super::{
    cross_site::{OriginHeaders, is_own},
    form::FormValues,
    headers::header,
};
use crate::http::{
    body::{FORM_BYTES_MAX, STRANGERS_FORM_BYTES_MAX},
    error::ApiError,
    middleware::receive,
};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORM: &str = "application/x-www-form-urlencoded";
/// Allows no content from other sites, no inline scripts or styles, and no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// True if a changing request comes from the service's own page. `base` is the public URL, if it is configured.
pub fn is_from_a_page(headers: &HeaderMap, base: Option<&str>) -> bool {
    let sent = OriginHeaders {
        origin: header(headers, &ORIGIN),
        fetch_site: header(headers, &FETCH_SITE),
        host: header(headers, &HOST),
    };
    is_own(sent, base)
}

/// The posted form's values. The size limit is smaller without a session.
pub async fn typed(req: &mut ServiceRequest, is_signed_in: bool) -> Result<FormValues, ApiError> {
    let is_form = header(req.headers(), &CONTENT_TYPE).map(|media_type| {
        let essence = media_type.split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(FORM)
    });
    if is_form == Some(false) {
        return Err(ApiError::UnsupportedMediaType(FORM));
    }
    let bytes_max = match is_signed_in {
        true => FORM_BYTES_MAX,
        false => STRANGERS_FORM_BYTES_MAX,
    };
    let body = receive(req, bytes_max).await?;
    match is_form {
        // A post without a body has no content type; it counts as an empty form.
        None if !body.is_empty() => Err(ApiError::UnsupportedMediaType(FORM)),
        _ => Ok(FormValues::parse(&body)),
    }
}

/// Converts a framework's error, of which only the status is known.
pub fn own(error: &Error) -> ApiError {
    let status = error.as_response_error().status_code();
    let own = error.as_error::<ApiError>().cloned();
    own.unwrap_or_else(|| ApiError::from_status(status, None))
}

/// Adds the headers of every page.
pub fn bind(headers: &mut HeaderMap) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "same-origin"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// The path of the sign-in page (`page`) with the requested page as its destination, unless that is `home`, the
/// default.
pub fn sign_in(req: &ServiceRequest, page: &str, home: &str) -> String {
    let back = req.uri().path_and_query().map_or("", |it| it.as_str());
    if req.method() != Method::GET || back == home {
        return page.to_owned();
    }
    let next: String = url::form_urlencoded::byte_serialize(back.as_bytes()).collect();
    format!("{page}?next={next}")
}
