//! What values look like when they are written, as the description of the API tells it (JSON Schema as OpenAPI 3.1 has it). It is
//! told beside the values, so that it comes from the same constants as what parses them.

use utoipa::openapi::{KnownFormat, ObjectBuilder, SchemaFormat, Type, schema::AnyOfBuilder};

/// Says of types what they look like. Whoever uses it depends on `utoipa`.
#[macro_export]
macro_rules! described {
    ($($name:ty: $schema:expr;)*) => {$(
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
                $schema.into()
            }
        }

        impl utoipa::ToSchema for $name {
            // Apart from objects of the API that are called the same.
            fn name() -> std::borrow::Cow<'static, str> {
                std::borrow::Cow::Borrowed(concat!("value ", stringify!($name)))
            }
        }
    )*};
}

/// What the middle of an id looks like: a ULID in small letters.
const ULID_PATTERN: &str = "[0-7][0-9a-hjkmnp-tv-z]{25}";

/// An address without user info and fragment; the rest is the parser's.
pub(super) const URL_PATTERN: &str = r"^https?://[^/?#@\s\x00-\x1f]+([/?][^#\s\x00-\x1f]*)?$";

/// How an instant may be given: as [`Millis::parse_date_or_rfc3339`](super::Millis::parse_date_or_rfc3339) reads it. Nothing is of this type, it is for descriptions.
#[derive(Clone, Copy, Debug)]
pub enum InstantOrDate {}

described! { InstantOrDate: instant_or_date(); }

/// A text; what is known of it is added.
pub(super) fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// One of these words.
pub(super) fn words(words: &[&str]) -> ObjectBuilder {
    text().enum_values(Some(words.iter().copied()))
}

/// An id that begins with this prefix.
pub(super) fn id(prefix: &str) -> ObjectBuilder {
    text().pattern(Some(format!("^{prefix}_{ULID_PATTERN}$")))
}

/// An instant as it is written.
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
