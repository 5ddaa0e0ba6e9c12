//! Sessions: a browser that is signed in. The store has the hash of what the cookie holds; every request reads it, so that what
//! ended a session counts at once on every node.

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

use super::kit::Kit;
use crate::pages::{
    cookie::{CLOCKS_APART_MS, Cookie},
    headers::header,
};

/// What the cookie is called.
const COOKIE: &str = "dikala";
/// How long a session lasts without use, in milliseconds.
const IDLE_MS: i64 = 12 * 60 * 60 * 1_000;
/// How long a session lasts, in milliseconds.
const LONGEST_MS: i64 = 14 * 24 * 60 * 60 * 1_000;
/// `used_at` is exact to this, in milliseconds.
const TOUCH_EVERY_MS: i64 = 60 * 1_000;
/// Sessions of one person; one more ends the one that was not used for the longest time.
const EACH_MAX: u64 = 50;
/// What is kept of what a browser calls itself, in characters.
const AGENT_CHARS_MAX: usize = 200;
/// How long the stored text of a note is good, in milliseconds.
const NOTE_MS: i64 = 5 * 60 * 1_000;

/// Who is signed in, and by which session.
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
    /// The session began with a one-time link.
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

/// When a session ends that began and was used then.
fn end(created: Millis, used: Millis) -> Millis {
    used.plus_ms(IDLE_MS).min(created.plus_ms(LONGEST_MS))
}

/// What holds of a session that is in force.
fn is_on(now: Millis) -> Condition {
    let latest = now.plus_ms(IDLE_MS + CLOCKS_APART_MS);
    Condition::all()
        .add(session::Column::EndsAt.gt(now))
        .add(session::Column::EndsAt.lte(latest))
}

/// The session that a cookie names, if it is in force.
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

/// Whether a session is in force, and its tenant not suspended.
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

/// Somebody, and the tenant, as they stay until the transaction ends. What ends sessions comes before, and is seen, or comes
/// after, and ends what the transaction begins.
pub async fn hold(
    txn: &Transaction,
    person: &user::Model,
) -> Result<Option<(user::Model, tenant::Model)>, DbErr> {
    // In the order of who changes roles and removes people.
    let tenant = tenant::Entity::find_by_id(person.tenant_id).lock_shared();
    let tenant = tenant.one(txn).await?;
    let person = user::Entity::find_by_id(person.id).lock_shared();
    let person = person.one(txn).await?;
    Ok(person.zip(tenant))
}

/// Begins a session in a transaction that proved who it is for and [holds](hold) them; what the browser showed before ends with it.
pub async fn begin(
    txn: &Transaction,
    kit: &Kit,
    request: &HttpRequest,
    user: &user::Model,
    by_link: bool,
) -> Result<Credential, DbErr> {
    let now = kit.services.clock.now();
    let token = SESSION_SCHEME.generate();
    let agent = header(request.headers(), &USER_AGENT).unwrap_or_default();
    let row = session::Model {
        hash: token.hash(),
        tenant_id: user.tenant_id,
        user_id: user.id,
        by_link,
        address: kit.address(request).to_string(),
        agent: agent.chars().take(AGENT_CHARS_MAX).collect(),
        note: None,
        created_at: now,
        used_at: now,
        ends_at: end(now, now),
    };
    if let Some(before) = shown(kit, request) {
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

/// Ends one.
pub async fn finish(store: &Store, hash: &CredentialHash) -> Result<(), DbErr> {
    session::Entity::delete_by_id(hash.clone())
        .exec(store.writer())
        .await
        .map(drop)
}

/// Those of a person that are in force, the one that was used last first.
pub async fn list(store: &Store, id: UserId, now: Millis) -> Result<Vec<session::Model>, DbErr> {
    session::Entity::find()
        .filter(session::Column::UserId.eq(id))
        .filter(is_on(now))
        .order_by_desc(session::Column::UsedAt)
        .limit(EACH_MAX)
        .all(store.reader())
        .await
}

/// Keeps what the next page shows once, and no page after it: a new key, a link to pass on. `about` names what it is.
pub async fn leave_note(
    store: &Store,
    vault: &Vault,
    person: &Person,
    about: &str,
    text: &Secret,
    now: Millis,
) -> Result<(), DbErr> {
    let note = Secret::new(format!("{} {about} {}", now.as_i64(), text.expose()));
    let sealed = vault.seal(SecretPlace::SessionNote, &person.session, &note);
    session::Entity::update_many()
        .col_expr(session::Column::Note, Expr::value(Some(sealed)))
        .filter(session::Column::Hash.eq(person.session.clone()))
        .exec(store.writer())
        .await
        .map(drop)
}

/// Takes the note about something, if it is there and was left a moment ago.
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
    let note = opened.and_then(|note| {
        let mut parts = note.expose().splitn(3, ' ');
        let left = Millis::from_i64(parts.next()?.parse().ok()?);
        let is_it = parts.next()? == about && now.since(left) < NOTE_MS;
        parts.next().filter(|_| is_it).map(Secret::new)
    });
    if note.is_none() {
        return Ok(None);
    }
    // Of two pages that ask at the same moment one gets it.
    let taken = session::Entity::update_many()
        .col_expr(session::Column::Note, Expr::value(None::<String>))
        .filter(session::Column::Hash.eq(person.session.clone()))
        .filter(session::Column::Note.eq(sealed))
        .exec(store.writer())
        .await?;
    Ok(note.filter(|_| taken.rows_affected == 1))
}

fn cookie_of(kit: &Kit) -> Cookie {
    Cookie {
        name: COOKIE,
        secure: kit.is_secure(),
    }
}

/// What a browser shows, whether or not there is a session of it.
pub fn shown(kit: &Kit, request: &HttpRequest) -> Option<Credential> {
    let shown = cookie_of(kit).shown(request);
    shown
        .into_iter()
        .find_map(|text| SESSION_SCHEME.parse(text))
}

/// The header that has a browser keep a token: for as long as a session lasts, or until the browser is closed where nobody is
/// signed in by it.
pub fn cookie(kit: &Kit, token: &Credential, is_session: bool) -> HeaderValue {
    let seconds = is_session.then_some(LONGEST_MS / 1_000);
    cookie_of(kit).keep(token.expose(), seconds)
}

/// The header that has a browser forget its token.
pub fn no_cookie(kit: &Kit) -> HeaderValue {
    cookie_of(kit).forget()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_unused_and_in_any_case() {
        const HOUR_MS: i64 = 60 * 60 * 1_000;
        let began = Millis::from_i64(1_800_000_000_000);
        let after = |hours: i64| began.plus_ms(hours * HOUR_MS);
        assert_eq!(end(began, began), after(12));
        assert_eq!(end(began, after(5)), after(17));
        assert_eq!(end(began, after(14 * 24 - 12)), after(14 * 24));
        assert_eq!(end(began, after(14 * 24 - 1)), after(14 * 24));
    }
}
