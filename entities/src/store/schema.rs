//! The connection that changes the schema.

use sea_orm::{ConnectOptions, Database, DatabaseConnection, DbErr};

use super::{POSTGRES_LIMITS, POSTGRES_OPTIONS, Store, sqlite_file, sqlite_options};

/// What PostgreSQL is told there beside what it is told at each connection: statements may take hours, and who waits for another that
/// changes the schema waits for that; but who is frozen or cut off in between keeps nobody out for longer than a minute.
const POSTGRES_SCHEMA: [(&str, &str); 3] = [
    ("statement_timeout", "14400000"),
    ("lock_timeout", "300000"),
    ("idle_in_transaction_session_timeout", "60000"),
];

impl Store {
    /// One connection with deadlines of hours, for changes of the schema. Who asks for it closes it.
    pub async fn for_schema(&self) -> Result<DatabaseConnection, DbErr> {
        let mut options = ConnectOptions::new(self.url.as_ref());
        options
            .max_connections(1)
            // The lock of those who change the schema goes with the connection, and an index may take hours.
            .max_lifetime(None)
            .idle_timeout(None)
            .acquire_timeout(POSTGRES_LIMITS.acquire)
            .sqlx_logging(false);
        if let Some(path) = sqlite_file(&self.url) {
            options.map_sqlx_sqlite_opts(move |_| sqlite_options(&path));
        }
        options.map_sqlx_postgres_opts(|postgres| {
            postgres.options(POSTGRES_OPTIONS).options(POSTGRES_SCHEMA)
        });
        Database::connect(options).await
    }
}
