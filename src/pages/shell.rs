//! The frame of every page: head, navigation, skip link, and the confirmation of a post.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header::CONTENT_TYPE},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{assets::Asset, view::View};

/// A group of the navigation, with the names and paths of its pages.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub pages: &'static [(&'static str, &'static str)],
}

/// The navigation of a room. It marks the entry whose path is a prefix of the current one; the home page, whose
/// path is a prefix of all, must match exactly.
#[derive(Debug)]
pub struct Navigation {
    /// The room's title.
    pub brand: &'static str,
    /// True if its pages use the full width, for large tables.
    pub wide: bool,
    /// The path of the home page.
    pub home: &'static str,
    pub groups: &'static [Group],
    /// Pages that belong to a navigation entry with a different path.
    pub belong: &'static [(&'static str, &'static str)],
}

impl Navigation {
    /// Name and path of the navigation entry that a page belongs to.
    pub fn place(&self, present: &str) -> Option<(&'static str, &'static str)> {
        let is_below = |path: &str| {
            present
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let belongs = self.belong.iter().find(|(path, _)| is_below(path));
        let mut pages = self.groups.iter().flat_map(|group| group.pages).copied();
        pages.find(|(_, path)| match belongs {
            Some((_, to)) => path == to,
            None if *path == self.home => present == *path,
            None => is_below(path),
        })
    }
}

/// The frame of a page for a signed-in person.
pub struct Side<'a> {
    pub navigation: &'static Navigation,
    /// Translates the navigation's names.
    pub say: &'a dyn Fn(&str) -> String,
    /// The tenant or node whose data are shown.
    pub whose: Markup,
    /// The signed-in person and the sign-out button.
    pub who: Markup,
}

impl std::fmt::Debug for Side<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side").finish_non_exhaustive()
    }
}

/// A page, with navigation if there is a `side`.
pub fn answer(
    view: &View,
    brand: &str,
    side: Option<&Side<'_>>,
    status: StatusCode,
    title: &str,
    content: &Markup,
) -> HttpResponse {
    let body = match side {
        Some(side) => inside(view, side, title, content),
        None => outside(view, brand, content),
    };
    HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .body(document(view, brand, title, &body).into_string())
}

fn document(view: &View, brand: &str, title: &str, body: &Markup) -> Markup {
    let asset = |asset: Asset| asset.path(view.room());
    html! {
        (DOCTYPE)
        html lang=(view.lang().tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · " (brand) }
                link rel="stylesheet" href=(asset(Asset::Style));
                link rel="icon" type="image/svg+xml" href=(asset(Asset::Icon));
                script src=(asset(Asset::Script)) defer {}
            }
            body {
                a.skip href="#content" { (view.t("page-skip")) }
                (body)
            }
        }
    }
}

fn emblem(view: &View, brand: &str) -> Markup {
    html! {
        span.brand {
            img src=(Asset::Icon.path(view.room())) alt="" width="28" height="28";
            (brand)
        }
    }
}

/// The page with navigation. On narrow screens the navigation is a popover, which browsers open and close without a
/// script.
fn inside(view: &View, side: &Side<'_>, title: &str, content: &Markup) -> Markup {
    let Navigation {
        brand,
        home,
        groups,
        wide,
        ..
    } = side.navigation;
    let place = side.navigation.place(view.path());
    html! {
        header.bar {
            a.home href=(home) { (emblem(view, brand)) }
            button.quiet type="button" popovertarget="menu" { (MENU_ICON) (view.t("page-menu")) }
        }
        div.shell.wide[*wide] {
            nav #menu popover="auto" aria-label=(view.t("page-menu")) {
                a.home href=(home) { (emblem(view, brand)) }
                p.whose { (side.whose) }
                @for group in *groups {
                    h2 { ((side.say)(group.name)) }
                    ul {
                        @for (name, path) in group.pages {
                            li { a href=(path) aria-current=[(place == Some((*name, *path))).then_some("page")] { ((side.say)(name)) } }
                        }
                    }
                }
                div.who { (side.who) }
            }
            main #content tabindex="-1" {
                @if let Some((name, path)) = place.filter(|(_, path)| *path != view.path()) {
                    p.way.up { a href=(path) { "← " ((side.say)(name)) } }
                }
                h1 { (title) }
                (told(view))
                (content)
            }
        }
    }
}

fn outside(view: &View, brand: &str, content: &Markup) -> Markup {
    html! {
        div.outside {
            header { (emblem(view, brand)) }
            main #content tabindex="-1" { (told(view)) (content) }
        }
    }
}

/// The confirmation of the post that led here.
fn told(view: &View) -> Markup {
    html! {
        @if let Some(done) = view.done() {
            p.notice.good role="status" { (done) }
        }
    }
}

const MENU_ICON: PreEscaped<&str> = PreEscaped(
    r#"<svg viewBox="0 0 20 20" width="20" height="20" aria-hidden="true"><path d="M3 5h14M3 10h14M3 15h14" stroke="currentColor" stroke-width="2" stroke-linecap="round"/></svg>"#,
);
