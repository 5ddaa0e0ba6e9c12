//! The two kinds of store, and a store's URL.

use std::{
    future::pending,
    path::Path,
    sync::{Arc, LazyLock},
    thread,
};

use sea_orm::{
    ConnectionTrait, Database as Connections, DatabaseConnection, DbErr, QueryResult, Statement,
};
use tokio::{
    runtime::{Builder, Handle},
    sync::OnceCell,
};

use crate::{postgres::TestDatabase, schema};

/// The kind of store that a test runs on; tests take it as an rstest value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    Sqlite,
    Postgres,
}

const FILE: &str = "dikala.db";

/// Connections stay open on a runtime that outlives each test's.
static CONNECTED: LazyLock<Handle> = LazyLock::new(|| {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let handle = runtime.handle().clone();
    thread::spawn(move || runtime.block_on(pending::<()>()));
    handle
});

/// A store that is removed with this value. An SQLite file lives in the given folder.
#[derive(Debug)]
pub struct StorePlace {
    pub url: String,
    /// Polled queries share connections: each new one costs PostgreSQL a process.
    open: Arc<OnceCell<DatabaseConnection>>,
    database: Option<TestDatabase>,
}

impl StorePlace {
    fn file(file: &Path) -> Self {
        Self::at(format!("sqlite://{}", file.display()))
    }

    pub(crate) fn of(database: TestDatabase) -> Self {
        let url = database.url.clone();
        Self {
            database: Some(database),
            ..Self::at(url)
        }
    }

    /// A store that something else owns.
    pub(crate) fn at(url: String) -> Self {
        Self {
            url,
            open: Arc::default(),
            database: None,
        }
    }

    /// The same store for another process. The first value still owns it.
    pub fn shared(&self) -> Self {
        Self::at(self.url.clone())
    }

    /// The PostgreSQL database behind it, for fault tests.
    pub fn database(&self) -> Option<&TestDatabase> {
        self.database.as_ref()
    }

    async fn connect(&self) -> DatabaseConnection {
        Connections::connect(&self.url).await.unwrap()
    }

    /// Runs SQL, for changes that no API makes.
    pub async fn execute(&self, sql: &str) {
        let connection = self.connect().await;
        connection.execute_unprepared(sql).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Runs a query beside the server; returns rows of texts.
    pub async fn rows<const N: usize>(&self, sql: &str) -> Vec<[String; N]> {
        let sql = sql.to_owned();
        let rows = if self.database.is_some() {
            let (open, url) = (Arc::clone(&self.open), self.url.clone());
            let asked = CONNECTED.spawn(async move {
                let connection = open.get_or_try_init(|| Connections::connect(url)).await?;
                query(connection, sql).await
            });
            asked.await.unwrap()
        } else {
            let connection = self.connect().await;
            let rows = query(&connection, sql).await;
            connection.close().await.unwrap();
            rows
        };
        rows.unwrap()
            .iter()
            .map(|row| std::array::from_fn(|at| row.try_get_by_index(at).unwrap()))
            .collect()
    }

    /// The number of a table's rows.
    pub async fn count(&self, table: &str) -> usize {
        let rows = self
            .rows::<1>(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}"))
            .await;
        rows[0][0].parse().unwrap()
    }
}

async fn query(connection: &DatabaseConnection, sql: String) -> Result<Vec<QueryResult>, DbErr> {
    let query = Statement::from_string(connection.get_database_backend(), sql);
    connection.query_all_raw(query).await
}

impl StoreKind {
    /// An empty store; `None` if PostgreSQL is not installed, so that the test is skipped.
    pub fn place(self, folder: &Path) -> Option<StorePlace> {
        Some(match self {
            Self::Sqlite => StorePlace::file(&folder.join(FILE)),
            Self::Postgres => StorePlace::of(TestDatabase::create()?),
        })
    }

    /// As [`Self::place`], with the schema of `dikala migrate`.
    pub fn migrated_place(self, folder: &Path) -> Option<StorePlace> {
        Some(match self {
            Self::Sqlite => {
                let file = folder.join(FILE);
                schema::write_migrated(&file);
                StorePlace::file(&file)
            }
            Self::Postgres => StorePlace::of(TestDatabase::migrated()?),
        })
    }
}
