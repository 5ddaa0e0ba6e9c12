//! The frame of every page: head, navigation, skip link, and the confirmation of a post.

use actix_web::{
    HttpResponse,
    http::{StatusCode, header::CONTENT_TYPE},
};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::{
    assets::Asset,
    components::post,
    heading::PageHeading,
    view::{PageAccount, View},
};

/// Pages in the bar at the bottom of narrow screens.
const BOTTOM_PAGES: usize = 3;

/// A page.
pub fn page<'a>(view: &View, heading: impl Into<PageHeading<'a>>, content: Markup) -> HttpResponse {
    answer(view, StatusCode::OK, heading, content)
}

/// A page whose content begins with its own heading, because both change together.
pub fn with_heading(view: &View, status: StatusCode, title: &str, content: Markup) -> HttpResponse {
    let heading = PageHeading::new(title);
    framed(view, status, &heading, html! {}, content)
}

/// A refused form with its errors.
pub fn refused<'a>(
    view: &View,
    heading: impl Into<PageHeading<'a>>,
    content: Markup,
) -> HttpResponse {
    answer(view, StatusCode::UNPROCESSABLE_ENTITY, heading, content)
}

/// A page with any status, with navigation if the reader is signed in.
pub fn answer<'a>(
    view: &View,
    status: StatusCode,
    heading: impl Into<PageHeading<'a>>,
    content: Markup,
) -> HttpResponse {
    let heading = heading.into();
    framed(view, status, &heading, heading.show(), content)
}

fn framed(
    view: &View,
    status: StatusCode,
    heading: &PageHeading<'_>,
    shown: Markup,
    content: Markup,
) -> HttpResponse {
    match view.account() {
        Some(account) => {
            let top = html! { (heading.way(view)) (shown) };
            let body = inside(view, account, &top, &content);
            document(view, status, heading.title(), &body)
        }
        None => outside(view, status, heading.title(), content),
    }
}

/// A page without navigation, which has its own heading.
pub fn outside(view: &View, status: StatusCode, title: &str, content: Markup) -> HttpResponse {
    let body = html! {
        div.outside {
            header { (emblem(view)) }
            main #content tabindex="-1" { (told(view)) (content) }
        }
    };
    document(view, status, title, &body)
}

fn document(view: &View, status: StatusCode, title: &str, body: &Markup) -> HttpResponse {
    let audience = view.audience();
    let asset = |asset: Asset| asset.path(audience.base);
    let document = html! {
        (DOCTYPE)
        html lang=(view.lang().tag()) {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title {
                    @if let Some((count, _)) = alarms(view) { "(" (count) ") " }
                    (title) " · " (view.t(audience.brand))
                }
                link rel="stylesheet" href=(asset(Asset::Style));
                link rel="icon" type="image/svg+xml" href=(asset(Asset::Icon));
                script src=(asset(Asset::Script)) defer {}
            }
            body {
                a.skip href="#content" { (view.t("page-skip")) }
                (body)
            }
        }
    };
    HttpResponse::build(status)
        .insert_header((CONTENT_TYPE, "text/html; charset=utf-8"))
        .body(document.into_string())
}

fn emblem(view: &View) -> Markup {
    let audience = view.audience();
    html! {
        span.brand {
            img src=(Asset::Icon.path(audience.base)) alt="" width="28" height="28";
            (view.t(audience.brand))
        }
    }
}

/// The page with navigation. On narrow screens the navigation is a popover, which browsers open and close without a
/// script, and a bar at the bottom has its first pages.
fn inside(view: &View, account: &PageAccount, heading: &Markup, content: &Markup) -> Markup {
    let audience = view.audience();
    let place = audience.place(view.path());
    let current = |page: (&str, &str)| (place == Some(page)).then_some("page");
    let first = audience.groups.iter().flat_map(|group| group.pages);
    html! {
        header.bar {
            a.home href=(audience.home) { (emblem(view)) }
        }
        div.shell.wide[audience.wide] {
            nav #menu popover="auto" aria-label=(view.t("page-menu")) {
                div.top {
                    a.home href=(audience.home) { (emblem(view)) }
                    button.quiet.close type="button" popovertarget="menu" popovertargetaction="hide" { (view.t("page-close")) }
                }
                p.whose { (account.scope) }
                (search(view))
                @for group in audience.groups {
                    h2 { (view.t(group.name)) }
                    ul {
                        @for (name, path) in group.pages {
                            li { a href=(path) aria-current=[current((*name, *path))] { (view.t(name)) @if *path == audience.home { (alarm(view)) } } }
                        }
                    }
                }
                (who(view, account))
            }
            main #content tabindex="-1" {
                (heading)
                (told(view))
                (content)
            }
        }
        nav.bottom aria-label=(view.t("page-first")) {
            @for (name, path) in first.take(BOTTOM_PAGES) {
                a href=(path) aria-current=[current((*name, *path))] { (view.t(name)) }
            }
            button.quiet type="button" popovertarget="menu" { (MENU_ICON) (view.t("page-more")) }
        }
    }
}

/// The account, with the way out.
fn who(view: &View, account: &PageAccount) -> Markup {
    let out = html! { @if account.can_sign_out { (sign_out(view)) } };
    html! {
        @if account.is_person { details.who { summary { (account.label) } (out) } }
        @else { div.who { (account.label) (out) } }
    }
}

/// The search of everything, if the audience has one. The script focuses it at Ctrl-K.
fn search(view: &View) -> Markup {
    let label = view.t("page-search");
    html! {
        @if let Some(path) = view.audience().search {
            form.find role="search" method="get" action=(path) {
                input type="search" name="q" data-search aria-label=(label) aria-keyshortcuts="Control+K" placeholder={ (label) " (Ctrl-K)" } autocomplete="off" maxlength="200";
            }
        }
    }
}

/// The alarms of a signed-in reader, with their message.
fn alarms(view: &View) -> Option<(usize, &'static str)> {
    let alarms = view.account().and_then(|account| account.alarms);
    alarms.filter(|(count, _)| *count > 0)
}

fn alarm(view: &View) -> Markup {
    html! {
        @if let Some((count, message)) = alarms(view) {
            span.badge.bad.alarm {
                span aria-hidden="true" { (count) }
                span.unseen { (view.tn(message, &[("count", count.into())])) }
            }
        }
    }
}

fn sign_out(view: &View) -> Markup {
    let button = html! { button.quiet type="submit" { (view.t("page-sign-out")) } };
    post(view, view.audience().sign_out, button)
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
