//! The state of a database's schema.

use std::collections::BTreeSet;

use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement};

use super::{number, steps};

/// The table of applied steps.
pub(crate) const RECORD: &str = "seaql_migrations";
/// The table of the oldest step that a program must know.
pub(crate) const COMPATIBILITY: &str = "schema_compatibility";

/// The state of a database's schema, compared with what this program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// Up to date.
    Current,
    /// A later version of the program has changed it, but this one can serve from it; the last step's name.
    Ahead(String),
    /// This many steps are missing.
    Behind(usize),
    /// A later version of the program has changed it, and this one cannot serve from it; the last step's name.
    Newer(String),
}

/// The number of the last step that this program knows.
pub fn knows_step() -> i64 {
    steps().last().map_or(0, super::Step::number)
}

/// Reads the state, and changes nothing.
pub async fn schema_state(db: &impl ConnectionTrait) -> Result<SchemaState, DbErr> {
    let known: BTreeSet<String> = steps()
        .iter()
        .map(|step| step.migration().name().to_owned())
        .collect();
    let applied = applied_steps(db).await?;
    let missing = known.difference(&applied).count();
    let Some(newer) = applied.difference(&known).last() else {
        return Ok(match missing {
            0 => SchemaState::Current,
            missing => SchemaState::Behind(missing),
        });
    };
    let serves = missing == 0 && serves_from(db, &applied).await? <= knows_step();
    Ok(match serves {
        true => SchemaState::Ahead(newer.clone()),
        false => SchemaState::Newer(newer.clone()),
    })
}

/// The number of the oldest step that a program must know. If none is recorded, it is the last one.
async fn serves_from(db: &impl ConnectionTrait, applied: &BTreeSet<String>) -> Result<i64, DbErr> {
    let last = applied.iter().map(|name| number(name)).max();
    let last = last.unwrap_or(0);
    if !has_table(db, COMPATIBILITY).await? {
        return Ok(last);
    }
    let found = rows(db, format!("SELECT serves_from FROM {COMPATIBILITY}")).await?;
    found
        .first()
        .map_or(Ok(last), |row| row.try_get("", "serves_from"))
}

pub(crate) async fn applied_steps(db: &impl ConnectionTrait) -> Result<BTreeSet<String>, DbErr> {
    if !has_table(db, RECORD).await? {
        return Ok(BTreeSet::new());
    }
    rows(db, format!("SELECT version FROM {RECORD}"))
        .await?
        .iter()
        .map(|row| row.try_get::<String>("", "version"))
        .collect()
}

pub(crate) async fn has_table(db: &impl ConnectionTrait, table: &str) -> Result<bool, DbErr> {
    let look = match db.get_database_backend() {
        DbBackend::Postgres => format!(
            "SELECT 1 AS one FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = '{table}'"
        ),
        _ => {
            format!("SELECT 1 AS one FROM sqlite_master WHERE type = 'table' AND name = '{table}'")
        }
    };
    rows(db, look).await.map(|found| !found.is_empty())
}

pub(crate) async fn rows(
    db: &impl ConnectionTrait,
    sql: String,
) -> Result<Vec<QueryResult>, DbErr> {
    db.query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
}
