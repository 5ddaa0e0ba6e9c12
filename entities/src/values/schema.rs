//! The formats of values for the API's description (JSON Schema as in OpenAPI 3.1). They are defined beside the
//! values, from the same constants as the parsers.

use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type, schema::AnyOfBuilder};

/// Defines the schemas of types. Its users depend on `utoipa`.
#[macro_export]
macro_rules! described {
    ($($name:ty: $schema:expr;)*) => {$(
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $name {
            // Distinguishes them from API objects with the same name.
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(concat!("value ", stringify!($name)))
            }
        }
    )*};
}

/// The ULID of an id in lower case.
const ULID_PATTERN: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}";

/// An address without user info and fragment; the parser checks the rest.
pub(super) const URL_PATTERN: &str = r"^https?://[^/?#@\s\x00-\x1f]+([/?][^#\s\x00-\x1f]*)?$";

/// The format of an instant in a request, as [`Millis::parse_date_or_rfc3339`](super::Millis::parse_date_or_rfc3339)
/// reads it. No value has this type; it is for descriptions only.
#[derive(Clone, Copy, Debug)]
pub enum InstantOrDate {}

described! { InstantOrDate: instant_or_date(); }

/// A text, to which constraints can be added.
pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// One of these words.
pub(super) fn words(words: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(words.iter().copied()))
}

/// An id with this prefix.
pub(super) fn id(prefix: &str) -> ObjectBuilder {
    text().pattern(Some(format!("^{prefix}_{ULID_PATTERN}$")))
}

/// The format of an instant in a response.
pub(super) fn instant() -> ObjectBuilder {
    of_format(KnownFormat::DateTime)
}

fn instant_or_date() -> AnyOfBuilder {
    AnyOfBuilder::new()
        .item(of_format(KnownFormat::DateTime))
        .item(of_format(KnownFormat::Date))
        .description(Some(
            "RFC 3339, or a date, which means its midnight in UTC.",
        ))
}

fn of_format(format: KnownFormat) -> ObjectBuilder {
    text().format(Some(SchemaFormat::KnownFormat(format)))
}
