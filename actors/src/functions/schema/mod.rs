//! Parameter schemas: the subset of JSON Schema that generators write and language models read, checked with a bound.
//!
//! A schema comes from a tenant and runs on a thread that all tenants share. So it is taken only as far as its keywords are
//! listed here, it is unfolded once into a tree of a bounded size, patterns run in linear time, and checking ends at the
//! first thing that does not fit or after [`STEPS_MAX`] steps.

mod check;
mod compile;
mod node;
mod number;
mod pattern;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use self::{
    check::{Checker, Misfit},
    node::SchemaNode,
};

/// The most nodes that a schema may have once its references are followed.
pub const NODES_MAX: u32 = 2_000;
/// The nodes that a pattern counts as: it is compiled, kept, and run over every character.
pub const PATTERN_WEIGHT: u32 = 80;
/// The most alternatives in one `anyOf`, `oneOf` or `allOf`.
pub const BRANCHES_MAX: usize = 8;
/// How often such alternatives may stand directly in one another.
pub const BRANCH_LEVELS_MAX: usize = 2;
/// How deep schemas may stand in one another once their references are followed.
pub const DEPTH_MAX: usize = 32;
/// The most steps of one checking: about one for each node and value that meet and for 16 characters of text, and for a
/// character and a KiB of the compiled pattern that it is held against. All of them take some tenths of a second.
pub const STEPS_MAX: u32 = 200_000;
/// The largest arguments that are checked, in bytes of JSON.
pub const ARGUMENTS_BYTES_MAX: usize = 64 * 1024;
/// The most characters of an explanation that come from the schema or from the arguments.
const DETAIL_CHARS_MAX: usize = 200;

/// What kind of fault a schema has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The keyword is not one that is taken.
    UnknownKeyword,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that cannot be used.
    Invalid,
    /// None of the words that are taken.
    NotAllowed,
    /// Something is there twice.
    Duplicate,
    /// More than a limit.
    TooLarge,
}

/// What is wrong with a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaFault {
    /// Where: `.properties.size.pattern`; empty for the whole.
    pub at: String,
    pub kind: FaultKind,
    /// What must be there instead; comes after the name of the place.
    pub predicate: String,
}

/// A schema that can be used.
#[derive(Clone, Debug)]
pub struct Schema {
    root: SchemaNode,
    nodes: u32,
}

impl Schema {
    /// Compiles a schema, or says what is wrong with it, at most a few faults at once.
    pub fn new(schema: &Value) -> Result<Self, Vec<SchemaFault>> {
        compile::compile(schema).map(|(root, nodes)| Self { root, nodes })
    }

    /// How many nodes it has, patterns counted with their weight.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Whether the arguments fit, in at most [`STEPS_MAX`] steps; else one sentence that says where they do not.
    pub fn check(&self, arguments: &Map<String, Value>) -> Result<(), String> {
        self.check_within(STEPS_MAX, arguments).unwrap_or_else(|| {
            Err(format!(
                "There is too much to check in the arguments: more than {STEPS_MAX} steps."
            ))
        })
    }

    /// The same in fewer steps; none where those are not enough.
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
            Err(Misfit::Steps) => None,
            Err(Misfit::At { path, what }) => {
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
