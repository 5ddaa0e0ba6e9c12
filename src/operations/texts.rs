//! Texts of bounded length. The parser and the OpenAPI description share their limits.

use utoipa::openapi::ObjectBuilder;

use crate::openapi::schema;

/// The longest name of a function or another tool, in characters.
pub const TOOL_NAME_CHARS_MAX: usize = 64;

/// The schema of a tool's name.
pub fn tool_name() -> ObjectBuilder {
    let more = TOOL_NAME_CHARS_MAX - 1;
    schema::text(1, TOOL_NAME_CHARS_MAX, false)
        .pattern(Some(format!("^[A-Za-z_][A-Za-z0-9_-]{{0,{more}}}$")))
}

/// Declares texts with their limits.
macro_rules! texts {
    (@read $min:literal, $max:expr, $blanks:ident) => {
        $crate::http::extract::text($min, $max, $crate::http::extract::BlankRule::$blanks)
    };
    (@read $min:literal, $max:expr, $blanks:ident, $line:ident) => { $crate::http::extract::$line($max) };
    ($($(#[$doc:meta])* $name:ident: $min:literal to $max:literal characters, $blanks:ident $(, $line:ident)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// The most characters.
            pub const CHARS_MAX: usize = $max;

            /// Parses a tenant's input.
            pub fn parse(value: &serde_json::Value) -> $crate::http::extract::ParseResult<Self> {
                texts!(@read $min, Self::CHARS_MAX, $blanks $(, $line)?)(value).map(Self)
            }
        }

        /// From the store, which holds parsed values only.
        impl From<String> for $name {
            fn from(stored: String) -> Self {
                Self(stored)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        dikala_entities::described! {
            $name: $crate::openapi::schema::text($min, $max, $crate::http::extract::BlankRule::$blanks != $crate::http::extract::BlankRule::Opaque);
        }
    )*};
}
pub(crate) use texts;

texts! {
    /// Describes the function to the AI.
    FunctionDescription: 1 to 1_000 characters, Trim;
}
