//! Writes many rows with one statement, whose text, and so its plan, is the same for batches of any size. One
//! parameter per value would need a text for each size, and each connection would keep hundreds of them prepared.
//!
//! PostgreSQL receives each column of the rows as an array, and all writes of a transaction in one round trip
//! ([`Transaction::write_all`](crate::store::Transaction::write_all)), or the whole transaction in one
//! ([`Store::write_at_once`](crate::store::Store::write_at_once)). SQLite has no arrays and no round trips, so there
//! the rows are `VALUES` in blocks of a few sizes.

use sea_orm::{
    ActiveModelTrait, ActiveValue, DbBackend, DbErr, EntityName, EntityTrait, IdenStatic, Iterable,
    Statement, Value,
};

use crate::rows::ColumnType;

/// The placeholder of the rows in a statement's text.
const ROWS: &str = "{rows}";
/// Sizes of blocks on SQLite, each with a text of its own.
const BLOCKS: [usize; 4] = [1, 4, 16, 64];
/// Larger tables of rows need several statements.
const BLOCK_MAX: usize = 64;
/// If no write has more rows than this, all writes are one statement.
const TOGETHER_MAX: usize = 4;
/// Not a number, so that its conversion fails. The words appear in PostgreSQL's log.
const GUARD: &str = "rows changed meanwhile, dikala reads them again";
/// The error of that conversion: `invalid_text_representation`.
pub(crate) const GUARD_CODE: &str = "22P02";
/// SQLite's guard after each write. A blob of that size cannot be, so the statement fails.
const SQLITE_GUARD: &str =
    "SELECT CASE WHEN changes() = ? THEN 1 ELSE zeroblob(9223372036854775807) END";
/// The error of that blob: `SQLITE_TOOBIG`.
pub(crate) const SQLITE_GUARD_CODE: &str = "18";

/// Rows and the statement that writes them. It must change exactly one row of the table for each given row.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchWrite {
    /// With `{rows}` in place of a table source named `rows`.
    sql: String,
    columns: Vec<(&'static str, ColumnType)>,
    rows: Vec<Vec<Value>>,
}

impl BatchWrite {
    /// `sql` is a statement with `{rows}`. Each row has a value for each column, and its first column is never null.
    pub fn new(
        sql: impl Into<String>,
        columns: &[(&'static str, ColumnType)],
        rows: Vec<Vec<Value>>,
    ) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()));
        Self {
            sql: sql.into(),
            columns: columns.to_vec(),
            rows,
        }
    }

    /// `INSERT INTO … SELECT …` of whole rows, with an ending such as `ON CONFLICT DO NOTHING`. Every column must be
    /// set to a text, an integer or a boolean.
    pub fn insert<A: ActiveModelTrait>(rows: Vec<A>, ending: &str) -> Result<Self, DbErr> {
        let mut columns: Vec<(&'static str, ColumnType)> = Vec::new();
        let mut batch = Vec::with_capacity(rows.len());
        for row in rows {
            let mut values = Vec::with_capacity(columns.len());
            columns.clear();
            for column in <A::Entity as EntityTrait>::Column::iter() {
                let name = column.as_str();
                let (ActiveValue::Set(value) | ActiveValue::Unchanged(value)) = row.get(column)
                else {
                    return Err(DbErr::Type(format!("{name} is not set")));
                };
                let kind = kind_of(&value)
                    .ok_or_else(|| DbErr::Type(format!("{name} cannot be in a batch")))?;
                columns.push((name, kind));
                values.push(value);
            }
            batch.push(values);
        }
        let names: Vec<String> = columns
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let names = names.join(", ");
        let table = A::Entity::default();
        // SQLite takes `ON` after a plain SELECT for a join condition: hence `WHERE true`.
        let sql = format!(
            "INSERT INTO {} ({names}) SELECT {names} FROM {ROWS} WHERE true {ending}",
            table.table_name()
        );
        Ok(Self {
            sql,
            columns,
            rows: batch,
        })
    }

    /// The number of rows that it writes.
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// The rows of the block of `BLOCK_MAX` that begins with `first`.
    fn block(&self, first: usize) -> &[Vec<Value>] {
        let rest = self.rows.get(first..).unwrap_or_default();
        &rest[..rest.len().min(BLOCK_MAX)]
    }

    fn values_of(&self, rows: usize) -> String {
        let width = self.columns.len();
        let named: Vec<String> = (1..)
            .zip(&self.columns)
            .map(|(number, (name, _))| format!("column{number} AS \"{name}\""))
            .collect();
        let row = format!("({})", vec!["?"; width].join(", "));
        let values = vec![row.as_str(); rows].join(", ");
        format!(
            "(SELECT {} FROM (VALUES {values}) WHERE column1 IS NOT NULL) AS rows",
            named.join(", ")
        )
    }

    /// Its text on PostgreSQL, with its columns as the parameters from `first` on.
    fn part(&self, first: usize) -> String {
        let arrays: Vec<String> = (first..)
            .zip(&self.columns)
            .map(|(number, (_, kind))| format!("${number}::{}[]", kind.in_postgres()))
            .collect();
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|(name, _)| format!("\"{name}\""))
            .collect();
        let rows = format!(
            "unnest({}) AS rows({})",
            arrays.join(", "),
            names.join(", ")
        );
        self.sql.replace(ROWS, &rows)
    }

    /// The values of its columns, in their order.
    fn arrays(&self) -> impl Iterator<Item = ArrayParameter> + '_ {
        let columns = self.columns.iter().enumerate();
        columns.map(|(at, (_, kind))| {
            let values = self.rows.iter().filter_map(move |row| row.get(at));
            match kind {
                ColumnType::Text => ArrayParameter::Texts(values.map(text_of).collect()),
                ColumnType::BigInt => ArrayParameter::Integers(values.map(integer_of).collect()),
                ColumnType::Boolean => ArrayParameter::Booleans(values.map(boolean_of).collect()),
            }
        })
    }
}

/// A statement for PostgreSQL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ArrayStatement {
    pub sql: String,
    pub parameters: Vec<ArrayParameter>,
}

/// A column of rows, or a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArrayParameter {
    Texts(Vec<Option<String>>),
    Integers(Vec<Option<i64>>),
    Booleans(Vec<Option<bool>>),
    Count(i64),
}

/// The writes as parts `w1`, `w2`, … of a larger statement, and their parameters.
///
/// All writes see the tables as they were before, so no two may touch the same row.
fn parts_of(writes: &[&BatchWrite]) -> (Vec<String>, Vec<ArrayParameter>) {
    let (mut parts, mut parameters) = (Vec::new(), Vec::new());
    for (number, write) in (1..).zip(writes) {
        let part = write.part(parameters.len() + 1);
        parts.push(format!("w{number} AS ({part} RETURNING 1)"));
        parameters.extend(write.arrays());
    }
    (parts, parameters)
}

/// Several writes as one PostgreSQL statement, which returns the number of rows that each changed: `n1`, `n2`, …
pub(crate) fn together(writes: &[&BatchWrite]) -> ArrayStatement {
    let (parts, parameters) = parts_of(writes);
    let counts: Vec<String> = (1..=writes.len())
        .map(|number| format!("(SELECT COUNT(*) FROM w{number}) AS n{number}"))
        .collect();
    ArrayStatement {
        sql: format!("WITH {} SELECT {}", parts.join(", "), counts.join(", ")),
        parameters,
    }
}

/// Several writes as one PostgreSQL statement outside of a transaction. It fails with [`GUARD_CODE`], and so changes
/// nothing, if a write changes fewer rows than it was given. `settings` of PostgreSQL hold for it alone.
///
/// The writes take their locks in the order in which they are given: PostgreSQL executes each of them when the guard first
/// counts it, after it has read the settings.
pub(crate) fn at_once(writes: &[&BatchWrite], settings: &[(&str, &str)]) -> ArrayStatement {
    let settings: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("set_config('{name}', '{value}', true)"))
        .collect();
    let (parts, mut parameters) = parts_of(writes);
    let mut counts = Vec::with_capacity(writes.len());
    for (number, write) in (1..).zip(writes) {
        parameters.push(ArrayParameter::Count(
            i64::try_from(write.count()).unwrap_or(i64::MAX),
        ));
        let expected = parameters.len();
        counts.push(format!("(SELECT COUNT(*) FROM w{number}) = ${expected}"));
    }
    let sql = format!(
        "WITH settings AS MATERIALIZED (SELECT {}), {} \
         SELECT (CASE WHEN {} THEN '1' ELSE '{GUARD}' END)::bigint FROM settings",
        settings.join(", "),
        parts.join(", "),
        counts.join(" AND ")
    );
    ArrayStatement { sql, parameters }
}

/// Several writes as statements for SQLite. Small writes share one statement, because each statement switches threads
/// twice, which delays a message that is alone in its batch. Large writes have a statement each, so that few texts
/// stay prepared.
pub(crate) fn in_blocks(writes: &[&BatchWrite]) -> Vec<Statement> {
    let most = writes.iter().map(|write| write.rows.len()).max();
    let most = most.unwrap_or(0);
    if most <= TOGETHER_MAX {
        return vec![block_of(writes, 0)];
    }
    let firsts = (0..most).step_by(BLOCK_MAX);
    let blocks = firsts.flat_map(|first| writes.iter().map(move |write| (write, first)));
    blocks
        .filter(|(write, first)| !write.block(*first).is_empty())
        .map(|(write, first)| block_of(&[write], first))
        .collect()
}

/// Small writes and the transaction around them as one statement for SQLite. It fails with [`SQLITE_GUARD_CODE`] before
/// the commit if a write changes fewer rows than it was given. `None` if a write has many rows.
pub(crate) fn as_transaction(writes: &[&BatchWrite]) -> Option<Statement> {
    if writes.iter().any(|write| write.rows.len() > TOGETHER_MAX) {
        return None;
    }
    let mut sql = vec!["BEGIN IMMEDIATE".to_owned()];
    let mut values = Vec::new();
    for (write, (text, of_rows)) in writes.iter().zip(parts_of_block(writes, 0)) {
        sql.extend([text, SQLITE_GUARD.to_owned()]);
        values.extend(of_rows);
        values.push(Value::from(write.count()));
    }
    sql.push("COMMIT".to_owned());
    Some(Statement::from_sql_and_values(
        DbBackend::Sqlite,
        sql.join("; "),
        values,
    ))
}

/// One statement of the blocks of several writes.
fn block_of(writes: &[&BatchWrite], first: usize) -> Statement {
    let (sql, values): (Vec<String>, Vec<Vec<Value>>) =
        parts_of_block(writes, first).into_iter().unzip();
    let values = values.into_iter().flatten();
    Statement::from_sql_and_values(DbBackend::Sqlite, sql.join("; "), values)
}

/// The text and the values of each write that has rows in a block. All have the same number of rows, padded with rows of
/// nulls, which the statements skip.
fn parts_of_block(writes: &[&BatchWrite], first: usize) -> Vec<(String, Vec<Value>)> {
    let parts = writes.iter().map(|write| (write, write.block(first)));
    let parts: Vec<_> = parts.filter(|(_, rows)| !rows.is_empty()).collect();
    let most = parts.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    let size = BLOCKS.into_iter().find(|size| *size >= most);
    let size = size.unwrap_or(BLOCK_MAX);
    let part = |(write, rows): (&&BatchWrite, &[Vec<Value>])| {
        let missing = (size - rows.len()) * write.columns.len();
        let nulls = std::iter::repeat_n(Value::BigInt(None), missing);
        let values = rows.iter().flatten().cloned().chain(nulls).collect();
        (write.sql.replace(ROWS, &write.values_of(size)), values)
    };
    parts.into_iter().map(part).collect()
}

fn kind_of(value: &Value) -> Option<ColumnType> {
    match value {
        Value::String(_) => Some(ColumnType::Text),
        Value::BigInt(_) => Some(ColumnType::BigInt),
        Value::Bool(_) => Some(ColumnType::Boolean),
        _ => None,
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.clone(),
        _ => None,
    }
}

fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::BigInt(number) => *number,
        _ => None,
    }
}

fn boolean_of(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => *flag,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::IntoActiveModel;

    use super::*;
    use crate::{
        tables::{attempt, invocation},
        values::{CallId, DeliveryId, Millis, TenantId},
    };

    const NOW: Millis = Millis::from_i64(1_768_447_800_000);

    fn row(fault: Option<&str>) -> invocation::ActiveModel {
        let row = invocation::Model {
            call_id: CallId::new(NOW),
            invocation_id: "i".to_owned(),
            tenant_id: TenantId::new(NOW),
            function_name: "f".to_owned(),
            outcome: "{\"a\":\"\\u0001\"}".to_owned(),
            duration_ms: 7,
            created_at: NOW,
            function_id: None,
            fault: fault.map(str::to_owned),
        };
        row.into_active_model()
    }

    fn of(rows: usize) -> BatchWrite {
        let rows = (0..rows).map(|_| row(None)).collect();
        BatchWrite::insert(rows, "ON CONFLICT DO NOTHING").expect("a write")
    }

    fn values(statement: &Statement) -> usize {
        statement.values.as_ref().map_or(0, |values| values.0.len())
    }

    #[test]
    fn the_text_is_the_same_for_any_rows() {
        let (one, many) = (together(&[&of(1)]), together(&[&of(200)]));
        assert_eq!(one.sql, many.sql);
        assert!(one.sql.contains("\"duration_ms\""), "{}", one.sql);
        assert_ne!(one.parameters, many.parameters);
        let texts: std::collections::BTreeSet<String> = (1..300)
            .flat_map(|rows| in_blocks(&[&of(rows)]))
            .map(|statement| statement.sql)
            .collect();
        assert_eq!(texts.len(), BLOCKS.len());
    }

    #[test]
    fn every_row_is_in_one_block() {
        for rows in [1, 3, 4, 63, 64, 65, 256] {
            let set = |statement: &Statement| {
                let values = statement
                    .values
                    .clone()
                    .map_or(Vec::new(), |values| values.0);
                let ids = values.chunks(9).map(|row| row[0].clone());
                ids.filter(|id| *id != Value::BigInt(None)).count()
            };
            let blocks = in_blocks(&[&of(rows)]);
            assert_eq!(blocks.iter().map(set).sum::<usize>(), rows);
            assert_eq!(blocks.len(), rows.div_ceil(BLOCK_MAX));
        }
    }

    #[test]
    fn what_is_written_together_is_one_text() {
        let of_texts = |writes: &[&BatchWrite]| -> Vec<usize> {
            in_blocks(writes).iter().map(values).collect()
        };
        assert_eq!(of_texts(&[&of(1), &of(1)]), [18]);
        assert_eq!(of_texts(&[&of(1), &of(3)]), [2 * 4 * 9]);
        assert_eq!(of_texts(&[&of(1), &of(5)]), [9, 16 * 9]);
        assert_eq!(of_texts(&[&of(1), &of(65)]), [9, 64 * 9, 9]);
    }

    #[test]
    fn many_rows_are_few_texts_whatever_is_written_together() {
        let mut texts = std::collections::BTreeSet::new();
        for first in 0..40 {
            for second in 5..40 {
                let writes = [of(first), of(second)];
                let writes: Vec<&BatchWrite> =
                    writes.iter().filter(|write| write.count() > 0).collect();
                texts.extend(
                    in_blocks(&writes)
                        .into_iter()
                        .map(|statement| statement.sql),
                );
            }
        }
        assert_eq!(texts.len(), BLOCKS.len());
    }

    #[test]
    fn parts_have_parameters_of_their_own() {
        let both = together(&[&of(1), &of(2)]);
        assert!(both.sql.contains("$18::"), "{}", both.sql);
        assert_eq!(both.parameters.len(), 18);
        let guarded = at_once(&[&of(1), &of(2)], &[("lock_timeout", "1s")]);
        assert!(guarded.sql.contains("= $20 THEN"), "{}", guarded.sql);
        assert_eq!(guarded.parameters[18..], [1, 2].map(ArrayParameter::Count));
    }

    /// A value of another type than its column's would become null.
    #[test]
    fn arrays_keep_every_value() {
        let write = BatchWrite::insert(vec![row(None), row(Some("timeout"))], "").expect("a write");
        let arrays: Vec<ArrayParameter> = write.arrays().collect();
        let faults = ArrayParameter::Texts(vec![None, Some("timeout".to_owned())]);
        assert!(arrays.contains(&faults), "{arrays:?}");
        assert!(arrays.contains(&ArrayParameter::Integers(vec![Some(7), Some(7)])));
    }

    #[test]
    fn bytes_are_refused() {
        let row = attempt::Model {
            delivery_id: DeliveryId::new(NOW),
            number: 1,
            tenant_id: TenantId::new(NOW),
            started_at: NOW,
            duration_ms: 1,
            status_code: None,
            error_kind: None,
            response: vec![1],
        };
        let refused = BatchWrite::insert(vec![row.into_active_model()], "");
        assert!(refused.is_err_and(|error| error.to_string().contains("response")));
    }
}
