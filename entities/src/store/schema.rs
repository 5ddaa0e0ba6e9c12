//! The connection for schema changes.

use sea_orm::{ConnectOptions, Database, DatabaseConnection, DbErr};

use super::{POSTGRES_LIMITS, POSTGRES_OPTIONS, Store, sqlite_file, sqlite_options};

/// Further PostgreSQL settings of this connection. Statements may take hours, and another schema change is waited
/// for. A client that hangs or is cut off in a transaction blocks others for a minute at most.
const POSTGRES_SCHEMA: [(&str, &str); 3] = [
    ("statement_timeout", "14400000"),
    ("lock_timeout", "300000"),
    ("idle_in_transaction_session_timeout", "60000"),
];

impl Store {
    /// A connection with timeouts of hours, for schema changes. The caller closes it.
    pub async fn for_schema(&self) -> Result<DatabaseConnection, DbErr> {
        let mut options = ConnectOptions::new(self.url.as_ref());
        options
            .max_connections(1)
            // The advisory lock is lost with the connection, and an index may take hours.
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
