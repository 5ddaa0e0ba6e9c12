//! Agents: persona, voice, greeting and limits of the AI.

mod conversation;
pub mod draft;
mod duplicate;
pub mod fields;
mod form;
mod versions;
pub mod weight;

use dikala_actors::calls::versions::{orphan, record};
use dikala_entities::{
    AgentId, AuditAction, Millis, OfTenant, TenantId, agent, function, phone_number,
    store::Transaction, widget,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde_json::Value;

pub use duplicate::duplicate;
pub use fields::{AgentInput, AgentList, AgentSummary, AgentView, READ_ONLY, values};
pub use form::{FormField, in_form, shapes};
pub use versions::{AgentVersion, version, versions_of};

use super::{OperationContext, OperationWrite};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{Id, RequestBody},
        field::{FieldCode, ValueFault},
        route::BASE,
    },
};

/// Agents that a tenant can have.
pub const AGENTS_MAX: u64 = 1_000;
/// The tools that an agent's row enables.
pub fn tools(agent: &agent::Model) -> Vec<String> {
    serde_json::from_str(&agent.tools_enabled).unwrap_or_default()
}

/// The tools as stored in the row.
pub fn tools_json(tools: &[String]) -> String {
    Value::from(tools.to_vec()).to_string()
}

pub async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: AgentId,
) -> Result<agent::Model, ApiError> {
    agent::Entity::one_of(tenant, id)
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Agent))
}

/// The tenant's agent, locked until the transaction ends, or 404. Records its state before the change as a version,
/// if it has none.
pub async fn lock(
    txn: &Transaction,
    tenant: TenantId,
    id: AgentId,
    now: Millis,
) -> Result<agent::Model, ApiError> {
    let mut agent = agent::Entity::one_of(tenant, id)
        .lock_exclusive()
        .one(txn)
        .await?
        .ok_or(ApiError::NotFound(Missing::Agent))?;
    if agent.version == 0 {
        let recorded = record(txn, &agent, now).await?;
        (agent.version, agent.weight) = (recorded.version, recorded.weight);
    }
    Ok(agent)
}

/// Locks the agent that a request's `agentId` names, so that it cannot be deleted before the commit. `id` is none if it is malformed.
pub(super) async fn chosen(
    write: &OperationWrite<'_>,
    id: Option<AgentId>,
) -> Result<AgentId, ApiError> {
    let (tenant, now) = (write.context.tenant()?, write.context.now);
    let found = match id {
        Some(id) => lock(write, tenant, id, now).await,
        None => Err(ApiError::NotFound(Missing::Agent)),
    };
    match found {
        Ok(agent) => Ok(agent.id),
        Err(ApiError::NotFound(_)) => {
            let predicate = "must be the id of one of your agents";
            let fault = ValueFault::new(FieldCode::NotFound, predicate);
            let fault = fault.in_words("fault-not-an-agent");
            Err(ApiError::field(fault.in_field("agentId")))
        }
        Err(error) => Err(error),
    }
}

async fn refuse_too_many(txn: &Transaction, tenant: TenantId) -> Result<(), ApiError> {
    let count = agent::Entity::of(tenant).count(txn).await?;
    if count < AGENTS_MAX {
        return Ok(());
    }
    let predicate = format!("would be one of more than {AGENTS_MAX} agents; delete one first");
    let fault = ValueFault::new(FieldCode::TooLarge, predicate)
        .bounded(AGENTS_MAX as i64)
        .in_words("fault-too-many-agents");
    Err(ApiError::field(fault.in_field("name")))
}

async fn function_names(txn: &Transaction, agent: &agent::Model) -> Result<Vec<String>, ApiError> {
    let names = function::Entity::of_agent(agent)
        .select_only()
        .column(function::Column::Name)
        .order_by_asc(function::Column::Id)
        .into_tuple()
        .all(txn)
        .await?;
    Ok(names)
}

fn created(agent: agent::Model) -> Created<AgentView> {
    Created::at(format!("{BASE}/agents/{}", agent.id), agent.into())
}

/// Creates an agent.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<AgentView>, ApiError> {
    let limits = context.agent_limits()?;
    let blank = agent::Model::new(context.tenant()?, context.now);
    let agent = fields::read(&body.form()?, blank, None, limits)?;
    let mut write = context.begin().await?;
    refuse_too_many(&write, agent.tenant_id).await?;
    agent::Entity::insert(agent.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let growth = fields::sizes(&agent);
    let agent = weight::renew(&write, limits, agent, &growth, context.now).await?;
    let change = AuditChange::new(AuditAction::AgentCreate, agent.id).with(&agent.name);
    write.record(agent.tenant_id, change).await?;
    write.commit(created(agent)).await
}

/// One agent.
pub async fn show(context: OperationContext, id: Id<AgentId>) -> Result<AgentView, ApiError> {
    let agent = find(context.store().api_reader(), context.tenant()?, id.0).await?;
    Ok(agent.into())
}

/// Changes an agent.
pub async fn update(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<AgentView, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    find(context.store().api_reader(), tenant, id.0).await?;
    let form = body.patch()?;
    let limits = context.agent_limits()?;
    let mut write = context.begin().await?;
    let before = lock(&write, tenant, id.0, now).await?;
    let target = before.id.to_string();
    context
        .refuse_if_changed(&*write, AuditAction::AgentUpdate, target, before.updated_at)
        .await?;
    let functions = function_names(&write, &before).await?;
    let mut agent = fields::read(&form, before.clone(), Some(&functions), limits)?;
    if agent == before {
        return Ok(agent.into());
    }
    agent.updated_at = now;
    let changed = agent.clone().into_active_model().reset_all();
    changed.update(&*write).await?;
    let growth = weight::growth(&fields::sizes(&before), fields::sizes(&agent));
    let agent = weight::renew(&write, limits, agent, &growth, now).await?;
    let change = AuditChange::new(AuditAction::AgentUpdate, agent.id);
    write
        .record(tenant, fields::changed(change, &before, &agent))
        .await?;
    write.commit(agent.into()).await
}

/// Deletes an agent with its functions and widgets; its numbers stay without one.
pub async fn delete(
    context: OperationContext,
    id: Id<AgentId>,
) -> Result<NoContent<AgentId>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let mut write = context.begin().await?;
    let agent = lock(&write, tenant, id.0, now).await?;
    phone_number::Entity::update_many()
        .set(phone_number::ActiveModel {
            agent_id: Set(None),
            updated_at: Set(now),
            ..Default::default()
        })
        .filter(phone_number::Column::AgentId.eq(agent.id))
        .exec(&*write)
        .await?;
    orphan(&*write, agent.id, now).await?;
    widget::Entity::delete_many()
        .filter(widget::Column::AgentId.eq(agent.id))
        .exec(&*write)
        .await?;
    agent::Entity::delete_by_id(agent.id).exec(&*write).await?;
    let change = AuditChange::new(AuditAction::AgentDelete, agent.id).with(&agent.name);
    write.record(tenant, change).await?;
    write.commit(NoContent(agent.id)).await
}
