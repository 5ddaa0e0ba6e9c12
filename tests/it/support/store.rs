//! The two stores that every promise holds on.

use std::path::Path;

use sea_orm::{ConnectionTrait, Statement};

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

    /// Writes what no API writes.
    pub async fn execute(&self, sql: &str) {
        let store = dikala_entities::Store::connect(&self.url).await.unwrap();
        store.writer().execute_unprepared(sql).await.unwrap();
        store.close().await;
    }

    /// A count that no API shows.
    pub async fn count(&self, table: &str) -> i64 {
        let store = dikala_entities::Store::connect(&self.url).await.unwrap();
        let sql = format!("SELECT COUNT(*) AS rows_there FROM {table}");
        let count = Statement::from_string(store.backend(), sql);
        let row = store.reader().query_one_raw(count).await.unwrap().unwrap();
        store.close().await;
        row.try_get("", "rows_there").unwrap()
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
