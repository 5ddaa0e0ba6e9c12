//! Statements whose text is the same for both databases.

use sea_orm::{DbBackend, Statement, Value};

pub(super) fn statement(backend: DbBackend, sql: &str, values: Vec<Value>) -> Statement {
    let sql = match backend {
        DbBackend::Postgres => sql.to_owned(),
        _ => sql.replace('$', "?"),
    };
    Statement::from_sql_and_values(backend, sql, values)
}
