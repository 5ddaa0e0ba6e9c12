//! Members of a tenant: creating and deleting them, their sign-in links and their roles.

use dikala_actors::mails;
use dikala_entities::{
    Actor, AuditAction, Credential, CredentialHash, Email, LOGIN_LINK_SCHEME, MailKind, Millis,
    OfTenant, Role, Secret, SecretPlace, TenantId, UserId, login_link, mail, session,
    store::Transaction, tenant, user,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select, SqlErr,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    LinkMails, OperationContext, OperationWrite, PageRange, Principal,
    list::{lists, views},
    name,
};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{BlankRule, Id, OperatorQuery, ParseResult, RequestBody, text, word},
        field::{FieldCode, ValueFault},
        route::OPERATORS_BASE,
    },
};

/// Lifetime of a sign-in link, in milliseconds.
const LINK_MS: i64 = 30 * 60 * 1_000;
/// Lifetime of an invitation's sign-in link, in milliseconds.
pub const INVITATION_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// The path of sign-in links.
pub const LINK_PATH: &str = "/dashboard/link/";

/// The input of [`create`].
#[derive(Clone, Debug, ToSchema)]
#[schema(as = UserInput, example = json!({"email": "sari@example.com", "name": "Sari", "role": "owner"}))]
pub struct MemberDraft {
    email: Email,
    /// The part of the address before `@` if omitted.
    #[schema(min_length = 1, max_length = 120)]
    name: Option<String>,
    #[schema(nullable, default = "owner")]
    role: Role,
}

/// A member in the operators' views.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = User, example = json!({
    "id": "user_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "email": "sari@example.com",
    "name": "Sari", "role": "owner", "hasPassword": true, "createdAt": "2026-01-15T03:30:00.000Z",
    "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct UserView {
    pub id: UserId,
    pub tenant_id: TenantId,
    pub email: Email,
    pub name: String,
    pub role: Role,
    /// True if the member can sign in without a link.
    pub has_password: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
}

impl From<user::Model> for UserView {
    fn from(row: user::Model) -> Self {
        Self {
            id: row.id,
            tenant_id: row.tenant_id,
            email: row.email,
            name: row.name,
            role: row.role,
            has_password: row.password_hash.is_some(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }
}

/// A member with a sign-in link, which is shown only here.
#[expect(
    missing_debug_implementations,
    reason = "holds a credential in the clear"
)]
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = LoginLink, example = json!({
    "id": "user_01k9zv3m8rj2q4w6y8a0c2e4g6", "tenantId": "ten_01k9zv3m8rj2q4w6y8a0c2e4g6", "email": "sari@example.com",
    "name": "Sari", "role": "owner", "hasPassword": false, "createdAt": "2026-01-15T03:30:00.000Z",
    "updatedAt": "2026-01-15T03:30:00.000Z",
    "url": "https://voice.example.com/dashboard/link/dko_itGFjPev5uqCbxkB2DaILNaDNuKIjZ4V0ZmN",
    "expiresAt": "2026-01-15T04:00:00.000Z"
}))]
pub struct SignInLink {
    #[serde(flatten)]
    #[schema(inline)]
    pub user: UserView,
    pub url: String,
    pub expires_at: Millis,
    /// True if the link is mailed too.
    #[serde(skip)]
    #[schema(ignore)]
    pub is_mailed: bool,
}

lists! {
    /// A page of a tenant's people, oldest first.
    UserList { users: UserView, "users" }
}

fn email(value: &Value) -> ParseResult<Email> {
    let text = text(1, usize::MAX, BlankRule::Trim)(value)?;
    let parsed = text.parse();
    parsed.map_err(|error| {
        let fault = ValueFault::new(FieldCode::InvalidFormat, format!("{error}"));
        fault.in_words("fault-email").into()
    })
}

/// Creates a member with a sign-in link. Refused if any tenant has a member with this address.
pub async fn create(
    context: OperationContext,
    tenant: Id<TenantId>,
    body: RequestBody,
) -> Result<Created<SignInLink>, ApiError> {
    context.require_tenant(tenant.0).await?;
    let draft = body.form()?.read(&[], |form| {
        let email = form.required("email", None, email);
        let name = form.optional("name", None, name);
        let role = form.defaulted("role", None, Role::Owner, word("a role"));
        Some(MemberDraft {
            email: email?,
            name,
            role,
        })
    })?;
    let local = draft.email.as_str().split('@').next().unwrap_or_default();
    let row = user::Model {
        id: UserId::new(context.now),
        tenant_id: tenant.0,
        name: draft.name.unwrap_or_else(|| local.to_owned()),
        email: draft.email,
        role: draft.role,
        language: None,
        time_zone: None,
        password_hash: None,
        mails_low_credit: true,
        mails_disabled_webhooks: true,
        created_at: context.now,
        updated_at: context.now,
    };
    let mut write = context.begin().await?;
    let inserted = user::Entity::insert(row.clone().into_active_model());
    if let Err(error) = inserted.exec_without_returning(&*write).await {
        return Err(match error.sql_err() {
            Some(SqlErr::UniqueConstraintViolation(_)) => ApiError::UserExists,
            _ => error.into(),
        });
    }
    let change = AuditChange::new(AuditAction::UserCreate, row.id)
        .with(format_args!("{}, {}", row.name, row.role));
    write.record(row.tenant_id, change).await?;
    let link = insert_link(&write, row).await?;
    write.commit(link).await
}

/// Creates another sign-in link for a member. Earlier links stay valid.
pub async fn link(
    context: OperationContext,
    id: Id<UserId>,
    body: RequestBody,
) -> Result<Created<SignInLink>, ApiError> {
    show(context.clone(), id).await?;
    body.optional_form()?.expect_empty()?;
    let mut write = context.begin().await?;
    let member = find(&write, id.0).await?;
    let change = AuditChange::new(AuditAction::UserLink, member.id).with(&member.name);
    write.record(member.tenant_id, change).await?;
    let link = insert_link(&write, member).await?;
    write.commit(link).await
}

/// An invitation by a member is valid longer, and mailed if the operator configured mail. Operators pass links on themselves.
async fn insert_link(
    write: &OperationWrite<'_>,
    member: user::Model,
) -> Result<Created<SignInLink>, ApiError> {
    let context = write.context;
    let token = LOGIN_LINK_SCHEME.generate();
    let good_for_ms = match context.principal {
        Principal::Person { .. } => INVITATION_MS,
        _ => LINK_MS,
    };
    let expires_at = context.now.plus_ms(good_for_ms);
    let row = login_link::Model {
        hash: token.hash(),
        user_id: member.id,
        created_at: context.now,
        expires_at,
        consumed_at: None,
    };
    login_link::Entity::insert(row.into_active_model())
        .exec_without_returning(&**write)
        .await?;
    let is_mailed = match &context.mails {
        Some(mails) => mail_link(write, &member, &token, mails).await?,
        None => false,
    };
    // The path is the member's: the link itself has none and is shown only here.
    let path = format!("{OPERATORS_BASE}/users/{}", member.id);
    let link = SignInLink {
        url: url(context.base(), &token),
        user: member.into(),
        expires_at,
        is_mailed,
    };
    Ok(Created::at(path, link).secret())
}

fn url(base: &str, token: &Credential) -> String {
    format!("{base}{LINK_PATH}{}", token.expose())
}

/// Queues a mail with the link, unless the tenant has had too many mails lately.
async fn mail_link(
    write: &OperationWrite<'_>,
    member: &user::Model,
    token: &Credential,
    mailing: &LinkMails,
) -> Result<bool, ApiError> {
    let context = write.context;
    let lately = mail::Entity::of(member.tenant_id).count(&**write).await?;
    if lately >= mails::OF_TENANT_MAX {
        tracing::warn!(tenant = %member.tenant_id, "an invitation is not mailed: the tenant had too many mails today");
        return Ok(false);
    }
    let inviter = match context.principal.actor() {
        Actor::User(id) => id.to_string(),
        _ => String::new(),
    };
    let kind = MailKind::Invitation;
    let mut row = mails::to_owners(kind, member.tenant_id, inviter, context.now);
    let link = Secret::new(url(&mailing.base, token));
    row.user_id = Some(member.id);
    row.language = Some(mailing.language.to_owned());
    row.link = Some(context.vault()?.seal(SecretPlace::MailLink, row.id, &link));
    mails::write(write, [row]).await?;
    Ok(true)
}

fn of(tenant: TenantId) -> Select<user::Entity> {
    user::Entity::of(tenant).order_by_asc(user::Column::Id)
}

/// A page of a tenant's members.
pub async fn list(
    context: OperationContext,
    tenant: Id<TenantId>,
    query: OperatorQuery,
) -> Result<UserList, ApiError> {
    context.require_tenant(tenant.0).await?;
    let page = query.0.read(&[], |form| Some(PageRange::read(form)))?;
    let db = context.store().api_reader();
    let (users, has_more) = views(db, page, of(tenant.0)).await?;
    Ok(UserList::new(page, users, has_more))
}

/// All members of a tenant, oldest first.
pub async fn all(
    context: OperationContext,
    tenant: Id<TenantId>,
) -> Result<Vec<UserView>, ApiError> {
    context.require_tenant(tenant.0).await?;
    let rows = of(tenant.0).all(context.store().reader()).await?;
    Ok(rows.into_iter().map(UserView::from).collect())
}

/// One member.
pub async fn show(context: OperationContext, id: Id<UserId>) -> Result<UserView, ApiError> {
    let found = context.one_of::<user::Entity>(id.0);
    let found = found.one(context.store().api_reader()).await?;
    let found = found.ok_or(ApiError::NotFound(Missing::User))?;
    Ok(found.into())
}

async fn find(write: &OperationWrite<'_>, id: UserId) -> Result<user::Model, ApiError> {
    let found = write.context.one_of::<user::Entity>(id).one(&**write);
    found.await?.ok_or(ApiError::NotFound(Missing::User))
}

/// Deletes a member with all sessions and links. A member cannot delete the last owner; an operator can, and creates another.
pub async fn delete(
    context: OperationContext,
    id: Id<UserId>,
) -> Result<NoContent<UserView>, ApiError> {
    let mut write = context.begin().await?;
    let member = match context.principal.scope() {
        Some(tenant) => {
            let member = lock_of_tenant(&write, tenant, id.0).await?;
            keep_an_owner(&write, &member).await?;
            member
        }
        None => find(&write, id.0).await?,
    };
    // Two concurrent deletions: one succeeds, the other finds nothing.
    let gone = user::Entity::delete_by_id(member.id).exec(&*write).await?;
    if gone.rows_affected == 0 {
        return Err(ApiError::NotFound(Missing::User));
    }
    let change = AuditChange::new(AuditAction::UserRemove, member.id).with(&member.name);
    write.record(member.tenant_id, change).await?;
    write.commit(NoContent(member.into())).await
}

/// Changes a member's role. The last owner keeps the role.
pub async fn change_role(
    context: OperationContext,
    id: Id<UserId>,
    body: RequestBody,
) -> Result<UserView, ApiError> {
    let tenant = show(context.clone(), id).await?.tenant_id;
    let role: Role = body
        .form()?
        .read(&[], |form| form.required("role", None, word("a role")))?;
    let mut write = context.begin().await?;
    let mut member = lock_of_tenant(&write, tenant, id.0).await?;
    if member.role != role {
        keep_an_owner(&write, &member).await?;
        (member.role, member.updated_at) = (role, context.now);
        let row = user::ActiveModel {
            id: Set(member.id),
            role: Set(role),
            updated_at: Set(context.now),
            ..Default::default()
        };
        row.update(&*write).await?;
        let change = AuditChange::new(AuditAction::UserRole, member.id)
            .with(format_args!("{}, role={role}", member.name));
        write.record(tenant, change).await?;
    }
    write.commit(member.into()).await
}

/// Locks the tenant's row until the transaction ends, so that two owners who leave at once cannot both leave.
async fn lock_of_tenant(
    write: &OperationWrite<'_>,
    tenant: TenantId,
    id: UserId,
) -> Result<user::Model, ApiError> {
    tenant::Entity::find_by_id(tenant)
        .lock_exclusive()
        .one(&**write)
        .await?;
    find(write, id).await
}

/// Refuses if this is the tenant's only owner.
async fn keep_an_owner(txn: &Transaction, person: &user::Model) -> Result<(), ApiError> {
    if person.role != Role::Owner {
        return Ok(());
    }
    let owners = of(person.tenant_id).filter(user::Column::Role.eq(Role::Owner));
    match owners.count(txn).await? {
        0 | 1 => Err(ApiError::LastOwner),
        _ => Ok(()),
    }
}

/// Locks a member's row before sessions end or the password changes; concurrent sign-ins wait.
pub async fn lock(
    txn: &Transaction,
    tenant: TenantId,
    id: UserId,
) -> Result<Option<user::Model>, DbErr> {
    let locked = user::Entity::one_of(tenant, id).lock_exclusive();
    locked.one(txn).await
}

/// Ends the sessions of a [locked](lock) user, except `but`, and deletes unused links.
pub async fn end_sessions(
    txn: &Transaction,
    id: UserId,
    but: Option<&CredentialHash>,
) -> Result<(), DbErr> {
    let mut sessions = session::Entity::delete_many().filter(session::Column::UserId.eq(id));
    if let Some(kept) = but {
        sessions = sessions.filter(session::Column::Hash.ne(kept.clone()));
    }
    sessions.exec(txn).await?;
    login_link::Entity::delete_many()
        .filter(login_link::Column::UserId.eq(id))
        .filter(login_link::Column::ConsumedAt.is_null())
        .exec(txn)
        .await
        .map(drop)
}
