//! The dashboard: its navigation, its paths and its words.

use super::{BASE, PAGES};
use crate::pages::audience::{AudienceMessages, Group, PageAudience};

pub static DASHBOARD: PageAudience = PageAudience {
    brand: "dashboard-brand",
    wide: false,
    base: BASE,
    home: BASE,
    sign_in: "/dashboard/sign-in",
    sign_out: "/dashboard/sign-out",
    pages: PAGES,
    search: None,
    groups: GROUPS,
    belong: BELONG,
    messages: AudienceMessages {
        done: "done-",
        home: "error-home",
        foreign: ("error-foreign", "error-foreign-words"),
        view_only: "error-viewer-words",
    },
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
            ("nav-widgets", "/dashboard/widgets"),
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
            let found = DASHBOARD.place(present).map(|(_, path)| path);
            assert_eq!(found, expected, "{present}");
        }
    }

    #[test]
    fn nobody_is_led_away() {
        for ours in [
            "/dashboard",
            "/dashboard/settings/keys",
            "/dashboard?x=1",
            "/dashboard/calls?from=2026-01-01",
        ] {
            assert!(DASHBOARD.owns(ours), "{ours}");
        }
        for other in [
            "",
            "/",
            "//evil.example",
            "https://evil.example",
            "/dashboardx",
            "/dashboard\\evil",
            "/dashboard/\r\nx",
        ] {
            assert!(!DASHBOARD.owns(other), "{other:?}");
        }
    }
}
