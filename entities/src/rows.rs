//! Rows of a batch as one JSON parameter of a statement, so that its text is the same for batches of any size.

use sea_orm::{DbBackend, DbErr, Statement, Value};

/// The type of a column in [`json_rows`], as PostgreSQL names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    BigInt,
    Boolean,
}

impl ColumnType {
    pub(crate) const fn in_postgres(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::BigInt => "bigint",
            Self::Boolean => "boolean",
        }
    }
}

/// A table source for the rows of a batch: `(SELECT …) AS rows`. It reads them from one JSON parameter, an array of
/// objects with the named columns, which [`json_statement`] binds.
pub fn json_rows(backend: DbBackend, columns: &[(&str, ColumnType)]) -> String {
    match backend {
        DbBackend::Postgres => {
            let columns: Vec<String> = columns
                .iter()
                .map(|(name, kind)| format!("\"{name}\" {}", kind.in_postgres()))
                .collect();
            format!(
                "json_to_recordset($1::json) AS rows({})",
                columns.join(", ")
            )
        }
        _ => {
            let columns: Vec<String> = columns
                .iter()
                .map(|(name, _)| format!("value->>'{name}' AS \"{name}\""))
                .collect();
            format!("(SELECT {} FROM json_each(?1)) AS rows", columns.join(", "))
        }
    }
}

/// The condition that a column equals one of the texts in the JSON array of this parameter: `= ANY(…)` on PostgreSQL,
/// `IN …` on SQLite.
pub fn is_one_of(backend: DbBackend, column: &str, parameter: usize) -> String {
    match backend {
        DbBackend::Postgres => {
            format!("{column} IN (SELECT json_array_elements_text(${parameter}::json))")
        }
        _ => format!("{column} IN (SELECT value FROM json_each(?{parameter}))"),
    }
}

/// A statement whose only parameter is a batch for [`json_rows`].
pub fn json_statement<T: serde::Serialize>(
    backend: DbBackend,
    sql: String,
    batch: &[T],
) -> Result<Statement, DbErr> {
    let batch = serde_json::to_string(batch).map_err(|e| DbErr::Json(e.to_string()))?;
    Ok(Statement::from_sql_and_values(
        backend,
        sql,
        [Value::from(batch)],
    ))
}
