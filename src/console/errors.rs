//! Error pages that say what to do.

use actix_web::{HttpResponse, ResponseError, http::StatusCode};
use maud::{Markup, html};

use super::{layout, view::ConsoleView};
use crate::{
    http::error::ApiError,
    pages::{errors, view::View},
};

fn page(
    view: &View,
    visit: Option<&ConsoleView>,
    status: StatusCode,
    title: &str,
    words: &Markup,
) -> HttpResponse {
    let content = html! {
        @if visit.is_none() { h1 { (title) } }
        div.lead { (words) }
        p { a.button.secondary href="/" { "Go to the overview" } }
    };
    layout::answer(view, visit, status, title, content)
}

/// The page for an error of a handler.
pub fn of(view: &View, visit: Option<&ConsoleView>, error: &ApiError) -> HttpResponse {
    let (title, words) = errors::words(view, error);
    let page = page(view, visit, error.status_code(), &view.t(title), &words);
    errors::with_headers(error, page)
}

/// A post from another site, or from an outdated page.
pub fn foreign(view: &View, visit: Option<&ConsoleView>) -> HttpResponse {
    let words = html! {
        p { "The form is out of date. Reload the page and try again." }
    };
    let title = "Nothing was changed";
    page(view, visit, StatusCode::FORBIDDEN, title, &words)
}

/// An attempt to change something with the read token.
pub fn read_only(visit: &ConsoleView) -> HttpResponse {
    let words = html! {
        p { "You are signed in with " code { "operator.read_token" } ", which changes nothing. Sign in with " code { "operator.token" } " to do this." }
    };
    let title = "You have view-only access";
    page(visit, Some(visit), StatusCode::FORBIDDEN, title, &words)
}
