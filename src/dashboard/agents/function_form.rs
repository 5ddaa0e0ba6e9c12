//! The form of a function, and a field for JSON whose errors stand beside the line.

use dikala_entities::{FunctionMethod, function};
use maud::{Markup, html};

use super::super::{
    components::{self, Field},
    faults,
    form::{Fields, FormState, Shape},
    json_text::{self, Position},
    pretty::pretty,
    view::DashboardView,
};
use crate::http::{
    error::ApiError,
    field::{FieldCode, FieldError},
};

/// The fields, by the API's names.
pub const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("description", Shape::Text),
    ("endpoint", Shape::Text),
    ("method", Shape::Text),
    ("parameters", Shape::Json),
];

/// The field that holds JSON.
const JSON_FIELD: &str = "parameters";
const DESCRIPTION_ROWS: u8 = 3;
const PARAMETERS_ROWS: u8 = 16;
/// Errors that are shown with an excerpt.
const EXCERPTS_MAX: usize = 10;

/// The parameters of a function without any.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{},"required":[]}"#;
const EXAMPLE: &str = r#"{"type":"object","properties":{"order_number":{"type":"string","description":"The number on the receipt, such as A-1024"},"city":{"type":"string","enum":["Bandung","Jakarta"]}},"required":["order_number"]}"#;

/// The form for a new function.
pub fn blank() -> FormState {
    FormState::with([
        ("method", FunctionMethod::Post.to_string()),
        (JSON_FIELD, pretty(NO_PARAMETERS)),
    ])
}

/// The form, filled with a function's values.
pub fn of(function: &function::Model) -> FormState {
    FormState::with([
        ("name", function.name.clone()),
        ("description", function.description.clone()),
        ("endpoint", function.endpoint.as_str().to_owned()),
        ("method", function.method.to_string()),
        (JSON_FIELD, pretty(&function.parameters)),
    ])
}

/// The fields below their errors.
pub fn form(view: &DashboardView, filled: &FormState) -> Markup {
    html! {
        (components::fields(view, filled, &fields(view, filled)))
        details.example {
            summary { (view.t("functions-example")) }
            pre tabindex="0" { code { (pretty(EXAMPLE)) } }
        }
    }
}

/// The fields of a function.
pub fn fields(view: &DashboardView, filled: &FormState) -> [Field; 5] {
    let t = |id: &str| view.t(id);
    let methods = FunctionMethod::ALL.iter();
    let methods = methods.map(|method| (method.to_string(), method.to_string()));
    let parameters = json_field(view, filled, t("functions-parameters"), PARAMETERS_ROWS);
    [
        Field::text("name", t("functions-name")).hint(t("functions-name-hint")),
        Field::area("description", t("functions-description"), DESCRIPTION_ROWS)
            .hint(t("functions-description-hint")),
        Field::text("endpoint", t("functions-endpoint")).hint(t("functions-endpoint-hint")),
        Field::select("method", t("functions-method"), methods.collect()),
        parameters.hint(t("functions-parameters-hint")),
    ]
}

/// The JSON field, with its errors beside the lines.
pub fn json_field(view: &DashboardView, filled: &FormState, label: String, rows: u8) -> Field {
    let faults: Vec<&FieldError> = filled.errors_of(JSON_FIELD).collect();
    let told = told(view, filled.text(JSON_FIELD), &faults);
    let field = Field::code(JSON_FIELD, label, rows).optional();
    field.told_as(told)
}

/// The errors of a text, each with the lines around it.
fn told(view: &DashboardView, text: &str, faults: &[&FieldError]) -> Markup {
    if let Some((at, reason)) = json_text::broken(text).filter(|_| !text.trim().is_empty()) {
        let words = html! { (view.t("functions-no-json")) " " span lang="en" { "(" (reason) ")" } };
        return beside(view, text, at, &words);
    }
    html! {
        @for (nth, fault) in faults.iter().enumerate() {
            @let path = fault.field.strip_prefix(JSON_FIELD).unwrap_or_default();
            @if nth < EXCERPTS_MAX && !text.trim().is_empty() {
                (beside(view, text, json_text::find(text, path), &faults::told(view, fault)))
            } @else {
                p { (faults::told(view, fault)) }
            }
        }
    }
}

fn beside(view: &DashboardView, text: &str, at: Position, words: &Markup) -> Markup {
    let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (line, column) = (count(at.line), count(at.column));
    let place = view.tn(
        "functions-place",
        &[("line", line.into()), ("column", column.into())],
    );
    html! {
        p { (place) " " (words) }
        pre.excerpt tabindex="0" { (json_text::excerpt(text, at)) }
    }
}

/// Turns the API's error about the whole JSON text into an error of the field, so that the form keeps what was
/// typed.
pub fn beside_its_field(error: ApiError) -> ApiError {
    match error {
        ApiError::InvalidJson(reason) => {
            let predicate = format!("cannot be taken: {reason}");
            ApiError::field(FieldError::new(
                JSON_FIELD,
                FieldCode::InvalidFormat,
                &predicate,
            ))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::operations::functions::parameters;

    #[test]
    fn what_is_given_to_begin_with_is_taken() {
        for schema in [NO_PARAMETERS, EXAMPLE] {
            let schema: Value = serde_json::from_str(schema).expect("JSON");
            assert!(parameters::parse(&schema).is_ok(), "{schema}");
        }
    }
}
