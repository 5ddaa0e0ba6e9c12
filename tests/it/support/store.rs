//! The two stores that every promise holds on.

use std::path::Path;

use sea_orm::{ConnectionTrait, Database as Connections, DatabaseConnection, Statement};

use super::postgres::Database;

/// Which store a test runs on; tests take it as an rstest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

/// An empty store that goes away with this value (SQLite's file lives in the folder that was given).
#[derive(Debug)]
pub struct Store {
    pub url: String,
    database: Option<Database>,
}

impl Store {
    /// The PostgreSQL database behind it, to do harm to.
    pub fn database(&self) -> Option<&Database> {
        self.database.as_ref()
    }

    async fn connect(&self) -> DatabaseConnection {
        Connections::connect(&self.url).await.unwrap()
    }

    /// Writes what no API writes.
    pub async fn execute(&self, sql: &str) {
        let connection = self.connect().await;
        connection.execute_unprepared(sql).await.unwrap();
        connection.close().await.unwrap();
    }

    /// What a query finds in it, beside the server: rows of texts.
    pub async fn rows<const N: usize>(&self, sql: &str) -> Vec<[String; N]> {
        let connection = self.connect().await;
        let query = Statement::from_string(connection.get_database_backend(), sql);
        let rows = connection.query_all_raw(query).await.unwrap();
        connection.close().await.unwrap();
        rows.iter()
            .map(|row| std::array::from_fn(|at| row.try_get_by_index(at).unwrap()))
            .collect()
    }

    /// A count that no API shows.
    pub async fn count(&self, table: &str) -> usize {
        let rows = self
            .rows::<1>(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}"))
            .await;
        rows[0][0].parse().unwrap()
    }
}

impl StoreKind {
    /// `None` where the machine has no PostgreSQL: the test is skipped.
    pub fn create(self, folder: &Path) -> Option<Store> {
        Some(match self {
            Self::Sqlite => Store {
                url: format!("sqlite://{}", folder.join("dikala.db").display()),
                database: None,
            },
            Self::Postgres => {
                let database = Database::create()?;
                Store {
                    url: database.url.clone(),
                    database: Some(database),
                }
            }
        })
    }
}
