//! `/database`: size, pools, commit times and slowest statements.

use std::cmp::Reverse;

use actix_web::web::Data;
use dikala_entities::{StatementRanking, store::StatementReading};
use futures_util::future::join;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    actors::DurationPercentiles,
    context::{OperatorContext, UNANSWERED, in_time},
};
use crate::http::{
    answer::ApiAnswer,
    error::ApiError,
    extract::{FormFields, OperatorQuery, word},
};

/// Number of shown statements.
const STATEMENTS_SHOWN: usize = 20;

/// Statements of one shape, as this process sent them since its start.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = StatementTimes)]
pub struct StatementTimes {
    /// The text with `?` for each value, and `…` for the rest of a list.
    pub shape: String,
    pub count: u64,
    /// Those that failed, or were broken off.
    pub failed: u64,
    /// From sending one until its last row, in microseconds.
    pub mean_us: u64,
    pub longest_us: u64,
    pub total_us: u64,
}

impl From<StatementReading> for StatementTimes {
    fn from(reading: StatementReading) -> Self {
        Self {
            shape: reading.shape.to_string(),
            count: reading.count,
            failed: reading.failed,
            mean_us: reading.total_us / reading.count.max(1),
            longest_us: reading.longest_us,
            total_us: reading.total_us,
        }
    }
}

/// The statements that rank highest.
fn slowest(statements: Vec<StatementReading>, by: StatementRanking) -> Vec<StatementTimes> {
    let mut all: Vec<StatementTimes> = statements.into_iter().map(StatementTimes::from).collect();
    all.sort_unstable_by(|one, other| {
        let key = |slow: &StatementTimes| {
            Reverse(match by {
                StatementRanking::Mean => slow.mean_us,
                StatementRanking::Longest => slow.longest_us,
                StatementRanking::Total => slow.total_us,
            })
        };
        (key(one), &one.shape).cmp(&(key(other), &other.shape))
    });
    all.truncate(STATEMENTS_SHOWN);
    all
}

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
    "unanswered": null,
    "statements": [{"shape": "SELECT * FROM calls WHERE id = ?", "count": 812, "failed": 0, "meanUs": 61, "longestUs": 904,
                    "totalUs": 49_532}]
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
    /// The slowest 20, by what is asked for.
    pub statements: Vec<StatementTimes>,
}

/// `GET /database`
pub async fn show(
    process: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(&read(&process, &filters.0).await?))
}

/// The database's current state.
pub async fn read(
    process: &OperatorContext,
    asked: &FormFields,
) -> Result<DatabaseStatus, ApiError> {
    let by = asked.read(&[], |form| {
        let mean = StatementRanking::Mean;
        Some(form.defaulted("sort", None, mean, word("a ranking")))
    })?;
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
    Ok(DatabaseStatus {
        kind,
        version,
        size_bytes: size,
        migrations,
        unanswered: (!is_whole).then_some(UNANSWERED),
        pools: pools.collect(),
        commit_us: DurationPercentiles::from(&process.node.ledger.stats().commit),
        statements: slowest(process.node.store.statements(), by),
    })
}

async fn one(db: &impl ConnectionTrait, sql: &str) -> Result<sea_orm::QueryResult, DbErr> {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await?;
    row.ok_or_else(|| DbErr::RecordNotFound(sql.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_by_whatever_is_asked_for() {
        let statement = |shape: &str, count, total_us, longest_us| StatementReading {
            shape: shape.into(),
            count,
            failed: 0,
            total_us,
            longest_us,
        };
        let some = [
            statement("often", 1_000, 9_000, 10),
            statement("slow", 2, 900, 500),
            statement("once", 5, 1_000, 900),
        ];
        for (by, first) in [
            (StatementRanking::Mean, "slow"),
            (StatementRanking::Longest, "once"),
            (StatementRanking::Total, "often"),
        ] {
            let found = slowest(some.to_vec(), by);
            assert_eq!((found.len(), found[0].shape.as_str()), (3, first), "{by}");
        }
        let many = (0..50).map(|n| statement(&n.to_string(), 1, n, n));
        let many = slowest(many.collect(), StatementRanking::Mean);
        assert_eq!((many.len(), many[0].mean_us), (STATEMENTS_SHOWN, 49));
    }
}
