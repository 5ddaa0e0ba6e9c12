//! A function's parameters as a list of rows, for people who do not write JSON Schema. Pure.

use serde_json::{Map, Value, json};

use super::super::form::FormValues;
use crate::http::{
    extract::KeyOrder,
    field::{FieldCode, FieldError},
};

/// Parameters that a list can have. A schema with more is edited as JSON.
pub const ROWS_MAX: usize = 12;

/// The kinds of values that a row can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    Text,
    Number,
    WholeNumber,
    YesOrNo,
    /// One of the row's choices.
    Choice,
}

impl ParameterKind {
    pub const ALL: [Self; 5] = [
        Self::Text,
        Self::Number,
        Self::WholeNumber,
        Self::YesOrNo,
        Self::Choice,
    ];

    /// Its value in the form.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Number => "number",
            Self::WholeNumber => "integer",
            Self::YesOrNo => "boolean",
            Self::Choice => "choice",
        }
    }

    /// The message id of its name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Text => "parameter-text",
            Self::Number => "parameter-number",
            Self::WholeNumber => "parameter-integer",
            Self::YesOrNo => "parameter-boolean",
            Self::Choice => "parameter-choice",
        }
    }

    /// The type in JSON Schema.
    const fn json_type(self) -> &'static str {
        match self {
            Self::Text | Self::Choice => "string",
            Self::Number => "number",
            Self::WholeNumber => "integer",
            Self::YesOrNo => "boolean",
        }
    }
}

/// One parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterRow {
    pub name: String,
    pub kind: ParameterKind,
    pub is_required: bool,
    /// The question or thing that the agent asks for; may be empty.
    pub ask: String,
    /// The allowed values; empty unless it is a choice.
    pub choices: Vec<String>,
}

impl ParameterRow {
    pub const fn blank() -> Self {
        Self {
            name: String::new(),
            kind: ParameterKind::Text,
            is_required: true,
            ask: String::new(),
            choices: Vec::new(),
        }
    }

    /// True for a row that was left empty.
    fn is_blank(&self) -> bool {
        self.name.is_empty() && self.ask.is_empty() && self.choices.is_empty()
    }

    /// Reads a property. None if it has more than a row can show.
    fn of_property(name: &str, property: &Value, is_required: bool) -> Option<Self> {
        let fields = property.as_object()?;
        let is_known = |key: &String| ["type", "description", "enum"].contains(&key.as_str());
        let choices = match fields.get("enum") {
            Some(values) => Some(choices_of(values)?),
            None => None,
        };
        let kind = match (fields.get("type")?.as_str()?, &choices) {
            ("string", Some(_)) => ParameterKind::Choice,
            ("string", None) => ParameterKind::Text,
            ("number", None) => ParameterKind::Number,
            ("integer", None) => ParameterKind::WholeNumber,
            ("boolean", None) => ParameterKind::YesOrNo,
            _ => return None,
        };
        let ask = match fields.get("description") {
            Some(Value::String(text)) if is_line(text) => text.clone(),
            Some(_) => return None,
            None => String::new(),
        };
        (fields.keys().all(is_known) && is_line(name)).then(|| Self {
            name: name.to_owned(),
            kind,
            is_required,
            ask,
            choices: choices.unwrap_or_default(),
        })
    }

    fn property(&self) -> Value {
        let mut property = Map::new();
        property.insert("type".to_owned(), self.kind.json_type().into());
        if !self.ask.is_empty() {
            property.insert("description".to_owned(), self.ask.as_str().into());
        }
        if self.kind == ParameterKind::Choice {
            property.insert("enum".to_owned(), json!(self.choices));
        }
        Value::Object(property)
    }

    /// The row's fields in a form, at this place.
    fn fields(&self, at: usize) -> Vec<(String, String)> {
        let field = |part: &str, value: &str| (field_name(at, part), value.to_owned());
        let mut fields = vec![
            field("name", &self.name),
            field("kind", self.kind.word()),
            field("ask", &self.ask),
            field("choices", &self.choices.join(", ")),
        ];
        if self.is_required {
            fields.push(field("required", "true"));
        }
        fields
    }
}

/// Choices that can be typed with commas between. None for any others.
fn choices_of(values: &Value) -> Option<Vec<String>> {
    let plain = |value: &Value| {
        let text = value.as_str()?;
        (is_line(text) && !text.contains(',')).then(|| text.to_owned())
    };
    values.as_array()?.iter().map(plain).collect()
}

/// True for a text that an input keeps as it is.
fn is_line(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && !text.contains(['\n', '\r', '\0'])
}

/// The name of a part's input: `row0-name`.
pub fn field_name(at: usize, part: &str) -> String {
    format!("row{at}-{part}")
}

/// The rows of a schema, in its order. None if rows cannot show all of it.
pub fn of_schema(text: &str) -> Option<Vec<ParameterRow>> {
    let schema: Value = serde_json::from_str(text).ok()?;
    let fields = schema.as_object()?;
    let is_known = |key: &String| ["type", "properties", "required"].contains(&key.as_str());
    if fields.get("type")? != "object" || !fields.keys().all(is_known) {
        return None;
    }
    let none = Map::new();
    let properties = match fields.get("properties") {
        Some(properties) => properties.as_object()?,
        None => &none,
    };
    let required: Vec<&str> = match fields.get("required") {
        Some(names) => {
            let names = names.as_array()?.iter().map(Value::as_str);
            names.collect::<Option<_>>()?
        }
        None => Vec::new(),
    };
    if properties.len() > ROWS_MAX || required.iter().any(|name| !properties.contains_key(*name)) {
        return None;
    }
    let order = KeyOrder::of(text.as_bytes());
    let names = order.inside("properties").names();
    let row = |name: &&str| {
        let property = properties.get(*name)?;
        ParameterRow::of_property(name, property, required.contains(name))
    };
    names.iter().map(row).collect()
}

/// The schema that the rows describe, as compact JSON in their order.
pub fn schema(rows: &[ParameterRow]) -> String {
    let text = |value: &str| Value::from(value).to_string();
    let properties = rows
        .iter()
        .map(|row| format!("{}:{}", text(&row.name), row.property()));
    let required = rows.iter().filter(|row| row.is_required);
    let required: Vec<String> = required.map(|row| text(&row.name)).collect();
    format!(
        "{{\"type\":\"object\",\"properties\":{{{}}},\"required\":[{}]}}",
        properties.collect::<Vec<_>>().join(","),
        required.join(",")
    )
}

/// All fields of these rows in a form.
pub fn fields(rows: &[ParameterRow]) -> Vec<(String, String)> {
    let fields = |(at, row): (usize, &ParameterRow)| row.fields(at);
    rows.iter().enumerate().flat_map(fields).collect()
}

/// The rows that were typed, blank ones too.
pub fn typed(form: &FormValues) -> Vec<ParameterRow> {
    let row = |at: usize| {
        let text = |part: &str| form.text(&field_name(at, part));
        let word = text("kind").unwrap_or_default();
        let kind = ParameterKind::ALL
            .into_iter()
            .find(|kind| kind.word() == word);
        let kind = kind.unwrap_or(ParameterKind::Text);
        let mut choices: Vec<String> = Vec::new();
        if kind == ParameterKind::Choice {
            for choice in text("choices").unwrap_or_default().split([',', '\n']) {
                let choice = choice.trim().to_owned();
                if !choice.is_empty() && !choices.contains(&choice) {
                    choices.push(choice);
                }
            }
        }
        Some(ParameterRow {
            name: text("name")?.trim().to_owned(),
            kind,
            is_required: text("required").is_some(),
            ask: text("ask").unwrap_or_default().trim().replace('\n', " "),
            choices,
        })
    };
    (0..ROWS_MAX).map_while(row).collect()
}

/// The rows that say something, with what is wrong with them. Faults name the inputs of the typed rows.
pub fn read(rows: &[ParameterRow], twice: &str) -> (Vec<ParameterRow>, Vec<FieldError>) {
    let mut faults = Vec::new();
    let missing = |at: usize, part: &str| {
        FieldError::new(field_name(at, part), FieldCode::Required, "is required")
    };
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.is_blank()) {
        if row.name.is_empty() {
            faults.push(missing(at, "name"));
        } else if rows[..at].iter().any(|other| other.name == row.name) {
            let (field, code) = (field_name(at, "name"), FieldCode::Duplicate);
            faults.push(FieldError::translated(field, code, twice.to_owned()));
        }
        if row.kind == ParameterKind::Choice && row.choices.is_empty() {
            faults.push(missing(at, "choices"));
        }
    }
    let said = rows.iter().filter(|row| !row.is_blank());
    (said.cloned().collect(), faults)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::operations::functions::parameters;

    const SCHEMA: &str = r#"{"type":"object","properties":{"order":{"type":"string","description":"The number"},"city":{"type":"string","enum":["Bandung","Jakarta"]},"amount":{"type":"number"},"people":{"type":"integer"},"again":{"type":"boolean"}},"required":["order","people"]}"#;

    #[test]
    fn rows_and_schema_say_the_same() {
        let rows = of_schema(SCHEMA).expect("rows can show it");
        let kinds: Vec<(&str, ParameterKind, bool)> = rows
            .iter()
            .map(|row| (row.name.as_str(), row.kind, row.is_required))
            .collect();
        let expected = [
            ("order", ParameterKind::Text, true),
            ("city", ParameterKind::Choice, false),
            ("amount", ParameterKind::Number, false),
            ("people", ParameterKind::WholeNumber, true),
            ("again", ParameterKind::YesOrNo, false),
        ];
        assert_eq!(kinds, expected);
        // The properties keep their order; the keys inside of one do not matter.
        let written = schema(&rows);
        assert_eq!(of_schema(&written).as_ref(), Some(&rows));
        let value: Value = serde_json::from_str(&written).expect("JSON");
        assert_eq!(value, serde_json::from_str::<Value>(SCHEMA).expect("JSON"));
        assert!(parameters::parse(&value).is_ok());
        assert_eq!(of_schema(&schema(&[])), Some(Vec::new()));
        assert_eq!(of_schema(r#"{"type": "object"}"#), Some(Vec::new()));
    }

    #[test]
    fn what_a_form_shows_is_read_back() {
        let rows = of_schema(SCHEMA).expect("rows can show it");
        let pairs = fields(&rows);
        let sent = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(&pairs)
            .finish();
        assert_eq!(typed(&FormValues::parse(sent.as_bytes())), rows);
    }

    #[rstest]
    #[case(r#"{"type": "object", "additionalProperties": false}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "object"}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "array", "items": {}}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": ["string", "null"]}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "integer", "enum": [1, 2]}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "string", "enum": ["a, b"]}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {"type": "string", "description": "a\nb"}}}"#)]
    #[case(r#"{"type": "object", "properties": {"a": {}}}"#)]
    #[case(r#"{"type": "object", "required": ["a"]}"#)]
    #[case("nonsense")]
    fn what_rows_cannot_show_is_json(#[case] schema: &str) {
        assert_eq!(of_schema(schema), None);
    }

    #[test]
    fn many_parameters_are_json() {
        let rows = |count: usize| {
            let row = |at| ParameterRow {
                name: format!("p{at}"),
                ..ParameterRow::blank()
            };
            schema(&(0..count).map(row).collect::<Vec<_>>())
        };
        assert!(of_schema(&rows(ROWS_MAX)).is_some());
        assert_eq!(of_schema(&rows(ROWS_MAX + 1)), None);
    }

    #[test]
    fn all_faults_of_rows_are_told_at_once() {
        let form = "row0-name=a&row1-name=&row1-ask=Which%3F&row2-name=+a&row3-name=b&row3-kind=choice&row3-choices=+,&row4-name=";
        let (rows, faults) = read(&typed(&FormValues::parse(form.as_bytes())), "twice");
        let told: Vec<(&str, &str)> = faults
            .iter()
            .map(|fault| (fault.field.as_str(), fault.code.as_str()))
            .collect();
        let expected = [
            ("row1-name", "required"),
            ("row2-name", "duplicate"),
            ("row3-choices", "required"),
        ];
        assert_eq!(told, expected);
        assert_eq!(rows.len(), 4);
    }
}
