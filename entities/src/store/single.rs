//! Single statements outside of a transaction. A statement that the server rolled back because of others is repeated:
//! nothing of it happened.

use std::time::Duration;

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    prelude::async_trait::async_trait,
};

use super::{fault::lost_a_race, pool::Connections, transaction::TransactionKind};

/// Maximum number of tries.
const TRIES: u32 = 5;
/// Backoff before the second try; it grows by this with each try.
const AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Repeats a statement while the server rolls it back because of others.
macro_rules! again {
    ($work:expr) => {{
        let mut tries = 1;
        loop {
            match $work {
                Err(error) if tries < TRIES && lost_a_race(&error) => {
                    tracing::debug!(%error, tries, "the database rolled back a statement; sending it again");
                    tokio::time::sleep(AGAIN_AFTER * tries).await;
                    tries += 1;
                }
                outcome => break outcome,
            }
        }
    }};
}

#[async_trait]
impl ConnectionTrait for Connections {
    fn get_database_backend(&self) -> DbBackend {
        self.backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        again!(self.execute_once(&statement).await)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        again!(self.unprepared_once(sql).await)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let rows = again!(self.all_once(&statement).await)?;
        Ok(rows.into_iter().next())
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        again!(self.all_once(&statement).await)
    }
}

impl Connections {
    async fn execute_once(&self, statement: &Statement) -> Result<ExecResult, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let result = txn.execute_raw(statement.clone()).await?;
            return txn.commit().await.map(|()| result);
        }
        let mut connection = self.acquire().await?;
        connection.execute(self.limits().statement, statement).await
    }

    async fn unprepared_once(&self, sql: &str) -> Result<ExecResult, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let result = txn.execute_unprepared(sql).await?;
            return txn.commit().await.map(|()| result);
        }
        let mut connection = self.acquire().await?;
        connection.unprepared(self.limits().statement, sql).await
    }

    async fn all_once(&self, statement: &Statement) -> Result<Vec<QueryResult>, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let rows = txn.query_all_raw(statement.clone()).await?;
            return txn.commit().await.map(|()| rows);
        }
        let mut connection = self.acquire().await?;
        connection.all(self.limits().statement, statement).await
    }
}
