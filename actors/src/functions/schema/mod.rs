//! Parameter schemas: the subset of JSON Schema that generators write and language models read, validated within
//! bounds.
//!
//! A tenant's schema runs on a thread that all tenants share. So only listed keywords are accepted, the schema is
//! expanded once into a tree of bounded size, and patterns run in linear time. Validation ends at the first mismatch
//! or after [`STEPS_MAX`] steps.
//!
//! The `jsonschema` crate (0.60) cannot replace it: it has no limit of steps, and needs 26 more crates and 3.1 MB. For 24
//! admitted patterns and 64 KiB of arguments it took 18.7 s, and this module ends after 0.1 ms.

mod check;
mod compile;
mod node;
mod number;
mod pattern;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{
    check::{Checker, Mismatch},
    node::SchemaNode,
};

/// Maximum number of nodes of a schema after following references.
pub const NODES_MAX: u32 = 2_000;
/// The nodes that a pattern counts as: it is compiled, kept, and run over every character.
pub const PATTERN_WEIGHT: u32 = 80;
/// Maximum number of alternatives in one `anyOf`, `oneOf` or `allOf`.
pub const BRANCHES_MAX: usize = 8;
/// Maximum number of such keywords directly inside one another.
pub const BRANCH_LEVELS_MAX: usize = 2;
/// Maximum depth of a schema after following references.
pub const DEPTH_MAX: usize = 32;
/// Maximum number of steps of one validation, which takes some tenths of a second. A step is about a node with a
/// value, 16 characters of text, or a character with a KiB of a compiled pattern.
pub const STEPS_MAX: u32 = 200_000;
/// Maximum size of validated arguments, in bytes of JSON.
pub const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of characters in a message taken from the schema or the arguments.
const DETAIL_CHARS_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The keyword is not supported.
    UnknownKeyword,
    /// A value has the wrong type.
    WrongType,
    /// A value has the right type but cannot be used.
    Invalid,
    /// A word is not among the allowed ones.
    NotAllowed,
    /// An entry occurs twice.
    Duplicate,
    /// A limit is exceeded.
    TooLarge,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// The place, such as `.properties.size.pattern`; empty for the whole schema.
    pub at: String,
    pub kind: FaultKind,
    /// The requirement; it follows the place in a sentence.
    pub predicate: String,
}

/// The first mismatch of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentMismatch {
    /// The argument, such as `orderId`, or `size/width` inside of one; empty for all arguments together.
    pub at: String,
    pub reason: MismatchReason,
    /// The requirement in English; it follows the place in a sentence.
    pub predicate: String,
}

/// The reasons for a mismatch that people are told in words of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MismatchReason {
    /// It must be of the one type with this name.
    Type(&'static str),
    /// It is missing.
    Required,
    /// There is no such argument.
    Unknown,
    Other,
}

/// A compiled schema.
#[derive(Clone, Debug)]
pub struct Schema {
    root: SchemaNode,
    nodes: u32,
}

impl Schema {
    /// Compiles a schema, or returns its first few faults.
    pub fn new(schema: &Value) -> Result<Self, Vec<SchemaFault>> {
        compile::compile(schema).map(|(root, nodes)| Self { root, nodes })
    }

    /// The number of nodes, with patterns weighted.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Validates arguments in at most [`STEPS_MAX`] steps. The error is one sentence that names the first mismatch.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        self.check_within(STEPS_MAX, arguments).unwrap_or_else(|| {
            Err(format!(
                "There is too much to check in the arguments: more than {STEPS_MAX} steps."
            ))
        })
    }

    /// The first mismatch of arguments that [`Self::check`] refuses. None if they fit, or are too much to check.
    pub fn mismatch(&self, arguments: &Map<String, Value>) -> Option<ArgumentMismatch> {
        let arguments = Value::Object(arguments.clone());
        match Checker::new(STEPS_MAX).check(&self.root, &arguments) {
            Ok(()) | Err(Mismatch::Steps) => None,
            Err(Mismatch::At { path, what }) => {
                let place: String = path.iter().rev().map(ToString::to_string).collect();
                let place = place.trim_start_matches('/');
                let (reason, missing) = what.reason();
                let at = match missing {
                    Some(name) if place.is_empty() => name.to_owned(),
                    Some(name) => format!("{place}/{name}"),
                    None => place.to_owned(),
                };
                Some(ArgumentMismatch {
                    at: shortened(&at),
                    reason,
                    predicate: shortened(&what.to_string()),
                })
            }
        }
    }

    /// Validates with fewer steps. None if they are not enough.
    pub fn check_within(
        &self,
        steps_max: u32,
        arguments: &Map<String, Value>,
    ) -> Option<Result<(), String>> {
        let arguments = Value::Object(arguments.clone());
        if arguments.to_string().len() > ARGUMENTS_BYTES_MAX {
            return Some(Err(format!(
                "The arguments have more than {ARGUMENTS_BYTES_MAX} bytes."
            )));
        }
        match Checker::new(steps_max).check(&self.root, &arguments) {
            Ok(()) => Some(Ok(())),
            Err(Mismatch::Steps) => None,
            Err(Mismatch::At { path, what }) => {
                let place: String = path.iter().rev().map(ToString::to_string).collect();
                let place = match place.as_str() {
                    "" => String::new(),
                    place => format!(" at {}", shortened(place)),
                };
                let what = shortened(&what.to_string());
                Some(Err(format!(
                    "The arguments do not fit the function's parameters{place}: {what}."
                )))
            }
        }
    }
}

fn shortened(text: &str) -> String {
    let text = text.trim_end_matches('.');
    match text.char_indices().nth(DETAIL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
