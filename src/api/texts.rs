//! Texts of bounded length. The parser and the OpenAPI description share their limits.

use dikala_entities::described;
use serde_json::Value;
use utoipa::openapi::ObjectBuilder;

use crate::{
    http::extract::{BlankRule, ParseResult, line, text},
    openapi::schema,
};

/// The longest name of a function or another tool, in characters.
pub const TOOL_NAME_CHARS_MAX: usize = 64;

/// The schema of a tool's name.
pub fn tool_name() -> ObjectBuilder {
    let more = TOOL_NAME_CHARS_MAX - 1;
    schema::text(1, TOOL_NAME_CHARS_MAX, false)
        .pattern(Some(format!("^[A-Za-z_][A-Za-z0-9_-]{{0,{more}}}$")))
}

macro_rules! texts {
    (@read $min:literal, $max:expr, $blanks:ident) => { text($min, $max, BlankRule::$blanks) };
    (@read $min:literal, $max:expr, $blanks:ident, $line:ident) => { $line($max) };
    ($($(#[$doc:meta])* $name:ident: $min:literal to $max:literal characters, $blanks:ident $(, $line:ident)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// The most characters.
            pub const CHARS_MAX: usize = $max;

            /// Parses a tenant's input.
            pub fn parse(value: &Value) -> ParseResult<Self> {
                texts!(@read $min, Self::CHARS_MAX, $blanks $(, $line)?)(value).map(Self)
            }

            pub fn as_str(&self) -> &str {
                &self.0
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

        described! {
            $name: schema::text($min, $max, BlankRule::$blanks != BlankRule::Opaque);
        }
    )*};
}

texts! {
    /// The name of an agent.
    AgentName: 1 to 120 characters, Trim, line;
    /// Instructions and persona of the AI.
    SystemPrompt: 1 to 32_000 characters, Keep;
    /// The AI's first sentence.
    Greeting: 1 to 1_000 characters, Opaque;
    /// Describes the function to the AI.
    FunctionDescription: 1 to 1_000 characters, Trim;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_name_stays_on_its_line_and_turns_nothing_around() {
        let read = |name: &str| AgentName::parse(&Value::from(name)).is_ok();
        assert!(read("Reception"));
        for name in ["a\nb", "a\u{1b}[2Jb", "a\u{7}", "a\u{85}b", "\u{202e}nimda"] {
            assert!(!read(name), "{name:?}");
        }
    }
}
