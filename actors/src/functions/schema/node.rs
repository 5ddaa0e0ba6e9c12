//! The compiled schema: a tree with references followed and patterns compiled.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use super::{number::Decimal, pattern::Pattern};

/// One schema. An absent keyword allows everything.
#[derive(Clone, Debug, Default)]
pub(super) struct SchemaNode {
    pub kinds: Option<Kinds>,
    /// Null fits, whatever the other keywords require.
    pub nullable: bool,
    pub constant: Option<Value>,
    pub values: Option<Vec<Value>>,
    pub object: ObjectRules,
    pub array: ArrayRules,
    pub string: StringRules,
    pub number: NumberRules,
    pub refers: Option<Box<SchemaNode>>,
    pub all: Vec<SchemaNode>,
    pub any: Vec<SchemaNode>,
    pub one: Vec<SchemaNode>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ObjectRules {
    pub properties: BTreeMap<String, SchemaNode>,
    pub required: Vec<String>,
    /// Only the listed properties are allowed.
    pub closed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ArrayRules {
    pub items: Option<Box<SchemaNode>>,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub unique: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct StringRules {
    /// In characters.
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub pattern: Option<Pattern>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct NumberRules {
    pub min: Option<Decimal>,
    pub max: Option<Decimal>,
    pub above: Option<Decimal>,
    pub below: Option<Decimal>,
    pub multiple_of: Option<Decimal>,
}

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    /// The types' names, in the order of their bits.
    pub(super) const WORDS: [&'static str; 7] = [
        "string", "number", "integer", "boolean", "object", "array", "null",
    ];

    /// The set with one more type. None if there is no such type.
    pub(super) fn with(self, word: &str) -> Option<Self> {
        let bit = Self::WORDS.iter().position(|known| *known == word)?;
        Some(Self(self.0 | 1 << bit))
    }

    fn has(self, word: &str) -> bool {
        Self::default()
            .with(word)
            .is_some_and(|only| self.0 & only.0 != 0)
    }

    /// The name of the type, if it is only one.
    pub(super) fn only(self) -> Option<&'static str> {
        let mut words = Self::WORDS.into_iter().filter(|word| self.has(word));
        words.next().filter(|_| words.next().is_none())
    }

    /// True if the value has one of the types. `1.0` is an integer.
    pub(super) fn take(self, value: &Value) -> bool {
        match value {
            Value::String(_) => self.has("string"),
            Value::Bool(_) => self.has("boolean"),
            Value::Object(_) => self.has("object"),
            Value::Array(_) => self.has("array"),
            Value::Null => self.has("null"),
            Value::Number(number) => {
                self.has("number") || (self.has("integer") && Decimal::of(number).is_whole())
            }
        }
    }
}

impl fmt::Display for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Self::WORDS.iter().filter(|word| self.has(word));
        for (index, word) in words.enumerate() {
            let article = match *word {
                "null" => "",
                "integer" | "object" | "array" => "an ",
                _ => "a ",
            };
            let or = if index > 0 { " or " } else { "" };
            write!(f, "{or}{article}{word}")?;
        }
        Ok(())
    }
}
