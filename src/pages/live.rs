//! Elements of a page with live parts: their mark, a status that is also the pause button, a line that tells screen readers what
//! changed, and a link up to new entries.

use std::fmt::Display;

use maud::{Markup, Render, html};

use super::view::View;

/// The status button and the line for screen readers. The script shows the button with one of its texts.
pub fn sign(view: &View) -> Markup {
    html! {
        span.live-sign {
            button.live type="button" hidden data-live-sign data-on=(view.t("live-on")) data-paused=(view.t("live-paused"))
                data-lost=(view.t("live-lost")) { (view.t("live-on")) }
            span.unseen role="status" data-live-said {}
        }
    }
}

/// The link to new entries above the visible part of a list.
pub fn news(view: &View) -> Markup {
    html! {
        button.live-news type="button" hidden data-live-news data-one=(view.t("live-new-one")) data-many=(view.t("live-new-many")) {}
    }
}

/// Marks content as followed: the script opens the audience's stream `of` this thing, from a position on. `more` is an
/// encoded query, beginning with `&`, for the stream's address.
pub fn followed(
    view: &View,
    of: impl Display,
    more: &str,
    position: i64,
    content: impl Render,
) -> Markup {
    let path = format!("{}/live?of={of}{more}", view.audience().base);
    html! { div data-live=(path) data-after=(position) { (content) } }
}
