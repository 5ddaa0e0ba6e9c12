//! Forms that change what others may change too, and that take long to fill in.

use dikala_entities::Millis;
use maud::{Markup, html};

use super::super::{
    form::{FormState, SEEN_FIELD},
    view::View,
};
use crate::http::error::ApiError;

/// The hidden field that tells a save whether somebody else changed the row meanwhile. A form that was refused for that
/// may replace those changes when it is sent again.
pub fn seen(filled: &FormState, updated_at: Millis) -> Markup {
    let known = Some(filled.text(SEEN_FIELD)).filter(|known| !known.is_empty());
    let known = known.filter(|_| filled.refusal() != Some(&ApiError::ChangedMeanwhile));
    let value = known.map_or_else(|| updated_at.as_i64().to_string(), str::to_owned);
    html! { input type="hidden" name=(SEEN_FIELD) value=(value); }
}

/// The button of a form that takes long to fill in. It stays in view, and says that something is not saved yet.
pub fn submit_kept(view: &View, label: &str) -> Markup {
    html! {
        div.actions.kept {
            button type="submit" { (label) }
            p.muted data-unsaved hidden role="status" { (view.t("page-unsaved")) }
        }
    }
}
