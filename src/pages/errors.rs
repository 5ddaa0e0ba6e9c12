//! Errors in words that say what to do.

use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{ALLOW, RETRY_AFTER},
    },
};
use maud::{Markup, html};

use super::{faults, view::View};
use crate::http::{
    error::{ApiError, Code},
    request_id::current_request_id,
};

/// The title's message id and the text for an error of a handler.
pub fn words(view: &View, error: &ApiError) -> (&'static str, Markup) {
    let status = error.status_code();
    let (title, words) = match error.code() {
        _ if matches!(error, ApiError::ExportRunning) => ("error-too-many", "error-export-running"),
        _ if status == StatusCode::NOT_FOUND => ("error-not-found", "error-not-found-words"),
        Code::MethodNotAllowed => ("error-not-found", "error-not-found-words"),
        Code::BodyTooLarge => ("error-too-large", "error-too-large-words"),
        Code::RateLimited => ("error-too-many", "error-too-many-words"),
        Code::Unavailable => ("error-busy", "error-busy-words"),
        Code::TenantSuspended => ("error-suspended", "error-suspended-words"),
        Code::InternalError => ("error-internal", "error-internal-words"),
        _ => ("error-refused", "error-refused-words"),
    };
    let details = match error {
        ApiError::Validation(errors) => {
            html! { ul { @for error in errors { li { (faults::told(view, error)) } } } }
        }
        _ if title == "error-refused" => html! { p lang="en" { (error.to_string()) } },
        _ if status.is_server_error() => html! {
            p.muted { (view.t("error-request-id")) " " code { (current_request_id()) } }
        },
        _ => html! {},
    };
    (title, html! { p { (view.t(words)) } (details) })
}

/// Copies the error's `Retry-After` and `Allow` headers to its page.
pub fn with_headers(error: &ApiError, mut page: HttpResponse) -> HttpResponse {
    let told = error.error_response();
    for name in [RETRY_AFTER, ALLOW] {
        if let Some(value) = told.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}
