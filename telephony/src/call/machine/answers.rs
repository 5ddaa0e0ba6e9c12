//! Answers to tool calls of the model.

use serde_json::{Map, Value, json};

use super::{Effect, functions::Answer};
use crate::voice::Spoken;

pub(super) fn answer(id: String, outcome: Answer, out: &mut Vec<Effect>) {
    out.push(Effect::Tell(Spoken::ToolOutcome { id, outcome }));
}

pub(super) fn success(output: Value) -> Answer {
    Map::from_iter([("output".to_owned(), output)])
}

pub(super) fn failure(code: &str, message: &str) -> Answer {
    let error = json!({"code": code, "message": message});
    Map::from_iter([("error".to_owned(), error)])
}
