//! The form of a function: its parameters as rows, or as JSON whose errors stand beside the line.

use actix_web::HttpResponse;
use dikala_entities::{FunctionMethod, function};
use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{
    super::{
        components::{self, Field},
        errors, faults,
        form::{self, Fields, FormState, FormValues, SEEN_FIELD, Shape, UnparsedFields},
        heading::PageHeading,
        json_text::{self, Position},
        layout,
        pretty::pretty,
        view::DashboardView,
    },
    parameter_rows::{self as rows, ParameterRow},
    row_fields::{self, ACT_FIELD},
};
use crate::http::{
    error::ApiError,
    extract::RequestBody,
    field::{FieldCode, FieldError},
};

/// The fields, by the API's names.
const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("description", Shape::Text),
    ("endpoint", Shape::Text),
    ("method", Shape::Text),
    (JSON_FIELD, Shape::Json),
];

/// The field that holds JSON.
pub const JSON_FIELD: &str = "parameters";
const DESCRIPTION_ROWS: u8 = 3;
const PARAMETERS_ROWS: u8 = 16;
/// Errors that are shown with an excerpt.
const EXCERPTS_MAX: usize = 10;

const EXAMPLE: &str = r#"{"type":"object","properties":{"order_number":{"type":"string","description":"The number on the receipt, such as A-1024"},"city":{"type":"string","enum":["Bandung","Jakarta"]}},"required":["order_number"]}"#;

/// The way in which a form shows the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParameterEntry {
    /// This many rows.
    Rows(usize),
    Json,
}

impl ParameterEntry {
    /// The way of a posted form. Text in the API's field is JSON, whatever else was sent.
    fn of(typed: &FormValues) -> Self {
        match rows::typed(typed).len() {
            rows if rows > 0 && !has_json(typed) => Self::Rows(rows),
            _ => Self::Json,
        }
    }
}

/// True if the form has text in the field that holds JSON. Forms with rows have it too, empty and hidden.
pub fn has_json(typed: &FormValues) -> bool {
    typed.raw(JSON_FIELD).any(|text| !text.trim().is_empty())
}

/// A function's form with its values.
#[derive(Clone, Debug)]
pub struct FunctionForm {
    pub filled: FormState,
    entry: ParameterEntry,
}

impl FunctionForm {
    /// The form for a new function.
    pub fn blank() -> Self {
        let values = vec![("method".to_owned(), FunctionMethod::Post.to_string())];
        Self::with_rows(values, &[ParameterRow::blank(), ParameterRow::blank()])
    }

    /// The form, filled with a function's values.
    pub fn of(function: &function::Model) -> Self {
        let values = [
            ("name", function.name.clone()),
            ("description", function.description.clone()),
            ("endpoint", function.endpoint.as_str().to_owned()),
            ("method", function.method.to_string()),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        match rows::of_schema(&function.parameters) {
            Some(own) => Self::with_rows(values, &own),
            None => Self::with_json(values, pretty(&function.parameters)),
        }
    }

    /// The form as typed, with a refusal.
    pub fn again(typed: FormValues, error: ApiError) -> Result<Self, ApiError> {
        let entry = ParameterEntry::of(&typed);
        let filled = FormState::again(typed, beside_its_field(error))?;
        Ok(Self { filled, entry })
    }

    fn with_rows(mut values: Vec<(String, String)>, own: &[ParameterRow]) -> Self {
        values.extend(rows::fields(own));
        Self {
            filled: FormState::with(values),
            entry: ParameterEntry::Rows(own.len()),
        }
    }

    fn with_json(mut values: Vec<(String, String)>, json: String) -> Self {
        values.push((JSON_FIELD.to_owned(), json));
        Self {
            filled: FormState::with(values),
            entry: ParameterEntry::Json,
        }
    }

    /// The form after a button that changes it without saving. None if another button was pressed.
    pub fn rearranged(view: &DashboardView, typed: &FormValues) -> Option<Result<Self, ApiError>> {
        let act = typed.text(ACT_FIELD)?;
        let plain = FIELDS.iter().filter(|(name, _)| *name != JSON_FIELD);
        let text = |name: &str| typed.text(name).unwrap_or_default().to_owned();
        let names = plain.map(|(name, _)| *name).chain([SEEN_FIELD]);
        let values = names.map(|name| (name.to_owned(), text(name)));
        let values = values.collect();
        let mut own = rows::typed(typed);
        Some(Ok(match act {
            row_fields::ADD => {
                own.push(ParameterRow::blank());
                own.truncate(rows::ROWS_MAX);
                Self::with_rows(values, &own)
            }
            row_fields::AS_JSON => {
                let (said, faults) = rows::read(&own, &view.t("parameter-twice"));
                if !faults.is_empty() {
                    return Some(Self::again(typed.clone(), ApiError::Validation(faults)));
                }
                Self::with_json(values, pretty(&rows::schema(&said)))
            }
            row_fields::AS_ROWS => {
                let json = text(JSON_FIELD);
                match rows::of_schema(&json) {
                    Some(own) => Self::with_rows(values, &own),
                    None if json.trim().is_empty() => {
                        Self::with_rows(values, &[ParameterRow::blank()])
                    }
                    None => Self::with_json(values, json),
                }
            }
            other => {
                let at = other.strip_prefix(row_fields::REMOVE)?.parse().ok()?;
                if at < own.len() {
                    own.remove(at);
                }
                Self::with_rows(values, &own)
            }
        }))
    }

    /// The page with this form: 422 if it was refused.
    pub fn page(
        &self,
        view: &DashboardView,
        heading: PageHeading<'_>,
        content: Markup,
    ) -> HttpResponse {
        match self.filled.errors().is_empty() && self.filled.refusal().is_none() {
            true => layout::page(view, heading, content),
            false => errors::refused(view, heading, content, &self.filled),
        }
    }

    /// The fields below their errors. `path` is the form's own.
    pub fn show(&self, view: &DashboardView, path: &str) -> Markup {
        let plain = plain_fields(view);
        let parameters = match self.entry {
            ParameterEntry::Rows(count) => row_fields::labelled(view, count),
            ParameterEntry::Json => vec![self.json_field(view)],
        };
        let all = [&plain[..], &parameters[..]].concat();
        html! {
            // The button that the Enter key presses, before those that change the rows.
            button.unseen type="submit" tabindex="-1" aria-hidden="true" { (view.t("page-save")) }
            (components::summary(view, &self.filled, &all))
            @for field in &plain { (field.show(view, &self.filled)) }
            @match self.entry {
                ParameterEntry::Rows(count) => (row_fields::show(view, &self.filled, count, path)),
                ParameterEntry::Json => (self.json(view)),
            }
        }
    }

    fn json_field(&self, view: &DashboardView) -> Field {
        let label = view.t("functions-parameters");
        json_field(view, &self.filled, label, PARAMETERS_ROWS)
            .hint(view.t("functions-parameters-hint"))
    }

    fn json(&self, view: &DashboardView) -> Markup {
        let text = self.filled.text(JSON_FIELD);
        let has_rows = text.trim().is_empty() || rows::of_schema(text).is_some();
        let is_json = json_text::broken(text).is_none();
        html! {
            @if !has_rows && is_json { p.hint { (view.t("parameter-json-only")) } }
            (self.json_field(view).show(view, &self.filled))
            @if has_rows {
                div.row {
                    button.secondary type="submit" name=(ACT_FIELD) value=(row_fields::AS_ROWS) { (view.t("parameter-as-list")) }
                }
            }
            details.example {
                summary { (view.t("functions-example")) }
                pre tabindex="0" { code { (pretty(EXAMPLE)) } }
            }
        }
    }
}

/// A function's values as text, for members who may look at them only.
pub fn shown(view: &DashboardView, function: &function::Model) -> Markup {
    let form = FunctionForm::of(function);
    let plain = plain_fields(view);
    match rows::of_schema(&function.parameters) {
        Some(own) => html! {
            (components::shown(view, &form.filled, &plain))
            @if !own.is_empty() { (row_fields::table(view, &own)) }
        },
        None => {
            let all = [&plain[..], &[form.json_field(view)]].concat();
            components::shown(view, &form.filled, &all)
        }
    }
}

/// The faults of a form that the operation does not see.
#[derive(Debug)]
pub struct FormFaults {
    unread: UnparsedFields,
    rows: Vec<FieldError>,
}

impl FormFaults {
    /// The operation's error, with these faults in the place of those of the parameters.
    pub fn beside(self, error: ApiError) -> ApiError {
        match self.unread.beside(error) {
            ApiError::Validation(mut errors) if !self.rows.is_empty() => {
                errors.retain(|error| faults::input_of(&error.field) != JSON_FIELD);
                errors.extend(self.rows);
                ApiError::Validation(errors)
            }
            other => other,
        }
    }
}

/// The operation's input. `stored` is the schema that is kept if the rows say the same.
pub fn body(
    view: &DashboardView,
    typed: &FormValues,
    stored: Option<&str>,
) -> (RequestBody, FormFaults) {
    let ParameterEntry::Rows(_) = ParameterEntry::of(typed) else {
        let (body, unread) = form::body_and_unread(typed, FIELDS);
        let text = typed.text(JSON_FIELD).unwrap_or_default();
        let body = match body {
            RequestBody::Fields(Value::Object(fields)) if json_text::broken(text).is_none() => {
                RequestBody::with_json(&fields, JSON_FIELD, text)
            }
            other => other,
        };
        let rows = Vec::new();
        return (body, FormFaults { unread, rows });
    };
    let plain: Vec<(&'static str, Shape)> = FIELDS
        .iter()
        .filter(|(name, _)| *name != JSON_FIELD)
        .copied()
        .collect();
    let (body, unread) = form::body_and_unread(typed, &plain);
    let (said, faults) = rows::read(&rows::typed(typed), &view.t("parameter-twice"));
    let json = match stored {
        // A text is no schema: the operation refuses it together with the other errors.
        _ if !faults.is_empty() => "\"\"".to_owned(),
        Some(stored) if rows::of_schema(stored).as_ref() == Some(&said) => stored.to_owned(),
        _ => rows::schema(&said),
    };
    let fields = match body {
        RequestBody::Fields(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let body = RequestBody::with_json(&fields, JSON_FIELD, &json);
    let rows = faults;
    (body, FormFaults { unread, rows })
}

/// The fields of a function but its parameters.
fn plain_fields(view: &DashboardView) -> [Field; 4] {
    let t = |id: &str| view.t(id);
    let methods = FunctionMethod::ALL.iter();
    let methods = methods.map(|method| (method.to_string(), method.to_string()));
    [
        Field::text("name", t("functions-name")).hint(t("functions-name-hint")),
        Field::area("description", t("functions-description"), DESCRIPTION_ROWS)
            .hint(t("functions-description-hint")),
        Field::text("endpoint", t("functions-endpoint")).hint(t("functions-endpoint-hint")),
        Field::select("method", t("functions-method"), methods.collect()),
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
        let words = html! { (view.t("functions-no-json")) " " code lang="en" { (reason) } };
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
            let fault = FieldError::new(JSON_FIELD, FieldCode::InvalidFormat, &predicate);
            ApiError::field(fault.in_part("fault-json-refused"))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::functions::parameters;

    #[test]
    fn the_example_is_taken_and_can_be_a_list() {
        let schema: Value = serde_json::from_str(EXAMPLE).expect("JSON");
        assert!(parameters::parse(&schema).is_ok());
        assert!(rows::of_schema(EXAMPLE).is_some());
    }
}
