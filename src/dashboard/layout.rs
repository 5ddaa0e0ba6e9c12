//! The shell of every page: head, navigation, the way to the content, and what a post did.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header::CONTENT_TYPE},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    assets::Asset,
    components::post,
    session::Person,
    view::{View, Visit},
};

/// A part of the navigation: its name, and the pages in it with their paths.
struct Group {
    name: &'static str,
    pages: &'static [(&'static str, &'static str)],
}

/// What stands in the navigation. The page whose path the present one begins with is marked; the first page, with which all begin,
/// only where it is the present one.
const NAVIGATION: &[Group] = &[
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
    let body = match person {
        Some(person) => inside(view, person, title, &content),
        None => outside(view, &content),
    };
    HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .body(document(view, title, &body).into_string())
}

fn document(view: &View, title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang=(view.lang().tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Dikala" }
                link rel="stylesheet" href=(Asset::Style.path());
                link rel="icon" type="image/svg+xml" href=(Asset::Icon.path());
                script src=(Asset::Script.path()) defer {}
            }
            body {
                a.skip href="#content" { (view.t("page-skip")) }
                (body)
            }
        }
    }
}

fn brand() -> Markup {
    html! {
        span.brand {
            img src=(Asset::Icon.path()) alt="" width="28" height="28";
            "Dikala"
        }
    }
}

/// The same navigation stands beside the content where there is room, and opens over it where there is none: a popover, which
/// browsers open and close without a script.
fn inside(view: &View, person: &Person, title: &str, content: &Markup) -> Markup {
    let place = place(view.path());
    html! {
        header.bar {
            a.home href="/dashboard" { (brand()) }
            button.quiet type="button" popovertarget="menu" { (MENU_ICON) (view.t("page-menu")) }
        }
        div.shell {
            nav #menu popover="auto" aria-label=(view.t("page-menu")) {
                a.home href="/dashboard" { (brand()) }
                p.whose { (person.tenant_name) }
                @for group in NAVIGATION {
                    h2 { (view.t(group.name)) }
                    ul {
                        @for (name, path) in group.pages {
                            li { a href=(path) aria-current=[(place == Some((*name, *path))).then_some("page")] { (view.t(name)) } }
                        }
                    }
                }
                div.who {
                    p { strong { (person.name) } br; span.muted { (person.email) } }
                    (post(view, "/dashboard/sign-out", html! {
                        button.secondary type="submit" { (view.t("page-sign-out")) }
                    }))
                }
            }
            main #content tabindex="-1" {
                @if let Some((name, path)) = place.filter(|(_, path)| *path != view.path()) {
                    p.way.up { a href=(path) { "← " (view.t(name)) } }
                }
                h1 { (title) }
                (told(view))
                (content)
            }
        }
    }
}

fn outside(view: &View, content: &Markup) -> Markup {
    html! {
        div.outside {
            header { (brand()) }
            main #content tabindex="-1" { (told(view)) (content) }
        }
    }
}

/// What the post did that led here.
fn told(view: &View) -> Markup {
    html! {
        @if let Some(done) = view.done() {
            p.notice.good role="status" { (done) }
        }
    }
}

/// The page in the navigation that a page belongs to: its name and path.
fn place(present: &str) -> Option<(&'static str, &'static str)> {
    let is_below = |path: &str| {
        present
            .strip_prefix(path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let belongs = BELONG.iter().find(|(path, _)| is_below(path));
    let mut pages = NAVIGATION.iter().flat_map(|group| group.pages).copied();
    pages.find(|(_, path)| match belongs {
        Some((_, to)) => path == to,
        None if *path == "/dashboard" => present == *path,
        None => is_below(path),
    })
}

const MENU_ICON: PreEscaped<&str> = PreEscaped(
    r#"<svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true"><path d="M3 5h14M3 10h14M3 15h14" stroke="currentColor" stroke-width="2" stroke-linecap="round"/></svg>"#,
);

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
            let found = place(present).map(|(_, path)| path);
            assert_eq!(found, expected, "{present}");
        }
    }
}
