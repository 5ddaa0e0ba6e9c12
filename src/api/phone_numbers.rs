//! Phone numbers: created by operators, assigned to agents by tenants.

use actix_web::{HttpResponse, web::Data};
use dikala_entities::{
    AgentId, AuditAction, Millis, OfTenant, PhoneNumber as Number, PhoneNumberId, TenantId,
    phone_number,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectionTrait, IntoActiveModel, QuerySelect, Select,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    TenantWrite,
    listing::{self, Listing},
};
use crate::{
    api::context::Services,
    audit::AuditChange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{Id, ParseResult, Query, RequestBody, TenantRequest},
        field::{FieldCode, ValueFault},
    },
    operations::agents,
};

/// Numbers per query of a list.
const BATCH: u64 = 100;

/// A number that customers call.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PhoneNumber, example = json!({
    "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "displayNumber": "+6281234567890", "label": "Main line", "isActive": true,
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6"
}))]
pub struct PhoneNumberView {
    id: PhoneNumberId,
    display_number: Number,
    label: String,
    is_active: bool,
    agent_id: Option<AgentId>,
}

/// All numbers of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"phoneNumbers": [{
    "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "displayNumber": "+6281234567890", "label": "Main line", "isActive": true,
    "agentId": null
}]}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct PhoneNumberList {
    pub phone_numbers: Vec<PhoneNumberView>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

/// The agent that is to answer a number; `null` takes the agent off.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct Assignment {
    #[schema(required)]
    pub agent_id: Option<AgentId>,
}

impl From<phone_number::Model> for PhoneNumberView {
    fn from(number: phone_number::Model) -> Self {
        Self {
            id: number.id,
            display_number: number.did,
            label: number.label,
            is_active: number.is_active,
            agent_id: number.agent_id,
        }
    }
}

async fn found(
    db: &impl ConnectionTrait,
    select: Select<phone_number::Entity>,
) -> Result<phone_number::Model, ApiError> {
    let number = select.one(db).await?;
    number.ok_or(ApiError::NotFound(Missing::PhoneNumber))
}

/// `GET /phone-numbers`
pub async fn list_all(
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "phoneNumbers",
        rows: phone_number::Entity::of(caller.tenant),
        by: phone_number::Column::Id,
        batch: BATCH,
        show: listing::json::<PhoneNumberView, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `GET /phone-numbers/{id}`
pub async fn show(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<PhoneNumberId>,
) -> Result<ApiAnswer, ApiError> {
    let number = found(
        services.store.api_reader(),
        phone_number::Entity::one_of(caller.tenant, id.0),
    )
    .await?;
    Ok(ApiAnswer::ok(&PhoneNumberView::from(number)))
}

/// `POST /phone-numbers/{id}/assign-agent`
pub async fn assign_agent(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<PhoneNumberId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    found(
        services.store.api_reader(),
        phone_number::Entity::one_of(caller.tenant, id.0),
    )
    .await?;
    let wanted = body
        .form()?
        .read(&[], |form| form.nullable("agentId", agent_id))?;
    let now = services.clock.now();
    let unit = TenantWrite::begin(&services, &caller).await?;
    let agent_id = match wanted {
        None => None,
        Some(wanted) => Some(existing_agent(&unit, caller.tenant, wanted, now).await?),
    };
    let mut number = found(
        unit.txn(),
        phone_number::Entity::one_of(caller.tenant, id.0).lock_exclusive(),
    )
    .await?;
    let mut changed = None;
    if number.agent_id != agent_id {
        number.agent_id = agent_id;
        number.updated_at = now;
        let mut change = number.clone().into_active_model();
        change.agent_id = Set(number.agent_id);
        change.updated_at = Set(number.updated_at);
        change.update(unit.txn()).await?;
        let agent = agent_id.map_or_else(|| "none".to_owned(), |agent| agent.to_string());
        changed = Some(AuditChange::new(AuditAction::NumberAssign, number.id).with(agent));
    }
    unit.commit(ApiAnswer::ok(&PhoneNumberView::from(number)), changed)
        .await
}

/// A malformed id is treated like an unknown agent.
fn agent_id(value: &Value) -> ParseResult<Option<AgentId>> {
    let text = value
        .as_str()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be a string or null"))?;
    Ok(text.parse().ok())
}

/// Locks the agent, so that it cannot be deleted before the commit.
async fn existing_agent(
    unit: &TenantWrite,
    tenant: TenantId,
    id: Option<AgentId>,
    now: Millis,
) -> Result<AgentId, ApiError> {
    let not_found = || {
        let fault = ValueFault::new(FieldCode::NotFound, "must be the id of one of your agents");
        ApiError::field(fault.in_field("agentId"))
    };
    let id = id.ok_or_else(not_found)?;
    match agents::lock(unit.txn(), tenant, id, now).await {
        Ok(agent) => Ok(agent.id),
        Err(ApiError::NotFound(_)) => Err(not_found()),
        Err(error) => Err(error),
    }
}
