//! Forms: what was typed, as the API's handlers take it, and back into the form with what is wrong beside each field.

use std::future::{Ready, ready};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload};
use serde_json::{Map, Value};

use super::faults;
use crate::http::{
    error::ApiError,
    extract::{Body, Form},
    field::{FieldCode, FieldError},
};

/// Fields that are never written back into a page.
const SECRET: [&str; 2] = ["password", "secret"];

/// The prefix of a number that is written without its country code.
const HOME: &str = "+62";

/// What no text may hold: PostgreSQL cannot store it.
const NUL: char = '\0';

/// Statuses of errors after which the same form can be sent again, changed or later.
const REFUSALS: [u16; 4] = [400, 409, 422, 429];

/// What came in a post: names and values in the order of the form. Handlers of posts take it.
#[derive(Clone, Debug, Default)]
pub struct Typed(Vec<(String, String)>);

impl Typed {
    /// Reads `application/x-www-form-urlencoded`.
    pub fn parse(body: &[u8]) -> Self {
        let pairs = url::form_urlencoded::parse(body);
        // Browsers send lines with both signs.
        let plain = |text: std::borrow::Cow<'_, str>| text.replace("\r\n", "\n");
        Self(
            pairs
                .map(|(name, value)| (plain(name), plain(value)))
                .collect(),
        )
    }

    /// The first value of a field; none where it holds U+0000, which nothing that is read here may.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of a field that can have several, such as boxes that are ticked; without those that hold U+0000.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.raw(name).filter(|value| !value.contains(NUL))
    }

    /// The values of a field whatever they hold, for who refuses them in words.
    pub fn raw(&self, name: &str) -> impl Iterator<Item = &str> {
        let of_it = move |(key, _): &'_ &(String, String)| key == name;
        self.0.iter().filter(of_it).map(|(_, value)| value.as_str())
    }

    /// The same without U+0000, which no page can hold.
    fn without_nul(mut self) -> Self {
        for (_, value) in &mut self.0 {
            value.retain(|letter| letter != NUL);
        }
        self
    }
}

impl FromRequest for Typed {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let typed = request.extensions().get::<Self>().cloned();
        ready(Ok(typed.unwrap_or_default()))
    }
}

/// What a field of a form stands for in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A string, also an empty one.
    Text,
    /// A string, or `null` where nothing was typed.
    Optional,
    /// A phone number as people write it, or `null` where nothing was typed.
    Phone,
    /// A number, or `null` where nothing was typed; what is no number goes on as it was typed, and is refused by the handler.
    Number,
    /// A box: `true` where it is ticked.
    Switch,
    /// Boxes of one name: an array of the values of those that are ticked.
    Words,
    /// JSON as text, or `null` where nothing was typed.
    Json,
}

/// What a form has, by the names of the API.
pub type Fields = [(&'static str, Shape)];

/// The body that a handler of the API takes in the place of this form. Fields that are not named here are left out.
///
/// Errors: JSON that cannot be read, with the line.
pub fn body(typed: &Typed, fields: &Fields) -> Result<Body, ApiError> {
    object(typed, fields).map(|object| Body::of(&Value::Object(object)))
}

/// The same for a form that shows all errors at once. Text that cannot be parsed is passed on as typed, and the handler refuses
/// it together with the other errors. [`Unread::beside`] then replaces that error by the reason why the text cannot be parsed.
pub fn body_and_unread(typed: &Typed, fields: &Fields) -> (Body, Unread) {
    let (mut object, mut faults) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        let value = value(typed, name, *shape).unwrap_or_else(|fault| {
            faults.push(fault);
            typed.raw(name).collect::<String>().into()
        });
        object.insert((*name).to_owned(), value);
    }
    (Body::of(&Value::Object(object)), Unread(faults))
}

/// The fields of a form that cannot be parsed.
#[derive(Debug)]
pub struct Unread(Vec<FieldError>);

impl Unread {
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

/// Converts a phone number as people write it to the API's form. People use separators, and omit the country code at home. Other
/// text is passed on as typed, and the handler refuses it.
pub fn dialled(text: &str) -> String {
    let text = text.trim();
    if !text.chars().all(|sign| "+0123456789 -.()".contains(sign)) {
        return text.to_owned();
    }
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    match digits.strip_prefix('0') {
        _ if text.starts_with('+') => format!("+{digits}"),
        Some(rest) if !rest.starts_with('0') => format!("{HOME}{rest}"),
        _ => text.to_owned(),
    }
}

/// The same, to be read by the page itself.
pub fn read(typed: &Typed, fields: &Fields) -> Result<Form, ApiError> {
    Form::from_body(Value::Object(object(typed, fields)?))
}

/// The same of what stands in the address of a page. What a page does not know is left alone: who passes a link on adds marks to it.
pub fn asked(request: &HttpRequest, fields: &Fields) -> Result<Form, ApiError> {
    read(&Typed::parse(request.query_string().as_bytes()), fields)
}

/// The same as JSON, for who has something to add.
pub fn object(typed: &Typed, fields: &Fields) -> Result<Map<String, Value>, ApiError> {
    let (mut object, mut faults) = (Map::new(), Vec::new());
    for (name, shape) in fields {
        match value(typed, name, *shape) {
            Ok(value) => {
                object.insert((*name).to_owned(), value);
            }
            Err(fault) => faults.push(fault),
        }
    }
    match faults.is_empty() {
        true => Ok(object),
        false => Err(ApiError::Validation(faults)),
    }
}

fn value(typed: &Typed, name: &str, shape: Shape) -> Result<Value, FieldError> {
    if typed.raw(name).any(|value| value.contains(NUL)) {
        let predicate = "must not contain the character U+0000; it is left out here";
        return Err(FieldError::new(name, FieldCode::InvalidFormat, predicate));
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
        Shape::Json => serde_json::from_str(text).map_err(|error| {
            let predicate = format!(
                "is not JSON: line {}, column {} cannot be read",
                error.line(),
                error.column()
            );
            let fault = FieldError::new(name, FieldCode::InvalidFormat, &predicate);
            FieldError {
                bound: i64::try_from(error.line()).ok(),
                ..fault
            }
        })?,
    })
}

/// What a form shows: what is there, or what was typed with what is wrong with it.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    typed: Typed,
    errors: Vec<FieldError>,
    refusal: Option<ApiError>,
}

impl Filled {
    /// An empty form.
    pub fn blank() -> Self {
        Self::default()
    }

    /// A form with these values.
    pub fn with<V: Into<String>>(values: impl IntoIterator<Item = (&'static str, V)>) -> Self {
        let pair = |(name, value): (&'static str, V)| (name.to_owned(), value.into());
        Self {
            typed: Typed(values.into_iter().map(pair).collect()),
            ..Self::default()
        }
    }

    /// The form as it was typed, after a handler refused it. What is not there, may not be done, or failed on our side comes back
    /// as it is, to be shown as a page of its own.
    pub fn again(typed: Typed, error: ApiError) -> Result<Self, ApiError> {
        let filled = Self {
            typed: typed.without_nul(),
            ..Self::default()
        };
        match error {
            ApiError::Validation(errors) => Ok(Self { errors, ..filled }),
            // What the API tells of a name that is taken stands beside the name.
            ApiError::FunctionExists(_) => {
                let mut fault = FieldError::new("name", FieldCode::Duplicate, "");
                fault.message = error.to_string();
                Ok(Self {
                    errors: vec![fault],
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

    /// What a field shows. Nothing secret is written back.
    pub fn text(&self, name: &str) -> &str {
        let folded = name.to_lowercase();
        if SECRET.iter().any(|word| folded.contains(word)) {
            return "";
        }
        self.typed.text(name).unwrap_or_default()
    }

    /// Whether the box with that value is ticked.
    pub fn is_ticked(&self, name: &str, value: &str) -> bool {
        self.typed.all(name).any(|ticked| ticked == value)
    }

    /// Why it was refused as a whole.
    pub fn refusal(&self) -> Option<&ApiError> {
        self.refusal.as_ref()
    }

    /// All that is wrong with fields.
    pub fn errors(&self) -> &[FieldError] {
        &self.errors
    }

    /// What is wrong with a field or inside of it.
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
    use crate::http::{error::Missing, field::Fault};

    const FIELDS: &Fields = &[
        ("name", Shape::Text),
        ("greetingText", Shape::Optional),
        ("minutes", Shape::Number),
        ("isActive", Shape::Switch),
        ("events", Shape::Words),
        ("parameters", Shape::Json),
    ];

    fn object_of(typed: &str) -> Value {
        Value::Object(object(&Typed::parse(typed.as_bytes()), FIELDS).expect("can be read"))
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
    fn numbers_are_taken_as_people_write_them() {
        for (typed, taken) in [
            ("0812 3456 7890", "+6281234567890"),
            ("0812-3456-7890", "+6281234567890"),
            ("(021) 555.0100", "+62215550100"),
            (" +62 812-3456-7890 ", "+6281234567890"),
            ("+1 (415) 555-0100", "+14155550100"),
            ("6281234567890", "6281234567890"),
            ("0062812", "0062812"),
            ("0812 call me", "0812 call me"),
            ("+", "+"),
        ] {
            assert_eq!(dialled(typed), taken, "{typed}");
        }
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let typed = Typed::parse(b"name=&parameters=%7B");
        let (body, unread) = body_and_unread(&typed, FIELDS);
        let form = body.form().expect("an object");
        let others = ["greetingText", "minutes", "isActive", "events"];
        let refused = form.read(&others, |form| {
            let fault = |code| vec![Fault::new(code, "is wrong")];
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
        let typed = Typed::parse(b"parameters=%7B%0A+%22a%22%3A+%0A%7D");
        let Err(ApiError::Validation(faults)) = object(&typed, FIELDS) else {
            panic!("taken");
        };
        assert_eq!(
            faults[0].message,
            "parameters is not JSON: line 3, column 1 cannot be read."
        );
        let filled = Filled::again(typed, ApiError::Validation(faults)).expect("a form");
        assert_eq!(filled.text("parameters"), "{\n \"a\": \n}");
        assert_eq!(filled.errors_of("parameters").count(), 1);
    }

    #[test]
    fn a_text_with_nul_is_refused_in_words_and_kept_without_it() {
        let typed = Typed::parse(b"name=Ko%00pi&greetingText=%00&events=x&events=%00");
        assert_eq!(typed.text("name"), None);
        let Err(ApiError::Validation(faults)) = object(&typed, FIELDS) else {
            panic!("taken");
        };
        let told: Vec<&str> = faults.iter().map(|fault| fault.message.as_str()).collect();
        let words = "must not contain the character U+0000; it is left out here.";
        let expected = ["name", "greetingText", "events"].map(|name| format!("{name} {words}"));
        assert_eq!(told, expected);
        let filled = Filled::again(typed, ApiError::Validation(faults)).expect("a form");
        assert_eq!(filled.text("name"), "Kopi");
    }

    #[test]
    fn what_is_there_and_what_was_typed_is_shown_but_for_secrets() {
        let filled = Filled::with([("name", "A"), ("events", "x"), ("isActive", "true")]);
        assert_eq!([filled.text("name"), filled.text("minutes")], ["A", ""]);
        assert!(filled.is_ticked("events", "x") && !filled.is_ticked("events", "y"));
        assert!(filled.is_ticked("isActive", "true"));
        let typed = Typed::parse(b"email=a&new_password=hush&clientSecret=hush");
        let again = Filled::again(typed, ApiError::Validation(Vec::new())).expect("a form");
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
        let filled =
            Filled::again(Typed::default(), ApiError::Validation(errors.into())).expect("a form");
        assert_eq!(filled.errors_of("parameters").count(), 2);
    }

    #[test]
    fn what_is_about_no_field_leaves_the_form_as_it_was_typed() {
        let again = |error| Filled::again(Typed::parse(b"name=A"), error);
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
