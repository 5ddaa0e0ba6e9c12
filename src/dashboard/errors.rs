//! Error pages that say what to do.

use actix_web::{
    HttpResponse, ResponseError,
    http::{StatusCode, header::RETRY_AFTER},
};
use maud::{Markup, html};

use super::{
    form::FormState,
    layout,
    session::Person,
    throttle::WaitMs,
    view::{DashboardView, SignedIn},
};
use crate::{http::error::ApiError, pages::errors};

fn page(
    view: &DashboardView,
    person: Option<&Person>,
    status: StatusCode,
    title: &str,
    words: Markup,
) -> HttpResponse {
    let content = html! {
        @if person.is_none() { h1 { (title) } }
        div.lead { (words) }
        p { a.button.secondary href="/dashboard" { (view.t("error-home")) } }
    };
    layout::answer(view, person, status, title, content)
}

/// The page for an error of a handler.
pub fn of(view: &DashboardView, person: Option<&Person>, error: &ApiError) -> HttpResponse {
    let (title, words) = errors::words(view, error);
    let page = page(view, person, error.status_code(), &view.t(title), words);
    errors::with_headers(error, page)
}

/// The page of a refused form, with `Retry-After` if waiting helps.
pub fn refused(visit: &SignedIn, title: &str, content: Markup, filled: &FormState) -> HttpResponse {
    match filled.refusal() {
        Some(error) => again(visit, title, content, error),
        None => layout::refused(visit, title, content),
    }
}

/// A page whose action was refused as a whole.
pub fn again(visit: &SignedIn, title: &str, content: Markup, error: &ApiError) -> HttpResponse {
    errors::with_headers(error, layout::refused(visit, title, content))
}

/// A post from another site, or from an outdated page.
pub fn foreign(view: &DashboardView, person: Option<&Person>) -> HttpResponse {
    let words = html! { p { (view.t("error-foreign-words")) } };
    let title = view.t("error-foreign");
    page(view, person, StatusCode::FORBIDDEN, &title, words)
}

/// A viewer's attempt to change something.
pub fn viewer(view: &DashboardView, person: &Person) -> HttpResponse {
    let words = html! { p { (view.t("error-viewer-words")) } };
    let title = view.t("error-viewer");
    page(view, Some(person), StatusCode::FORBIDDEN, &title, words)
}

/// A sign-in link that was used, has expired, or never existed.
pub fn used_link(view: &DashboardView) -> HttpResponse {
    let words = html! { p { (view.t("error-link-words")) } };
    page(view, None, StatusCode::GONE, &view.t("error-link"), words)
}

/// Too many failed sign-ins.
pub fn wait(view: &DashboardView, person: Option<&Person>, wait: WaitMs) -> HttpResponse {
    let seconds = wait.seconds();
    let minutes = seconds.saturating_add(59).div_euclid(60);
    let words = html! { p { (view.tn("error-wait-words", &[("minutes", minutes.into())])) } };
    let title = view.t("error-wait");
    let mut response = page(view, person, StatusCode::TOO_MANY_REQUESTS, &title, words);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    response
}

/// A suspended tenant.
pub fn suspended(view: &DashboardView) -> HttpResponse {
    of(view, None, &ApiError::TenantSuspended)
}
