//! The arguments of a function's test: one field each, and why some do not fit.

use dikala_actors::functions::schema::{ArgumentMismatch, MismatchReason, Schema};
use serde_json::{Map, Number, Value};

use super::{
    super::{components::Field, form::FormValues, view::DashboardView},
    function_form::JSON_FIELD,
    parameter_rows::{ParameterKind, ParameterRow},
};
use crate::http::field::{FieldCode, FieldError};

fn field_name(at: usize) -> String {
    format!("argument{at}")
}

/// A field for each parameter.
pub fn fields(view: &DashboardView, rows: &[ParameterRow]) -> Vec<Field> {
    let field = |(at, row): (usize, &ParameterRow)| {
        let label = row.name.clone();
        let none = (!row.is_required).then(|| (String::new(), "–".to_owned()));
        let options =
            |words: Vec<(String, String)>| none.clone().into_iter().chain(words).collect();
        let yes_or_no = [("true", "page-yes"), ("false", "page-no")];
        let field = match row.kind {
            ParameterKind::Text | ParameterKind::Number => Field::text("argument", label),
            ParameterKind::WholeNumber => Field::number("argument", label),
            ParameterKind::YesOrNo => {
                let words = yes_or_no.map(|(word, id)| (word.to_owned(), view.t(id)));
                Field::select("argument", label, options(words.into()))
            }
            ParameterKind::Choice => {
                let words = row.choices.iter().map(|word| (word.clone(), word.clone()));
                Field::select("argument", label, options(words.collect()))
            }
        };
        let field = match row.ask.as_str() {
            "" => field,
            ask => field.hint(ask.to_owned()),
        };
        let field = if row.is_required {
            field
        } else {
            field.optional()
        };
        field.named(field_name(at))
    };
    rows.iter().enumerate().map(field).collect()
}

/// The arguments that were typed. A blank one is left out; one that is not of its kind is sent as text, to be refused.
pub fn typed(form: &FormValues, rows: &[ParameterRow]) -> Map<String, Value> {
    let argument = |(at, row): (usize, &ParameterRow)| {
        let text = form.text(&field_name(at)).unwrap_or_default().trim();
        let value = match row.kind {
            _ if text.is_empty() => return None,
            ParameterKind::Text | ParameterKind::Choice => Value::from(text),
            ParameterKind::Number | ParameterKind::WholeNumber => text
                .parse::<Number>()
                .map_or_else(|_| Value::from(text), Value::from),
            ParameterKind::YesOrNo => text
                .parse::<bool>()
                .map_or_else(|_| Value::from(text), Value::from),
        };
        Some((row.name.clone(), value))
    };
    rows.iter().enumerate().filter_map(argument).collect()
}

/// The fields' values for these arguments.
pub fn values(rows: &[ParameterRow], arguments: &Value) -> Vec<(String, String)> {
    let value = |(at, row): (usize, &ParameterRow)| {
        let text = match &arguments[&row.name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (field_name(at), text)
    };
    rows.iter().enumerate().map(value).collect()
}

/// Why arguments were not sent: an error of the argument's field, or of the JSON. None if they fit the schema.
pub fn misfit(
    view: &DashboardView,
    schema: &str,
    rows: Option<&[ParameterRow]>,
    arguments: &str,
) -> Option<FieldError> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    let arguments: Value = serde_json::from_str(arguments).ok()?;
    let misfit = Schema::new(&schema)
        .ok()?
        .mismatch(arguments.as_object()?)?;
    let at = rows.and_then(|rows| rows.iter().position(|row| row.name == misfit.at));
    let field = at.map_or_else(|| JSON_FIELD.to_owned(), field_name);
    let told = told(view, &misfit);
    Some(FieldError::translated(
        field,
        FieldCode::InvalidFormat,
        told,
    ))
}

fn told(view: &DashboardView, misfit: &ArgumentMismatch) -> String {
    let id = match misfit.reason {
        MismatchReason::Type("string") => "functions-misfit-text",
        MismatchReason::Type("number") => "functions-misfit-number",
        MismatchReason::Type("integer") => "functions-misfit-integer",
        MismatchReason::Type("boolean") => "functions-misfit-boolean",
        MismatchReason::Required => "functions-misfit-required",
        MismatchReason::Unknown => "functions-misfit-unknown",
        MismatchReason::Type(_) | MismatchReason::Other => {
            let told = view.t("functions-misfit");
            return format!("{told} {} {}.", misfit.at, misfit.predicate);
        }
    };
    view.tn(id, &[("name", misfit.at.as_str().into())])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::parameter_rows, *};

    const SCHEMA: &str = r#"{"type":"object","properties":{"order":{"type":"string"},"people":{"type":"integer"},"weight":{"type":"number"},"again":{"type":"boolean"},"city":{"type":"string","enum":["Bandung"]}},"required":["order"]}"#;

    #[test]
    fn typed_arguments_are_of_their_kinds_or_text() {
        let rows = parameter_rows::of_schema(SCHEMA).expect("rows can show it");
        let arguments = |form: &str| Value::from(typed(&FormValues::parse(form.as_bytes()), &rows));
        let all = "argument0=+7+&argument1=4&argument2=1.5&argument3=false&argument4=Bandung";
        let expected =
            json!({"order": "7", "people": 4, "weight": 1.5, "again": false, "city": "Bandung"});
        assert_eq!(arguments(all), expected);
        assert_eq!(
            arguments("argument0=&argument1=four"),
            json!({"people": "four"})
        );
        let shown: Vec<String> = values(&rows, &expected)
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(shown, ["7", "4", "1.5", "false", "Bandung"]);
    }

    #[test]
    fn the_first_mismatch_says_where_and_why() {
        let schema: Value = serde_json::from_str(SCHEMA).expect("JSON");
        let schema = Schema::new(&schema).expect("a schema");
        for (arguments, at, reason) in [
            (json!({"order": 7}), "order", MismatchReason::Type("string")),
            (json!({}), "order", MismatchReason::Required),
            (
                json!({"order": "7", "people": "four"}),
                "people",
                MismatchReason::Type("integer"),
            ),
            (
                json!({"order": "7", "city": "Oslo"}),
                "city",
                MismatchReason::Other,
            ),
        ] {
            let arguments = arguments.as_object().cloned().unwrap_or_default();
            let misfit = schema.mismatch(&arguments).expect("does not fit");
            assert_eq!((misfit.at.as_str(), misfit.reason), (at, reason));
        }
        assert_eq!(
            schema.mismatch(json!({"order": "7"}).as_object().expect("an object")),
            None
        );
    }
}
