//! What stands around every page: its navigation, and who looks.

use actix_web::{HttpResponse, http::StatusCode};
use maud::{Markup, html};

use super::view::Visit;
use crate::pages::{
    components::post,
    shell::{self, Group, Navigation, Side},
    view::View,
};

/// What stands in the navigation.
pub const NAVIGATION: Navigation = Navigation {
    brand: "Dikala operators",
    home: "/",
    groups: GROUPS,
    belong: BELONG,
};

const GROUPS: &[Group] = &[Group {
    name: "What happens",
    pages: &[("Overview", "/"), ("Actors", "/actors")],
}];

/// Pages whose paths begin otherwise than the page in the navigation that they belong to.
const BELONG: &[(&str, &str)] = &[];

/// What a post did, by the word in the address of the page that it leads to.
pub const DONE: &[(&str, &str)] = &[("signed-out", "You are signed out.")];

/// A page for who may come.
pub fn page(visit: &Visit, title: &str, content: Markup) -> HttpResponse {
    answer(visit, Some(visit), StatusCode::OK, title, content)
}

/// A page with any status, for who may come or anybody.
pub fn answer(
    view: &View,
    visit: Option<&Visit>,
    status: StatusCode,
    title: &str,
    content: Markup,
) -> HttpResponse {
    let say = |name: &str| name.to_owned();
    let side = visit.map(|visit| Side {
        navigation: &NAVIGATION,
        say: &say,
        whose: html! { "Node " (visit.node()) },
        who: who(visit),
    });
    let brand = NAVIGATION.brand;
    shell::answer(view, brand, side.as_ref(), status, title, &content)
}

fn who(visit: &Visit) -> Markup {
    html! {
        p.muted {
            @if visit.may_change() { "You may change things." } @else { "You may look and change nothing." }
        }
        @if visit.is_signed_in() {
            (post(visit, "/sign-out", html! {
                button.secondary type="submit" { "Sign out" }
            }))
        }
    }
}

/// A form that was refused: the same page again, with what is wrong.
pub fn refused(visit: &Visit, title: &str, content: Markup) -> HttpResponse {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    answer(visit, Some(visit), status, title, content)
}
