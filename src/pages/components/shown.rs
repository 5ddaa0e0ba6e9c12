//! The fields of a form as text, for members who may look at it only.

use maud::{Markup, html};

use super::{Field, FormState, Kind};
use crate::pages::view::View;

/// Each field's label and value.
pub fn shown(view: &View, filled: &FormState, fields: &[Field]) -> Markup {
    html! {
        dl.facts {
            @for field in fields {
                dt { (field.label) }
                dd { (value(view, filled, field)) }
            }
        }
    }
}

fn value(view: &View, filled: &FormState, field: &Field) -> Markup {
    let text = filled.text(&field.name);
    let nothing = html! { span.muted { (view.t("page-nothing")) } };
    match &field.kind {
        Kind::Switch if filled.is_ticked(&field.name, "true") => html! { (view.t("page-yes")) },
        Kind::Switch => html! { (view.t("page-no")) },
        Kind::Boxes(options) => {
            let ticked = options
                .iter()
                .filter(|(value, _)| filled.is_ticked(&field.name, value));
            let names: Vec<&str> = ticked.map(|(_, name)| name.as_str()).collect();
            match names.is_empty() {
                true => nothing,
                false => html! { (names.join(", ")) },
            }
        }
        Kind::Select(options) => {
            let chosen = options.iter().find(|(value, _)| value == text);
            html! { (chosen.map_or(text, |(_, name)| name)) }
        }
        _ if text.is_empty() => nothing,
        Kind::Area { code: true, .. } => html! { pre tabindex="0" { code { (text) } } },
        Kind::Area { .. } => html! { p.words { (text) } },
        Kind::Password => nothing,
        Kind::Input(_) => html! { (text) },
    }
}
