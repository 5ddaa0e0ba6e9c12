//! Duplicates an agent with its functions.

use dikala_entities::{AgentId, AuditAction, FunctionId, agent, function};
use sea_orm::{EntityTrait, IntoActiveModel, QueryOrder};

use super::{AgentView, created, fields::AgentName, lock, refuse_too_many, weight};
use crate::{
    audit::AuditChange,
    http::{answer::Created, error::ApiError, extract::Id},
    operations::{OperationContext, OperationWrite},
};

/// Creates the copy, without a phone number. Its name is the original's with `suffix`.
pub async fn duplicate(
    context: OperationContext,
    id: Id<AgentId>,
    suffix: &str,
) -> Result<Created<AgentView>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let mut write = context.begin().await?;
    let first = lock(&write, tenant, id.0, now).await?;
    refuse_too_many(&write, tenant).await?;
    let functions = function::Entity::of_agent(&first)
        .order_by_asc(function::Column::Id)
        .all(&*write)
        .await?;
    let second = agent::Model {
        id: AgentId::new(now),
        name: named(&first.name, suffix),
        created_at: now,
        updated_at: now,
        version: 0,
        weight: 0,
        ..first
    };
    agent::Entity::insert(second.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    for function in functions {
        add(&mut write, function, second.id).await?;
    }
    let growth = vec![("name", second.name.len())];
    let limits = context.agent_limits()?;
    let second = weight::renew(&write, limits, second, &growth, now).await?;
    let detail = format!("{}, like {}", second.name, id.0);
    let change = AuditChange::new(AuditAction::AgentCreate, second.id).with(detail);
    write.record(tenant, change).await?;
    write.commit(created(second)).await
}

async fn add(
    write: &mut OperationWrite<'_>,
    like: function::Model,
    agent: AgentId,
) -> Result<(), ApiError> {
    let now = write.context.now;
    let function = function::Model {
        id: FunctionId::new(now),
        agent_id: agent,
        created_at: now,
        updated_at: now,
        ..like
    };
    let detail = format!("{} of {agent}", function.name);
    let change = AuditChange::new(AuditAction::FunctionCreate, function.id).with(detail);
    let tenant = function.tenant_id;
    function::Entity::insert(function.into_active_model())
        .exec_without_returning(&**write)
        .await?;
    write.record(tenant, change).await
}

/// The original's name with the suffix, shortened to the length limit of names.
fn named(first: &str, suffix: &str) -> String {
    let room = AgentName::CHARS_MAX.saturating_sub(suffix.chars().count() + 1);
    let kept: String = first.chars().take(room).collect();
    format!("{} {suffix}", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_long_already_is_shortened() {
        assert_eq!(named("Kasir", "(copy)"), "Kasir (copy)");
        let long = named(&"é".repeat(AgentName::CHARS_MAX), "(copy)");
        assert_eq!(long.chars().count(), AgentName::CHARS_MAX);
        assert!(long.ends_with("é (copy)"), "{long}");
    }
}
