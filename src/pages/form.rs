//! Forms: converts typed values to the fields of an operation's input, and shows them again with the errors beside
//! the fields.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload};
use dikala_entities::{Millis, foreign_json};
use serde_json::{Map, Value};

use super::{faults, format::Zone, phone::dialled};
use crate::http::{
    error::ApiError,
    extract::{FormFields, ParseResult, RequestBody},
    field::{FieldCode, FieldError, ValueFault},
};

/// Parts of the names of fields whose values are never sent back in a page.
const SECRET: [&str; 3] = ["password", "secret", "token"];

/// PostgreSQL cannot store this character in a text.
const NUL: char = '\0';

/// Error statuses after which the form can be corrected or sent again.
const REFUSALS: [u16; 4] = [400, 409, 422, 429];

/// The hidden field of a form that changes a row: the row's `updated_at` when it was shown.
pub const SEEN_FIELD: &str = "_seen";

fn is_secret(name: &str) -> bool {
    let folded = name.to_lowercase();
    SECRET.iter().any(|word| folded.contains(word))
}

/// The values of a posted form, in the order of its fields, or of the query string of a page that only reads.
/// Handlers take it.
#[derive(Clone, Debug, Default)]
pub struct FormValues(Vec<(String, String)>);

impl FormValues {
    /// Parses `application/x-www-form-urlencoded`.
    pub fn parse(body: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(body);
        // Browsers send line breaks as CR LF.
        let plain = |text: std::borrow::Cow<'_, str>| text.replace("\r\n", "\n");
        Self(
            pairs
                .map(|(name, value)| (plain(name), plain(value)))
                .collect(),
        )
    }

    /// The first value of a field; values with U+0000 are skipped.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a field, such as ticked boxes; values with U+0000 are skipped.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.raw(name).filter(|value| !value.contains(NUL))
    }

    /// All values of a field, for callers that refuse invalid ones with an error.
    pub fn raw(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_it = move |(key, _): &'_ &(String, String)| key == name;
        self.0.iter().filter(of_it).map(|(_, value)| value.as_str())
    }

    /// The `updated_at` of the row as the reader knows it. None if the form did not say.
    pub fn seen(&self) -> Option<Millis> {
        self.text(SEEN_FIELD)?.parse().ok().map(Millis::from_i64)
    }

    /// The names and values that a page may contain: all but secrets, and those with U+0000.
    pub fn kept(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_kept = |(name, value): &&(String, String)| {
            !is_secret(name) && !name.contains(NUL) && !value.contains(NUL)
        };
        self.0
            .iter()
            .filter(is_kept)
            .map(|(name, value)| (&**name, &**value))
    }

    /// Removes passwords and other secrets.
    pub fn without_secrets(mut self) -> Self {
        self.0.retain(|(name, _)| !is_secret(name));
        self
    }

    /// Removes U+0000, which no page can contain.
    fn without_nul(mut self) -> Self {
        for (_, value) in &mut self.0 {
            value.retain(|letter| letter != NUL);
        }
        self
    }
}

impl FromRequest for FormValues {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let typed = request.extensions().get::<Self>().cloned();
        let asked = || Self::parse(request.query_string().as_bytes());
        ready(Ok(typed.unwrap_or_else(asked)))
    }
}

/// The JSON type of a form's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string; may be empty.
    Text,
    /// A string, or `null` if empty.
    Optional,
    /// A phone number in any common notation, or `null` if empty.
    Phone,
    /// A number, or `null` if empty. An invalid number is passed on as typed, and the handler refuses it.
    Number,
    /// A check box: `true` if ticked.
    Switch,
    /// Check boxes with one name: an array of the ticked values.
    Words,
    /// JSON text, or `null` if empty.
    Json,
}

/// A form's fields, by the API's names.
pub type Fields = [(&'static str, Shape)];

/// The operation's input for this form. Other fields are ignored.
///
/// Fails on JSON text that cannot be parsed, and names the line.
pub fn body(typed: &FormValues, fields: &Fields) -> Result<RequestBody, ApiError> {
    object(typed, fields).map(|object| RequestBody::of(Value::Object(object)))
}

/// The same for a form that shows all errors at once. Text that cannot be parsed is passed on as typed, and the operation refuses
/// it together with the other errors. [`UnparsedFields::beside`] then replaces that error by the reason why the text cannot be parsed.
pub fn body_and_unread(typed: &FormValues, fields: &Fields) -> (RequestBody, UnparsedFields) {
    let (mut object, mut faults) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        let value = value(typed, name, *shape).unwrap_or_else(|fault| {
            faults.push(fault);
            typed.raw(name).collect::<String>().into()
        });
        insert(&mut object, name, value);
    }
    (
        RequestBody::of(Value::Object(object)),
        UnparsedFields(faults),
    )
}

/// The fields of a form that cannot be parsed.
#[derive(Debug)]
pub struct UnparsedFields(Vec<FieldError>);

impl UnparsedFields {
    /// The handler's error, with the reason why each of these fields cannot be parsed.
    pub fn beside(self, error: ApiError) -> ApiError {
        let Self(unread) = self;
        match error {
            ApiError::Validation(mut errors) => {
                let is_read = |error: &FieldError| {
                    let of_it = |fault: &FieldError| fault.field == faults::input_of(&error.field);
                    !unread.iter().any(of_it)
                };
                errors.retain(is_read);
                errors.extend(unread);
                ApiError::Validation(errors)
            }
            other => other,
        }
    }
}

/// The form's values for the page's own parsing.
pub fn read(typed: &FormValues, fields: &Fields) -> Result<FormFields, ApiError> {
    FormFields::from_body(Value::Object(object(typed, fields)?))
}

/// The query string's values. Unknown parameters, such as those of a campaign, are ignored.
pub fn asked(request: &HttpRequest, fields: &Fields) -> Result<FormFields, ApiError> {
    read(
        &FormValues::parse(request.query_string().as_bytes()),
        fields,
    )
}

/// The form's values as a JSON object that can be extended.
pub fn object(typed: &FormValues, fields: &Fields) -> Result<Map<String, Value>, ApiError> {
    let (mut object, mut faults) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        match value(typed, name, *shape) {
            Ok(value) => insert(&mut object, name, value),
            Err(fault) => faults.push(fault),
        }
    }
    match faults.is_empty() {
        true => Ok(object),
        false => Err(ApiError::Validation(faults)),
    }
}

/// Inserts a field. One with a dot in its name, such as `outer.inner`, is a field of the object `outer`.
fn insert(object: &mut Map<String, Value>, name: &str, value: Value) {
    let Some((outer, inner)) = name.split_once('.') else {
        object.insert(name.to_owned(), value);
        return;
    };
    let entry = object.entry(outer).or_insert_with(|| Map::new().into());
    if let Value::Object(fields) = entry {
        fields.insert(inner.to_owned(), value);
    }
}

/// A name of the time zone database.
pub fn time_zone(value: &Value) -> ParseResult<String> {
    let name = value.as_str().unwrap_or_default();
    match Zone::named(name) {
        Some(_) => Ok(name.to_owned()),
        None => {
            let predicate = "must be a name of the time zone database, such as Asia/Jakarta";
            let fault = ValueFault::new(FieldCode::NotAllowed, predicate);
            Err(fault.in_words("fault-time-zone").into())
        }
    }
}

fn value(typed: &FormValues, name: &str, shape: Shape) -> Result<Value, FieldError> {
    if typed.raw(name).any(|value| value.contains(NUL)) {
        let predicate = "must not contain the character U+0000; it is left out here";
        let fault = FieldError::new(name, FieldCode::InvalidFormat, predicate);
        return Err(fault.in_words("fault-nul"));
    }
    let text = typed.text(name).unwrap_or_default();
    let is_empty = text.trim().is_empty();
    Ok(match shape {
        Shape::Text => text.into(),
        Shape::Optional | Shape::Phone | Shape::Number | Shape::Json if is_empty => Value::Null,
        Shape::Optional => text.into(),
        Shape::Phone => dialled(text).into(),
        Shape::Number => text
            .trim()
            .parse::<i64>()
            .map_or_else(|_| text.into(), Value::from),
        Shape::Switch => typed.text(name).is_some().into(),
        Shape::Words => typed.all(name).collect(),
        Shape::Json => foreign_json::value(text.as_bytes()).map_err(|error| {
            let predicate = format!(
                "is not JSON: line {}, column {} cannot be read",
                error.line(),
                error.column()
            );
            let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
            let place = [
                ("line", count(error.line())),
                ("column", count(error.column())),
            ];
            let fault = FieldError::new(name, FieldCode::InvalidFormat, &predicate);
            fault.in_words_with("fault-json", &place)
        })?,
    })
}

/// A form's state: stored values, or typed ones with their errors.
#[derive(Clone, Debug, Default)]
pub struct FormState {
    typed: FormValues,
    errors: Vec<FieldError>,
    refusal: Option<ApiError>,
}

impl FormState {
    pub fn blank() -> Self {
        Self::default()
    }

    pub fn with<N: Into<String>, V: Into<String>>(
        values: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let pair = |(name, value): (N, V)| (name.into(), value.into());
        Self {
            typed: FormValues(values.into_iter().map(pair).collect()),
            ..Self::default()
        }
    }

    /// The form as typed, with a handler's refusal. Errors that are no refusal (not found, forbidden, internal) are
    /// returned, to be shown as an error page.
    pub fn again(typed: FormValues, error: ApiError) -> Result<Self, ApiError> {
        let filled = Self {
            typed: typed.without_nul(),
            ..Self::default()
        };
        match error {
            ApiError::Validation(errors) => Ok(Self { errors, ..filled }),
            // The error about a taken name is shown beside the name.
            ApiError::FunctionExists(_) => {
                let mut fault = FieldError::new("name", FieldCode::Duplicate, "");
                fault.message = error.to_string();
                Ok(Self {
                    errors: vec![fault.in_words("fault-function-exists")],
                    ..filled
                })
            }
            refusal if REFUSALS.contains(&refusal.code().status()) => Ok(Self {
                refusal: Some(refusal),
                ..filled
            }),
            other => Err(other),
        }
    }

    /// The shown value of a field; empty for secrets.
    pub fn text(&self, name: &str) -> &str {
        if is_secret(name) {
            return "";
        }
        self.typed.text(name).unwrap_or_default()
    }

    /// True if the box with this value is ticked.
    pub fn is_ticked(&self, name: &str, value: &str) -> bool {
        self.typed.all(name).any(|ticked| ticked == value)
    }

    /// The reason why the form was refused as a whole.
    pub fn refusal(&self) -> Option<&ApiError> {
        self.refusal.as_ref()
    }

    /// All errors of fields.
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// The errors of a field, including those inside its value.
    pub fn errors_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a FieldError> {
        self.errors.iter().filter(move |error| {
            error
                .field
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::{error::Missing, field::ValueFault};

    const FIELDS: &Fields = &[
        ("name", Shape::Text),
        ("greetingText", Shape::Optional),
        ("minutes", Shape::Number),
        ("isActive", Shape::Switch),
        ("events", Shape::Words),
        ("parameters", Shape::Json),
    ];

    fn object_of(typed: &str) -> Value {
        Value::Object(object(&FormValues::parse(typed.as_bytes()), FIELDS).expect("can be read"))
    }

    #[test]
    fn a_form_becomes_what_the_api_takes() {
        let full = "name=+a%0D%0Ab&greetingText=Halo&minutes=10&isActive=on&events=x&events=y&parameters=%7B%22a%22%3A1%7D&other=1";
        assert_eq!(
            object_of(full),
            json!({"name": " a\nb", "greetingText": "Halo", "minutes": 10, "isActive": true, "events": ["x", "y"],
                   "parameters": {"a": 1}})
        );
        let nothing = json!({"name": "", "greetingText": null, "minutes": null, "isActive": false, "events": [],
                             "parameters": null});
        assert_eq!(object_of(""), nothing);
        assert_eq!(
            object_of("greetingText=+&minutes=+&parameters=%0A"),
            nothing
        );
        assert_eq!(object_of("minutes=ten")["minutes"], "ten");
    }

    #[test]
    fn a_field_with_a_dot_is_inside_an_object() {
        let typed = FormValues::parse(b"a.b=1&a.c=x&d=y");
        let fields = [
            ("a.b", Shape::Number),
            ("a.c", Shape::Text),
            ("d", Shape::Text),
        ];
        let object = object(&typed, &fields).expect("can be read");
        assert_eq!(json!(object), json!({"a": {"b": 1, "c": "x"}, "d": "y"}));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let typed = FormValues::parse(b"name=&parameters=%7B");
        let (body, unread) = body_and_unread(&typed, FIELDS);
        let form = body.form().expect("an object");
        let others = ["greetingText", "minutes", "isActive", "events"];
        let refused = form.read(&others, |form| {
            let fault = |code| vec![ValueFault::new(code, "is wrong")];
            let name: Option<()> = form.required("name", None, |_| Err(fault(FieldCode::Required)));
            let _: Option<()> =
                form.optional("parameters", None, |_| Err(fault(FieldCode::InvalidType)));
            name
        });
        let refused = refused.expect_err("is refused");
        let ApiError::Validation(errors) = unread.beside(refused) else {
            panic!("another error");
        };
        let told: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[1].contains("is not JSON: line 1"), "{told:?}");
    }

    #[test]
    fn json_that_cannot_be_read_names_the_line() {
        let typed = FormValues::parse(b"parameters=%7B%0A+%22a%22%3A+%0A%7D");
        let Err(ApiError::Validation(faults)) = object(&typed, FIELDS) else {
            panic!("taken");
        };
        assert_eq!(
            faults[0].message,
            "parameters is not JSON: line 3, column 1 cannot be read."
        );
        let filled = FormState::again(typed, ApiError::Validation(faults)).expect("a form");
        assert_eq!(filled.text("parameters"), "{\n \"a\": \n}");
        assert_eq!(filled.errors_of("parameters").count(), 1);
    }

    #[test]
    fn a_text_with_nul_is_refused_in_words_and_kept_without_it() {
        let typed = FormValues::parse(b"name=Ko%00pi&greetingText=%00&events=x&events=%00");
        assert_eq!(typed.text("name"), None);
        let Err(ApiError::Validation(faults)) = object(&typed, FIELDS) else {
            panic!("taken");
        };
        let told: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        let words = "must not contain the character U+0000; it is left out here.";
        let expected = ["name", "greetingText", "events"].map(|name| format!("{name} {words}"));
        assert_eq!(told, expected);
        let filled = FormState::again(typed, ApiError::Validation(faults)).expect("a form");
        assert_eq!(filled.text("name"), "Kopi");
    }

    #[test]
    fn what_is_there_and_what_was_typed_is_shown_but_for_secrets() {
        let filled = FormState::with([("name", "A"), ("events", "x"), ("isActive", "true")]);
        assert_eq!([filled.text("name"), filled.text("minutes")], ["A", ""]);
        assert!(filled.is_ticked("events", "x") && !filled.is_ticked("events", "y"));
        assert!(filled.is_ticked("isActive", "true"));
        let typed = FormValues::parse(b"email=a&new_password=hush&clientSecret=hush");
        let again = FormState::again(typed, ApiError::Validation(Vec::new())).expect("a form");
        assert_eq!(again.text("email"), "a");
        assert_eq!(
            [again.text("new_password"), again.text("clientSecret")],
            ["", ""]
        );
    }

    #[test]
    fn an_error_inside_of_a_field_stands_beside_it() {
        let error = |field: &str| FieldError::new(field, FieldCode::Required, "is required");
        let errors = ["parameters.a[1]", "parametersOther", "parameters"].map(error);
        let filled = FormState::again(FormValues::default(), ApiError::Validation(errors.into()))
            .expect("a form");
        assert_eq!(filled.errors_of("parameters").count(), 2);
    }

    #[test]
    fn what_is_about_no_field_leaves_the_form_as_it_was_typed() {
        let again = |error| FormState::again(FormValues::parse(b"name=A"), error);
        for error in [ApiError::TooManyVersions(1), ApiError::CallNotActive] {
            let filled = again(error.clone()).expect("a form");
            assert_eq!((filled.text("name"), filled.refusal()), ("A", Some(&error)));
            assert!(filled.errors().is_empty());
        }
        for error in [
            ApiError::NotFound(Missing::Agent),
            ApiError::TenantSuspended,
            ApiError::Unavailable,
            ApiError::Internal,
        ] {
            assert_eq!(again(error.clone()).err(), Some(error));
        }
    }
}
