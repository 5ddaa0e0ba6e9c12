//! Sign-in links. Opening a link only shows a button, because mail scanners follow links but press no buttons.

use actix_web::{
    HttpRequest, HttpResponse,
    http::{StatusCode, header::SET_COOKIE},
    web,
};
use dikala_entities::{AuditAction, LOGIN_LINK_SCHEME, Millis, login_link, tenant, user};
use maud::html;
use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter, sea_query::Expr};

use super::{
    components::{post, submit},
    errors, layout, session,
    view::DashboardView,
};
use crate::{
    audit::AuditChange, http::error::ApiError, operations::members::LINK_PATH,
    pages::cookie::CLOCKS_APART_MS,
};

/// The link, its person and tenant, if the link is still valid.
async fn find(
    db: &impl ConnectionTrait,
    token: &str,
    now: Millis,
) -> Result<Option<(login_link::Model, user::Model, tenant::Model)>, DbErr> {
    let Some(token) = LOGIN_LINK_SCHEME.parse(token) else {
        return Ok(None);
    };
    let link = login_link::Entity::find_by_id(token.hash()).one(db).await?;
    let made_by = now.plus_ms(CLOCKS_APART_MS);
    let is_good = |link: &login_link::Model| {
        link.consumed_at.is_none() && link.expires_at > now && link.created_at <= made_by
    };
    let Some(link) = link.filter(is_good) else {
        return Ok(None);
    };
    let Some(person) = user::Entity::find_by_id(link.user_id).one(db).await? else {
        return Ok(None);
    };
    let tenant = tenant::Entity::find_by_id(person.tenant_id).one(db).await?;
    Ok(tenant.map(|tenant| (link, person, tenant)))
}

/// The page for a link that was used, has expired, or never existed.
fn used(view: &DashboardView) -> HttpResponse {
    let words = html! { p { (view.t("error-link-words")) } };
    errors::outside(view, StatusCode::GONE, "error-link", words)
}

/// `GET /dashboard/link/{token}`
pub async fn show(view: DashboardView, token: web::Path<String>) -> Result<HttpResponse, ApiError> {
    let found = find(view.store().reader(), &token, view.now()).await?;
    let Some((link, person, tenant)) = found else {
        return Ok(used(&view));
    };
    let title = view.tn("link-title", &[("tenant", tenant.name.into())]);
    let content = html! {
        h1 { (title) }
        p.lead { (view.tn("link-words", &[("email", person.email.to_string().into())])) }
        (post(&view, &format!("{LINK_PATH}{}", *token), submit(&view.t("link-submit"))))
        p.muted { (view.t("link-once")) " " (view.time(link.expires_at)) }
    };
    Ok(layout::outside(&view, StatusCode::OK, &title, content))
}

/// `POST /dashboard/link/{token}`
pub async fn consume(
    view: DashboardView,
    request: HttpRequest,
    token: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    let now = view.now();
    // A request without a valid link must not cause a write.
    if find(view.store().reader(), &token, now).await?.is_none() {
        return Ok(used(&view));
    }
    let txn = view.store().begin().await?;
    let Some((link, person, _)) = find(&txn, &token, now).await? else {
        return Ok(used(&view));
    };
    let Some((person, tenant)) = session::hold(&txn, &person).await? else {
        return Ok(used(&view));
    };
    if tenant.suspended_at.is_some() {
        return Err(ApiError::TenantSuspended);
    }
    // If two requests use the link at once, only one of them consumes it.
    let consumed = login_link::Entity::update_many()
        .col_expr(login_link::Column::ConsumedAt, Expr::value(now))
        .filter(login_link::Column::Hash.eq(link.hash))
        .filter(login_link::Column::ConsumedAt.is_null())
        .exec(&txn)
        .await?;
    if consumed.rows_affected != 1 {
        return Ok(used(&view));
    }
    let state = view.state();
    let token = session::begin(&txn, state, &request, &person, true).await?;
    let change = AuditChange::new(AuditAction::UserSignIn, person.id).with("link");
    let by = view.origin_of(person.id);
    by.write(&txn, person.tenant_id, change, now).await?;
    txn.commit().await?;
    tracing::info!(user = %person.id, tenant = %person.tenant_id, "signed in with a one-time link");
    let mut response = view.go("/dashboard/password");
    let cookie = session::cookie(state, &token, true);
    response.headers_mut().insert(SET_COOKIE, cookie);
    Ok(response)
}
