//! A tenant's people: creation, sign-in links and removal.

use actix_web::HttpResponse;
use dikala_entities::{Role, Secret, TenantId, UserId};
use maud::{Markup, html};

use super::{
    super::{
        layout,
        list::{List, ListRows, acted, one_of, word},
        view::ConsoleView,
    },
    TenantThings, path_of, whose,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
        field::{FieldCode, FieldError},
    },
    operations::members::{self, SignInLink, UserView},
    pages::{
        components::{Field, Question, Tone, copyable, notice, post},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const TITLE: &str = "console-people";
const DRAFT: &Fields = &[
    ("email", Shape::Text),
    ("name", Shape::Optional),
    ("role", Shape::Optional),
];

/// Key of the note that holds a new link.
fn note(tenant: TenantId) -> String {
    format!("link-of-{tenant}")
}

/// `GET /tenants/{id}/users`
pub async fn list(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "/users");
    let content = content(&visit, id.0, &typed, &FormState::blank()).await;
    List::new(&path, &[], &typed).page(&visit, TITLE, &[], content)
}

async fn content(
    visit: &ConsoleView,
    tenant: TenantId,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(tenant, "/users");
    let list = List::new(&path, &[], asked);
    let found = members::list(visit.operation(), Id(tenant), list.query_of()?).await?;
    let link = visit.take_note(&note(tenant));
    let mut columns = visit.columns("console-people-columns");
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |person: &UserView| {
        let mut cells = vec![
            html! { (person.name) br; span.muted { (person.email) } },
            html! { (word(visit, person.role.as_str())) },
            html! { @if person.has_password { (visit.t("console-password-set")) } @else { (visit.t("console-password-unset")) } },
            visit.time(person.created_at),
        ];
        if visit.may_change() {
            cells.push(acts(visit, person));
        }
        cells
    };
    let had = TenantThings {
        rows: ListRows {
            title: TITLE,
            columns,
            rows: found.users.iter().map(row).collect(),
            none: ("console-no-users", "console-no-users-words"),
        },
        paging: list.paging(visit, found.offset, found.has_more),
        more: ("console-add-user", "console-add-user"),
        fields: &draft_fields(visit),
    };
    Ok(html! {
        (whose(visit, tenant).await?)
        @if let Some(link) = &link { (shown_once(visit, link)) }
        (had.show(visit, &path, filled))
    })
}

fn shown_once(visit: &ConsoleView, link: &Secret) -> Markup {
    notice(
        Tone::Warning,
        html! {
            p { strong { (visit.t("console-copy-link")) } }
            p { (visit.t("console-copy-link-words")) }
            (copyable(visit, "link", &visit.t("console-link"), link.expose()))
        },
    )
}

fn draft_fields(visit: &ConsoleView) -> [Field; 3] {
    let name = Field::text("name", visit.t("console-name"));
    [
        Field::email("email", visit.t("console-email")),
        name.hint(visit.t("console-user-name-hint")).optional(),
        Field::select("role", visit.t("console-role"), one_of(visit, Role::WORDS)),
    ]
}

fn acts(visit: &ConsoleView, person: &UserView) -> Markup {
    let path = format!("/users/{}", person.id);
    let label = |id| visit.tn(id, &[("name", person.name.as_str().into())]);
    html! {
        (post(visit, &format!("{path}/login-link"), html! {
            button.secondary type="submit" aria-label=(label("console-login-link-of")) { (visit.t("console-login-link")) }
        }))
        a.button.secondary href={ (path) "/remove" } aria-label=(label("console-remove-of")) { (visit.t("console-remove")) }
    }
}

/// Stores the new link for the next page.
fn keep(visit: &ConsoleView, link: &SignInLink) {
    let url = Secret::new(link.url.as_str());
    visit.leave_note(&note(link.user.tenant_id), &url);
}

/// `POST /tenants/{id}/users`
pub async fn create(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let tenant = id.0;
    let create = async { members::create(visit.operation(), id, form::body(&typed, DRAFT)?).await };
    match create
        .await
        .map_err(|error| beside_the_address(&visit, error))
    {
        Ok(created) => {
            keep(&visit, &created.value);
            Ok(visit.see(&path_of(tenant, "/users"), "console-done-user-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

/// Turns the error of an email address that is in use into an error of its field.
fn beside_the_address(visit: &ConsoleView, error: ApiError) -> ApiError {
    match error {
        ApiError::UserExists => {
            let sentence = visit.t("console-email-taken");
            ApiError::field(FieldError::translated(
                "email",
                FieldCode::Duplicate,
                sentence,
            ))
        }
        other => other,
    }
}

/// `POST /users/{id}/login-link`
pub async fn link(visit: ConsoleView, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let person = members::show(visit.operation(), id).await?;
    let made = members::link(visit.operation(), id, RequestBody::default()).await;
    if let Ok(created) = &made {
        keep(&visit, &created.value);
    }
    acted(
        &visit,
        made,
        &path_of(person.tenant_id, "/users"),
        "console-done-link-made",
    )
}

/// `GET /users/{id}/remove`
pub async fn ask_remove(visit: ConsoleView, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let person = members::show(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/users/{}/remove", person.id),
        consequences: html! {
            p {
                (visit.rich("console-remove-user-words", &[
                    ("name", html! { strong { (person.name) } }), ("email", html! { (person.email) }),
                ]))
            }
        },
        yes: visit.t("console-remove-user"),
        back: &path_of(person.tenant_id, "/users"),
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-remove-user-title"),
        question.show(&visit),
    ))
}

/// `POST /users/{id}/remove`
pub async fn remove(visit: ConsoleView, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let person = members::show(visit.operation(), id).await?;
    let done = members::delete(visit.operation(), id).await;
    acted(
        &visit,
        done,
        &path_of(person.tenant_id, "/users"),
        "console-done-user-removed",
    )
}
