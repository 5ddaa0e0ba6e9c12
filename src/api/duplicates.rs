//! Duplicates an agent with its functions.

use dikala_entities::{AgentId, AuditAction, FunctionId, Millis, agent, function};
use sea_orm::{EntityTrait, IntoActiveModel, QueryOrder};

use super::{TenantWrite, agents, texts::AgentName, weight};
use crate::{
    api::context::Services,
    audit::AuditChange,
    http::{answer::ApiAnswer, error::ApiError, extract::TenantRequest},
};

/// Creates the copy, without a phone number. Its name is the original's with `suffix`.
pub async fn create(
    caller: &TenantRequest,
    services: &Services,
    id: AgentId,
    suffix: &str,
) -> Result<AgentId, ApiError> {
    let now = services.clock.now();
    let unit = TenantWrite::begin(services, caller).await?;
    let first = agents::lock(unit.txn(), caller.tenant, id, now).await?;
    agents::refuse_too_many(unit.txn(), caller.tenant).await?;
    let functions = function::Entity::of_agent(&first)
        .order_by_asc(function::Column::Id)
        .all(unit.txn())
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
        .exec_without_returning(unit.txn())
        .await?;
    for function in functions {
        add(&unit, caller, function, second.id, now).await?;
    }
    let growth = vec![("name", second.name.len())];
    let second = weight::renew(&unit, services, second, &growth, now).await?;
    let detail = format!("{}, like {id}", second.name);
    let change = AuditChange::new(AuditAction::AgentCreate, second.id).with(detail);
    unit.commit(ApiAnswer::no_content(), Some(change)).await?;
    Ok(second.id)
}

async fn add(
    unit: &TenantWrite,
    caller: &TenantRequest,
    like: function::Model,
    agent: AgentId,
    now: Millis,
) -> Result<(), ApiError> {
    let function = function::Model {
        id: FunctionId::new(now),
        agent_id: agent,
        created_at: now,
        updated_at: now,
        ..like
    };
    let detail = format!("{} of {agent}", function.name);
    let change = AuditChange::new(AuditAction::FunctionCreate, function.id).with(detail);
    function::Entity::insert(function.into_active_model())
        .exec_without_returning(unit.txn())
        .await?;
    caller
        .origin
        .write(unit.txn(), caller.tenant, change, now)
        .await?;
    Ok(())
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
