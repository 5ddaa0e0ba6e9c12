//! What a page with live parts shows of that: whether it is live, which is also the button that pauses it, a line that tells a
//! screen reader what changed, and the way up to what came in above.

use maud::{Markup, html};

use super::view::View;

/// The button and the line; the script shows the button and says which of its texts holds.
pub fn sign(view: &View) -> Markup {
    html! {
        span.live-sign {
            button.live type="button" hidden data-live-sign data-on=(view.t("live-on")) data-paused=(view.t("live-paused"))
                data-lost=(view.t("live-lost")) { (view.t("live-on")) }
            span.unseen role="status" data-live-said {}
        }
    }
}

/// The way to what came in above the part of a list that is read.
pub fn news(view: &View) -> Markup {
    html! {
        button.live-news type="button" hidden data-live-news data-one=(view.t("live-new-one")) data-many=(view.t("live-new-many")) {}
    }
}
