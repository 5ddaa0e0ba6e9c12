//! A tenant's keys: creation, which shows the key once, and revocation.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{ApiKeyId, TenantId};
use maud::{Markup, html};

use super::{
    super::{
        layout,
        list::{List, acted},
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

const TITLE: &str = "Keys";

/// Key of the note that holds a new API key.
fn note(tenant: TenantId) -> String {
    format!("key-of-{tenant}")
}

/// `GET /tenants/{id}/keys`
pub async fn list(
    visit: ConsoleView,
    id: Id<TenantId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    match content(&visit, id.0, &typed, &FormState::blank()).await {
        Ok(content) => Ok(layout::page(&visit, TITLE, content)),
        Err(error) => {
            let path = path_of(id.0, "/keys");
            List::new(&path, &[], &typed).refused(&visit, TITLE, error, &[])
        }
    }
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
    let mut columns = ["Key", "Status", "Created", "Last used"]
        .map(str::to_owned)
        .to_vec();
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |key: &KeyView| {
        let mut cells = vec![
            html! { (key.name) br; code { (key.prefix) "…" } },
            state(visit, key),
            visit.time(key.created_at),
            visit.time_or(key.last_used_at, "never"),
        ];
        if visit.may_change() {
            cells.push(revoke_link(key));
        }
        cells
    };
    let had = TenantThings {
        title: TITLE,
        columns,
        rows: found.keys.iter().map(row).collect(),
        none: (
            "No keys",
            "Programs of this tenant need a key to use the API.",
        ),
        paging: list.paging(found.offset, found.has_more),
        more: ("Create a key", "Create a key"),
        fields: &[Field::text("name", "Name".to_owned())
            .hint("For example: Bandung cash register.".to_owned())],
    };
    Ok(html! {
        (whose(visit, tenant).await?)
        @if let Some(new) = &new {
            (notice(Tone::Warning, html! {
                p { strong { "Copy the key now. It is not shown again." } }
                (copyable(visit, "key", "Key", new.expose()))
            }))
        }
        (had.show(visit, &path, filled))
    })
}

fn state(visit: &ConsoleView, key: &KeyView) -> Markup {
    match key.revoked_at {
        Some(at) => html! { (badge(Tone::Plain, "revoked")) " " (visit.time(at)) },
        None => badge(Tone::Good, "active"),
    }
}

fn revoke_link(key: &KeyView) -> Markup {
    html! {
        @if key.revoked_at.is_none() {
            a.button.secondary href={ "/keys/" (key.id) "/revoke" } aria-label={ "Revoke " (key.name) } { "Revoke" }
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
    let created = match form::body(&typed, keys::FIELDS) {
        Ok(body) => keys::create(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(created) => {
            visit.leave_note(&note(tenant), &created.value.secret());
            Ok(visit.see(&path_of(tenant, "/keys"), "done-key-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, TITLE, content))
        }
    }
}

/// `GET /keys/{id}/revoke`
pub async fn ask_revoke(visit: ConsoleView, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = keys::show(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/keys/{}/revoke", key.id),
        consequences: html! {
            p { "Requests with " strong { (key.name) } " (" code { (key.prefix) "…" } ") are refused from the next one on." }
            p { "You cannot undo this. Create another key first if one is still needed." }
        },
        yes: "Revoke this key".to_owned(),
        back: &path_of(key.tenant_id, "/keys"),
    };
    Ok(layout::page(
        &visit,
        "Revoke this key?",
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
        "done-key-revoked",
    )
}
