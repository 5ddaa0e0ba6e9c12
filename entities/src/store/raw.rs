//! One connection to the database, and what is sent over it.

use std::{future::Future, time::Duration};

use sea_orm::{
    DbBackend, ExecResult, QueryResult, SqlxError, Statement,
    sqlx::{
        self, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _, Row as _,
        postgres::{PgConnectOptions, PgConnection},
        sqlite::{SqliteConnectOptions, SqliteConnection},
    },
};
use sea_query_sqlx::SqlxValues;

use super::{fault::SendFault, fuse::Fuse};

/// How a connection is made.
#[derive(Clone, Debug)]
pub(super) enum Driver {
    /// With how long SQLite may work on one statement, where that is bounded.
    Sqlite(Box<SqliteConnectOptions>, Option<Duration>),
    Postgres(Box<PgConnectOptions>),
}

/// A connection.
#[derive(Debug)]
pub(super) enum Raw {
    Sqlite(SqliteConnection, Option<Fuse>),
    Postgres(PgConnection),
}

/// Begins a write transaction. PostgreSQL says by which mark it knows it, and on which timeline of the server that is.
pub(super) const BEGIN_MARKED: &str = "BEGIN; SELECT pg_current_xact_id()::text, pg_backend_pid()::text, \
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)";

/// How PostgreSQL knows a write transaction, to end it or to find out how it ended.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub transaction: String,
    pub process: String,
    /// Of the server's log; another one begins where a standby takes over.
    pub timeline: String,
}

/// How a transaction began.
pub(super) enum Begun {
    Marked(Option<Mark>),
    /// It begins with the first statement, which this goes before.
    WithTheFirst(&'static str),
}

impl Driver {
    pub(super) fn backend(&self) -> DbBackend {
        match self {
            Self::Sqlite(..) => DbBackend::Sqlite,
            Self::Postgres(_) => DbBackend::Postgres,
        }
    }

    pub(super) async fn connect(&self) -> Result<Raw, SqlxError> {
        Ok(match self {
            Self::Sqlite(options, longest) => {
                let mut connection = options.connect().await?;
                let fuse = match longest {
                    Some(longest) => Some(Fuse::of(&mut connection, *longest).await?),
                    None => None,
                };
                Raw::Sqlite(connection, fuse)
            }
            Self::Postgres(options) => Raw::Postgres(options.connect().await?),
        })
    }
}

impl Raw {
    /// A statement begins.
    fn light(&self) {
        if let Self::Sqlite(_, Some(fuse)) = self {
            fuse.light();
        }
    }

    pub(super) async fn execute(&mut self, statement: &Statement) -> Result<ExecResult, SqlxError> {
        self.light();
        let sql = AssertSqlSafe(statement.sql.as_str());
        match self {
            Self::Sqlite(raw, _) => {
                let query = sqlx::query_with::<sqlx::Sqlite, _>(sql, values(statement));
                query.execute(raw).await.map(Into::into)
            }
            Self::Postgres(raw) => {
                let query = sqlx::query_with::<sqlx::Postgres, _>(sql, values(statement));
                query.execute(raw).await.map(Into::into)
            }
        }
    }

    /// All rows: a statement that writes and returns rows is not done, and outside of a transaction not committed, before its last.
    pub(super) async fn all(
        &mut self,
        statement: &Statement,
    ) -> Result<Vec<QueryResult>, SqlxError> {
        self.light();
        let sql = AssertSqlSafe(statement.sql.as_str());
        match self {
            Self::Sqlite(raw, _) => {
                let query = sqlx::query_with::<sqlx::Sqlite, _>(sql, values(statement));
                let rows = query.fetch_all(raw).await?;
                Ok(rows.into_iter().map(Into::into).collect())
            }
            Self::Postgres(raw) => {
                let query = sqlx::query_with::<sqlx::Postgres, _>(sql, values(statement));
                let rows = query.fetch_all(raw).await?;
                Ok(rows.into_iter().map(Into::into).collect())
            }
        }
    }

    /// One or more statements without parameters.
    pub(super) async fn unprepared(&mut self, sql: &str) -> Result<ExecResult, SqlxError> {
        self.light();
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(raw, _) => raw.execute(sql).await.map(Into::into),
            Self::Postgres(raw) => raw.execute(sql).await.map(Into::into),
        }
    }

    /// Begins a transaction with `sql`, whose last row, where it has one, is the mark. On SQLite that goes with what is asked first:
    /// each text that is sent changes threads twice.
    pub(super) async fn begin(&mut self, sql: &'static str) -> Result<Begun, SqlxError> {
        match self {
            Self::Sqlite(..) => Ok(Begun::WithTheFirst(sql)),
            Self::Postgres(raw) => {
                let rows = raw.fetch_all(sqlx::raw_sql(sql)).await?;
                let mark = |row: &sqlx::postgres::PgRow| {
                    Ok(Mark {
                        transaction: row.try_get(0)?,
                        process: row.try_get(1)?,
                        timeline: row.try_get(2)?,
                    })
                };
                rows.last().map(mark).transpose().map(Begun::Marked)
            }
        }
    }

    pub(super) async fn ping(&mut self) -> Result<(), SqlxError> {
        match self {
            Self::Sqlite(raw, _) => raw.ping().await,
            Self::Postgres(raw) => raw.ping().await,
        }
    }

    /// Takes leave properly.
    pub(super) async fn close(self) -> Result<(), SqlxError> {
        match self {
            Self::Sqlite(raw, _) => raw.close().await,
            Self::Postgres(raw) => raw.close().await,
        }
    }
}

fn values(statement: &Statement) -> SqlxValues {
    let values = statement.values.clone();
    SqlxValues(values.unwrap_or_else(|| sea_orm::Values(Vec::new())))
}

/// Awaits an answer for at most `deadline`.
pub(super) async fn within<T>(
    deadline: Option<Duration>,
    work: impl Future<Output = Result<T, SqlxError>>,
) -> Result<T, SendFault> {
    match deadline {
        None => work.await.map_err(SendFault::Said),
        Some(time) => match tokio::time::timeout(time, work).await {
            Ok(outcome) => outcome.map_err(SendFault::Said),
            Err(_) => Err(SendFault::Silent(time)),
        },
    }
}
