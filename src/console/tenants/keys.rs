//! A tenant's keys: creation, which shows the key once, and revocation.

use actix_web::HttpResponse;
use dikala_entities::{ApiKeyId, TenantId};
use maud::{Markup, html};

use super::{
    super::{
        layout,
        list::{List, ListRows, acted},
        view::ConsoleView,
    },
    TenantThings, path_of, whose,
};
use crate::{
    http::{error::ApiError, extract::Id},
    operations::keys::{self, KeyView},
    pages::{
        components::{Field, Question, Tone, badge, copyable, notice},
        form::{self, FormState, FormValues},
    },
};

const TITLE: &str = "console-keys";

/// Key of the note that holds a new API key.
fn note(tenant: TenantId) -> String {
    format!("key-of-{tenant}")
}

/// `GET /tenants/{id}/keys`
pub async fn list(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "/keys");
    let content = content(&visit, id.0, &typed, &FormState::blank()).await;
    List::new(&path, &[], &typed).page(&visit, TITLE, &[], content)
}

async fn content(
    visit: &ConsoleView,
    tenant: TenantId,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(tenant, "/keys");
    let list = List::new(&path, &[], asked);
    let found = keys::list(visit.operation(), Id(tenant), list.query_of()?).await?;
    let new = visit.take_note(&note(tenant));
    let mut columns = visit.columns("console-keys-columns");
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |key: &KeyView| {
        let mut cells = vec![
            html! { (key.name) br; code { (key.prefix) "…" } },
            state(visit, key),
            visit.time(key.created_at),
            visit.time_or(key.last_used_at, &visit.t("console-never")),
        ];
        if visit.may_change() {
            cells.push(revoke_link(visit, key));
        }
        cells
    };
    let had = TenantThings {
        rows: ListRows {
            title: TITLE,
            columns,
            rows: found.keys.iter().map(row).collect(),
            none: ("console-no-keys", "console-no-keys-words"),
        },
        paging: list.paging(visit, found.offset, found.has_more),
        more: ("console-create-key", "console-create-key"),
        fields: &[
            Field::text("name", visit.t("console-name")).hint(visit.t("console-key-name-hint"))
        ],
    };
    Ok(html! {
        (whose(visit, tenant).await?)
        @if let Some(new) = &new {
            (notice(Tone::Warning, html! {
                p { strong { (visit.t("console-copy-key")) } }
                (copyable(visit, "key", &visit.t("console-key"), new.expose()))
            }))
        }
        (had.show(visit, &path, filled))
    })
}

fn state(visit: &ConsoleView, key: &KeyView) -> Markup {
    match key.revoked_at {
        Some(at) => {
            html! { (badge(Tone::Plain, &visit.t("console-is-revoked"))) " " (visit.time(at)) }
        }
        None => badge(Tone::Good, &visit.t("console-is-active")),
    }
}

fn revoke_link(visit: &ConsoleView, key: &KeyView) -> Markup {
    html! {
        @if key.revoked_at.is_none() {
            a.button.secondary href={ "/keys/" (key.id) "/revoke" } aria-label=(visit.tn("console-revoke-of", &[("name", key.name.as_str().into())])) { (visit.t("console-revoke")) }
        }
    }
}

/// `POST /tenants/{id}/keys`
pub async fn create(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let tenant = id.0;
    let create =
        async { keys::create(visit.operation(), id, form::body(&typed, keys::FIELDS)?).await };
    match create.await {
        Ok(created) => {
            visit.leave_note(&note(tenant), &created.value.secret());
            Ok(visit.see(&path_of(tenant, "/keys"), "console-done-key-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

/// `GET /keys/{id}/revoke`
pub async fn ask_revoke(visit: ConsoleView, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = keys::show(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/keys/{}/revoke", key.id),
        consequences: html! {
            p {
                (visit.rich("console-revoke-key-words", &[
                    ("name", html! { strong { (key.name) } }), ("prefix", html! { code { (key.prefix) "…" } }),
                ]))
            }
            p { (visit.t("console-revoke-key-final")) }
        },
        yes: visit.t("console-revoke-key"),
        back: &path_of(key.tenant_id, "/keys"),
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-revoke-key-title"),
        question.show(&visit),
    ))
}

/// `POST /keys/{id}/revoke`
pub async fn revoke(visit: ConsoleView, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = keys::show(visit.operation(), id).await?;
    let done = keys::delete(visit.operation(), id).await;
    acted(
        &visit,
        done,
        &path_of(key.tenant_id, "/keys"),
        "console-done-key-revoked",
    )
}
