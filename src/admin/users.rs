//! Members of a tenant: creating and deleting them, their sign-in links and their roles.

use dikala_actors::mails;
use dikala_entities::{
    Actor, AuditAction, Credential, CredentialHash, Email, LOGIN_LINK_SCHEME, MailKind, Millis,
    OfTenant, Role, Secret, SecretPlace, Store, TenantId, UserId, Vault, login_link, mail, session,
    store::Transaction, user,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait,
    IntoActiveModel, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminError, TransactionScope, find_tenant, name, require_tenant, unless_taken};
use crate::audit::{AuditChange, ChangeOrigin};

/// Lifetime of a sign-in link, in milliseconds.
pub const LINK_MS: i64 = 30 * 60 * 1_000;
/// Lifetime of an invitation's sign-in link, in milliseconds.
pub const INVITATION_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// The path of sign-in links.
pub const LINK_PATH: &str = "/dashboard/link/";

/// A member to be created.
#[derive(Clone, Debug)]
pub struct MemberDraft {
    pub email: Email,
    pub name: String,
    pub role: Role,
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

/// The parameters of a new sign-in link.
#[derive(Clone, Copy, Debug)]
pub struct LinkOptions<'a> {
    pub good_for_ms: i64,
    /// Mails the link to the member, if given.
    pub mail: Option<LinkMailing<'a>>,
    pub by: &'a ChangeOrigin,
    pub now: Millis,
}

/// The parameters of mailing a sign-in link.
#[derive(Clone, Copy, Debug)]
pub struct LinkMailing<'a> {
    pub vault: &'a Vault,
    /// The service's base URL, without a trailing slash.
    pub base: &'a str,
    /// The language for members that have chosen none.
    pub language: &'a str,
}

/// A member with a new sign-in link that has no base URL yet.
#[derive(Clone, Debug)]
pub struct MemberWithLink {
    user: user::Model,
    token: Credential,
    expires_at: Millis,
    is_mailed: bool,
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
}

impl MemberDraft {
    /// Parses an operator's input. The default name is the part before the `@`.
    pub fn parse(email: &str, given: Option<&str>, role: Role) -> Result<Self, AdminError> {
        let email: Email = email
            .parse()
            .map_err(|error| AdminError::Refused(format!("email {error}")))?;
        let local = email.as_str().split('@').next().unwrap_or_default();
        let name = name("name", given.unwrap_or(local))?;
        Ok(Self { email, name, role })
    }
}

impl MemberWithLink {
    /// True if the link is mailed too.
    pub fn is_mailed(&self) -> bool {
        self.is_mailed
    }

    /// Adds the service's base URL, which has no trailing slash.
    pub fn at(self, base: &str) -> SignInLink {
        SignInLink {
            url: url(base, &self.token),
            user: self.user.into(),
            expires_at: self.expires_at,
        }
    }
}

fn url(base: &str, token: &Credential) -> String {
    format!("{base}{LINK_PATH}{}", token.expose())
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

/// Creates a member with a sign-in link. Refused if any tenant has a member with this address.
pub async fn create(
    work: impl Into<TransactionScope<'_>>,
    tenant: TenantId,
    draft: MemberDraft,
    linking: LinkOptions<'_>,
) -> Result<MemberWithLink, AdminError> {
    let now = linking.now;
    let row = user::Model {
        id: UserId::new(now),
        tenant_id: tenant,
        email: draft.email,
        name: draft.name,
        role: draft.role,
        language: None,
        time_zone: None,
        password_hash: None,
        mails_low_credit: true,
        mails_disabled_webhooks: true,
        created_at: now,
        updated_at: now,
    };
    let txn = work.into().begin().await?;
    find_tenant(&*txn, tenant).await?;
    user::Entity::insert(row.clone().into_active_model())
        .exec_without_returning(&*txn)
        .await
        .map_err(|error| {
            unless_taken(error, || {
                format!(
                    "somebody has the address {} already; give another one",
                    row.email
                )
            })
        })?;
    let change = AuditChange::new(AuditAction::UserCreate, row.id)
        .with(format_args!("{}, {}", row.name, row.role));
    linking.by.write(&*txn, tenant, change, now).await?;
    let linked = insert_link(&txn, row, linking).await?;
    txn.commit().await?;
    Ok(linked)
}

/// Lists a tenant's members, oldest first.
pub async fn list(store: &Store, tenant: TenantId) -> Result<Vec<UserView>, AdminError> {
    require_tenant(store, tenant).await?;
    let people = of(tenant).all(store.reader()).await?;
    Ok(people.into_iter().map(UserView::from).collect())
}

/// Creates another sign-in link for a member. Earlier links stay valid.
pub async fn link(
    work: impl Into<TransactionScope<'_>>,
    id: UserId,
    linking: LinkOptions<'_>,
) -> Result<MemberWithLink, AdminError> {
    let txn = work.into().begin().await?;
    let person = find(&*txn, None, id).await?;
    let change = AuditChange::new(AuditAction::UserLink, id).with(&person.name);
    linking
        .by
        .write(&*txn, person.tenant_id, change, linking.now)
        .await?;
    let linked = insert_link(&txn, person, linking).await?;
    txn.commit().await?;
    Ok(linked)
}

async fn insert_link(
    txn: &Transaction,
    user: user::Model,
    linking: LinkOptions<'_>,
) -> Result<MemberWithLink, DbErr> {
    let token = LOGIN_LINK_SCHEME.generate();
    let expires_at = linking.now.plus_ms(linking.good_for_ms);
    let row = login_link::Model {
        hash: token.hash(),
        user_id: user.id,
        created_at: linking.now,
        expires_at,
        consumed_at: None,
    };
    login_link::Entity::insert(row.into_active_model())
        .exec_without_returning(txn)
        .await?;
    let is_mailed = match linking.mail {
        Some(mailing) => mail_link(txn, &user, &token, mailing, linking).await?,
        None => false,
    };
    Ok(MemberWithLink {
        user,
        token,
        expires_at,
        is_mailed,
    })
}

/// Queues a mail with the link, unless the tenant has had too many mails lately.
async fn mail_link(
    txn: &Transaction,
    user: &user::Model,
    token: &Credential,
    mailing: LinkMailing<'_>,
    linking: LinkOptions<'_>,
) -> Result<bool, DbErr> {
    let lately = mail::Entity::of(user.tenant_id).count(txn).await?;
    if lately >= mails::OF_TENANT_MAX {
        tracing::warn!(tenant = %user.tenant_id, "an invitation is not mailed: the tenant had too many mails today");
        return Ok(false);
    }
    let inviter = match linking.by.actor {
        Actor::User(id) => id.to_string(),
        _ => String::new(),
    };
    let mut row = mails::to_owners(MailKind::Invitation, user.tenant_id, inviter, linking.now);
    let link = Secret::new(url(mailing.base, token));
    row.user_id = Some(user.id);
    row.language = Some(mailing.language.to_owned());
    row.link = Some(mailing.vault.seal(SecretPlace::MailLink, row.id, &link));
    mails::write(txn, [row]).await?;
    Ok(true)
}

/// Deletes a member with all sessions and links, even the last owner of a tenant: an operator can create another.
pub async fn remove(
    work: impl Into<TransactionScope<'_>>,
    id: UserId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<UserView, AdminError> {
    let txn = work.into().begin().await?;
    let person = find(&*txn, None, id).await?;
    delete(&txn, &person, by, now).await?;
    txn.commit().await?;
    Ok(person.into())
}

/// Deletes a member of a tenant with all sessions and links. The last owner cannot be deleted.
pub async fn remove_member(
    work: impl Into<TransactionScope<'_>>,
    tenant: TenantId,
    id: UserId,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<UserView, AdminError> {
    let txn = work.into().begin().await?;
    let person = lock_member(&txn, tenant, id).await?;
    keep_an_owner(&txn, &person).await?;
    delete(&txn, &person, by, now).await?;
    txn.commit().await?;
    Ok(person.into())
}

/// Two concurrent deletions: one succeeds, the other finds nothing.
async fn delete(
    txn: &Transaction,
    person: &user::Model,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<(), AdminError> {
    let gone = user::Entity::delete_by_id(person.id).exec(txn).await?;
    if gone.rows_affected == 0 {
        return Err(AdminError::not_found("user", person.id));
    }
    let change = AuditChange::new(AuditAction::UserRemove, person.id).with(&person.name);
    by.write(txn, person.tenant_id, change, now).await?;
    Ok(())
}

/// Changes a member's role. The last owner keeps the role.
pub async fn change_role(
    work: impl Into<TransactionScope<'_>>,
    tenant: TenantId,
    id: UserId,
    role: Role,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<UserView, AdminError> {
    let txn = work.into().begin().await?;
    let mut person = lock_member(&txn, tenant, id).await?;
    if person.role != role {
        keep_an_owner(&txn, &person).await?;
        let mut row = person.clone().into_active_model();
        row.role = Set(role);
        row.updated_at = Set(now);
        row.update(&*txn).await?;
        let change = AuditChange::new(AuditAction::UserRole, id)
            .with(format_args!("{}, role={role}", person.name));
        by.write(&*txn, tenant, change, now).await?;
        (person.role, person.updated_at) = (role, now);
    }
    txn.commit().await?;
    Ok(person.into())
}

/// Locks the tenant's row until the transaction ends, so that two owners who leave at once cannot both leave.
async fn lock_member(
    txn: &Transaction,
    tenant: TenantId,
    id: UserId,
) -> Result<user::Model, AdminError> {
    dikala_entities::tenant::Entity::find_by_id(tenant)
        .lock_exclusive()
        .one(txn)
        .await?;
    find(txn, Some(tenant), id).await
}

/// Refuses if this is the tenant's only owner.
async fn keep_an_owner(txn: &Transaction, person: &user::Model) -> Result<(), AdminError> {
    if person.role != Role::Owner {
        return Ok(());
    }
    let owners = of(person.tenant_id).filter(user::Column::Role.eq(Role::Owner));
    match owners.count(txn).await? {
        0 | 1 => Err(AdminError::Refused(
            "the last owner stays; make somebody else an owner first".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// A tenant's members, oldest first.
pub fn of(tenant: TenantId) -> Select<user::Entity> {
    user::Entity::find()
        .filter(user::Column::TenantId.eq(tenant))
        .order_by_asc(user::Column::Id)
}

/// Finds a member, within a tenant if one is given.
pub async fn find(
    db: &impl ConnectionTrait,
    of: Option<TenantId>,
    id: UserId,
) -> Result<user::Model, AdminError> {
    let found = user::Entity::find_by_id(id).one(db).await?;
    found
        .filter(|person| of.is_none_or(|tenant| person.tenant_id == tenant))
        .ok_or_else(|| AdminError::not_found("user", id))
}

/// Locks a member's row before sessions end or the password changes; concurrent sign-ins wait.
pub async fn lock(txn: &Transaction, id: UserId) -> Result<Option<user::Model>, DbErr> {
    let locked = user::Entity::find_by_id(id).lock_exclusive();
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
