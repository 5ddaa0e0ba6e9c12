//! Dikala's database schema, step by step, for SQLite and PostgreSQL.
//!
//! Architecture invariant: nothing here imports anything else of ours. A step, once released, is never changed.
//!
//! Nodes of an earlier release may serve the database while steps are applied, and afterwards. So every step declares
//! its effect on them: see [`Step`].

#![warn(unreachable_pub)]

#[cfg(feature = "fail-points")]
mod fail_points;
mod indexes;
mod migrate;
mod state;

use sea_orm_migration::{prelude::*, util::get_file_stem};

pub use self::{
    migrate::{may_migrate, migrate},
    state::{SchemaState, knows_step, schema_state},
};
pub use sea_orm_migration::MigratorTrait;

mod m20261121_000001_initial;
mod m20261121_000002_event_positions;
mod m20261121_000003_recoveries;
mod m20261121_000004_function_stats;
mod m20261121_000005_commit_probe;
mod m20261121_000006_growth;
mod m20261121_000007_versions_and_bounds;
mod m20261121_000008_commit_probe_padding;
mod m20261121_000009_agent_settings;
mod m20261122_000010_one_commit;
mod m20261122_000011_audit;
mod m20261122_000012_statistics;
mod m20261122_000013_people;
mod m20261122_000014_mails;
mod m20261122_000015_operators;
mod m20261122_000016_traces;
mod m20261122_000017_hangup_requests;
mod m20261122_000018_call_filters;
mod m20261122_000019_nodes;
mod m20261122_000020_sign_outs;
mod m20261122_000021_webhook_lanes;
mod m20261122_000022_rate_windows;
mod m20261122_000023_call_pairs;
mod m20261122_000024_claims_of_nodes;
mod m20261122_000025_newest_sockets;
mod m20261122_000026_given_commands;
mod m20261123_000027_clocks_of_nodes;
mod m20261123_000028_serves_from;
mod m20261123_000029_answers_about_calls;
mod m20261123_000030_index_of_answers;

/// The effect of a step on nodes of an earlier release, which do not know it.
enum Step {
    /// They keep serving: it adds tables, indexes, or columns that an `INSERT` may omit, and changes nothing that exists.
    Additive(Box<dyn MigrationTrait>),
    /// Their statements would fail, or write data that later releases do not understand. The step is refused while one of them
    /// lives.
    Breaking(Box<dyn MigrationTrait>),
}

impl Step {
    fn is_breaking(&self) -> bool {
        matches!(self, Self::Breaking(_))
    }

    fn migration(&self) -> &dyn MigrationTrait {
        match self {
            Self::Additive(migration) | Self::Breaking(migration) => migration.as_ref(),
        }
    }

    /// Its number among all steps of all releases, taken from its name: 28 of `m20261123_000028_serves_from`.
    fn number(&self) -> i64 {
        number(self.migration().name())
    }
}

fn number(name: &str) -> i64 {
    let number = name.split('_').nth(1);
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// All steps, in order. A step of [`Statements`] is additive if the previous release does not notice it; a step of
/// [`Indexes`](indexes::Indexes) always is.
fn steps() -> Vec<Step> {
    #[cfg_attr(
        not(feature = "fail-points"),
        expect(unused_mut, reason = "only tests change them")
    )]
    let mut steps = vec![
        Step::Breaking(Box::new(m20261121_000001_initial::Migration)),
        Step::Breaking(Box::new(m20261121_000002_event_positions::STEP)),
        Step::Breaking(Box::new(m20261121_000003_recoveries::Migration)),
        Step::Breaking(Box::new(m20261121_000004_function_stats::Migration)),
        Step::Breaking(Box::new(m20261121_000005_commit_probe::Migration)),
        Step::Breaking(Box::new(m20261121_000006_growth::Migration)),
        Step::Breaking(Box::new(m20261121_000007_versions_and_bounds::STEP)),
        Step::Breaking(Box::new(m20261121_000008_commit_probe_padding::Migration)),
        Step::Breaking(Box::new(m20261121_000009_agent_settings::STEP)),
        Step::Breaking(Box::new(m20261122_000010_one_commit::Migration)),
        Step::Breaking(Box::new(m20261122_000011_audit::STEP)),
        Step::Breaking(Box::new(m20261122_000012_statistics::Migration)),
        Step::Breaking(Box::new(m20261122_000013_people::STEP)),
        Step::Breaking(Box::new(m20261122_000014_mails::STEP)),
        Step::Breaking(Box::new(m20261122_000015_operators::STEP)),
        Step::Breaking(Box::new(m20261122_000016_traces::STEP)),
        Step::Breaking(Box::new(m20261122_000017_hangup_requests::STEP)),
        Step::Breaking(Box::new(m20261122_000018_call_filters::STEP)),
        Step::Breaking(Box::new(m20261122_000019_nodes::STEP)),
        Step::Breaking(Box::new(m20261122_000020_sign_outs::STEP)),
        Step::Breaking(Box::new(m20261122_000021_webhook_lanes::STEP)),
        Step::Breaking(Box::new(m20261122_000022_rate_windows::Migration)),
        Step::Breaking(Box::new(m20261122_000023_call_pairs::STEP)),
        Step::Breaking(Box::new(m20261122_000024_claims_of_nodes::STEP)),
        Step::Breaking(Box::new(m20261122_000025_newest_sockets::STEP)),
        Step::Breaking(Box::new(m20261122_000026_given_commands::STEP)),
        Step::Breaking(Box::new(m20261123_000027_clocks_of_nodes::STEP)),
        Step::Additive(Box::new(m20261123_000028_serves_from::STEP)),
        Step::Additive(Box::new(m20261123_000029_answers_about_calls::STEP)),
        Step::Additive(Box::new(m20261123_000030_index_of_answers::STEP)),
    ];
    #[cfg(feature = "fail-points")]
    fail_points::change(&mut steps);
    steps
}

/// The steps, as the library requires them.
#[derive(Debug)]
pub struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let all = steps().into_iter();
        all.map(|step| match step {
            Step::Additive(migration) | Step::Breaking(migration) => migration,
        })
        .collect()
    }
}

/// A step that consists of statements, the same on both databases.
struct Statements {
    /// The file that gives the step its name.
    file: &'static str,
    up: &'static [&'static str],
    down: &'static [&'static str],
}

impl MigrationName for Statements {
    fn name(&self) -> &str {
        get_file_stem(self.file)
    }
}

#[expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]
#[async_trait::async_trait]
impl MigrationTrait for Statements {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, self.up).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, self.down).await
    }
}

/// Executes the statements of a step in order. Each runs unchanged on both databases.
async fn run(manager: &SchemaManager<'_>, statements: &[&str]) -> Result<(), DbErr> {
    for statement in statements {
        manager
            .get_connection()
            .execute_unprepared(statement)
            .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
