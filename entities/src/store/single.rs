//! Single statements: each has a connection, and where it matters a transaction, of its own.

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    prelude::async_trait::async_trait,
};

use super::{pool::Connections, transaction::TransactionKind};

#[async_trait]
impl ConnectionTrait for Connections {
    fn get_database_backend(&self) -> DbBackend {
        self.backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let result = txn.execute_raw(statement).await?;
            return txn.commit().await.map(|()| result);
        }
        let mut lease = self.lease().await?;
        lease.execute(self.limits().statement, &statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let result = txn.execute_unprepared(sql).await?;
            return txn.commit().await.map(|()| result);
        }
        let mut lease = self.lease().await?;
        lease.unprepared(self.limits().statement, sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let row = txn.query_one_raw(statement).await?;
            return txn.commit().await.map(|()| row);
        }
        let mut lease = self.lease().await?;
        lease.one(self.limits().statement, &statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        if self.is_careful() {
            let txn = self.begin(TransactionKind::Write).await?;
            let rows = txn.query_all_raw(statement).await?;
            return txn.commit().await.map(|()| rows);
        }
        let mut lease = self.lease().await?;
        lease.all(self.limits().statement, &statement).await
    }
}
