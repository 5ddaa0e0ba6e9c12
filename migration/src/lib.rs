//! Dikala's database schema, step by step, for SQLite and PostgreSQL.
//!
//! Architecture invariant: nothing here imports anything else of ours. A step, once released, is never changed.
//!
//! Nodes of an earlier release may serve the database while steps are applied, and afterwards. So every step declares
//! its effect on them: see [`Step`].

#![warn(unreachable_pub)]

mod callers;
mod chats;
#[cfg(debug_assertions)]
mod fail_points;
mod first;
mod indexes;
mod migrate;
mod overview;
mod recoveries;
mod script;
mod state;
mod turns;
mod web;
mod web_call_makers;
mod widgets;

use sea_orm_migration::prelude::*;

pub use self::{
    migrate::{may_migrate, migrate},
    state::{SchemaState, knows_step, schema_state},
};

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

    /// Its number among all steps of all releases, taken from its name: 1 of `m20261129_000001_schema`.
    fn number(&self) -> i64 {
        let number = self.migration().name().split('_').nth(1);
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

/// All steps, in order. A step of [`Script`](script::Script) is additive if the previous release does not notice it; a step of
/// `Indexes` always is.
fn steps() -> Vec<Step> {
    #[cfg_attr(
        not(debug_assertions),
        expect(unused_mut, reason = "only tests change them")
    )]
    let mut steps = vec![
        Step::Breaking(Box::new(first::STEP)),
        Step::Additive(Box::new(callers::STEP)),
        Step::Additive(Box::new(turns::STEP)),
        // Calls without a number.
        Step::Breaking(Box::new(web::STEP)),
        Step::Additive(Box::new(chats::STEP)),
        Step::Additive(Box::new(widgets::STEP)),
        Step::Additive(Box::new(overview::SNOOZES)),
        Step::Additive(Box::new(overview::REFUSED)),
        Step::Additive(Box::new(overview::TROUBLES)),
        Step::Additive(Box::new(recoveries::STEP)),
        Step::Additive(Box::new(web_call_makers::STEP)),
    ];
    #[cfg(debug_assertions)]
    fail_points::change(&mut steps);
    steps
}

/// The steps, as the library requires them.
struct Migrator;

impl MigratorTrait for Migrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let all = steps().into_iter();
        all.map(|step| match step {
            Step::Additive(migration) | Step::Breaking(migration) => migration,
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
