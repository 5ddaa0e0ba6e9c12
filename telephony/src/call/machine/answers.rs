//! Answers to tool calls of the model.

use serde_json::{Map, Value, json};

use super::{MachineEffect, functions::FunctionAnswer};
use crate::voice::VoiceInput;

pub(super) fn answer(id: String, outcome: FunctionAnswer, out: &mut Vec<MachineEffect>) {
    out.push(MachineEffect::Voice(VoiceInput::ToolOutcome {
        id,
        outcome,
    }));
}

pub(super) fn success(output: Value) -> FunctionAnswer {
    Map::from_iter([("output".to_owned(), output)])
}

pub(super) fn failure(code: &str, message: &str) -> FunctionAnswer {
    let error = json!({"code": code, "message": message});
    Map::from_iter([("error".to_owned(), error)])
}
