//! What is wrong with a field, in the reader's language: the API's own words in English, and in Indonesian a sentence for each of
//! its codes.

use maud::{Markup, html};

use super::{lang::Lang, view::View};
use crate::http::field::{FieldCode, FieldError};

/// The input that a field's path leads to: `parameters` of `parameters.required[1]`.
pub fn input_of(field: &str) -> &str {
    field.split(['.', '[']).next().unwrap_or(field)
}

/// Whether the sentence says which field it is about, as the API's do.
pub fn names_the_field(view: &View) -> bool {
    view.lang() == Lang::En
}

/// The sentence.
pub fn told(view: &View, error: &FieldError) -> Markup {
    match view.lang() {
        Lang::En => html! { (error.message) },
        Lang::Id => {
            let (text, is_whole) = translated(view, error);
            html! {
                (text)
                // What the code does not tell is told in the words that the API has for it.
                @if !is_whole { " " span lang="en" { "(" (error.message) ")" } }
            }
        }
    }
}

/// The sentence of the code, and whether it says all that there is to say.
fn translated(view: &View, error: &FieldError) -> (String, bool) {
    let bound = [("bound", error.bound.unwrap_or_default().into())];
    let with_bound = |id| (view.tn(id, &bound), error.bound.is_some());
    match error.code {
        FieldCode::Required => (view.t("fault-required"), true),
        FieldCode::TooShort => with_bound("fault-too-short"),
        FieldCode::TooLong => with_bound("fault-too-long"),
        FieldCode::TooSmall => with_bound("fault-too-small"),
        FieldCode::TooLarge => with_bound("fault-too-large"),
        FieldCode::NotAllowed => (view.t("fault-not-allowed"), false),
        FieldCode::InvalidFormat => (view.t("fault-invalid-format"), false),
        FieldCode::InvalidType => (view.t("fault-invalid-type"), false),
        FieldCode::UnknownField => (view.t("fault-unknown-field"), false),
        FieldCode::Duplicate => (view.t("fault-duplicate"), false),
        FieldCode::NotFound => (view.t("fault-not-found"), false),
        FieldCode::InsecureUrl => (view.t("fault-insecure-url"), false),
        FieldCode::BlockedAddress => (view.t("fault-blocked-address"), false),
    }
}
