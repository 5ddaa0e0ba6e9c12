//! Reads HTTP headers.

use actix_web::http::header::{HeaderMap, HeaderName};

/// The first value of a header, if it is a text.
pub fn header<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Option<&'r str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
