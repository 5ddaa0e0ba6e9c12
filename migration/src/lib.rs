//! Dikala's database schema, step by step, for SQLite and PostgreSQL.
//!
//! Architecture invariant: nothing here imports anything else of ours. A step, once released, is never changed.

use std::collections::BTreeSet;

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DatabaseConnection},
};

pub use sea_orm_migration::MigratorTrait;

mod m20261121_000001_initial;
mod m20261121_000002_event_positions;
mod m20261121_000003_recoveries;
mod m20261121_000004_function_stats;
mod m20261121_000007_versions_and_bounds;

/// Runs the steps.
#[derive(Debug)]
pub struct Migrator;

#[async_trait::async_trait]
impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        vec![
            Box::new(m20261121_000001_initial::Migration),
            Box::new(m20261121_000002_event_positions::Migration),
            Box::new(m20261121_000003_recoveries::Migration),
            Box::new(m20261121_000004_function_stats::Migration),
            Box::new(m20261121_000007_versions_and_bounds::Migration),
        ]
    }
}

/// Where a database's schema stands, compared with what this program needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// As needed.
    Current,
    /// This many steps are missing.
    Behind(usize),
    /// A later version of the program has changed it; the step's name.
    Newer(String),
}

/// Looks, and changes nothing.
pub async fn schema_state(db: &DatabaseConnection) -> Result<SchemaState, DbErr> {
    let known: BTreeSet<String> = Migrator::migrations()
        .iter()
        .map(|step| step.name().to_owned())
        .collect();
    let applied = applied_steps(db).await?;
    if let Some(newer) = applied.difference(&known).next() {
        return Ok(SchemaState::Newer(newer.clone()));
    }
    Ok(match known.difference(&applied).count() {
        0 => SchemaState::Current,
        missing => SchemaState::Behind(missing),
    })
}

/// Brings the schema up to date. Does nothing where it is.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), DbErr> {
    Migrator::up(db, None).await
}

async fn applied_steps(db: &DatabaseConnection) -> Result<BTreeSet<String>, DbErr> {
    if !SchemaManager::new(db).has_table("seaql_migrations").await? {
        return Ok(BTreeSet::new());
    }
    let select = Query::select()
        .column("version")
        .from("seaql_migrations")
        .take();
    db.query_all(&select)
        .await?
        .iter()
        .map(|row| row.try_get::<String>("", "version"))
        .collect()
}
