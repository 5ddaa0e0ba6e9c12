//! API keys: who made them and when they were used, making one, revoking one. A key itself is shown once.

use actix_web::HttpResponse;
use dikala_entities::{ApiKeyId, Secret};
use maud::{Markup, html};

use super::{
    components::{
        Field, Question, Tone, badge, copyable, empty, fields, notice, post, submit, table,
    },
    form::{self, Fields, Filled, Shape, Typed},
    layout,
    view::Visit,
};
use crate::{
    admin::{
        NAME_CHARS_MAX,
        keys::{self, KeyView},
        users::{self, UserView},
    },
    http::{
        error::{ApiError, Missing},
        extract::{Id, line},
        field::{FieldCode, FieldError},
    },
};

const PATH: &str = "/dashboard/settings/keys";
const FIELDS: &Fields = &[("name", Shape::Text)];
/// Keys of a tenant that are in force, as far as they are made here.
const KEYS_MAX: usize = 100;
/// Revoked keys that are listed, the last ones.
const REVOKED_MAX: usize = 20;

/// `GET /dashboard/settings/keys`
pub async fn list(visit: Visit) -> Result<HttpResponse, ApiError> {
    let content = content(&visit, &Filled::blank()).await?;
    Ok(layout::page(&visit, &visit.t("keys-title"), content))
}

async fn content(visit: &Visit, filled: &Filled) -> Result<Markup, ApiError> {
    let mut all = keys::list(visit.store(), visit.tenant()).await?;
    let people = users::list(visit.store(), visit.tenant()).await?;
    all.reverse();
    let (revoked, in_force): (Vec<KeyView>, Vec<KeyView>) =
        all.into_iter().partition(|key| key.revoked_at.is_some());
    Ok(html! {
        p.lead { (visit.t("keys-words")) }
        @if in_force.is_empty() {
            (empty(&visit.t("keys-none"), &visit.t("keys-none-words"), html! {}))
        } @else {
            (key_table(visit, &in_force, &people))
        }
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
                (revoked_table(visit, &revoked[..revoked.len().min(REVOKED_MAX)], &people))
            }
        }
    })
}

/// Who made a key: a person, one who is not there any more, or an operator.
fn maker(visit: &Visit, key: &KeyView, people: &[UserView]) -> String {
    match key.made_by {
        None => visit.t("keys-by-operator"),
        Some(id) => people
            .iter()
            .find(|person| person.id == id)
            .map_or_else(|| visit.t("keys-by-former"), |person| person.name.clone()),
    }
}

fn name_cell(key: &KeyView) -> Markup {
    html! { a href={ (PATH) "/" (key.id) } { (key.name) } br; code { (key.prefix) "…" } }
}

fn key_table(visit: &Visit, keys: &[KeyView], people: &[UserView]) -> Markup {
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

fn revoked_table(visit: &Visit, keys: &[KeyView], people: &[UserView]) -> Markup {
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
pub async fn create(visit: Visit, typed: Typed) -> Result<HttpResponse, ApiError> {
    match make(&visit, &typed).await {
        Ok(id) => Ok(visit.see(&format!("{PATH}/{id}"), "done-key-made")),
        Err(error) => {
            let filled = Filled::again(typed, error)?;
            let content = content(&visit, &filled).await?;
            Ok(layout::refused(&visit, &visit.t("keys-title"), content))
        }
    }
}

async fn make(visit: &Visit, typed: &Typed) -> Result<ApiKeyId, ApiError> {
    let name = form::read(typed, FIELDS)?.read(&[], |form| {
        form.required("name", None, line(NAME_CHARS_MAX))
    })?;
    let there = keys::list(visit.store(), visit.tenant()).await?;
    if there.iter().filter(|key| key.revoked_at.is_none()).count() >= KEYS_MAX {
        let most = [("most", KEYS_MAX.into())];
        let sentence = visit.tn("keys-too-many", &most);
        let fault = FieldError::translated("name", FieldCode::TooLarge, sentence);
        return Err(ApiError::field(fault));
    }
    let by = visit.origin();
    let made = keys::create(visit.store(), visit.tenant(), &name, &by, visit.now()).await?;
    let note = Secret::new(made.key);
    visit.leave_note(&made.view.id.to_string(), &note).await?;
    Ok(made.view.id)
}

async fn find(visit: &Visit, id: ApiKeyId) -> Result<KeyView, ApiError> {
    let keys = keys::list(visit.store(), visit.tenant()).await?;
    let found = keys.into_iter().find(|key| key.id == id);
    found.ok_or(ApiError::NotFound(Missing::Route))
}

/// `GET /dashboard/settings/keys/{id}`
pub async fn show(visit: Visit, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = find(&visit, id.0).await?;
    let people = users::list(visit.store(), visit.tenant()).await?;
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

/// The key, which nobody sees again, and a line that works as it stands.
fn shown_once(visit: &Visit, key: &Secret) -> Markup {
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
pub async fn ask_revoke(visit: Visit, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = find(&visit, id.0).await?;
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
pub async fn revoke(visit: Visit, id: Id<ApiKeyId>) -> Result<HttpResponse, ApiError> {
    let key = find(&visit, id.0).await?;
    keys::revoke(visit.store(), key.id, &visit.origin(), visit.now()).await?;
    visit.services().http.gate.forget_keys();
    Ok(visit.see(PATH, "done-key-revoked"))
}
