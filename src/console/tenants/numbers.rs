//! A tenant's numbers: assignment, changes, moves and removal. Numbers are masked; operators know them by their
//! labels.

use actix_web::HttpResponse;
use dikala_entities::{PhoneNumberId, TenantId};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        figures::NONE,
        layout,
        list::{List, ListRows, acted},
        view::ConsoleView,
    },
    TenantThings, path_of, whose,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, OperatorQuery, RequestBody},
        field::{FieldCode, FieldError},
    },
    operations::numbers::{self, CHANGES, FIELDS, NumberView},
    pages::{
        components::{Field, Question, Tone, badge, fields, post, short_id, submit},
        form::{self, FormState, FormValues},
    },
};

const TITLE: &str = "console-numbers";
const CHANGE: &str = "console-change-number";

/// `GET /tenants/{id}/numbers`
pub async fn list(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let path = path_of(id.0, "/numbers");
    let content = content(&visit, id.0, &typed, &FormState::blank()).await;
    List::new(&path, &[], &typed).page(&visit, TITLE, &[], content)
}

async fn content(
    visit: &ConsoleView,
    tenant: TenantId,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(tenant, "/numbers");
    let whose = whose(visit, tenant).await?;
    let list = List::new(&path, &[], asked);
    let asked = list.form_with(&[("tenantId", tenant.to_string())])?;
    let found = numbers::list(visit.operation(), OperatorQuery(asked)).await?;
    let columns = visit.columns("console-numbers-columns");
    let row = |number: &NumberView| {
        vec![
            html! {
                @if visit.may_change() { a href={ "/numbers/" (number.id) } { (number.label) } }
                @else { (number.label) }
            },
            html! { (format!("{:?}", number.did)) },
            state(visit, number),
            html! { @match number.agent_id { Some(agent) => (short_id(&agent.to_string())), None => { (NONE) } } },
        ]
    };
    let had = TenantThings {
        rows: ListRows {
            title: TITLE,
            columns,
            rows: found.numbers.iter().map(row).collect(),
            none: ("console-no-numbers", "console-no-numbers-words"),
        },
        paging: list.paging(visit, found.offset, found.has_more),
        more: ("console-add-a-number", "console-add-number"),
        fields: &[
            Field::text("did", visit.t("console-number"))
                .hint(visit.t("console-with-country-code")),
            Field::text("label", visit.t("console-label")),
        ],
    };
    Ok(html! { (whose) (had.show(visit, &path, filled)) })
}

fn state(visit: &ConsoleView, number: &NumberView) -> Markup {
    match number.is_active {
        true => badge(Tone::Good, &visit.t("console-is-active")),
        false => badge(Tone::Plain, &visit.t("console-is-off")),
    }
}

/// `POST /tenants/{id}/numbers`
pub async fn create(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let create = async { numbers::create(visit.operation(), draft(&typed, id.0)?).await };
    match create
        .await
        .map_err(|error| beside_the_number(&visit, error))
    {
        Ok(_) => Ok(visit.see(&path_of(id.0, "/numbers"), "console-done-number-given")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, id.0, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

fn draft(typed: &FormValues, tenant: TenantId) -> Result<RequestBody, ApiError> {
    let mut draft = form::object(typed, FIELDS)?;
    draft.insert("tenantId".to_owned(), tenant.to_string().into());
    Ok(RequestBody::of(Value::Object(draft)))
}

/// Turns the error of a number that is in use into an error of its field.
fn beside_the_number(visit: &ConsoleView, error: ApiError) -> ApiError {
    match error {
        ApiError::PhoneNumberExists(_) => {
            let sentence = visit.t("console-number-exists");
            ApiError::field(FieldError::translated(
                "did",
                FieldCode::Duplicate,
                sentence,
            ))
        }
        other => other,
    }
}

/// `GET /numbers/{id}`
pub async fn show(visit: ConsoleView, id: Id<PhoneNumberId>) -> Result<HttpResponse, ApiError> {
    let number = numbers::show::<NumberView>(visit.operation(), id).await?;
    let is_active = number.is_active.then(|| ("isActive", "true".to_owned()));
    let filled = [
        ("label", number.label.clone()),
        ("tenantId", number.tenant_id.to_string()),
    ];
    let filled = FormState::with(filled.into_iter().chain(is_active));
    let content = change_form(&visit, &number, &filled);
    Ok(layout::page(&visit, &visit.t(CHANGE), content))
}

fn change_form(visit: &ConsoleView, number: &NumberView, filled: &FormState) -> Markup {
    let path = format!("/numbers/{}", number.id);
    let changes = [
        Field::text("label", visit.t("console-label")),
        Field::switch("isActive", visit.t("console-takes-calls")),
        Field::text("tenantId", visit.t("console-tenant-id"))
            .hint(visit.t("console-move-number-hint")),
    ];
    html! {
        p.lead { (format!("{:?}", number.did)) " " (state(visit, number)) }
        (post(visit, &path, html! {
            (fields(visit, filled, &changes))
            (submit(&visit.t("page-save")))
        }))
        div.actions { a.button.danger href={ (path) "/delete" } { (visit.t("console-delete")) } }
        p { a href=(path_of(number.tenant_id, "/numbers")) { (visit.t("console-all-numbers")) } }
    }
}

/// `POST /numbers/{id}`
pub async fn save(
    visit: ConsoleView,
    id: Id<PhoneNumberId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let save = async { numbers::update(visit.operation(), id, form::body(&typed, CHANGES)?).await };
    match save.await {
        Ok(_) => Ok(visit.see(&format!("/numbers/{}", id.0), "console-done-saved")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let number = numbers::show::<NumberView>(visit.operation(), id).await?;
            let content = change_form(&visit, &number, &filled);
            Ok(layout::refused(&visit, &visit.t(CHANGE), content))
        }
    }
}

/// `GET /numbers/{id}/delete`
pub async fn ask_delete(
    visit: ConsoleView,
    id: Id<PhoneNumberId>,
) -> Result<HttpResponse, ApiError> {
    let number = numbers::show::<NumberView>(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/numbers/{}/delete", number.id),
        consequences: html! {
            p {
                (visit.tn("console-delete-number-words", &[
                    ("number", format!("{:?}", number.did).into()), ("label", number.label.as_str().into()),
                ]))
            }
        },
        yes: visit.t("console-delete-number"),
        back: &format!("/numbers/{}", number.id),
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-delete-number-title"),
        question.show(&visit),
    ))
}

/// `POST /numbers/{id}/delete`
pub async fn delete(visit: ConsoleView, id: Id<PhoneNumberId>) -> Result<HttpResponse, ApiError> {
    let number = numbers::show::<NumberView>(visit.operation(), id).await?;
    let done = numbers::delete(visit.operation(), id).await;
    acted(
        &visit,
        done,
        &path_of(number.tenant_id, "/numbers"),
        "console-done-number-deleted",
    )
}
