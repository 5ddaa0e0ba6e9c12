//! API keys of tenants. A key is shown once; only its hash is kept.

use dikala_entities::{
    API_KEY_SCHEME, ApiKeyId, AuditAction, Millis, OfTenant, Secret, TenantId, UserId, api_key,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, EntityTrait, IntoActiveModel, QueryOrder, QuerySelect,
    Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    OperationContext, OperationWrite, PageRange, Principal,
    list::{lists, views},
    name,
};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{Id, OperatorQuery, RequestBody},
        route::OPERATORS_BASE,
    },
    pages::form::{Fields, Shape},
};

/// A key in lists.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Key, example = json!({
    "id": "key_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "production",
    "prefix": "dkl_itGFjPev", "createdAt": "2026-01-15T03:30:00.000Z", "lastUsedAt": null, "revokedAt": null, "madeBy": null
}))]
pub struct KeyView {
    pub id: ApiKeyId,
    pub tenant_id: TenantId,
    pub name: String,
    pub prefix: String,
    pub created_at: Millis,
    pub last_used_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// The member that created it; none if an operator did.
    pub made_by: Option<UserId>,
}

/// A new key with its secret, which is shown only here.
// Not `Debug`: it holds a credential in the clear.
#[derive(Clone, Serialize, ToSchema)]
#[schema(example = json!({
    "key": "dkl_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN", "id": "key_01k9zv3m8rj2q4w6y8a0c2e4g6",
    "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "production", "prefix": "dkl_itGFjPev",
    "createdAt": "2026-01-15T03:30:00.000Z", "lastUsedAt": null, "revokedAt": null, "madeBy": null
}))]
pub struct NewKey {
    key: String,
    #[serde(flatten)]
    #[schema(inline)]
    pub view: KeyView,
}

impl NewKey {
    pub fn secret(&self) -> Secret {
        Secret::new(self.key.as_str())
    }
}

/// The input of [`create`].
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"name": "production"}))]
pub struct KeyInput {
    #[schema(min_length = 1, max_length = 120)]
    name: String,
}

/// The fields of [`KeyInput`] in a form.
pub const FIELDS: &Fields = &[("name", Shape::Text)];

lists! {
    /// A page of a tenant's keys, oldest first.
    KeyList { keys: KeyView, "keys" }
}

impl From<api_key::Model> for KeyView {
    fn from(row: api_key::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            name: row.name,
            prefix: row.prefix,
            created_at: row.created_at,
            last_used_at: row.last_used_at,
            revoked_at: row.revoked_at,
            made_by: row.made_by,
        }
    }
}

/// Creates a key.
pub async fn create(
    context: OperationContext,
    tenant: Id<TenantId>,
    body: RequestBody,
) -> Result<Created<NewKey>, ApiError> {
    context.require_tenant(tenant.0).await?;
    let input = body.form()?.read(&[], |form| {
        let name = form.required("name", None, name)?;
        Some(KeyInput { name })
    })?;
    let key = API_KEY_SCHEME.generate();
    let row = api_key::Model {
        id: ApiKeyId::new(context.now),
        tenant_id: tenant.0,
        name: input.name,
        prefix: key.prefix().to_owned(),
        hash: key.hash(),
        created_at: context.now,
        last_used_at: None,
        revoked_at: None,
        made_by: match context.principal {
            Principal::Person { user, .. } => Some(user),
            _ => None,
        },
    };
    let mut write = context.begin().await?;
    api_key::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let change = AuditChange::new(AuditAction::KeyCreate, row.id).with(&row.name);
    write.record(tenant.0, change).await?;
    let path = format!("{OPERATORS_BASE}/keys/{}", row.id);
    let created = NewKey {
        key: key.expose().to_owned(),
        view: row.into(),
    };
    write.commit(Created::at(path, created).secret()).await
}

fn of(tenant: TenantId) -> Select<api_key::Entity> {
    api_key::Entity::of(tenant).order_by_asc(api_key::Column::Id)
}

/// A page of a tenant's keys.
pub async fn list(
    context: OperationContext,
    tenant: Id<TenantId>,
    query: OperatorQuery,
) -> Result<KeyList, ApiError> {
    context.require_tenant(tenant.0).await?;
    let page = query.0.read(&[], |form| Some(PageRange::read(form)))?;
    let db = context.store().api_reader();
    let (keys, has_more) = views(db, page, of(tenant.0)).await?;
    Ok(KeyList::new(page, keys, has_more))
}

/// All keys of a tenant, oldest first.
pub async fn all(
    context: OperationContext,
    tenant: Id<TenantId>,
) -> Result<Vec<KeyView>, ApiError> {
    context.require_tenant(tenant.0).await?;
    let rows = of(tenant.0).all(context.store().reader()).await?;
    Ok(rows.into_iter().map(KeyView::from).collect())
}

/// One key.
pub async fn show(context: OperationContext, id: Id<ApiKeyId>) -> Result<KeyView, ApiError> {
    let found = context.one_of::<api_key::Entity>(id.0);
    let found = found.one(context.store().api_reader()).await?;
    let found = found.ok_or(ApiError::NotFound(Missing::Key))?;
    Ok(found.into())
}

/// Revokes a key: it is refused from the next request on, and stays in the list. A repeat changes nothing.
pub async fn revoke(context: OperationContext, id: Id<ApiKeyId>) -> Result<KeyView, ApiError> {
    let mut write = context.begin().await?;
    let (key, _) = set_revoked(&mut write, id.0).await?;
    let key = write.commit(key).await?;
    context.forget_keys();
    Ok(key)
}

/// The same for `DELETE`, whose repeat finds nothing.
pub async fn delete(
    context: OperationContext,
    id: Id<ApiKeyId>,
) -> Result<NoContent<KeyView>, ApiError> {
    let mut write = context.begin().await?;
    let (key, is_new) = set_revoked(&mut write, id.0).await?;
    if !is_new {
        return Err(ApiError::NotFound(Missing::Key));
    }
    let done = write.commit(NoContent(key)).await?;
    context.forget_keys();
    Ok(done)
}

/// The key, and true if it was active before.
async fn set_revoked(
    write: &mut OperationWrite<'_>,
    id: ApiKeyId,
) -> Result<(KeyView, bool), ApiError> {
    let found = write.context.one_of::<api_key::Entity>(id).lock_exclusive();
    let found = found.one(&**write).await?;
    let mut key = found.ok_or(ApiError::NotFound(Missing::Key))?;
    let is_new = key.revoked_at.is_none();
    if is_new {
        key.revoked_at = Some(write.context.now);
        let mut row = key.clone().into_active_model();
        row.revoked_at = Set(key.revoked_at);
        row.update(&**write).await?;
        let change = AuditChange::new(AuditAction::KeyRevoke, id).with(&key.name);
        write.record(key.tenant_id, change).await?;
    }
    Ok((key.into(), is_new))
}
