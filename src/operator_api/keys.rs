//! `/tenants/{id}/keys` and `/keys`: a tenant's keys. Only the answer to a key's creation shows it.

use actix_web::web::Data;
use dikala_entities::{ApiKeyId, TenantId, api_key};
use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect};
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, views},
    refused::{name_of, refused},
};
use crate::{
    admin::{
        find_tenant,
        keys::{self, KeyView},
    },
    api::PageRange,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{FormFields, Id, OperatorQuery, OperatorRequest, RequestBody},
        route::OPERATORS_BASE,
    },
};

/// A key that is to be made.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(as = KeyInput, example = json!({"name": "production"}))]
pub struct KeyDraft {
    #[schema(min_length = 1, max_length = 120)]
    pub name: String,
}

lists! {
    /// A page of a tenant's keys, oldest first.
    KeyList { keys: KeyView, "keys" }
}

/// `GET /tenants/{id}/keys`
pub async fn list(
    desk: Data<OperatorContext>,
    id: Id<TenantId>,
    filters: OperatorQuery,
) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &page(desk.node.store.api_reader(), id.0, &filters.0).await?,
    ))
}

pub async fn page(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    asked: &FormFields,
) -> Result<KeyList, ApiError> {
    find_tenant(db, tenant).await.map_err(refused)?;
    let page = asked.read(&[], |form| Some(PageRange::read(form)))?;
    let (keys, has_more) = views(db, page, keys::of(tenant)).await?;
    Ok(KeyList::new(page, keys, has_more))
}

/// `GET /keys/{id}`
pub async fn show(desk: Data<OperatorContext>, id: Id<ApiKeyId>) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &one(desk.node.store.api_reader(), id.0).await?,
    ))
}

/// One key, or 404.
pub async fn one(db: &impl ConnectionTrait, id: ApiKeyId) -> Result<KeyView, ApiError> {
    let found = api_key::Entity::find_by_id(id).one(db).await?;
    found
        .map(KeyView::from)
        .ok_or(ApiError::NotFound(Missing::Key))
}

/// `POST /tenants/{id}/keys`
pub async fn create(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let there = find_tenant(desk.node.store.api_reader(), id.0).await;
    there.map_err(refused)?;
    let name = body
        .form()?
        .read(&[], |form| form.required("name", None, name_of))?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let made = keys::create(unit.txn(), id.0, &name, &operator.origin, desk.now()).await;
    let made = made.map_err(refused)?;
    let path = format!("{OPERATORS_BASE}/keys/{}", made.view.id);
    unit.commit(ApiAnswer::created_at(path, &made).secret())
        .await
}

/// `DELETE /keys/{id}`: refuses the key from the next request on. A revoked key stays in the list.
pub async fn revoke(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<ApiKeyId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let found = api_key::Entity::find_by_id(id.0).lock_exclusive();
    let found = found.one(unit.txn()).await?;
    if found.is_none_or(|key| key.revoked_at.is_some()) {
        return Err(ApiError::NotFound(Missing::Key));
    }
    let revoked = keys::revoke(unit.txn(), id.0, &operator.origin, desk.now()).await;
    revoked.map_err(refused)?;
    let answer = unit.commit(ApiAnswer::no_content()).await?;
    desk.tenants.gate.forget_keys();
    Ok(answer)
}
