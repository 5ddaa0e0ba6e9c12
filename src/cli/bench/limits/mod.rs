//! Limits: bare loops that show what the machine does without the service, with the same durability.

pub mod actors;
pub mod api;
pub mod commit;
pub mod rows;

use std::time::Duration;

use dikala_entities::Store;
use sea_orm::{
    ConnectOptions, Database, DatabaseConnection, DbErr,
    sqlx::{postgres::PgConnectOptions, sqlite::SqliteConnectOptions},
};

/// Opens one connection with the store's durability only: SQLite in WAL mode with `synchronous=FULL`, PostgreSQL
/// with its defaults.
pub async fn connection(url: &str) -> Result<DatabaseConnection, DbErr> {
    let mut options = ConnectOptions::new(url);
    options
        .min_connections(1)
        .max_connections(1)
        .test_before_acquire(false)
        .idle_timeout(Duration::from_secs(3_600))
        .sqlx_logging(false)
        .map_sqlx_postgres_opts(|options: PgConnectOptions| options);
    if let Some(file) = Store::sqlite_file(url) {
        options.map_sqlx_sqlite_opts(move |_| {
            SqliteConnectOptions::new()
                .filename(&file)
                .pragma("journal_mode", "WAL")
                .pragma("synchronous", "FULL")
                .pragma("cache_size", "-16000")
        });
    }
    Database::connect(options).await
}
