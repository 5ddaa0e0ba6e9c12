//! Marks the parts of a page that are updated live. [`live`](super::live) serves the stream that the script opens.

use maud::{Markup, html};

use crate::pages::{live::sign, view::View};

const PATH: &str = "/live";

/// Marks content whose elements with the ids `part` and `below` are updated live. [`live`](super::live) renders
/// them under this name. `more` is an encoded query, beginning with `&`, for the stream's address.
pub fn followed(view: &View, name: &str, more: &str, content: &Markup) -> Markup {
    html! {
        (sign(view))
        div data-live={ (PATH) "?of=" (name) (more) } data-after="0" { (content) }
    }
}
