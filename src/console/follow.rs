//! How a page says what of it is to be kept up to date. The stream that the script then opens is in [`live`](super::live).

use maud::{Markup, html};

use crate::pages::{live::sign, view::View};

/// Where the streams are.
const PATH: &str = "/live";

/// Content with parts that are kept up to date: elements with the ids `part` and `below`, which [`live`](super::live) makes by this
/// name. `more` stands in the address of the stream, encoded, and begins with `&`.
pub fn followed(view: &View, name: &str, more: &str, content: &Markup) -> Markup {
    html! {
        (sign(view))
        div data-live={ (PATH) "?of=" (name) (more) } data-after="0" { (content) }
    }
}
