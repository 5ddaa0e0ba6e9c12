//! What commands print: one JSON document, or a table for a person.

use std::io::Write;

use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use serde::Serialize;
use serde_json::{Value, json};

use super::CliError;
use crate::config::Layers;

/// Prints a line. A reader that went away, as `head` does, is no failure of ours.
pub fn text(line: &str) -> Result<(), CliError> {
    more(line).map(drop)
}

/// Prints one of many lines. False if nobody reads any more.
pub fn more(line: &str) -> Result<bool, CliError> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::Failed(format!(
            "standard output cannot be written: {error}"
        ))),
    }
}

/// Says that something is done.
pub fn done(sentence: &str, as_json: bool) -> Result<(), CliError> {
    if as_json {
        text(&json!({"ok": true, "message": sentence}).to_string())
    } else {
        text(sentence)
    }
}

/// Prints one thing.
pub fn one(thing: &impl Serialize, as_json: bool) -> Result<(), CliError> {
    let value = to_value(thing)?;
    if as_json {
        return text(&value.to_string());
    }
    let mut table = table();
    if let Value::Object(fields) = &value {
        for (name, value) in fields {
            table.add_row([name.clone(), cell(value)]);
        }
    }
    text(&table.to_string())
}

/// Prints a list; in JSON as an object keyed by `plural`.
pub fn list(plural: &str, things: &[impl Serialize], as_json: bool) -> Result<(), CliError> {
    let value = to_value(&things)?;
    if as_json {
        return text(&json!({plural: value}).to_string());
    }
    let rows = value.as_array().cloned().unwrap_or_default();
    let Some(Value::Object(first)) = rows.first() else {
        return text(&format!("no {plural}"));
    };
    let mut table = table();
    table.set_header(first.keys());
    for row in &rows {
        table.add_row(
            row.as_object()
                .into_iter()
                .flat_map(|fields| fields.values().map(cell)),
        );
    }
    text(&table.to_string())
}

/// Prints every key of the configuration.
pub fn config(layers: &Layers, as_json: bool) -> Result<(), CliError> {
    let rows: Vec<Value> = layers
        .entries()
        .map(|entry| json!({"key": entry.key, "value": entry.shown(), "origin": entry.origin.to_string()}))
        .collect();
    if as_json {
        return text(&json!({"keys": rows}).to_string());
    }
    let mut table = table();
    table.set_header(["key", "value", "origin"]);
    for row in &rows {
        table.add_row(["key", "value", "origin"].map(|field| cell(&row[field])));
    }
    text(&table.to_string())
}

/// An empty table in the house's style.
pub fn table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY);
    table
}

fn to_value(thing: &impl Serialize) -> Result<Value, CliError> {
    serde_json::to_value(thing).map_err(|error| CliError::Failed(error.to_string()))
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
