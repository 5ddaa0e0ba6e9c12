//! Prints a command's result: one JSON document, or a table for a person.

use std::{
    fmt,
    io::{IsTerminal, Write},
};

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::{Value, json};

use super::{
    CliError,
    escapes::{escaped, turns},
};
use crate::{
    config::{ConfigurationKey, Layers},
    operations::ListPage,
};

/// Spaces between two columns.
const GAP: u16 = 2;
/// Columns that come first in a list: those that identify a thing or show its state.
const FIRST: [&str; 18] = [
    "id",
    "name",
    "displayNumber",
    "label",
    "prefix",
    "revokedAt",
    "suspendedAt",
    "action",
    "target",
    "at",
    "actor",
    "status",
    "callerNumber",
    "calleeNumber",
    "startedAt",
    "url",
    "event",
    "attemptCount",
];
/// This column comes last: a list is usually filtered by it, so all its rows are equal.
const LAST: &str = "tenantId";
/// Number of columns that are always shown.
const COLUMNS_MIN: usize = 2;

/// Prints a line. A closed standard output, as after `head`, is no failure.
pub fn text(line: &str) -> Result<(), CliError> {
    more(line).map(drop)
}

/// Prints one of many lines. Returns false if standard output is closed.
pub fn more(line: &str) -> Result<bool, CliError> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", escaped(line)).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CliError::Failed(format!(
            "standard output cannot be written: {error}"
        ))),
    }
}

/// Prints a confirmation.
pub fn done(sentence: &str, as_json: bool) -> Result<(), CliError> {
    if as_json {
        text(&json!({"ok": true, "message": sentence}).to_string())
    } else {
        text(sentence)
    }
}

/// Prints one object.
pub fn one(thing: &impl Serialize, as_json: bool) -> Result<(), CliError> {
    if as_json {
        return text(&to_value(thing)?.to_string());
    }
    pairs(
        fields(thing)?
            .into_iter()
            .map(|(name, value)| (name, cell(&value))),
    )
}

/// Prints names with their values, one per line.
pub fn pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Result<(), CliError> {
    let mut table = table();
    for (name, value) in pairs {
        table.add_row([name, value]);
    }
    print(table)
}

/// Prints a list; in JSON as an object keyed by `plural`.
pub fn list(plural: &str, things: &[impl Serialize], as_json: bool) -> Result<(), CliError> {
    if as_json {
        return text(&json!({plural: to_value(&things)?}).to_string());
    }
    let row = |thing| Ok(in_columns(fields(thing)?));
    let rows: Vec<Vec<(String, Value)>> =
        things.iter().map(row).collect::<Result<_, CliError>>()?;
    let Some(first) = rows.first() else {
        return text(&format!("no {plural}"));
    };
    let mut grid = vec![first.iter().map(|(name, _)| name.clone()).collect()];
    grid.extend(
        rows.iter()
            .map(|row| row.iter().map(|(_, value)| cell(value)).collect::<Vec<_>>()),
    );
    let columns = columns_within(&grid, terminal_width());
    let left_out = first.len() - columns;
    let mut table = table();
    for (n, row) in grid.iter().enumerate() {
        let row = &row[..columns.min(row.len())];
        match n {
            0 => table.set_header(row),
            _ => table.add_row(row),
        };
    }
    print(table)?;
    match left_out {
        0 => Ok(()),
        _ => text(&format!(
            "{} in a wider terminal, or with --json",
            count(left_out as u64, "more column")
        )),
    }
}

/// Prints a page of a list; in JSON as the API has it.
pub fn page<P>(page: &P, as_json: bool) -> Result<(), CliError>
where
    P: ListPage + Serialize,
    P::Row: Serialize,
{
    if as_json {
        return text(&to_value(page)?.to_string());
    }
    list(P::NAME, page.rows(), false)?;
    match page.next() {
        Some(next) => text(&format!("there are more: --offset {next}")),
        None => Ok(()),
    }
}

/// Prints rows below a header.
pub fn grid<const N: usize>(head: [&str; N], rows: Vec<[String; N]>) -> Result<(), CliError> {
    let mut table = table();
    table.set_header(head);
    for row in rows {
        table.add_row(row);
    }
    print(table)
}

/// Prints every key of the configuration.
pub fn config(layers: &Layers, as_json: bool) -> Result<(), CliError> {
    if as_json {
        let keys: Vec<ConfigurationKey> = layers.entries().map(ConfigurationKey::from).collect();
        return text(&json!({"keys": keys}).to_string());
    }
    let mut table = table();
    table.set_header(["key", "value", "origin"]);
    for entry in layers.entries() {
        let value = cell(&Value::String(entry.shown()));
        table.add_row([entry.key.clone(), value, entry.origin.to_string()]);
    }
    print(table)
}

/// The fields of an object in their own order, but `id` and `name` first.
pub fn fields(thing: &impl Serialize) -> Result<Vec<(String, Value)>, CliError> {
    let failed = |error: serde_json::Error| CliError::Failed(error.to_string());
    let text = serde_json::to_string(thing).map_err(failed)?;
    let Fields(mut fields) = serde_json::from_str(&text).map_err(failed)?;
    let named = ["id", "name"];
    let place = |name: &str| named.iter().position(|first| *first == name);
    fields.sort_by_key(|(name, _)| place(name).unwrap_or(named.len()));
    Ok(fields)
}

/// The fields of an object in a list's order: the most important must fit a narrow terminal.
fn in_columns(mut fields: Vec<(String, Value)>) -> Vec<(String, Value)> {
    fields.sort_by_key(|(name, _)| match name.as_str() {
        LAST => FIRST.len() + 1,
        name => FIRST
            .iter()
            .position(|first| *first == name)
            .unwrap_or(FIRST.len()),
    });
    fields
}

/// A count with its noun, such as `1 step` or `2 steps`.
pub fn count(number: u64, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// The fields of an object in document order; `serde_json`'s map would sort them.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }

        from.deserialize_map(InOrder)
    }
}

/// The number of leading columns that fit the width; a list never wraps.
fn columns_within(grid: &[Vec<String>], width: Option<u16>) -> usize {
    let count = grid.first().map_or(0, Vec::len);
    let Some(width) = width else {
        return count;
    };
    let mut used = 0;
    let fits = (0..count).take_while(|column| {
        let cells = grid.iter().filter_map(|row| row.get(*column));
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        used += widest + usize::from(if *column == 0 { 0 } else { GAP });
        used <= usize::from(width)
    });
    fits.count().max(COLUMNS_MIN.min(count))
}

/// The width given by `COLUMNS` or the terminal; `None` if the output is no terminal.
fn terminal_width() -> Option<u16> {
    let said = std::env::var("COLUMNS").ok();
    if let Some(columns) = said
        .and_then(|text| text.parse().ok())
        .filter(|columns| *columns > 0)
    {
        return Some(columns);
    }
    let stdout = std::io::stdout();
    stdout.is_terminal().then_some(())?;
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// An empty table without borders.
fn table() -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table
}

fn print(mut table: Table) -> Result<(), CliError> {
    for column in table.column_iter_mut() {
        column.set_padding((0, GAP));
    }
    // An id must not be wrapped, so that it can be copied.
    if let Some(first) = table.column_mut(0) {
        first.set_constraint(ColumnConstraint::ContentWidth);
    }
    text(&table.trim_fmt())
}

fn to_value(thing: &impl Serialize) -> Result<Value, CliError> {
    serde_json::to_value(thing).map_err(|error| CliError::Failed(error.to_string()))
}

/// A value in one line, without control and bidirectional characters. Values come from tenants and bridges: control
/// characters could drive the terminal, and bidirectional ones could disguise the text.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) if text.is_empty() => "–".to_owned(),
        Value::String(text) => text
            .chars()
            .map(|sign| match sign {
                '\n' | '\r' | '\t' => ' ',
                sign if sign.is_control() || turns(sign) => '\u{fffd}',
                sign => sign,
            })
            .collect(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_shown() {
        let typed = "A\u{1b}]0;owned\u{7}\n\u{9b}2K\u{202e}B é 漢 \u{7f}";
        assert_eq!(
            cell(&Value::from(typed)),
            "A\u{fffd}]0;owned\u{fffd} \u{fffd}2K\u{fffd}B é 漢 \u{fffd}"
        );
        // Other values are JSON, which escapes control characters, but not bidirectional ones.
        assert_eq!(cell(&serde_json::json!(["\u{1b}"])), "[\"\\u001b\"]");
    }

    #[test]
    fn what_a_thing_is_told_by_comes_first_and_the_rest_as_it_is() {
        #[derive(Serialize)]
        struct Thing {
            token: &'static str,
            id: u8,
            zone: u8,
            name: &'static str,
            age: Option<u8>,
        }
        let thing = Thing {
            token: "t",
            id: 1,
            zone: 2,
            name: "n",
            age: None,
        };
        let fields = fields(&thing).expect("an object");
        let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["id", "name", "token", "zone", "age"]);
    }

    #[test]
    fn a_list_begins_with_what_matters_and_ends_with_whose_it_is() {
        let fields = [
            "id",
            "tenantId",
            "createdAt",
            "displayNumber",
            "isActive",
            "label",
            "name",
            "revokedAt",
        ];
        let fields = fields.map(|name| (name.to_owned(), Value::Null));
        let names: Vec<String> = in_columns(fields.into())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        let expected = "id name displayNumber label revokedAt createdAt isActive tenantId";
        assert_eq!(names.join(" "), expected);
    }

    #[test]
    fn columns_are_left_out_and_not_squeezed() {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let grid = [
            row(["id", "name", "plan", "at"]),
            row(["ten_1", "Kopi", "starter", "now"]),
        ];
        for (width, columns) in [
            (None, 4),
            (Some(80), 4),
            (Some(25), 4),
            (Some(24), 3),
            (Some(19), 2),
            (Some(3), 2),
        ] {
            assert_eq!(columns_within(&grid, width), columns, "{width:?}");
        }
    }
}
