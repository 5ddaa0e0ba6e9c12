//! Phone numbers: created by operators, assigned to agents by tenants. A `did` belongs to one tenant.

use dikala_entities::{
    AgentId, AuditAction, Millis, PhoneNumber, PhoneNumberId, TenantId, phone_number,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter,
    QueryOrder, QuerySelect, Select, SqlErr,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    OperationContext, OperationWrite, PageRange, agents,
    list::{lists, views},
    name,
};
use crate::{
    audit::{AuditChange, switched},
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, ParseResult, RequestBody, boolean, e164, id},
        field::{FieldCode, ValueFault},
        route::OPERATORS_BASE,
    },
    pages::form::{Fields, Shape},
};

/// The audit's detail of a number that was assigned to no agent.
pub const NO_AGENT: &str = "none";
/// Fields of a response that are ignored in an update.
pub const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];
/// Fields of a response that an update may contain only unchanged.
pub const KEPT: &[&str] = &["did", "displayNumber", "agentId"];
const IS_THE_NUMBER: &str =
    "cannot be changed; add the other number with POST, and remove this one with DELETE";
const IS_THE_TENANTS: &str =
    "is for the tenant to choose; moving the number to another tenant takes the agent off";

/// The input of [`create`].
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "did": "+6281234567890", "label": "Main line"
}))]
pub struct NewNumber {
    tenant_id: TenantId,
    did: PhoneNumber,
    #[schema(min_length = 1, max_length = 120)]
    label: String,
}

/// The fields of [`NewNumber`] in a tenant's form.
pub const FIELDS: &Fields = &[("did", Shape::Phone), ("label", Shape::Text)];

/// The input of [`update`].
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", as = NumberUpdate, example = json!({"label": "Main line", "isActive": true}))]
pub struct NumberChange {
    /// Moves it to that tenant; the agent that answered it stays behind.
    tenant_id: TenantId,
    #[schema(min_length = 1, max_length = 120)]
    label: String,
    /// False refuses calls to the number.
    #[schema(nullable, default = true)]
    is_active: bool,
}

/// The fields of [`NumberChange`] in a form.
pub const CHANGES: &Fields = &[
    ("label", Shape::Text),
    ("isActive", Shape::Switch),
    ("tenantId", Shape::Text),
];

/// The agent that is to answer a number; `null` takes the agent off.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct Assignment {
    #[schema(required)]
    pub agent_id: Option<AgentId>,
}

/// A number that customers call.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PhoneNumber, example = json!({
    "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "displayNumber": "+6281234567890", "label": "Main line", "isActive": true,
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6"
}))]
pub struct PhoneNumberView {
    id: PhoneNumberId,
    display_number: PhoneNumber,
    label: String,
    is_active: bool,
    agent_id: Option<AgentId>,
}

impl From<phone_number::Model> for PhoneNumberView {
    fn from(row: phone_number::Model) -> Self {
        Self {
            id: row.id,
            display_number: row.did,
            label: row.label,
            is_active: row.is_active,
            agent_id: row.agent_id,
        }
    }
}

/// A number in the operators' lists.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PhoneNumber, example = json!({
    "id": "pn_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "displayNumber": "+6281234567890", "label": "Main line", "isActive": true, "agentId": null, "did": "+6281234567890",
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct NumberView {
    pub id: PhoneNumberId,
    pub tenant_id: TenantId,
    pub display_number: PhoneNumber,
    pub label: String,
    pub is_active: bool,
    pub agent_id: Option<AgentId>,
    /// The same value as `displayNumber`, under its name in requests.
    pub did: PhoneNumber,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl From<phone_number::Model> for NumberView {
    fn from(row: phone_number::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            display_number: row.did.clone(),
            label: row.label,
            is_active: row.is_active,
            agent_id: row.agent_id,
            did: row.did,
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

lists! {
    /// A page of numbers, oldest first.
    NumberList { numbers: NumberView, "numbers" }
}

/// A tenant that does not exist is an error of its field.
pub async fn require_tenant(
    context: &OperationContext,
    db: &impl ConnectionTrait,
    id: TenantId,
) -> Result<(), ApiError> {
    match context.find_tenant(db, id).await {
        Err(ApiError::NotFound(_)) => {
            let fault = ValueFault::new(FieldCode::NotFound, "names no tenant");
            Err(ApiError::field(fault.in_field("tenantId")))
        }
        found => found.map(drop),
    }
}

/// Creates a number.
pub async fn create(
    context: OperationContext,
    body: RequestBody,
) -> Result<Created<NumberView>, ApiError> {
    let new = body.form()?.read(&[], |form| {
        let tenant = form.required("tenantId", None, id("a tenant"));
        let did = form.required("did", None, e164);
        let label = form.required("label", None, name);
        Some(NewNumber {
            tenant_id: tenant?,
            did: did?,
            label: label?,
        })
    })?;
    require_tenant(&context, context.store().api_reader(), new.tenant_id).await?;
    let row = phone_number::Model {
        id: PhoneNumberId::new(context.now),
        tenant_id: new.tenant_id,
        did: new.did,
        label: new.label,
        is_active: true,
        agent_id: None,
        created_at: context.now,
        updated_at: context.now,
    };
    let mut write = context.begin().await?;
    let inserted = phone_number::Entity::insert(row.clone().into_active_model());
    if let Err(error) = inserted.exec_without_returning(&*write).await {
        return Err(match error.sql_err() {
            Some(SqlErr::UniqueConstraintViolation(_)) => {
                ApiError::PhoneNumberExists(row.did.as_str().to_owned())
            }
            _ => error.into(),
        });
    }
    let change = AuditChange::new(AuditAction::NumberCreate, row.id).with(&row.label);
    write.record(row.tenant_id, change).await?;
    let path = format!("{OPERATORS_BASE}/numbers/{}", row.id);
    write.commit(Created::at(path, row.into())).await
}

/// Numbers, oldest first: all, or those of one tenant.
fn of(context: &OperationContext, tenant: Option<TenantId>) -> Select<phone_number::Entity> {
    let select = context.rows::<phone_number::Entity>();
    let select = select.order_by_asc(phone_number::Column::Id);
    match tenant {
        Some(tenant) => select.filter(phone_number::Column::TenantId.eq(tenant)),
        None => select,
    }
}

/// A page of numbers: of all tenants, or of one.
pub async fn list(context: OperationContext, query: OperatorQuery) -> Result<NumberList, ApiError> {
    let (page, tenant) = query.0.read(&[], |form| {
        let page = PageRange::read(form);
        Some((page, form.optional("tenantId", None, id("a tenant"))))
    })?;
    let (numbers, has_more) =
        views(context.store().api_reader(), page, of(&context, tenant)).await?;
    Ok(NumberList::new(page, numbers, has_more))
}

/// All numbers: of all tenants, or of one.
pub async fn all(
    context: OperationContext,
    tenant: Option<Id<TenantId>>,
) -> Result<Vec<NumberView>, ApiError> {
    let tenant = tenant.map(|tenant| tenant.0);
    if let Some(tenant) = tenant {
        context.require_tenant(tenant).await?;
    }
    let rows = of(&context, tenant).all(context.store().reader()).await?;
    Ok(rows.into_iter().map(NumberView::from).collect())
}

pub async fn find(
    context: &OperationContext,
    id: PhoneNumberId,
) -> Result<phone_number::Model, ApiError> {
    let found = context.one_of::<phone_number::Entity>(id);
    let found = found.one(context.store().api_reader()).await?;
    found.ok_or(ApiError::NotFound(Missing::PhoneNumber))
}

/// One number. `V` is the view for whoever asks.
pub async fn show<V: From<phone_number::Model> + Serialize>(
    context: OperationContext,
    id: Id<PhoneNumberId>,
) -> Result<V, ApiError> {
    find(&context, id.0).await.map(V::from)
}

/// Locks a number's row until the transaction ends.
async fn lock(
    write: &OperationWrite<'_>,
    id: PhoneNumberId,
) -> Result<phone_number::Model, ApiError> {
    let found = write.context.one_of::<phone_number::Entity>(id);
    let found = found.lock_exclusive().one(&**write).await?;
    found.ok_or(ApiError::NotFound(Missing::PhoneNumber))
}

/// Changes a number. One that moves to another tenant loses its agent, which belongs to the previous tenant.
pub async fn update(
    context: OperationContext,
    id_of: Id<PhoneNumberId>,
    body: RequestBody,
) -> Result<NumberView, ApiError> {
    find(&context, id_of.0).await?;
    let form = body.patch()?;
    let mut write = context.begin().await?;
    let before = lock(&write, id_of.0).await?;
    let input = form.read(READ_ONLY, |form| {
        let tenant = form.required("tenantId", Some(before.tenant_id), id("a tenant"));
        let label = form.required("label", Some(before.label.clone()), name);
        form.unchanged("did", &before.did, IS_THE_NUMBER);
        form.unchanged("displayNumber", &before.did, IS_THE_NUMBER);
        form.unchanged("agentId", &before.agent_id, IS_THE_TENANTS);
        let is_active = form.defaulted("isActive", Some(before.is_active), true, boolean);
        Some(NumberChange {
            tenant_id: tenant?,
            label: label?,
            is_active,
        })
    })?;
    let mut row = phone_number::Model {
        label: input.label,
        is_active: input.is_active,
        ..before.clone()
    };
    if input.tenant_id != before.tenant_id {
        require_tenant(&context, &*write, input.tenant_id).await?;
        (row.tenant_id, row.agent_id) = (input.tenant_id, None);
    }
    if row != before {
        let change = AuditChange::new(AuditAction::NumberUpdate, row.id).fields(&[
            ("tenantId", row.tenant_id != before.tenant_id),
            ("label", row.label != before.label),
            switched(row.is_active, before.is_active),
        ]);
        row.updated_at = context.now;
        let changed = row.clone().into_active_model().reset_all();
        changed.update(&*write).await?;
        if row.tenant_id != before.tenant_id {
            // The previous tenant's audit gets the entry too.
            write.record(before.tenant_id, change.clone()).await?;
        }
        write.record(row.tenant_id, change).await?;
    }
    write.commit(row.into()).await
}

/// Deletes a number; its calls stay.
pub async fn delete(
    context: OperationContext,
    id: Id<PhoneNumberId>,
) -> Result<NoContent<NumberView>, ApiError> {
    let mut write = context.begin().await?;
    let row = lock(&write, id.0).await?;
    phone_number::Entity::delete_by_id(row.id)
        .exec(&*write)
        .await?;
    let change = AuditChange::new(AuditAction::NumberDelete, row.id).with(&row.label);
    write.record(row.tenant_id, change).await?;
    write.commit(NoContent(row.into())).await
}

/// Assigns a number to an agent, or to none.
pub async fn assign_agent(
    context: OperationContext,
    id: Id<PhoneNumberId>,
    body: RequestBody,
) -> Result<PhoneNumberView, ApiError> {
    find(&context, id.0).await?;
    let form = body.form()?;
    let wanted = form.read(&[], |form| form.nullable("agentId", agent_id))?;
    let mut write = context.begin().await?;
    let agent_id = match wanted {
        None => None,
        Some(wanted) => Some(agents::chosen(&write, wanted).await?),
    };
    let mut row = lock(&write, id.0).await?;
    if row.agent_id != agent_id {
        (row.agent_id, row.updated_at) = (agent_id, context.now);
        let changed = row.clone().into_active_model().reset_all();
        changed.update(&*write).await?;
        let agent = agent_id.map_or_else(|| NO_AGENT.to_owned(), |agent| agent.to_string());
        let change = AuditChange::new(AuditAction::NumberAssign, row.id).with(agent);
        write.record(row.tenant_id, change).await?;
    }
    write.commit(row.into()).await
}

/// A malformed id is treated like an unknown agent.
fn agent_id(value: &Value) -> ParseResult<Option<AgentId>> {
    let text = value
        .as_str()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be a string or null"))?;
    Ok(text.parse().ok())
}
