//! `/numbers`: phone numbers, each of which belongs to one tenant.

use actix_web::web::Data;
use dikala_entities::{PhoneNumber, PhoneNumberId, TenantId, phone_number};
use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect};
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, views},
    refused::{name_of, no_such_tenant, refused},
};
use crate::{
    admin::{
        AdminError,
        numbers::{self, NumberChanges, NumberView},
    },
    api::PageRange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, OperatorRequest, RequestBody, boolean, e164, id},
        route::OPERATORS_BASE,
    },
};

/// Fields of a response that are ignored in an update.
pub const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];
/// Fields of a response that an update may contain only unchanged.
pub const KEPT: &[&str] = &["did", "displayNumber", "agentId"];
const IS_THE_NUMBER: &str =
    "cannot be changed; add the other number with POST, and remove this one with DELETE";
const IS_THE_TENANTS: &str =
    "is for the tenant to choose; moving the number to another tenant takes the agent off";

/// A number that is to be added.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "did": "+6281234567890", "label": "Main line"
}))]
pub struct NewNumber {
    pub tenant_id: TenantId,
    pub did: PhoneNumber,
    #[schema(min_length = 1, max_length = 120)]
    pub label: String,
}

/// The changes of a number.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", as = NumberUpdate, example = json!({"label": "Main line", "isActive": true}))]
pub struct NumberChange {
    /// Moves it to that tenant; the agent that answered it stays behind.
    pub tenant_id: TenantId,
    #[schema(min_length = 1, max_length = 120)]
    pub label: String,
    /// False refuses calls to the number.
    #[schema(nullable, default = true)]
    pub is_active: bool,
}

lists! {
    /// A page of numbers, oldest first.
    NumberList { numbers: NumberView, "numbers" }
}

/// `GET /numbers`
pub async fn list(
    desk: Data<OperatorContext>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &page(desk.node.store.api_reader(), &filters.0).await?,
    ))
}

pub async fn page(db: &impl ConnectionTrait, asked: &FormFields) -> Result<NumberList, ApiError> {
    let (page, tenant) = asked.read(&[], |form| {
        let page = PageRange::read(form);
        Some((page, form.optional("tenantId", None, id("a tenant"))))
    })?;
    let (numbers, has_more) = views(db, page, numbers::of(tenant)).await?;
    Ok(NumberList::new(page, numbers, has_more))
}

/// `GET /numbers/{id}`
pub async fn show(
    desk: Data<OperatorContext>,
    id: Id<PhoneNumberId>,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &one(desk.node.store.api_reader(), id.0).await?,
    ))
}

/// One number, or 404.
pub async fn one(db: &impl ConnectionTrait, id: PhoneNumberId) -> Result<NumberView, ApiError> {
    let found = phone_number::Entity::find_by_id(id).one(db).await?;
    found
        .map(NumberView::from)
        .ok_or(ApiError::NotFound(Missing::PhoneNumber))
}

/// `POST /numbers`
pub async fn create(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let new = body.form()?.read(&[], |form| {
        let tenant = form.required("tenantId", None, id("a tenant"));
        let did = form.required("did", None, e164);
        let label = form.required("label", None, name_of);
        Some(NewNumber {
            tenant_id: tenant?,
            did: did?,
            label: label?,
        })
    })?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let (did, by) = (new.did.as_str(), &operator.origin);
    let made = numbers::add(unit.txn(), new.tenant_id, did, &new.label, by, desk.now()).await;
    let made = made.map_err(|error| match error {
        AdminError::NotFound { .. } => no_such_tenant(),
        AdminError::Taken(_) => ApiError::PhoneNumberExists(did.to_owned()),
        error => refused(error),
    })?;
    let path = format!("{OPERATORS_BASE}/numbers/{}", made.id);
    unit.commit(ApiAnswer::created_at(path, &made)).await
}

/// `PATCH /numbers/{id}`
pub async fn update(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id_of: Id<PhoneNumberId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let missing = || ApiError::NotFound(Missing::PhoneNumber);
    one(desk.node.store.api_reader(), id_of.0).await?;
    let form = body.patch()?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let locked = phone_number::Entity::find_by_id(id_of.0).lock_exclusive();
    let now = locked.one(unit.txn()).await?.ok_or_else(missing)?;
    let changes = form.read(READ_ONLY, |form| {
        let tenant = form.required("tenantId", Some(now.tenant_id), id("a tenant"));
        let label = form.required("label", Some(now.label.clone()), name_of);
        form.unchanged("did", &now.did, IS_THE_NUMBER);
        form.unchanged("displayNumber", &now.did, IS_THE_NUMBER);
        form.unchanged("agentId", &now.agent_id, IS_THE_TENANTS);
        let is_active = form.defaulted("isActive", Some(now.is_active), true, boolean);
        Some(NumberChanges {
            tenant: Some(tenant?),
            label: Some(label?),
            is_active: Some(is_active),
        })
    })?;
    let by = &operator.origin;
    let changed = numbers::update(unit.txn(), id_of.0, changes, by, desk.now()).await;
    let changed = changed.map_err(|error| match error {
        AdminError::NotFound { what: "tenant", .. } => no_such_tenant(),
        error => refused(error),
    })?;
    unit.commit(ApiAnswer::ok(&changed)).await
}

/// `DELETE /numbers/{id}`: its calls stay.
pub async fn remove(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<PhoneNumberId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let removed = numbers::remove(unit.txn(), id.0, &operator.origin, desk.now()).await;
    removed.map_err(refused)?;
    unit.commit(ApiAnswer::no_content()).await
}
