//! The frame of every page: navigation and the signed-in person.

use actix_web::{HttpResponse, http::StatusCode};
use maud::{Markup, html};

use super::{
    components::post,
    session::Person,
    view::{DashboardView, SignedIn},
};
use crate::pages::shell::{self, Group, Navigation, Side};

const NAVIGATION: Navigation = Navigation {
    brand: "Dikala",
    wide: false,
    home: "/dashboard",
    groups: GROUPS,
    belong: BELONG,
};

const GROUPS: &[Group] = &[
    Group {
        name: "nav-work",
        pages: &[
            ("nav-home", "/dashboard"),
            ("nav-calls", "/dashboard/calls"),
            ("nav-agents", "/dashboard/agents"),
            ("nav-numbers", "/dashboard/numbers"),
            ("nav-credits", "/dashboard/credits"),
            ("nav-webhooks", "/dashboard/webhooks"),
        ],
    },
    Group {
        name: "nav-settings",
        pages: &[
            ("nav-keys", "/dashboard/settings/keys"),
            ("nav-function-secret", "/dashboard/settings/function-secret"),
            ("nav-members", "/dashboard/settings/members"),
            ("nav-audit", "/dashboard/audit"),
            ("nav-account", "/dashboard/settings/account"),
        ],
    },
];

/// Pages that belong to a navigation entry with a different path.
const BELONG: &[(&str, &str)] = &[
    ("/dashboard/deliveries", "/dashboard/webhooks"),
    ("/dashboard/password", "/dashboard/settings/account"),
];

/// A page for a signed-in person.
pub fn page(visit: &SignedIn, title: &str, content: Markup) -> HttpResponse {
    answer(visit, Some(visit.person()), StatusCode::OK, title, content)
}

/// A refused form with its errors.
pub fn refused(visit: &SignedIn, title: &str, content: Markup) -> HttpResponse {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    answer(visit, Some(visit.person()), status, title, content)
}

/// A page with any status, signed in or not.
pub fn answer(
    view: &DashboardView,
    person: Option<&Person>,
    status: StatusCode,
    title: &str,
    content: Markup,
) -> HttpResponse {
    let say = |name: &str| view.t(name);
    let side = person.map(|person| Side {
        navigation: &NAVIGATION,
        say: &say,
        whose: html! { (person.tenant_name) },
        who: html! {
            p { strong { (person.name) } br; span.muted { (person.email) } }
            (post(view, "/dashboard/sign-out", html! {
                button.secondary type="submit" { (view.t("page-sign-out")) }
            }))
        },
    });
    shell::answer(
        view,
        NAVIGATION.brand,
        side.as_ref(),
        status,
        title,
        &content,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_belongs_to_the_one_that_leads_to_it() {
        for (present, expected) in [
            ("/dashboard", Some("/dashboard")),
            ("/dashboard/settings/keys", Some("/dashboard/settings/keys")),
            (
                "/dashboard/settings/keys/key_1/revoke",
                Some("/dashboard/settings/keys"),
            ),
            ("/dashboard/deliveries/dlv_1", Some("/dashboard/webhooks")),
            ("/dashboard/password", Some("/dashboard/settings/account")),
            ("/dashboard/settings/keysmith", None),
            ("/dashboard/nothing", None),
        ] {
            let found = NAVIGATION.place(present).map(|(_, path)| path);
            assert_eq!(found, expected, "{present}");
        }
    }
}
