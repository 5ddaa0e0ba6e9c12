//! `/tenants/{id}/users` and `/users`: the people who use a tenant's dashboard.

use actix_web::web::Data;
use dikala_entities::{Email, Role, TenantId, UserId};
use sea_orm::ConnectionTrait;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    desk::{OperatorContext, OperatorUnit},
    list::{lists, views},
    refused::{name_of, refused},
};
use crate::{
    admin::{
        AdminError, find_tenant,
        users::{self, LINK_MS, LinkOptions, MemberDraft, SignInLink, UserView},
    },
    api::PageRange,
    http::{
        answer::ApiAnswer,
        error::ApiError,
        extract::{
            BlankRule, FormFields, Id, OperatorQuery, OperatorRequest, ParseResult, RequestBody,
            text, word,
        },
        field::{FieldCode, ValueFault},
        route::OPERATORS_BASE,
    },
};

/// Somebody who is to be made.
#[expect(dead_code, reason = "the description of what is read field by field")]
#[derive(Clone, Debug, ToSchema)]
#[schema(as = UserInput, example = json!({"email": "sari@example.com", "name": "Sari", "role": "owner"}))]
pub struct UserDraft {
    pub email: Email,
    /// The part of the address before `@` if omitted.
    #[schema(min_length = 1, max_length = 120)]
    pub name: Option<String>,
    #[schema(nullable, default = "owner")]
    pub role: Role,
}

lists! {
    /// A page of a tenant's people, oldest first.
    UserList { users: UserView, "users" }
}

fn email(value: &Value) -> ParseResult<Email> {
    let text = text(1, usize::MAX, BlankRule::Trim)(value)?;
    let parsed = text.parse();
    parsed.map_err(|error| ValueFault::new(FieldCode::InvalidFormat, format!("{error}")).into())
}

fn read(body: &RequestBody) -> Result<MemberDraft, ApiError> {
    body.form()?.read(&[], |form| {
        let email = form.required("email", None, email);
        let name = form.optional("name", None, name_of);
        let role = form.defaulted("role", None, Role::Owner, word("a role"));
        let email = email?;
        let local = email.as_str().split('@').next().unwrap_or_default();
        Some(MemberDraft {
            name: name.unwrap_or_else(|| local.to_owned()),
            email,
            role,
        })
    })
}

/// `GET /tenants/{id}/users`
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
) -> Result<UserList, ApiError> {
    find_tenant(db, tenant).await.map_err(refused)?;
    let page = asked.read(&[], |form| Some(PageRange::read(form)))?;
    let (users, has_more) = views(db, page, users::of(tenant)).await?;
    Ok(UserList::new(page, users, has_more))
}

/// `GET /users/{id}`
pub async fn show(desk: Data<OperatorContext>, id: Id<UserId>) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &one(desk.node.store.api_reader(), id.0).await?,
    ))
}

pub async fn one(db: &impl ConnectionTrait, id: UserId) -> Result<UserView, ApiError> {
    let found = users::find(db, None, id).await;
    found.map(UserView::from).map_err(refused)
}

/// `POST /tenants/{id}/users`: creates a person, with a sign-in link that is valid for 30 minutes.
pub async fn create(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<TenantId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let there = find_tenant(desk.node.store.api_reader(), id.0).await;
    there.map_err(refused)?;
    let draft = read(&body)?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let made = users::create(unit.txn(), id.0, draft, linking(&desk, &operator)).await;
    let made = made.map_err(|error| match error {
        AdminError::Taken(_) => ApiError::UserExists,
        error => refused(error),
    })?;
    let answer = shown(&made.at(&desk.base));
    unit.commit(answer).await
}

/// `POST /users/{id}/login-link`: a further link; earlier links stay valid.
pub async fn link(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<UserId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    let there = users::find(desk.node.store.api_reader(), None, id.0).await;
    there.map_err(refused)?;
    body.optional_form()?.expect_empty()?;
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let made = users::link(unit.txn(), id.0, linking(&desk, &operator)).await;
    let answer = shown(&made.map_err(refused)?.at(&desk.base));
    unit.commit(answer).await
}

/// The operator passes the link on, so it is not mailed.
fn linking<'a>(desk: &OperatorContext, operator: &'a OperatorRequest) -> LinkOptions<'a> {
    LinkOptions {
        good_for_ms: LINK_MS,
        mail: None,
        by: &operator.origin,
        now: desk.now(),
    }
}

/// The path is the person's: the link itself has none and is shown only here.
fn shown(link: &SignInLink) -> ApiAnswer {
    let path = format!("{OPERATORS_BASE}/users/{}", link.user.id);
    ApiAnswer::created_at(path, link).secret()
}

/// `DELETE /users/{id}`: also ends all sessions and links.
pub async fn remove(
    desk: Data<OperatorContext>,
    operator: OperatorRequest,
    id: Id<UserId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = OperatorUnit::begin(&desk, &operator).await?;
    let removed = users::remove(unit.txn(), id.0, &operator.origin, desk.now()).await;
    removed.map_err(refused)?;
    unit.commit(ApiAnswer::no_content()).await
}
