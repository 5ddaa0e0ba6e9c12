//! API keys: list with creators and last use, creation and revocation. A key itself is shown once.

use std::collections::HashMap;

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{ApiKeyId, OfTenant, Secret, UserId, api_key};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select};

use super::{
    components::{
        Field, Question, Tone, badge, copyable, empty, fields, notice, paging, post, submit, table,
    },
    form::{self, Fields, FormState, FormValues, Shape},
    layout, names,
    view::SignedIn,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, id},
        field::{FieldCode, FieldError},
    },
    operations::keys::{self, KeyView},
};

const PATH: &str = "/dashboard/settings/keys";
/// The cursor of the list.
const PLACE: &Fields = &[("before", Shape::Optional)];
/// Active keys that a tenant may have when it creates one on this page.
const KEYS_MAX: u64 = 100;
/// Active keys on one page.
const PAGE: usize = 20;
/// Latest revoked keys, shown below the first page of active ones.
const REVOKED_MAX: u64 = 10;

/// `GET /dashboard/settings/keys`
pub async fn list(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let before = form::asked(&request, PLACE)?
        .read(&[], |form| Some(form.optional("before", None, id("a key"))))?;
    let content = content(&visit, before, &FormState::blank()).await?;
    Ok(layout::page(&visit, &visit.t("keys-title"), content))
}

async fn content(
    visit: &SignedIn,
    before: Option<ApiKeyId>,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut page = in_force(visit);
    if let Some(before) = before {
        page = page.filter(api_key::Column::Id.lt(before));
    }
    let mut in_force = newest(visit, page, one_more).await?;
    let has_more = in_force.len() > PAGE;
    in_force.truncate(PAGE);
    let last = in_force.last().map(|last| last.id).filter(|_| has_more);
    let older = last.map(|last| format!("{PATH}?before={last}"));
    let revoked = match before {
        None => newest(visit, revoked(visit), REVOKED_MAX).await?,
        Some(_) => Vec::new(),
    };
    let people = makers(visit, in_force.iter().chain(&revoked)).await?;
    Ok(html! {
        p.lead { (visit.t("keys-words")) }
        @if in_force.is_empty() {
            (empty(&visit.t("keys-none"), &visit.t("keys-none-words"), html! {}))
        } @else {
            (key_table(visit, &in_force, &people))
        }
        (paging(visit, before.map(|_| PATH), older.as_deref()))
        @if visit.is_owner() {
            section aria-labelledby="make" {
                h2 #make { (visit.t("keys-make")) }
                (post(visit, PATH, html! {
                    (fields(visit, filled, &[Field::text("name", visit.t("keys-name")).hint(visit.t("keys-name-hint"))]))
                    (submit(&visit.t("keys-make-submit")))
                }))
            }
        }
        @if !revoked.is_empty() {
            section aria-labelledby="revoked" {
                h2 #revoked { (visit.t("keys-revoked")) }
                (revoked_table(visit, &revoked, &people))
            }
        }
    })
}

fn in_force(visit: &SignedIn) -> Select<api_key::Entity> {
    api_key::Entity::of(visit.tenant()).filter(api_key::Column::RevokedAt.is_null())
}

fn revoked(visit: &SignedIn) -> Select<api_key::Entity> {
    api_key::Entity::of(visit.tenant()).filter(api_key::Column::RevokedAt.is_not_null())
}

/// The newest of these keys, at most `most`.
async fn newest(
    visit: &SignedIn,
    keys: Select<api_key::Entity>,
    most: u64,
) -> Result<Vec<KeyView>, ApiError> {
    let newest = keys.order_by_desc(api_key::Column::Id).limit(most);
    let rows = newest.all(visit.store().api_reader()).await?;
    Ok(rows.into_iter().map(KeyView::from).collect())
}

/// Names of the keys' creators that still exist.
type Makers = HashMap<UserId, String>;

async fn makers(
    visit: &SignedIn,
    keys: impl IntoIterator<Item = &KeyView>,
) -> Result<Makers, ApiError> {
    let ids = keys.into_iter().filter_map(|key| key.made_by);
    Ok(names::of_people(visit, ids).await?)
}

/// The creator of a key: a person, a removed person, or an operator.
fn maker(visit: &SignedIn, key: &KeyView, people: &Makers) -> String {
    match key.made_by {
        None => visit.t("keys-by-operator"),
        Some(id) => match people.get(&id) {
            Some(name) => name.clone(),
            None => visit.t("keys-by-former"),
        },
    }
}

fn name_cell(key: &KeyView) -> Markup {
    html! { a href={ (PATH) "/" (key.id) } { (key.name) } br; code { (key.prefix) "…" } }
}

fn key_table(visit: &SignedIn, keys: &[KeyView], people: &Makers) -> Markup {
    let columns = ["keys-key", "keys-made", "keys-made-by", "keys-used"];
    let mut columns = columns.map(|id| visit.t(id)).to_vec();
    if visit.is_owner() {
        columns.push(String::new());
    }
    let row = |key: &KeyView| {
        let mut cells = vec![
            name_cell(key),
            visit.time(key.created_at),
            html! { (maker(visit, key, people)) },
            visit.time_or(key.last_used_at, &visit.t("keys-never-used")),
        ];
        if visit.is_owner() {
            cells.push(html! {
                a.button.secondary href={ (PATH) "/" (key.id) "/revoke" }
                    aria-label=(visit.tn("keys-revoke-of", &[("name", key.name.as_str().into())])) {
                    (visit.t("keys-revoke"))
                }
            });
        }
        cells
    };
    table(
        visit,
        &visit.t("keys-title"),
        &columns,
        keys.iter().map(row).collect(),
    )
}

fn revoked_table(visit: &SignedIn, keys: &[KeyView], people: &Makers) -> Markup {
    let columns = ["keys-key", "keys-made", "keys-made-by", "keys-revoked-at"];
    let columns = columns.map(|id| visit.t(id));
    let row = |key: &KeyView| {
        vec![
            name_cell(key),
            visit.time(key.created_at),
            html! { (maker(visit, key, people)) },
            visit.time_or(key.revoked_at, ""),
        ]
    };
    table(
        visit,
        &visit.t("keys-revoked"),
        &columns,
        keys.iter().map(row).collect(),
    )
}

/// `POST /dashboard/settings/keys`
pub async fn create(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    match make(&visit, &typed).await {
        Ok(id) => Ok(visit.see(&format!("{PATH}/{id}"), "done-key-made")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, None, &filled).await?;
            Ok(layout::refused(&visit, &visit.t("keys-title"), content))
        }
    }
}

async fn make(visit: &SignedIn, typed: &FormValues) -> Result<ApiKeyId, ApiError> {
    let body = form::body(typed, keys::FIELDS)?;
    if in_force(visit).count(visit.store().api_reader()).await? >= KEYS_MAX {
        let most = [("most", KEYS_MAX.into())];
        let sentence = visit.tn("keys-too-many", &most);
        let fault = FieldError::translated("name", FieldCode::TooLarge, sentence);
        return Err(ApiError::field(fault));
    }
    let created = keys::create(visit.operation(), Id(visit.tenant()), body).await?;
    let id = created.value.view.id;
    let secret = created.value.secret();
    visit.leave_note(&id.to_string(), &secret).await?;
    Ok(id)
}

/// `GET /dashboard/settings/keys/{id}`
pub async fn show(visit: SignedIn, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = keys::show(visit.operation(), id).await?;
    let people = makers(&visit, [&key]).await?;
    let new = visit.take_note(&key.id.to_string()).await?;
    let is_revoked = key.revoked_at.is_some();
    let content = html! {
        @if let Some(new) = &new { (shown_once(&visit, new)) }
        dl.facts {
            dt { (visit.t("keys-state")) }
            dd {
                @if is_revoked { (badge(Tone::Bad, &visit.t("keys-is-revoked"))) " " (visit.time_or(key.revoked_at, "")) }
                @else { (badge(Tone::Good, &visit.t("keys-in-force"))) }
            }
            dt { (visit.t("keys-begins")) } dd { code { (key.prefix) "…" } }
            dt { (visit.t("keys-made")) } dd { (visit.time(key.created_at)) }
            dt { (visit.t("keys-made-by")) } dd { (maker(&visit, &key, &people)) }
            dt { (visit.t("keys-used")) } dd { (visit.time_or(key.last_used_at, &visit.t("keys-never-used"))) }
        }
        div.actions {
            @if visit.is_owner() && !is_revoked {
                a.button.secondary href={ (PATH) "/" (key.id) "/revoke" } { (visit.t("keys-revoke")) }
            }
            a.button.secondary href=(PATH) { (visit.t("keys-all")) }
        }
    };
    Ok(layout::page(&visit, &key.name, content))
}

/// The new key, which is never shown again, and a command that uses it.
fn shown_once(visit: &SignedIn, key: &Secret) -> Markup {
    let line = format!(
        "curl -s {}/api/v1/agents -H 'x-api-key: {}'",
        visit.base(),
        key.expose()
    );
    notice(
        Tone::Warning,
        html! {
            p { strong { (visit.t("keys-once")) } }
            p { (visit.t("keys-once-words")) }
            (copyable(visit, "key", &visit.t("keys-key"), key.expose()))
            p { (visit.t("keys-try")) }
            (copyable(visit, "line", &visit.t("keys-line"), &line))
        },
    )
}

/// `GET /dashboard/settings/keys/{id}/revoke`
pub async fn ask_revoke(visit: SignedIn, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = keys::show(visit.operation(), id).await?;
    if key.revoked_at.is_some() {
        return Ok(visit.go(&format!("{PATH}/{}", key.id)));
    }
    let title = visit.tn("keys-revoke-title", &[("name", key.name.as_str().into())]);
    let question = Question {
        path: &format!("{PATH}/{}/revoke", key.id),
        consequences: html! {
            p { (visit.t("keys-revoke-words")) " " code { (key.prefix) "…" } }
            p {
                (visit.t("keys-used")) ": "
                (visit.time_or(key.last_used_at, &visit.t("keys-never-used")))
            }
            p { (visit.t("keys-revoke-final")) }
        },
        yes: visit.t("keys-revoke"),
        back: PATH,
    };
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/settings/keys/{id}/revoke`
pub async fn revoke(visit: SignedIn, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    keys::revoke(visit.operation(), id).await?;
    Ok(visit.see(PATH, "done-key-revoked"))
}
