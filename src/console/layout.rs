//! The frame of every page: navigation and access right.

use actix_web::{HttpResponse, http::StatusCode};
use maud::{Markup, html};

use super::view::ConsoleView;
use crate::pages::{
    components::post,
    shell::{self, Group, Navigation, Side},
    view::View,
};

pub const NAVIGATION: Navigation = Navigation {
    brand: "Dikala operators",
    wide: true,
    home: "/",
    groups: GROUPS,
    belong: BELONG,
};

const GROUPS: &[Group] = &[
    Group {
        name: "What happens",
        pages: &[
            ("Overview", "/"),
            ("Calls", "/calls"),
            ("Webhooks", "/webhooks"),
            ("Functions", "/functions"),
            ("Ledger", "/ledger"),
        ],
    },
    Group {
        name: "Who is served",
        pages: &[
            ("Tenants", "/tenants"),
            ("Bridges", "/bridges"),
            ("Audit", "/audit"),
        ],
    },
    Group {
        name: "What runs",
        pages: &[
            ("Actors", "/actors"),
            ("Nodes", "/nodes"),
            ("Database", "/database"),
            ("HTTP", "/http"),
            ("Configuration", "/configuration"),
        ],
    },
];

/// Pages that belong to a navigation entry with a different path.
const BELONG: &[(&str, &str)] = &[
    ("/deliveries", "/webhooks"),
    ("/keys", "/tenants"),
    ("/users", "/tenants"),
    ("/numbers", "/tenants"),
];

/// Confirmations of posts, by the word in the address of the page that follows.
#[rustfmt::skip]
pub const DONE: &[(&str, &str)] = &[
    ("signed-out", "You are signed out."),
    (
        "signed-out-here",
        "You are signed out of this browser. That could not be written down yet: a copy of the session would still be let in at \
         another node, or after a restart. If somebody may have one, change the token.",
    ),
    ("saved", "Saved."),
    ("call-ending", "The bridge is told to hang up."),
    ("webhook-paused", "Its deliveries wait from now on; none is lost."),
    ("webhook-resumed", "Its deliveries go on, in their order."),
    ("webhook-recovering", "What failed in that time is sent again, in the background."),
    ("delivery-resent", "The delivery was sent again."),
    ("delivery-resent-later", "The delivery is sent again as soon as its webhook takes it."),
    ("ledger-verified", "The books were verified."),
    ("bridge-made", "The bridge is made."),
    ("bridge-revoked", "The bridge is revoked."),
    ("tenant-made", "The tenant is made. It needs a key, somebody who uses its dashboard, a number, and minutes."),
    ("tenant-suspended", "The tenant is suspended."),
    ("tenant-resumed", "Its requests and calls go on."),
    ("key-made", "The key is made."),
    ("key-revoked", "The key is revoked."),
    ("user-made", "The person is made."),
    ("link-made", "The link is made."),
    ("user-removed", "The person is removed."),
    ("booked", "The minutes are booked."),
    ("number-given", "The number is given."),
    ("number-deleted", "The number is deleted."),
];

/// A page for a browser with access.
pub fn page(visit: &ConsoleView, title: &str, content: Markup) -> HttpResponse {
    answer(visit, Some(visit), StatusCode::OK, title, content)
}

/// A page with any status, with or without access.
pub fn answer(
    view: &View,
    visit: Option<&ConsoleView>,
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

fn who(visit: &ConsoleView) -> Markup {
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

/// A refused form with its errors.
pub fn refused(visit: &ConsoleView, title: &str, content: Markup) -> HttpResponse {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    answer(visit, Some(visit), status, title, content)
}
