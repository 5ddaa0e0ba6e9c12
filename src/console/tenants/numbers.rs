//! A tenant's numbers: assignment, changes, moves and removal. Numbers are masked; operators know them by their
//! labels.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{PhoneNumberId, TenantId};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        figures::NONE,
        layout,
        list::{List, acted},
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

const TITLE: &str = "Numbers";
const CHANGE: &str = "Change a number";

/// `GET /tenants/{id}/numbers`
pub async fn list(
    visit: ConsoleView,
    id: Id<TenantId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    match content(&visit, id.0, &typed, &FormState::blank()).await {
        Ok(content) => Ok(layout::page(&visit, TITLE, content)),
        Err(error) => {
            let path = path_of(id.0, "/numbers");
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
    let path = path_of(tenant, "/numbers");
    let whose = whose(visit, tenant).await?;
    let list = List::new(&path, &[], asked);
    let asked = list.form_with(&[("tenantId", tenant.to_string())])?;
    let found = numbers::list(visit.operation(), OperatorQuery(asked)).await?;
    let columns = ["Label", "Number", "Status", "Agent"].map(str::to_owned);
    let row = |number: &NumberView| {
        vec![
            html! {
                @if visit.may_change() { a href={ "/numbers/" (number.id) } { (number.label) } }
                @else { (number.label) }
            },
            html! { (format!("{:?}", number.did)) },
            state(number),
            html! { @match number.agent_id { Some(agent) => (short_id(&agent.to_string())), None => { (NONE) } } },
        ]
    };
    let had = TenantThings {
        title: TITLE,
        columns: columns.to_vec(),
        rows: found.numbers.iter().map(row).collect(),
        none: ("No numbers", "Callers cannot reach this tenant yet."),
        paging: list.paging(found.offset, found.has_more),
        more: ("Add a number", "Add number"),
        fields: &[
            Field::text("did", "Number".to_owned()).hint("With + and country code.".to_owned()),
            Field::text("label", "Label".to_owned()),
        ],
    };
    Ok(html! { (whose) (had.show(visit, &path, filled)) })
}

fn state(number: &NumberView) -> Markup {
    match number.is_active {
        true => badge(Tone::Good, "active"),
        false => badge(Tone::Plain, "off"),
    }
}

/// `POST /tenants/{id}/numbers`
pub async fn create(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let made = match draft(&typed, id.0) {
        Ok(body) => numbers::create(visit.operation(), body).await,
        Err(error) => Err(error),
    };
    match made.map_err(beside_the_number) {
        Ok(_) => Ok(visit.see(&path_of(id.0, "/numbers"), "done-number-given")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, id.0, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, TITLE, content))
        }
    }
}

fn draft(typed: &FormValues, tenant: TenantId) -> Result<RequestBody, ApiError> {
    let mut draft = form::object(typed, FIELDS)?;
    draft.insert("tenantId".to_owned(), tenant.to_string().into());
    Ok(RequestBody::of(Value::Object(draft)))
}

/// Turns the error of a number that is in use into an error of its field.
fn beside_the_number(error: ApiError) -> ApiError {
    match error {
        ApiError::PhoneNumberExists(_) => {
            let sentence = "This number exists already.".to_owned();
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
    let number = numbers::show(visit.operation(), id).await?;
    let is_active = number.is_active.then(|| ("isActive", "true".to_owned()));
    let filled = [
        ("label", number.label.clone()),
        ("tenantId", number.tenant_id.to_string()),
    ];
    let filled = FormState::with(filled.into_iter().chain(is_active));
    let content = change_form(&visit, &number, &filled);
    Ok(layout::page(&visit, CHANGE, content))
}

fn change_form(visit: &ConsoleView, number: &NumberView, filled: &FormState) -> Markup {
    let path = format!("/numbers/{}", number.id);
    let moving = "The id of another tenant moves the number there, without its agent.";
    let changes = [
        Field::text("label", "Label".to_owned()),
        Field::switch("isActive", "Takes calls".to_owned()),
        Field::text("tenantId", "Tenant's id".to_owned()).hint(moving.to_owned()),
    ];
    html! {
        p.lead { (format!("{:?}", number.did)) " " (state(number)) }
        (post(visit, &path, html! {
            (fields(visit, filled, &changes))
            (submit("Save"))
        }))
        div.actions { a.button.danger href={ (path) "/delete" } { "Delete" } }
        p { a href=(path_of(number.tenant_id, "/numbers")) { "All numbers of this tenant" } }
    }
}

/// `POST /numbers/{id}`
pub async fn save(
    visit: ConsoleView,
    id: Id<PhoneNumberId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let saved = match form::body(&typed, CHANGES) {
        Ok(body) => numbers::update(visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match saved {
        Ok(_) => Ok(visit.see(&format!("/numbers/{}", id.0), "done-saved")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let number = numbers::show(visit.operation(), id).await?;
            let content = change_form(&visit, &number, &filled);
            Ok(layout::refused(&visit, CHANGE, content))
        }
    }
}

/// `GET /numbers/{id}/delete`
pub async fn ask_delete(
    visit: ConsoleView,
    id: Id<PhoneNumberId>,
) -> Result<HttpResponse, ApiError> {
    let number = numbers::show(visit.operation(), id).await?;
    let question = Question {
        path: &format!("/numbers/{}/delete", number.id),
        consequences: html! {
            p { "Calls to " (format!("{:?}", number.did)) " (" (number.label) ") are refused from now on. Its calls stay." }
        },
        yes: "Delete this number".to_owned(),
        back: &format!("/numbers/{}", number.id),
    };
    Ok(layout::page(
        &visit,
        "Delete this number?",
        question.show(&visit),
    ))
}

/// `POST /numbers/{id}/delete`
pub async fn delete(visit: ConsoleView, id: Id<PhoneNumberId>) -> Result<HttpResponse, ApiError> {
    let number = numbers::show(visit.operation(), id).await?;
    let done = numbers::delete(visit.operation(), id).await;
    acted(
        &visit,
        done,
        &path_of(number.tenant_id, "/numbers"),
        "done-number-deleted",
    )
}
