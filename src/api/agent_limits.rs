//! Limits of an agent: its longest call and its tools.

use dikala_entities::described;
use serde::Serialize;
use serde_json::Value;
use utoipa::openapi::ArrayBuilder;

use super::texts::tool_name;
use crate::{
    http::{
        extract::{ParseResult, integer, list, not_allowed},
        field::{FieldCode, ValueFault},
    },
    openapi::schema,
};

fn tool(value: &Value, known: &[&str]) -> ParseResult<String> {
    let name = value
        .as_str()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be a string"))?;
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(not_allowed(name, "a tool of this agent", known.iter().copied()).into())
    }
}

/// The longest call, in minutes of talk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct CallMinutes(pub(super) i64);

impl CallMinutes {
    const MIN: i64 = 1;
    const MAX: i64 = 240;

    pub(super) fn parse(value: &Value) -> ParseResult<Self> {
        integer(Self::MIN, Self::MAX)(value).map(Self)
    }
}

impl Default for CallMinutes {
    fn default() -> Self {
        Self(10)
    }
}

/// The names of an agent's enabled tools, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct EnabledTools(pub(super) Vec<String>);

impl EnabledTools {
    pub(super) fn parse(value: &Value, known: &[&str]) -> ParseResult<Self> {
        list(0, |value| tool(value, known), String::eq)(value).map(Self)
    }
}

impl Default for EnabledTools {
    fn default() -> Self {
        Self(vec!["end_call".to_owned()])
    }
}

described! {
    CallMinutes: schema::integer(CallMinutes::MIN, CallMinutes::MAX);
    EnabledTools: ArrayBuilder::new().items(tool_name()).unique_items(true);
}
