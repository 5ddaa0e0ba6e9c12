//! Writes many rows with one statement, whose text, and so its plan, is the same for batches of any size. One
//! parameter per value would need a text for each size, and each connection would keep hundreds of them prepared.
//!
//! PostgreSQL receives all rows as one JSON parameter, and all writes of a transaction in one round trip
//! ([`Transaction::write_all`](crate::store::Transaction::write_all)). SQLite has no round trips, and reading JSON
//! costs it more than binding values, so there the rows are `VALUES` in blocks of a few sizes.

use sea_orm::{
    ActiveModelTrait, ActiveValue, DbBackend, DbErr, EntityName, EntityTrait, IdenStatic, Iterable,
    Statement, Value,
};
use serde_json::{Map, Value as Json};

use crate::rows::{ColumnType, json_rows_of};

/// The placeholder of the rows in a statement's text.
const ROWS: &str = "{rows}";
/// Sizes of blocks on SQLite, each with a text of its own.
const BLOCKS: [usize; 4] = [1, 4, 16, 64];
/// Larger tables of rows need several statements.
const BLOCK_MAX: usize = 64;
/// If no write has more rows than this, all writes are one statement.
const TOGETHER_MAX: usize = 4;

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

    /// Its text on PostgreSQL, as the part with this number of a larger statement.
    fn part(&self, number: usize) -> String {
        let rows = json_rows_of(DbBackend::Postgres, &self.columns, number);
        self.sql.replace(ROWS, &rows)
    }

    fn json(&self) -> String {
        let object = |row: &Vec<Value>| {
            let fields = self.columns.iter().zip(row);
            let fields = fields.map(|((name, _), value)| ((*name).to_owned(), json_of(value)));
            Json::Object(fields.collect::<Map<_, _>>())
        };
        Json::Array(self.rows.iter().map(object).collect()).to_string()
    }
}

/// Several writes as one PostgreSQL statement, which returns the number of rows that each changed: `n1`, `n2`, …
///
/// All writes see the tables as they were before, so no two may touch the same row.
pub(crate) fn together(writes: &[&BatchWrite]) -> Statement {
    let numbered = || (1..).zip(writes);
    let parts: Vec<String> = numbered()
        .map(|(number, write)| format!("w{number} AS ({} RETURNING 1)", write.part(number)))
        .collect();
    let counts: Vec<String> = numbered()
        .map(|(number, _)| format!("(SELECT COUNT(*) FROM w{number}) AS n{number}"))
        .collect();
    let sql = format!("WITH {} SELECT {}", parts.join(", "), counts.join(", "));
    let values = writes.iter().map(|write| Value::from(write.json()));
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
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

/// One statement with the same number of rows for each write, padded with rows of nulls, which the statements skip.
fn block_of(writes: &[&BatchWrite], first: usize) -> Statement {
    let parts = writes.iter().map(|write| (write, write.block(first)));
    let parts: Vec<_> = parts.filter(|(_, rows)| !rows.is_empty()).collect();
    let most = parts.iter().map(|(_, rows)| rows.len()).max().unwrap_or(0);
    let size = BLOCKS.into_iter().find(|size| *size >= most);
    let size = size.unwrap_or(BLOCK_MAX);
    let mut sql = Vec::with_capacity(parts.len());
    let mut values = Vec::new();
    for (write, rows) in parts {
        sql.push(write.sql.replace(ROWS, &write.values_of(size)));
        values.extend(rows.iter().flatten().cloned());
        let missing = (size - rows.len()) * write.columns.len();
        values.extend(std::iter::repeat_n(Value::BigInt(None), missing));
    }
    Statement::from_sql_and_values(DbBackend::Sqlite, sql.join("; "), values)
}

fn kind_of(value: &Value) -> Option<ColumnType> {
    match value {
        Value::String(_) => Some(ColumnType::Text),
        Value::BigInt(_) => Some(ColumnType::BigInt),
        Value::Bool(_) => Some(ColumnType::Boolean),
        _ => None,
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::String(text) => text.as_deref().map_or(Json::Null, Json::from),
        Value::BigInt(number) => number.map_or(Json::Null, Json::from),
        Value::Bool(flag) => flag.map_or(Json::Null, Json::from),
        _ => Json::Null,
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
        assert_ne!(one.values, many.values);
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
        assert!(
            both.sql.contains("$1") && both.sql.contains("$2"),
            "{}",
            both.sql
        );
        assert_eq!(both.values.map(|values| values.0.len()), Some(2));
    }

    #[test]
    fn what_json_does_not_hold_is_refused() {
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
