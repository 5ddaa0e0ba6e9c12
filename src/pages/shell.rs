//! The shell of every page: head, navigation, the way to the content, and what a post did.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header::CONTENT_TYPE},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{assets::Asset, view::View};

/// A part of the navigation: its name, and the pages in it with their paths.
#[derive(Debug)]
pub struct Group {
    pub name: &'static str,
    pub pages: &'static [(&'static str, &'static str)],
}

/// What stands in the navigation of a room. The page whose path the present one begins with is marked; the first page, with which all
/// begin, only where it is the present one.
#[derive(Debug)]
pub struct Navigation {
    /// What the room calls itself.
    pub brand: &'static str,
    /// Whether its pages are full of tables, which take all the width that there is.
    pub wide: bool,
    /// The path of the first page.
    pub home: &'static str,
    pub groups: &'static [Group],
    /// Pages whose paths begin otherwise than the page in the navigation that they belong to.
    pub belong: &'static [(&'static str, &'static str)],
}

impl Navigation {
    /// The page in the navigation that a page belongs to: its name and path.
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

/// What stands beside the content of a page for who is signed in.
pub struct Side<'a> {
    pub navigation: &'static Navigation,
    /// What the names in the navigation are in the reader's language.
    pub say: &'a dyn Fn(&str) -> String,
    /// Whose data are shown.
    pub whose: Markup,
    /// Who is signed in, and the way out.
    pub who: Markup,
}

impl std::fmt::Debug for Side<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Side").finish_non_exhaustive()
    }
}

/// A page with navigation, or, for who is not signed in, without one.
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

/// The same navigation stands beside the content where there is room, and opens over it where there is none: a popover, which
/// browsers open and close without a script.
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

/// What the post did that led here.
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
