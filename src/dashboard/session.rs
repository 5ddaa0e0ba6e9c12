//! Browser sessions. The store holds a hash of the cookie's token. Every request reads it, so the end of a session
//! takes effect at once on every node.

use actix_web::{
    HttpRequest,
    http::header::{HeaderValue, USER_AGENT},
};
use dikala_entities::{
    Credential, CredentialHash, Email, Millis, Role, SESSION_SCHEME, Secret, SecretPlace, Store,
    TenantId, UserId, Vault, session, store::Transaction, tenant, user,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, FromQueryResult, IntoActiveModel,
    JoinType, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr,
};

use super::state::DashboardState;
use crate::pages::{
    cookie::{CLOCKS_APART_MS, Cookie},
    headers::header,
    session::{self as lifetime, IDLE_MS, LONGEST_MS, TOUCH_EVERY_MS, end},
};

const COOKIE: &str = "dikala";
/// Maximum sessions of a person. A further one ends the least recently used.
const EACH_MAX: u64 = 50;
/// Stored part of the `User-Agent`, in characters.
const AGENT_CHARS_MAX: usize = 200;

/// The signed-in person and the session.
#[derive(Clone, Debug)]
pub struct Person {
    pub id: UserId,
    pub tenant: TenantId,
    pub tenant_name: String,
    pub email: Email,
    pub name: String,
    pub role: Role,
    pub language: Option<String>,
    pub time_zone: Option<String>,
    pub has_password: bool,
    /// True if the session began with a sign-in link.
    pub by_link: bool,
    pub session: CredentialHash,
}

#[derive(FromQueryResult)]
struct Row {
    hash: CredentialHash,
    by_link: bool,
    created_at: Millis,
    used_at: Millis,
    id: UserId,
    tenant_id: TenantId,
    tenant_name: String,
    email: Email,
    name: String,
    role: Role,
    language: Option<String>,
    time_zone: Option<String>,
    password_hash: Option<String>,
    suspended_at: Option<Millis>,
}

/// The condition of an active session.
fn is_on(now: Millis) -> Condition {
    let latest = now.plus_ms(IDLE_MS + CLOCKS_APART_MS);
    Condition::all()
        .add(session::Column::EndsAt.gt(now))
        .add(session::Column::EndsAt.lte(latest))
}

/// The person of the token's session, if it is active.
pub async fn find(store: &Store, token: &Credential, now: Millis) -> Result<Option<Person>, DbErr> {
    let user_of = session::Entity::belongs_to(user::Entity)
        .from(session::Column::UserId)
        .to(user::Column::Id);
    let tenant_of = session::Entity::belongs_to(tenant::Entity)
        .from(session::Column::TenantId)
        .to(tenant::Column::Id);
    let row: Option<Row> = session::Entity::find_by_id(token.hash())
        .select_only()
        .columns([
            session::Column::Hash,
            session::Column::ByLink,
            session::Column::CreatedAt,
            session::Column::UsedAt,
        ])
        .columns([
            user::Column::Id,
            user::Column::TenantId,
            user::Column::Email,
            user::Column::Name,
            user::Column::Role,
            user::Column::Language,
            user::Column::TimeZone,
            user::Column::PasswordHash,
        ])
        .column_as(tenant::Column::Name, "tenant_name")
        .column(tenant::Column::SuspendedAt)
        .join(JoinType::InnerJoin, user_of.into())
        .join(JoinType::InnerJoin, tenant_of.into())
        .filter(is_on(now))
        .into_model()
        .one(store.reader())
        .await?;
    let Some(row) = row.filter(|row| row.suspended_at.is_none()) else {
        return Ok(None);
    };
    if now.since(row.used_at) >= TOUCH_EVERY_MS {
        touch(store, &row, now).await?;
    }
    Ok(Some(Person {
        id: row.id,
        tenant: row.tenant_id,
        tenant_name: row.tenant_name,
        email: row.email,
        name: row.name,
        role: row.role,
        language: row.language,
        time_zone: row.time_zone,
        has_password: row.password_hash.is_some(),
        by_link: row.by_link,
        session: row.hash,
    }))
}

/// True if a session is active and its tenant is not suspended.
pub async fn is_in_force(
    db: &impl ConnectionTrait,
    hash: &CredentialHash,
    now: Millis,
) -> Result<bool, DbErr> {
    let tenant_of = session::Entity::belongs_to(tenant::Entity)
        .from(session::Column::TenantId)
        .to(tenant::Column::Id);
    let found: Option<CredentialHash> = session::Entity::find_by_id(hash.clone())
        .select_only()
        .column(session::Column::Hash)
        .join(JoinType::InnerJoin, tenant_of.into())
        .filter(is_on(now))
        .filter(tenant::Column::SuspendedAt.is_null())
        .into_tuple()
        .one(db)
        .await?;
    Ok(found.is_some())
}

async fn touch(store: &Store, row: &Row, now: Millis) -> Result<(), DbErr> {
    session::Entity::update_many()
        .col_expr(session::Column::UsedAt, Expr::value(now))
        .col_expr(
            session::Column::EndsAt,
            Expr::value(end(row.created_at, now)),
        )
        .filter(session::Column::Hash.eq(row.hash.clone()))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Locks the person and the tenant until the transaction ends. A change that ends sessions then either came before
/// and is visible here, or comes after and ends the new session too.
pub async fn hold(
    txn: &Transaction,
    person: &user::Model,
) -> Result<Option<(user::Model, tenant::Model)>, DbErr> {
    // Same lock order as changes of roles and removals.
    let tenant = tenant::Entity::find_by_id(person.tenant_id).lock_shared();
    let tenant = tenant.one(txn).await?;
    let person = user::Entity::find_by_id(person.id).lock_shared();
    let person = person.one(txn).await?;
    Ok(person.zip(tenant))
}

/// Begins a session in a transaction that authenticated the person and [locked](hold) the rows. The browser's
/// previous session ends.
pub async fn begin(
    txn: &Transaction,
    state: &DashboardState,
    request: &HttpRequest,
    user: &user::Model,
    by_link: bool,
) -> Result<Credential, DbErr> {
    let now = state.services.clock.now();
    let token = SESSION_SCHEME.generate();
    let agent = header(request.headers(), &USER_AGENT).unwrap_or_default();
    let row = session::Model {
        hash: token.hash(),
        tenant_id: user.tenant_id,
        user_id: user.id,
        by_link,
        address: state.address(request).to_string(),
        agent: agent.chars().take(AGENT_CHARS_MAX).collect(),
        note: None,
        created_at: now,
        used_at: now,
        ends_at: end(now, now),
    };
    if let Some(before) = shown(state, request) {
        session::Entity::delete_by_id(before.hash())
            .exec(txn)
            .await?;
    }
    let too_many: Vec<CredentialHash> = session::Entity::find()
        .select_only()
        .column(session::Column::Hash)
        .filter(session::Column::UserId.eq(user.id))
        .order_by_desc(session::Column::UsedAt)
        .limit(EACH_MAX)
        .offset(EACH_MAX - 1)
        .into_tuple()
        .all(txn)
        .await?;
    if !too_many.is_empty() {
        session::Entity::delete_many()
            .filter(session::Column::Hash.is_in(too_many))
            .exec(txn)
            .await?;
    }
    session::Entity::insert(row.into_active_model())
        .exec_without_returning(txn)
        .await?;
    Ok(token)
}

/// Ends a session.
pub async fn finish(store: &Store, hash: &CredentialHash) -> Result<(), DbErr> {
    session::Entity::delete_by_id(hash.clone())
        .exec(store.writer())
        .await
        .map(drop)
}

/// A person's active sessions, most recently used first.
pub async fn list(store: &Store, id: UserId, now: Millis) -> Result<Vec<session::Model>, DbErr> {
    session::Entity::find()
        .filter(session::Column::UserId.eq(id))
        .filter(is_on(now))
        .order_by_desc(session::Column::UsedAt)
        .limit(EACH_MAX)
        .all(store.reader())
        .await
}

/// Stores a secret that the next page shows once, such as a new key or link. `about` is its key.
pub async fn leave_note(
    store: &Store,
    vault: &Vault,
    person: &Person,
    about: &str,
    text: &Secret,
    now: Millis,
) -> Result<(), DbErr> {
    let note = lifetime::note(about, text, now);
    let sealed = vault.seal(SecretPlace::SessionNote, &person.session, &note);
    session::Entity::update_many()
        .col_expr(session::Column::Note, Expr::value(Some(sealed)))
        .filter(session::Column::Hash.eq(person.session.clone()))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Takes the note with this key, if it exists and has not expired.
pub async fn take_note(
    store: &Store,
    vault: &Vault,
    person: &Person,
    about: &str,
    now: Millis,
) -> Result<Option<Secret>, DbErr> {
    let sealed: Option<Option<String>> = session::Entity::find_by_id(person.session.clone())
        .select_only()
        .column(session::Column::Note)
        .into_tuple()
        .one(store.reader())
        .await?;
    let Some(sealed) = sealed.flatten() else {
        return Ok(None);
    };
    let opened = vault
        .open(SecretPlace::SessionNote, &person.session, &sealed)
        .ok();
    let note = opened.and_then(|note| lifetime::text_of(&note, about, now));
    if note.is_none() {
        return Ok(None);
    }
    // If two pages ask at once, only one of them gets the note.
    let taken = session::Entity::update_many()
        .col_expr(session::Column::Note, Expr::value(None::<String>))
        .filter(session::Column::Hash.eq(person.session.clone()))
        .filter(session::Column::Note.eq(sealed))
        .exec(store.writer())
        .await?;
    Ok(note.filter(|_| taken.rows_affected == 1))
}

fn cookie_of(state: &DashboardState) -> Cookie {
    Cookie {
        name: COOKIE,
        secure: state.is_secure(),
    }
}

/// The browser's token, whether or not it belongs to a session.
pub fn shown(state: &DashboardState, request: &HttpRequest) -> Option<Credential> {
    let shown = cookie_of(state).shown(request);
    shown
        .into_iter()
        .find_map(|text| SESSION_SCHEME.parse(text))
}

/// The header that sets the cookie: for a session's maximum duration, or until the browser closes if nobody is
/// signed in.
pub fn cookie(state: &DashboardState, token: &Credential, is_session: bool) -> HeaderValue {
    let seconds = is_session.then_some(LONGEST_MS / 1_000);
    cookie_of(state).keep(token.expose(), seconds)
}

/// The header that deletes the cookie.
pub fn no_cookie(state: &DashboardState) -> HeaderValue {
    cookie_of(state).forget()
}
