//! What headers say.

use actix_web::http::header::{HeaderMap, HeaderName};

/// The text of a header that came once or more; the first counts.
pub fn header<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Option<&'r str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
