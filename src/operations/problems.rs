//! Snoozed problems of the overview: stored, so that every node and every operator sees the same.

use dikala_entities::{
    AuditAction,
    snoozed_problem::{Column, Entity, Model},
};
use sea_orm::{EntityTrait, IntoActiveModel, sea_query::OnConflict};

use super::OperationContext;
use crate::{
    audit::AuditChange,
    http::{answer::NoContent, error::ApiError},
};

/// Time for which a problem is snoozed, in milliseconds.
pub const SNOOZED_MS: i64 = 60 * 60 * 1_000;
/// Snoozes the problem with this key for an hour from now.
pub async fn snooze(
    context: &OperationContext,
    problem: &str,
    is_critical: bool,
) -> Result<(), ApiError> {
    let row = Model {
        problem: problem.to_owned(),
        is_critical,
        ends_at: context.now.plus_ms(SNOOZED_MS),
    };
    let change = AuditChange::new(AuditAction::ProblemSnooze, problem);
    let change = change.with(format_args!("until {}", row.ends_at));
    let replaced = OnConflict::column(Column::Problem)
        .update_columns([Column::IsCritical, Column::EndsAt])
        .to_owned();
    let mut write = context.begin().await?;
    Entity::insert(row.into_active_model())
        .on_conflict(replaced)
        .exec_without_returning(&*write)
        .await?;
    write.record(None, change).await?;
    write.commit(NoContent(())).await.map(drop)
}

/// Shows a snoozed problem again. Without effect, and without an entry, if it is not snoozed.
pub async fn show(context: &OperationContext, problem: &str) -> Result<(), ApiError> {
    let mut write = context.begin().await?;
    let removed = Entity::delete_by_id(problem).exec(&*write).await?;
    if removed.rows_affected > 0 {
        let change = AuditChange::new(AuditAction::ProblemShow, problem);
        write.record(None, change).await?;
    }
    write.commit(NoContent(())).await.map(drop)
}
