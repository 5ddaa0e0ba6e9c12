//! The write-ahead log of PostgreSQL.

use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement};

/// The bytes that the server has ever written to its log, over all databases. `None` on SQLite.
pub async fn written(database: &DatabaseConnection) -> Result<Option<i64>, DbErr> {
    if database.get_database_backend() != DbBackend::Postgres {
        return Ok(None);
    }
    let asked = "SELECT CAST(pg_current_wal_insert_lsn() - '0/0' AS bigint)";
    let asked = Statement::from_string(DbBackend::Postgres, asked);
    let row = database.query_one_raw(asked).await?;
    row.map(|row| row.try_get_by_index(0)).transpose()
}
