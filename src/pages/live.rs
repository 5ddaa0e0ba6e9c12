//! Elements of a page with live parts: a status that is also the pause button, a line that tells screen readers what changed, and
//! a link up to new entries.

use maud::{Markup, html};

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
