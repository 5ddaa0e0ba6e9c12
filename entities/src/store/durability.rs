//! Durability: checks that the database keeps what it acknowledges as committed.
//!
//! On PostgreSQL it reads the settings of this program's sessions, which combine those of the server, the database, the role and
//! `database.url`. On SQLite the program sets them itself, and refuses a connection on which they have no effect.

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, SqlxError, Statement,
    sqlx::{self, Row as _, sqlite::SqliteConnection},
};

use super::Store;

/// Settings with which a crash loses acknowledged commits; empty if there are none. `local` waits for this server only, which is
/// too little beside a synchronous standby.
pub(super) const POSTGRES_UNSAFE: &str = "concat_ws(', ', \
    CASE WHEN current_setting('fsync') = 'off' THEN 'fsync = off' END, \
    CASE WHEN current_setting('full_page_writes') = 'off' THEN 'full_page_writes = off' END, \
    CASE WHEN current_setting('synchronous_commit') = 'off' OR current_setting('synchronous_commit') = 'local' \
      AND current_setting('synchronous_standby_names') <> '' \
      THEN 'synchronous_commit = ' || current_setting('synchronous_commit') END)";

/// Pragmas that every SQLite connection must have, each with the value that SQLite shows.
const SQLITE_NEEDED: [(&str, &str, &str); 3] = [
    ("PRAGMA journal_mode", "journal_mode", "wal"),
    ("PRAGMA synchronous", "synchronous = FULL", "2"),
    ("PRAGMA foreign_keys", "foreign_keys", "1"),
];

/// An SQL expression for the unsafe settings of this session, as `fsync = off, …`; the empty text if there are none.
pub fn unsafe_settings_sql(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => POSTGRES_UNSAFE,
        _ => "''",
    }
}

impl Store {
    /// From now on, refuses new connections for writing whose settings are unsafe. A role's or database's settings take effect in
    /// new sessions only, so sessions of the same server may differ.
    pub fn refuse_unsafe_sessions(&self) {
        self.signs.refuse_unsafe_sessions();
    }

    /// Server settings with which a crash loses acknowledged commits, as `fsync = off, …`; empty if there are none.
    pub async fn unsafe_settings(&self) -> Result<String, DbErr> {
        let sql = format!("SELECT {} AS settings", unsafe_settings_sql(self.backend()));
        let query = Statement::from_string(self.backend(), sql);
        let row = self.writer.query_one_raw(query).await?;
        let row = row.ok_or_else(|| DbErr::RecordNotFound("settings".to_owned()))?;
        row.try_get("", "settings")
    }
}

/// Refuses a connection on which a durability pragma has no effect. SQLite reports no error if it cannot apply a pragma.
pub(super) async fn assert_durable(connection: &mut SqliteConnection) -> Result<(), SqlxError> {
    for (ask, name, needed) in SQLITE_NEEDED {
        let row = sqlx::raw_sql(ask).fetch_one(&mut *connection).await?;
        let shown = match row.try_get::<String, _>(0) {
            Ok(text) => text,
            Err(_) => row.try_get::<i64, _>(0)?.to_string(),
        };
        if shown != needed {
            let words = format!(
                "SQLite does not work with {name} here (it shows {shown:?}), without which a power cut loses data; put the database on \
                 a local disk"
            );
            return Err(SqlxError::Configuration(words.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sea_orm::sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};

    use super::*;
    use crate::store::sqlite_options;

    #[tokio::test]
    async fn an_sqlite_connection_that_may_lose_data_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("dikala.db");
        let judged = async |options: SqliteConnectOptions| {
            let mut connection = options.connect().await.expect("a connection");
            let judged = assert_durable(&mut connection).await;
            judged.map_err(|error| error.to_string())
        };
        assert_eq!(judged(sqlite_options(&file)).await, Ok(()));
        for (pragma, value) in [
            ("journal_mode", "DELETE"),
            ("synchronous", "NORMAL"),
            ("foreign_keys", "OFF"),
        ] {
            let refused = judged(sqlite_options(&file).pragma(pragma, value)).await;
            let refused = refused.expect_err(pragma);
            assert!(refused.contains(pragma), "{refused}");
        }
    }
}
