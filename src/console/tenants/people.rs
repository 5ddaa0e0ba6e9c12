//! A tenant's people: creation, sign-in links and removal.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{Role, Secret, TenantId, UserId};
use maud::{Markup, html};

use super::{
    super::{
        layout,
        list::{List, acted, one_of},
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

const TITLE: &str = "People";
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
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    match content(&visit, id.0, &typed, &FormState::blank()).await {
        Ok(content) => Ok(layout::page(&visit, TITLE, content)),
        Err(error) => {
            let path = path_of(id.0, "/users");
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
    let path = path_of(tenant, "/users");
    let list = List::new(&path, &[], asked);
    let found = members::list(visit.operation(), Id(tenant), list.query_of()?).await?;
    let link = visit.take_note(&note(tenant));
    let mut columns = ["Who", "Role", "Password", "Created"]
        .map(str::to_owned)
        .to_vec();
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |person: &UserView| {
        let mut cells = vec![
            html! { (person.name) br; span.muted { (person.email) } },
            html! { (person.role.as_str()) },
            html! { @if person.has_password { "set" } @else { "not yet" } },
            visit.time(person.created_at),
        ];
        if visit.may_change() {
            cells.push(acts(visit, person));
        }
        cells
    };
    let had = TenantThings {
        title: TITLE,
        columns,
        rows: found.users.iter().map(row).collect(),
        none: (
            "No users",
            "Add a user. The link that is shown then opens the dashboard.",
        ),
        paging: list.paging(found.offset, found.has_more),
        more: ("Add a user", "Add a user"),
        fields: &draft_fields(),
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
            p { strong { "Copy the link now. It is not shown again." } }
            p { "It works once, within 30 minutes. Send it privately to this user." }
            (copyable(visit, "link", "Link", link.expose()))
        },
    )
}

fn draft_fields() -> [Field; 3] {
    let name = Field::text("name", "Name".to_owned());
    [
        Field::email("email", "Email".to_owned()),
        name.hint("Leave empty for the part before the @.".to_owned())
            .optional(),
        Field::select("role", "Role".to_owned(), one_of(Role::WORDS)),
    ]
}

fn acts(visit: &ConsoleView, person: &UserView) -> Markup {
    let path = format!("/users/{}", person.id);
    html! {
        (post(visit, &format!("{path}/login-link"), html! {
            button.secondary type="submit" aria-label={ "Login link for " (person.name) } { "Login link" }
        }))
        a.button.secondary href={ (path) "/remove" } aria-label={ "Remove " (person.name) } { "Remove" }
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
    let made = match form::body(&typed, DRAFT) {
        Ok(body) => members::create(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match made.map_err(beside_the_address) {
        Ok(created) => {
            keep(&visit, &created.value);
            Ok(visit.see(&path_of(tenant, "/users"), "done-user-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, TITLE, content))
        }
    }
}

/// Turns the error of an email address that is in use into an error of its field.
fn beside_the_address(error: ApiError) -> ApiError {
    match error {
        ApiError::UserExists => {
            let sentence = error.to_string();
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
        "done-link-made",
    )
}

/// `GET /users/{id}/remove`
pub async fn ask_remove(visit: ConsoleView, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let person = members::show(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/users/{}/remove", person.id),
        consequences: html! {
            p { strong { (person.name) } " (" (person.email) ") is signed out everywhere and cannot sign in any more. Keys that this person made stay." }
        },
        yes: "Remove this user".to_owned(),
        back: &path_of(person.tenant_id, "/users"),
    };
    Ok(layout::page(
        &visit,
        "Remove this user?",
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
        "done-user-removed",
    )
}
