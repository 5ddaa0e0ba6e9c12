//! Security headers of every answer.

use actix_web::http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

/// The default for answers that set none themselves: browsers may do nothing with them.
pub const GUARDS: [(HeaderName, HeaderValue); 4] = [
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];
