//! `/database`: size, pools and commit times.

use actix_web::web::Data;
use futures_util::future::join;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    actors::DurationPercentiles,
    context::{OperatorContext, UNANSWERED, in_time},
};
use crate::http::answer::ApiAnswer;

/// The connections of a pool.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pool {
    pub name: &'static str,
    pub in_use: usize,
    pub idle: usize,
    /// There may be so many more.
    pub unopened: usize,
}

/// The database.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Database, example = json!({
    "kind": "sqlite", "version": "3.53.0", "sizeBytes": 1_048_576, "migrations": 14,
    "pools": [{"name": "writer", "inUse": 0, "idle": 1, "unopened": 0}], "commitUs": {"p50": 1000, "p99": 5000},
    "unanswered": null
}))]
pub struct DatabaseStatus {
    /// `sqlite` or `postgres`.
    pub kind: &'static str,
    /// Null, as the next two, where the database did not tell it in time.
    pub version: Option<String>,
    pub size_bytes: Option<i64>,
    /// Steps of the schema that were made.
    pub migrations: Option<i64>,
    /// A sentence where the database did not answer in time.
    pub unanswered: Option<&'static str>,
    pub pools: Vec<Pool>,
    /// From taking a batch of the ledger's up until it is committed.
    pub commit_us: DurationPercentiles,
}

/// `GET /database`
pub async fn show(process: Data<OperatorContext>) -> ApiAnswer {
    ApiAnswer::ok(&read(&process).await)
}

/// The database's current state.
pub async fn read(process: &OperatorContext) -> DatabaseStatus {
    let db = process.node.store.api_reader();
    let (kind, version, size) = match db.get_database_backend() {
        DbBackend::Postgres => (
            "postgres",
            "current_setting('server_version')",
            "SELECT pg_database_size(current_database()) AS size",
        ),
        _ => (
            "sqlite",
            "sqlite_version()",
            "SELECT page_count * page_size AS size FROM pragma_page_count(), pragma_page_size()",
        ),
    };
    let schema =
        format!("SELECT {version} AS version, (SELECT COUNT(*) FROM seaql_migrations) AS steps");
    // Determining a large database's size is slow, and must not delay the rest.
    let (schema, size) = join(
        in_time(async {
            let row = one(db, &schema).await?;
            let told: (String, i64) = (row.try_get("", "version")?, row.try_get("", "steps")?);
            Ok::<_, DbErr>(told)
        }),
        in_time(async { one(db, size).await?.try_get::<i64>("", "size") }),
    )
    .await;
    let pools = process.node.store.pools().into_iter();
    let pools = pools.map(|(name, pool)| Pool {
        name,
        in_use: pool.in_use,
        idle: pool.idle,
        unopened: pool.unopened,
    });
    let is_whole = schema.is_some() && size.is_some();
    let (version, migrations) = schema.unzip();
    DatabaseStatus {
        kind,
        version,
        size_bytes: size,
        migrations,
        unanswered: (!is_whole).then_some(UNANSWERED),
        pools: pools.collect(),
        commit_us: DurationPercentiles::from(&process.node.ledger.stats().commit),
    }
}

async fn one(db: &impl ConnectionTrait, sql: &str) -> Result<sea_orm::QueryResult, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    row.ok_or_else(|| DbErr::RecordNotFound(sql.to_owned()))
}
