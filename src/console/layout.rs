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
        name: "Activity",
        pages: &[
            ("Overview", "/"),
            ("Calls", "/calls"),
            ("Webhooks", "/webhooks"),
            ("Functions", "/functions"),
            ("Ledger", "/ledger"),
        ],
    },
    Group {
        name: "Customers",
        pages: &[
            ("Tenants", "/tenants"),
            ("Bridges", "/bridges"),
            ("Audit", "/audit"),
        ],
    },
    Group {
        name: "System",
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
    ("webhook-paused", "Paused. Deliveries wait; none is lost."),
    ("webhook-resumed", "Resumed. Deliveries continue in their order."),
    ("webhook-recovering", "Failed deliveries of that time are resent in the background."),
    ("delivery-resent", "Delivery resent."),
    ("delivery-resent-later", "The delivery will be resent as soon as its webhook accepts deliveries."),
    ("ledger-verified", "Ledger verified."),
    ("bridge-made", "Bridge created."),
    ("bridge-revoked", "Bridge revoked."),
    ("tenant-made", "Tenant created. Next, add a key, a user, a number and minutes."),
    ("tenant-suspended", "Tenant suspended."),
    ("tenant-resumed", "Tenant resumed."),
    ("key-made", "Key created."),
    ("key-revoked", "Key revoked."),
    ("user-made", "User added."),
    ("link-made", "Link created."),
    ("user-removed", "User removed."),
    ("booked", "Minutes added."),
    ("number-given", "Number added."),
    ("number-deleted", "Number deleted."),
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
            @if visit.may_change() { "Full access" } @else { "View-only access" }
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
