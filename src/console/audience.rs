//! The console: its navigation, its paths and its words.

use super::{PAGES, search};
use crate::pages::audience::{AudienceMessages, Group, PageAudience};

pub static CONSOLE: PageAudience = PageAudience {
    brand: "console-brand",
    wide: true,
    base: "",
    home: "/",
    sign_in: "/sign-in",
    sign_out: "/sign-out",
    pages: PAGES,
    search: Some(search::PATH),
    groups: GROUPS,
    belong: BELONG,
    messages: AudienceMessages {
        done: "console-done-",
        home: "console-error-home",
        foreign: ("console-nothing-changed", "console-foreign-words"),
        view_only: "console-view-only-words",
    },
};

const GROUPS: &[Group] = &[
    Group {
        name: "console-nav-activity",
        pages: &[
            ("console-overview", "/"),
            ("console-calls", "/calls"),
            ("console-webhooks", "/webhooks"),
            ("console-functions", "/functions"),
            ("console-ledger", "/ledger"),
        ],
    },
    Group {
        name: "console-nav-customers",
        pages: &[
            ("console-tenants", "/tenants"),
            ("console-bridges", "/bridges"),
            ("console-audit", "/audit"),
        ],
    },
    Group {
        name: "console-nav-system",
        pages: &[
            ("console-actors", "/actors"),
            ("console-nodes", "/nodes"),
            ("console-database", "/database"),
            ("console-http", "/http"),
            ("console-configuration", "/configuration"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_away() {
        for ours in ["/", "/actors", "/actors/call?x=1"] {
            assert!(CONSOLE.owns(ours), "{ours}");
        }
        for other in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nb",
            "actors",
        ] {
            assert!(!CONSOLE.owns(other), "{other:?}");
        }
    }
}
