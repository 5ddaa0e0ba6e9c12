//! A tenant's members: list, invitation, roles and removal.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{OfTenant, Role, Secret, UserId, user};
use maud::{Markup, html};
use sea_orm::{ColumnTrait, DbErr, PaginatorTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    components::{
        Field, Question, Tone, badge, copyable, fields, notice, paging, post, submit, table,
    },
    faults,
    form::{self, Fields, FormState, FormValues, Shape},
    layout,
    view::SignedIn,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody, id},
        field::{FieldCode, FieldError},
    },
    operations::{
        LinkMails, OperationContext,
        members::{self, SignInLink, UserView},
    },
};

/// Owners whose names a viewer is told.
const OWNERS_NAMED: u64 = 3;
const PATH: &str = "/dashboard/settings/members";
const FIELDS: &Fields = &[
    ("email", Shape::Text),
    ("name", Shape::Text),
    ("role", Shape::Text),
];
/// The cursor of the list.
const PLACE: &Fields = &[("before", Shape::Optional)];
/// Maximum number of members of a tenant.
const MEMBERS_MAX: u64 = 100;
/// Members on one page.
const PAGE: usize = 10;
/// Key of the note that holds an invitation's link.
const LINK_NOTE: &str = "invitation";

/// `GET /dashboard/settings/members`
pub async fn list(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let before = form::asked(&request, PLACE)?.read(&[], |form| {
        Some(form.optional("before", None, id("a member")))
    })?;
    let link = visit.take_note(LINK_NOTE).await?;
    let content = content(&visit, before, link.as_ref(), &invitation()).await?;
    Ok(layout::page(&visit, &visit.t("members-title"), content))
}

/// The empty invitation form.
fn invitation() -> FormState {
    FormState::with([("role", Role::Viewer.as_str())])
}

async fn content(
    visit: &SignedIn,
    before: Option<UserId>,
    link: Option<&Secret>,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let mut people = newest(visit, before).await?;
    let has_more = people.len() > PAGE;
    people.truncate(PAGE);
    let last = people.last().map(|last| last.id).filter(|_| has_more);
    let older = last.map(|last| format!("{PATH}?before={last}"));
    let owners = user::Entity::of(visit.tenant()).filter(user::Column::Role.eq(Role::Owner));
    let owners = owners.count(visit.store().api_reader()).await?;
    let mut columns = ["members-name", "members-role", "members-since"]
        .map(|id| visit.t(id))
        .to_vec();
    if visit.is_owner() {
        columns.push(String::new());
    }
    let rows = people
        .iter()
        .map(|person| row(visit, person, owners))
        .collect();
    Ok(html! {
        @if let Some(link) = link {
            (notice(Tone::Good, html! {
                p { strong { (visit.t("members-link-title")) } }
                p { (visit.t("members-link-words")) }
                (copyable(visit, "link", &visit.t("members-link-title"), link.expose()))
            }))
        }
        (table(visit, &visit.t("members-title"), &columns, rows))
        (paging(visit, before.map(|_| PATH), older.as_deref()))
        @if visit.is_owner() {
            section aria-labelledby="invite" {
                h2 #invite { (visit.t("members-invite")) }
                (post(visit, PATH, html! {
                    (fields(visit, filled, &[
                        Field::email("email", visit.t("members-email")),
                        Field::text("name", visit.t("members-name")),
                        Field::select("role", visit.t("members-role"), roles(visit)).hint(visit.t("members-role-hint")),
                    ]))
                    (submit(&visit.t("members-invite-submit")))
                }))
            }
        }
    })
}

/// Members, newest first, at most one more than fit on a page.
async fn newest(visit: &SignedIn, before: Option<UserId>) -> Result<Vec<UserView>, ApiError> {
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut people = user::Entity::of(visit.tenant());
    if let Some(before) = before {
        people = people.filter(user::Column::Id.lt(before));
    }
    let people = people.order_by_desc(user::Column::Id).limit(one_more);
    let rows = people.all(visit.store().api_reader()).await?;
    Ok(rows.into_iter().map(UserView::from).collect())
}

pub fn role_name(visit: &SignedIn, role: Role) -> String {
    match role {
        Role::Owner => visit.t("members-owner"),
        Role::Viewer => visit.t("members-viewer"),
    }
}

fn roles(visit: &SignedIn) -> Vec<(String, String)> {
    let named = |role: &Role| (role.as_str().to_owned(), role_name(visit, *role));
    Role::ALL.iter().map(named).collect()
}

fn row(visit: &SignedIn, person: &UserView, owners: u64) -> Vec<Markup> {
    let is_me = person.id == visit.person().id;
    let is_last_owner = person.role == Role::Owner && owners == 1;
    let who = html! {
        strong { (person.name) }
        @if is_me { " " (badge(Tone::Plain, &visit.t("members-you"))) }
        @if !person.has_password { " " (badge(Tone::Warning, &visit.t("members-no-password"))) }
        br; span.muted { (person.email) }
    };
    let mut cells = vec![
        who,
        role_cell(visit, person, is_last_owner),
        visit.time(person.created_at),
    ];
    if visit.is_owner() {
        cells.push(html! {
            div.row {
                @if !person.has_password && !is_me {
                    (post(visit, &format!("{PATH}/{}/link", person.id), html! {
                        button.secondary type="submit" aria-label=(visit.tn("members-link-of", &[("name", person.name.as_str().into())])) {
                            (visit.t("members-link"))
                        }
                    }))
                }
                @if !is_last_owner {
                    a.button.secondary href={ (PATH) "/" (person.id) "/remove" }
                        aria-label=(visit.tn("members-remove-of", &[("name", person.name.as_str().into())])) {
                        (visit.t("members-remove"))
                    }
                }
            }
        });
    }
    cells
}

fn role_cell(visit: &SignedIn, person: &UserView, is_last_owner: bool) -> Markup {
    if !visit.is_owner() || is_last_owner {
        return html! { (role_name(visit, person.role)) };
    }
    let label = visit.tn("members-role-of", &[("name", person.name.as_str().into())]);
    post(
        visit,
        &format!("{PATH}/{}/role", person.id),
        html! {
            div.row {
                select name="role" aria-label=(label) {
                    @for (value, name) in roles(visit) {
                        option value=(value) selected[value == person.role.as_str()] { (name) }
                    }
                }
                button.secondary type="submit" { (visit.t("page-save")) }
            }
        },
    )
}

/// `POST /dashboard/settings/members`
pub async fn invite(visit: SignedIn, typed: FormValues) -> Result<HttpResponse, ApiError> {
    match make(&visit, &typed).await {
        Ok(true) => Ok(visit.see(PATH, "done-invited-by-mail")),
        Ok(false) => Ok(visit.see(PATH, "done-invited")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, None, None, &filled).await?;
            Ok(layout::refused(&visit, &visit.t("members-title"), content))
        }
    }
}

/// The context of an operation that makes a link. It is mailed if the operator configured mail.
fn linking(visit: &SignedIn) -> OperationContext {
    let mails = visit.state().mail_base().map(|base| LinkMails {
        base: base.to_owned(),
        language: visit.lang().tag(),
    });
    visit.operation().with_base(visit.base()).with_mails(mails)
}

/// Creates a member. Returns true if the link is mailed.
async fn make(visit: &SignedIn, typed: &FormValues) -> Result<bool, ApiError> {
    let refused = |code, sentence| ApiError::field(FieldError::translated("email", code, sentence));
    let body = form::body(typed, FIELDS)?;
    let members = user::Entity::of(visit.tenant()).count(visit.store().api_reader());
    if members.await? >= MEMBERS_MAX {
        let many = [("most", MEMBERS_MAX.into())];
        let sentence = visit.tn("members-too-many", &many);
        return Err(refused(FieldCode::TooLarge, sentence));
    }
    let created = members::create(linking(visit), Id(visit.tenant()), body).await;
    let link = created.map_err(|error| match error {
        ApiError::UserExists => refused(FieldCode::Duplicate, visit.t("members-email-taken")),
        error => error,
    })?;
    keep(visit, &link.value).await?;
    Ok(link.value.is_mailed)
}

/// Stores the new link for the next page.
async fn keep(visit: &SignedIn, link: &SignInLink) -> Result<(), ApiError> {
    let url = Secret::new(link.url.as_str());
    visit.leave_note(LINK_NOTE, &url).await
}

/// `POST /dashboard/settings/members/{id}/link`: a new link for a member without a password. For other members it
/// would allow the owner to act in their name.
pub async fn link(visit: SignedIn, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let member = members::show(visit.operation(), id).await?;
    if member.has_password {
        return refused(&visit, html! { p { (visit.t("members-has-password")) } }).await;
    }
    let link = members::link(linking(&visit), id, RequestBody::default()).await?;
    keep(&visit, &link.value).await?;
    let done = match link.value.is_mailed {
        true => "done-link-mailed",
        false => "done-link-made",
    };
    Ok(visit.see(PATH, done))
}

/// `POST /dashboard/settings/members/{id}/role`
pub async fn change_role(
    visit: SignedIn,
    id: Id<UserId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let changed = match form::body(&typed, &[("role", Shape::Text)]) {
        Ok(body) => members::change_role(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match changed {
        Err(error @ ApiError::Validation(_)) => {
            let why =
                html! { p { (visit.t("members-role")) ":" } (faults::refusal(&visit, &error)) };
            refused(&visit, why).await
        }
        changed => answer(&visit, changed.map(drop), "done-role-changed").await,
    }
}

/// `GET /dashboard/settings/members/{id}/remove`
pub async fn ask_remove(visit: SignedIn, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let person = members::show(visit.operation(), id).await?;
    let title = visit.tn(
        "members-remove-title",
        &[("name", person.name.as_str().into())],
    );
    let question = Question {
        path: &format!("{PATH}/{}/remove", person.id),
        consequences: html! {
            p { (visit.tn("members-remove-words", &[("email", person.email.to_string().into())])) }
            p { (visit.t("members-remove-keys")) }
        },
        yes: visit.t("members-remove"),
        back: PATH,
    };
    Ok(layout::page(&visit, &title, question.show(&visit)))
}

/// `POST /dashboard/settings/members/{id}/remove`
pub async fn remove(visit: SignedIn, id: Id<UserId>) -> Result<HttpResponse, ApiError> {
    let removed = members::delete(visit.operation(), id).await;
    answer(&visit, removed.map(drop), "done-member-removed").await
}

/// The list again, with a confirmation, or with the reason why the last owner stays.
async fn answer(
    visit: &SignedIn,
    changed: Result<(), ApiError>,
    done: &'static str,
) -> Result<HttpResponse, ApiError> {
    match changed {
        Ok(()) => Ok(visit.see(PATH, done)),
        Err(ApiError::LastOwner) => {
            refused(visit, html! { p { (visit.t("members-last-owner")) } }).await
        }
        Err(error) => Err(error),
    }
}

/// The list again, below the reason for the refusal.
async fn refused(visit: &SignedIn, why: Markup) -> Result<HttpResponse, ApiError> {
    let list = content(visit, None, None, &invitation()).await?;
    let content = html! {
        (notice(Tone::Bad, html! { div role="alert" { (why) } }))
        (list)
    };
    Ok(layout::refused(visit, &visit.t("members-title"), content))
}

/// A line for members who may look only, with the names of those who may change things.
pub async fn who_may_change(visit: &SignedIn) -> Result<Markup, DbErr> {
    let owners: Vec<String> = user::Entity::of(visit.tenant())
        .filter(user::Column::Role.eq(Role::Owner))
        .order_by_asc(user::Column::Id)
        .select_only()
        .column(user::Column::Name)
        .limit(OWNERS_NAMED + 1)
        .into_tuple()
        .all(visit.store().api_reader())
        .await?;
    let named = usize::try_from(OWNERS_NAMED).unwrap_or(usize::MAX);
    let mut names = owners[..owners.len().min(named)].join(", ");
    if owners.len() > named {
        names.push('…');
    }
    let words = match owners.is_empty() {
        true => visit.t("page-look-nobody"),
        false => visit.tn("page-look-only", &[("owners", names.as_str().into())]),
    };
    Ok(html! { p.hint { (words) } })
}
