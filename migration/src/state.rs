//! The state of a database's schema.

use std::collections::BTreeSet;

use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement};

use super::steps;

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
    /// A version from before the first release made it.
    Unreleased,
}

/// The number of the last step that this program knows.
pub fn knows_step() -> i64 {
    steps().last().map_or(0, super::Step::number)
}

/// Reads the state, and changes nothing.
pub async fn schema_state(db: &impl ConnectionTrait) -> Result<SchemaState, DbErr> {
    let steps = steps();
    let names = steps.iter().map(|step| step.migration().name());
    let known: BTreeSet<String> = names.map(str::to_owned).collect();
    let applied = applied_steps(db).await?;
    if !applied.is_empty() && !applied.contains(steps[0].migration().name()) {
        return Ok(SchemaState::Unreleased);
    }
    let missing = known.difference(&applied).count();
    let Some(newer) = applied.difference(&known).last() else {
        return Ok(match missing {
            0 => SchemaState::Current,
            missing => SchemaState::Behind(missing),
        });
    };
    let serves = missing == 0 && serves_from(db).await? <= knows_step();
    Ok(match serves {
        true => SchemaState::Ahead(newer.clone()),
        false => SchemaState::Newer(newer.clone()),
    })
}

/// The number of the oldest step that a program must know. A schema that does not say so is not served.
async fn serves_from(db: &impl ConnectionTrait) -> Result<i64, DbErr> {
    let found = rows(db, format!("SELECT serves_from FROM {COMPATIBILITY}")).await?;
    found
        .first()
        .map_or(Ok(i64::MAX), |row| row.try_get("", "serves_from"))
}

pub(crate) async fn applied_steps(db: &impl ConnectionTrait) -> Result<BTreeSet<String>, DbErr> {
    let is_recorded = match db.get_database_backend() {
        DbBackend::Postgres => format!(
            "SELECT 1 AS one FROM pg_catalog.pg_tables WHERE schemaname = current_schema() AND tablename = '{RECORD}'"
        ),
        _ => {
            format!("SELECT 1 AS one FROM sqlite_master WHERE type = 'table' AND name = '{RECORD}'")
        }
    };
    if rows(db, is_recorded).await?.is_empty() {
        return Ok(BTreeSet::new());
    }
    rows(db, format!("SELECT version FROM {RECORD}"))
        .await?
        .iter()
        .map(|row| row.try_get::<String>("", "version"))
        .collect()
}

pub(crate) async fn rows(
    db: &impl ConnectionTrait,
    sql: String,
) -> Result<Vec<QueryResult>, DbErr> {
    db.query_all_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
}
