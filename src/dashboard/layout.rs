//! What stands around every page: its navigation, and who is signed in.

use actix_web::{HttpResponse, http::StatusCode};
use maud::{Markup, html};

use super::{
    components::post,
    session::Person,
    view::{View, Visit},
};
use crate::pages::shell::{self, Group, Navigation, Side};

/// What stands in the navigation.
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

/// Pages whose paths begin otherwise than the page in the navigation that they belong to.
const BELONG: &[(&str, &str)] = &[
    ("/dashboard/deliveries", "/dashboard/webhooks"),
    ("/dashboard/password", "/dashboard/settings/account"),
];

/// A page for who is signed in.
pub fn page(visit: &Visit, title: &str, content: Markup) -> HttpResponse {
    answer(visit, Some(visit.person()), StatusCode::OK, title, content)
}

/// A form that was refused: the same page again, with what is wrong.
pub fn refused(visit: &Visit, title: &str, content: Markup) -> HttpResponse {
    let status = StatusCode::UNPROCESSABLE_ENTITY;
    answer(visit, Some(visit.person()), status, title, content)
}

/// A page with any status, for who is signed in or nobody.
pub fn answer(
    view: &View,
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
