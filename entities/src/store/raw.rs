//! One connection to the database.

use std::{future::Future, time::Duration};

use sea_orm::{
    DbBackend, ExecResult, QueryResult, SqlxError, Statement,
    sqlx::{
        self, Arguments as _, AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _,
        Row as _,
        postgres::{PgArguments, PgConnectOptions, PgConnection},
        sqlite::{SqliteConnectOptions, SqliteConnection},
    },
};
use sea_query_sqlx::SqlxValues;

use super::{
    durability::{POSTGRES_UNSAFE, assert_durable},
    fault::SendFault,
    statement_timeout::StatementTimeout,
};
use crate::batch::{ArrayParameter, ArrayStatement};

/// The settings of a new connection.
#[derive(Clone, Debug)]
pub(super) enum Driver {
    /// With the timeout of a statement, if there is one.
    Sqlite(Box<SqliteConnectOptions>, Option<Duration>),
    Postgres(Box<PgConnectOptions>),
}

#[derive(Debug)]
pub(super) enum RawConnection {
    Sqlite(SqliteConnection, Option<StatementTimeout>),
    Postgres(PgConnection, ServerProcess),
}

/// The process that serves a connection to PostgreSQL. The system reuses process numbers, so the start time identifies it.
#[derive(Clone, Debug)]
pub(super) struct ServerProcess {
    pub id: i32,
    pub started_at: String,
    /// The session's settings with which a crash loses acknowledged commits, when it began; empty if there are none.
    pub unsafe_settings: String,
}

/// The state of a transaction after `begin`.
pub(super) enum TransactionStart {
    Sent,
    /// This text is to be sent before the first statement.
    WithTheFirst(&'static str),
}

impl Driver {
    pub(super) fn backend(&self) -> DbBackend {
        match self {
            Self::Sqlite(..) => DbBackend::Sqlite,
            Self::Postgres(_) => DbBackend::Postgres,
        }
    }

    pub(super) async fn connect(&self) -> Result<RawConnection, SqlxError> {
        Ok(match self {
            Self::Sqlite(options, longest) => {
                let mut connection = options.connect().await?;
                assert_durable(&mut connection).await?;
                let timeout = match longest {
                    Some(longest) => Some(StatementTimeout::of(&mut connection, *longest).await?),
                    None => None,
                };
                RawConnection::Sqlite(connection, timeout)
            }
            Self::Postgres(options) => {
                let mut connection = options.connect().await?;
                let process = ServerProcess::of(&mut connection).await?;
                RawConnection::Postgres(connection, process)
            }
        })
    }
}

impl ServerProcess {
    /// Read once per connection, so that no transaction has to.
    async fn of(connection: &mut PgConnection) -> Result<Self, SqlxError> {
        let ask = format!(
            "SELECT pid, backend_start::text, {POSTGRES_UNSAFE} FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        );
        let row = connection
            .fetch_one(sqlx::raw_sql(AssertSqlSafe(ask)))
            .await?;
        Ok(Self {
            id: row.try_get(0)?,
            started_at: row.try_get(1)?,
            unsafe_settings: row.try_get(2)?,
        })
    }
}

impl RawConnection {
    /// The server's process; none with SQLite, which runs in this one.
    pub(super) fn process(&self) -> Option<&ServerProcess> {
        match self {
            Self::Sqlite(..) => None,
            Self::Postgres(_, process) => Some(process),
        }
    }

    /// Starts the timeout of a statement.
    fn start_timeout(&self) {
        if let Self::Sqlite(_, Some(timeout)) = self {
            timeout.start_timeout();
        }
    }

    pub(super) async fn execute(&mut self, statement: &Statement) -> Result<ExecResult, SqlxError> {
        self.start_timeout();
        let sql = AssertSqlSafe(statement.sql.as_str());
        match self {
            Self::Sqlite(raw, _) => {
                let query = sqlx::query_with::<sqlx::Sqlite, _>(sql, values(statement));
                query.execute(raw).await.map(Into::into)
            }
            Self::Postgres(raw, _) => {
                let query = sqlx::query_with::<sqlx::Postgres, _>(sql, values(statement));
                query.execute(raw).await.map(Into::into)
            }
        }
    }

    /// Reads all rows: a statement that writes and returns rows is done, and outside of a transaction committed, only
    /// after the last.
    pub(super) async fn all(
        &mut self,
        statement: &Statement,
    ) -> Result<Vec<QueryResult>, SqlxError> {
        self.start_timeout();
        let sql = AssertSqlSafe(statement.sql.as_str());
        match self {
            Self::Sqlite(raw, _) => {
                let query = sqlx::query_with::<sqlx::Sqlite, _>(sql, values(statement));
                let rows = query.fetch_all(raw).await?;
                Ok(rows.into_iter().map(Into::into).collect())
            }
            Self::Postgres(raw, _) => {
                let query = sqlx::query_with::<sqlx::Postgres, _>(sql, values(statement));
                let rows = query.fetch_all(raw).await?;
                Ok(rows.into_iter().map(Into::into).collect())
            }
        }
    }

    /// The one row of a statement with arrays. Only PostgreSQL has them.
    pub(super) async fn arrays(
        &mut self,
        statement: &ArrayStatement,
    ) -> Result<QueryResult, SqlxError> {
        let Self::Postgres(raw, _) = self else {
            return Err(SqlxError::Configuration("SQLite has no arrays".into()));
        };
        let mut arguments = PgArguments::default();
        for parameter in &statement.parameters {
            match parameter {
                ArrayParameter::Texts(values) => arguments.add(values),
                ArrayParameter::Integers(values) => arguments.add(values),
                ArrayParameter::Booleans(values) => arguments.add(values),
                ArrayParameter::Count(count) => arguments.add(*count),
            }
            .map_err(SqlxError::Encode)?;
        }
        let sql = AssertSqlSafe(statement.sql.as_str());
        let query = sqlx::query_with::<sqlx::Postgres, _>(sql, arguments);
        // All rows, because the statement is done, and outside of a transaction committed, only after the last.
        let rows = query.fetch_all(raw).await?;
        let first = rows.into_iter().next();
        first.map(Into::into).ok_or(SqlxError::RowNotFound)
    }

    /// Runs one or more statements without parameters.
    pub(super) async fn unprepared(&mut self, sql: &str) -> Result<ExecResult, SqlxError> {
        self.start_timeout();
        let sql = AssertSqlSafe(sql.to_owned());
        match self {
            Self::Sqlite(raw, _) => raw.execute(sql).await.map(Into::into),
            Self::Postgres(raw, _) => raw.execute(sql).await.map(Into::into),
        }
    }

    /// Begins a transaction with `sql`. On SQLite it is sent with the first statement, because each statement
    /// switches threads twice.
    pub(super) async fn begin(&mut self, sql: &'static str) -> Result<TransactionStart, SqlxError> {
        match self {
            Self::Sqlite(..) => Ok(TransactionStart::WithTheFirst(sql)),
            Self::Postgres(raw, _) => {
                raw.execute(sqlx::raw_sql(sql)).await?;
                Ok(TransactionStart::Sent)
            }
        }
    }

    pub(super) async fn ping(&mut self) -> Result<(), SqlxError> {
        match self {
            Self::Sqlite(raw, _) => raw.ping().await,
            Self::Postgres(raw, _) => raw.ping().await,
        }
    }

    /// Closes the connection with the protocol's goodbye.
    pub(super) async fn close(self) -> Result<(), SqlxError> {
        match self {
            Self::Sqlite(raw, _) => raw.close().await,
            Self::Postgres(raw, _) => raw.close().await,
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
