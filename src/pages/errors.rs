//! Error pages that say what to do.

use actix_web::{
    HttpResponse, ResponseError,
    http::{
        StatusCode,
        header::{ALLOW, RETRY_AFTER},
    },
};
use maud::{Markup, html};

use super::{
    components, faults,
    form::{FormState, FormValues},
    heading::PageHeading,
    layout,
    view::View,
};
use crate::http::{
    error::{ApiError, Code},
    request_id::current_request_id,
};

/// The title's message id and the text for an error of a handler.
fn words(view: &View, error: &ApiError) -> (&'static str, Markup) {
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

/// The page for an error of a handler.
pub fn of(view: &View, error: &ApiError) -> HttpResponse {
    let (title, words) = words(view, error);
    with_headers(error, page(view, error.status_code(), title, words))
}

/// A page that says what is wrong. `title` is a message id.
pub fn page(view: &View, status: StatusCode, title: &str, words: Markup) -> HttpResponse {
    match view.account() {
        Some(_) => layout::answer(view, status, &view.t(title), content(view, words)),
        None => outside(view, status, title, words),
    }
}

/// The same without navigation, whether or not the reader is signed in.
pub fn outside(view: &View, status: StatusCode, title: &str, words: Markup) -> HttpResponse {
    let title = view.t(title);
    let content = html! { h1 { (title) } (content(view, words)) };
    layout::outside(view, status, &title, content)
}

fn content(view: &View, words: Markup) -> Markup {
    let audience = view.audience();
    html! {
        div.lead { (words) }
        p { a.button.secondary href=(audience.home) { (view.t(audience.messages.home)) } }
    }
}

/// The page of a refused form, with `Retry-After` if waiting helps.
pub fn refused<'a>(
    view: &View,
    heading: impl Into<PageHeading<'a>>,
    content: Markup,
    filled: &FormState,
) -> HttpResponse {
    match filled.refusal() {
        Some(error) => again(view, heading, content, error),
        None => layout::refused(view, heading, content),
    }
}

/// A page whose action was refused as a whole.
pub fn again<'a>(
    view: &View,
    heading: impl Into<PageHeading<'a>>,
    content: Markup,
    error: &ApiError,
) -> HttpResponse {
    with_headers(error, layout::refused(view, heading, content))
}

/// A post from another site, or from an outdated page.
pub fn foreign(view: &View) -> HttpResponse {
    let (title, words) = view.audience().messages.foreign;
    let words = html! { p { (view.t(words)) } };
    page(view, StatusCode::FORBIDDEN, title, words)
}

/// A form of an earlier session. It is kept, and a button sends it again with a valid token.
///
/// Only for posts from the service's own pages: the button must not send a form that another site made.
pub fn outdated(view: &View, address: &str, typed: &FormValues) -> HttpResponse {
    let words = html! {
        p { (view.t("error-outdated-words")) }
        (kept(view, address, typed))
    };
    let (title, _) = view.audience().messages.foreign;
    page(view, StatusCode::FORBIDDEN, title, words)
}

/// A form that was sent after the end of the session. It is kept, so that it can be sent again after a sign-in.
pub fn signed_out(view: &View, address: &str, typed: &FormValues) -> HttpResponse {
    let sign_in = view.audience().sign_in;
    let words = html! {
        p { (view.t("error-signed-out-words")) }
        p { a href=(sign_in) target="_blank" rel="noopener" { (view.t("error-signed-out-link")) } }
        (kept(view, address, typed))
    };
    page(view, StatusCode::FORBIDDEN, "error-signed-out", words)
}

/// A button that sends a kept form again.
fn kept(view: &View, address: &str, typed: &FormValues) -> Markup {
    let fields = html! {
        @for (name, value) in typed.kept() { input type="hidden" name=(name) value=(value); }
        button { (view.t("error-outdated-send")) }
    };
    components::post(view, address, fields)
}

/// An attempt to change something without that right.
pub fn view_only(view: &View) -> HttpResponse {
    let words = html! { p { (view.rich(view.audience().messages.view_only, &[])) } };
    page(view, StatusCode::FORBIDDEN, "error-viewer", words)
}

/// Copies the error's `Retry-After` and `Allow` headers to its page.
fn with_headers(error: &ApiError, mut page: HttpResponse) -> HttpResponse {
    let told = error.error_response();
    for name in [RETRY_AFTER, ALLOW] {
        if let Some(value) = told.headers().get(&name) {
            page.headers_mut().insert(name, value.clone());
        }
    }
    page
}
