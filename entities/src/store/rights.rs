//! Checks of PostgreSQL before use: is it reachable, and does its user have the rights that are needed?

use std::{str::FromStr, time::Duration};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, Statement,
    sqlx::{self, ConnectOptions, Connection, Row, postgres::PgConnectOptions},
};

use super::{POSTGRES_OPTIONS, Store, StoreError, in_words};

/// The schema in use, or the one that would be with the right to it, because `current_schema()` skips schemas without
/// it. That is the first existing one, else the first other than the user's own, which is listed by default and
/// rarely exists.
const SCHEMA: &str = "WITH entries AS ( \
    SELECT trim(BOTH '\"' FROM trim(entry)) AS entry, place \
    FROM unnest(string_to_array(current_setting('search_path'), ',')) WITH ORDINALITY AS path(entry, place)), \
  named AS ( \
    SELECT CASE entry WHEN '$user' THEN current_user::text ELSE entry END AS name, entry = '$user' AS own, place FROM entries), \
  found AS ( \
    SELECT name, EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = name) AS there, own, place FROM named), \
  chosen AS (SELECT name, there FROM found ORDER BY there DESC, own, place LIMIT 1) ";
const ENCODING: &str = "UTF8";
/// The error of a pooler that does not pass a setting on.
const REFUSED_SETTING: &str = "unsupported startup parameter";

/// Tries connections. A pool would retry a server that refuses, as if it were starting.
pub(super) async fn reach(url: &str, within: Duration) -> Result<(), StoreError> {
    let unreachable = |place: String, reason: String| StoreError::Postgres { place, reason };
    // The parser's error may contain the URL, with its password.
    let options = PgConnectOptions::from_str(url).map_err(|_| {
        let reason = "its address cannot be read".to_owned();
        unreachable("database.url".to_owned(), reason)
    })?;
    let database = options.get_database().unwrap_or_default();
    let place = match options.get_socket() {
        Some(socket) => format!("{}/{database}", socket.display()),
        None => format!("{}:{}/{database}", options.get_host(), options.get_port()),
    };
    let [(setting, value), ..] = POSTGRES_OPTIONS;
    let options = options.options([(setting, value)]);
    match tokio::time::timeout(within, look(&options, setting)).await {
        Ok(Ok(seen)) if seen.encoding != ENCODING => Err(StoreError::Encoding {
            place,
            encoding: seen.encoding,
        }),
        Ok(Ok(seen)) if seen.value != value => {
            let found = "the settings of a connection do not reach the server";
            Err(StoreError::Pooler { place, found })
        }
        Ok(Ok(seen)) if seen.shares_a_session => {
            let found = "two connections share one session";
            Err(StoreError::Pooler { place, found })
        }
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) if error.to_string().contains(REFUSED_SETTING) => {
            let found = "it refuses the settings of a connection";
            Err(StoreError::Pooler { place, found })
        }
        Ok(Err(error)) => Err(unreachable(place, in_words(&error))),
        Err(_) => {
            let reason = format!("no answer within {} s", within.as_secs());
            Err(unreachable(place, reason))
        }
    }
}

/// The facts about a server and a pooler before it.
struct ServerFacts {
    encoding: String,
    /// The setting's value as the server has it.
    value: String,
    shares_a_session: bool,
}

/// Makes two connections at once. A pooler in transaction mode gives both the same session.
async fn look(options: &PgConnectOptions, setting: &str) -> Result<ServerFacts, sqlx::Error> {
    let ask = format!(
        "SELECT current_setting('server_encoding'), (SELECT setting FROM pg_settings WHERE name = '{setting}'), \
         pg_backend_pid()::text"
    );
    let [mut one, mut other] = [options.connect().await?, options.connect().await?];
    let mut shown = Vec::new();
    for connection in [&mut one, &mut other] {
        let query = sqlx::raw_sql(sqlx::AssertSqlSafe(ask.as_str()));
        shown.push(query.fetch_one(connection).await?);
    }
    // Errors while closing do not matter.
    let _ = one.close().await;
    let _ = other.close().await;
    let read = |at: usize, column: usize| match shown.get(at) {
        Some(row) => row.try_get::<String, _>(column),
        None => Err(sqlx::Error::RowNotFound),
    };
    Ok(ServerFacts {
        encoding: read(0, 0)?,
        value: read(0, 1)?,
        shares_a_session: read(0, 2)? == read(1, 2)?,
    })
}

/// The user's rights in its schema.
struct SchemaRight {
    schema: String,
    there: bool,
    user: String,
    may: bool,
}

impl Store {
    /// Fails if the user cannot create tables.
    pub async fn may_make_tables(&self) -> Result<(), StoreError> {
        let may = "COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false)";
        let Some(found) = self.ask(may).await? else {
            return Ok(());
        };
        found.to("make tables", |schema, user| {
            format!("GRANT USAGE, CREATE ON SCHEMA {schema} TO {user}")
        })
    }

    /// Fails if the user cannot read and write the existing tables: those with the same owner as the record of steps,
    /// which is only read.
    pub async fn may_use_tables(&self) -> Result<(), StoreError> {
        let may = "(WITH tables AS ( \
                      SELECT c.oid, c.relname = 'seaql_migrations' AS record, c.relowner AS owner \
                      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                      WHERE c.relkind IN ('r', 'p') AND n.nspname = current_schema()) \
                    SELECT COALESCE(bool_and(has_table_privilege(oid, 'SELECT') AND (record OR \
                      has_table_privilege(oid, 'INSERT') AND has_table_privilege(oid, 'UPDATE') \
                      AND has_table_privilege(oid, 'DELETE'))), true) \
                    FROM tables WHERE owner = (SELECT owner FROM tables WHERE record))";
        let Some(found) = self.ask(may).await? else {
            return Ok(());
        };
        found.to("read and write all tables", |schema, user| {
            format!(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}"
            )
        })
    }

    /// Evaluates an SQL expression for a right of the user. None on SQLite, which only has the rights of its file.
    async fn ask(&self, may: &str) -> Result<Option<SchemaRight>, StoreError> {
        if self.backend() != DbBackend::Postgres {
            return Ok(None);
        }
        let sql = format!(
            "{SCHEMA} SELECT COALESCE(current_schema()::text, (SELECT name FROM chosen), 'public') AS schema, \
             COALESCE(current_schema() IS NOT NULL OR (SELECT there FROM chosen), false) AS there, \
             current_user::text AS account, {may} AS may"
        );
        let statement = Statement::from_string(self.backend(), sql);
        let row = self.writer.query_one_raw(statement).await;
        let read = |row: sea_orm::QueryResult| {
            Ok(SchemaRight {
                schema: row.try_get("", "schema")?,
                there: row.try_get("", "there")?,
                user: row.try_get("", "account")?,
                may: row.try_get("", "may")?,
            })
        };
        row.and_then(|row| row.map(read).transpose())
            .map_err(|error: DbErr| StoreError::Unreachable(error))
    }
}

impl SchemaRight {
    fn to(
        self,
        right: &'static str,
        remedy: impl FnOnce(&str, &str) -> String,
    ) -> Result<(), StoreError> {
        if self.may {
            return Ok(());
        }
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (schema, user) = (quoted(&self.schema), quoted(&self.user));
        if !self.there {
            return Err(StoreError::NoSchema {
                schema: self.schema,
                remedy: format!("CREATE SCHEMA {schema} AUTHORIZATION {user}"),
            });
        }
        let remedy = remedy(&schema, &user);
        Err(StoreError::Rights {
            right,
            schema: self.schema,
            remedy,
        })
    }
}
