//! PostgreSQL before it is used: can it be reached, and may its user do what is to be done?

use std::{str::FromStr, time::Duration};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, Statement,
    sqlx::{ConnectOptions, Connection, postgres::PgConnectOptions},
};

use super::{Store, StoreError};

/// Tries one connection. A pool would take a server that refuses for one that starts, and go on trying.
pub(super) async fn reach(url: &str, within: Duration) -> Result<(), StoreError> {
    let unreachable = |place: String, reason: String| StoreError::Postgres { place, reason };
    // What the parser says may hold what it could not parse.
    let options = PgConnectOptions::from_str(url).map_err(|_| {
        let reason = "its address cannot be read".to_owned();
        unreachable("database.url".to_owned(), reason)
    })?;
    let database = options.get_database().unwrap_or_default();
    let place = match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    };
    match tokio::time::timeout(within, options.connect()).await {
        Ok(Ok(connection)) => {
            // It has done what it was for.
            let _ = connection.close().await;
            Ok(())
        }
        Ok(Err(error)) => Err(unreachable(place, error.to_string())),
        Err(_) => {
            let reason = format!("no answer within {} s", within.as_secs());
            Err(unreachable(place, reason))
        }
    }
}

/// What the user of a connection may do in its schema.
struct Found {
    schema: String,
    user: String,
    may: bool,
}

impl Store {
    /// Whether the schema can be brought up to date.
    pub async fn may_make_tables(&self) -> Result<(), StoreError> {
        let sql = "SELECT current_schema()::text AS schema, current_user::text AS account, \
                   COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false) AS may";
        let Some(found) = self.ask(sql).await? else {
            return Ok(());
        };
        found.to("make tables", |schema, user| {
            format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}")
        })
    }

    /// Whether all tables can be read and written.
    pub async fn may_use_tables(&self) -> Result<(), StoreError> {
        let sql = "SELECT current_schema()::text AS schema, current_user::text AS account, COALESCE(bool_and( \
                     has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') \
                     AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')), true) AS may \
                   FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                   WHERE c.relkind = 'r' AND n.nspname = current_schema()";
        let Some(found) = self.ask(sql).await? else {
            return Ok(());
        };
        found.to("read and write all tables", |schema, user| {
            format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}"
            )
        })
    }

    /// None on SQLite, whose rights are those of its file.
    async fn ask(&self, sql: &str) -> Result<Option<Found>, StoreError> {
        if self.backend() != DbBackend::Postgres {
            return Ok(None);
        }
        let statement = Statement::from_string(self.backend(), sql);
        let row = self.writer.query_one_raw(statement).await;
        let read = |row: sea_orm::QueryResult| {
            Ok(Found {
                schema: row
                    .try_get::<Option<String>>("", "schema")?
                    .unwrap_or_default(),
                user: row.try_get("", "account")?,
                may: row.try_get("", "may")?,
            })
        };
        row.and_then(|row| row.map(read).transpose())
            .map_err(|error: DbErr| StoreError::Unreachable(error))
    }
}

impl Found {
    fn to(
        self,
        right: &'static str,
        remedy: impl FnOnce(&str, &str) -> String,
    ) -> Result<(), StoreError> {
        if self.may {
            return Ok(());
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let remedy = remedy(&quoted(&self.schema), &quoted(&self.user));
        Err(StoreError::Rights {
            right,
            schema: self.schema,
            remedy,
        })
    }
}
