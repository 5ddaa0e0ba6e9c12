//! A tenant's minutes: transactions, and a form that books minutes.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{TenantId, TransactionType};
use maud::{Markup, html};
use rand::{RngExt, distr::Alphanumeric};

use super::{
    super::{
        layout,
        list::{List, one_of},
        view::ConsoleView,
    },
    or_none, path_of, whose,
};
use crate::{
    api::credits::{TransactionList, TransactionView},
    http::{
        error::ApiError,
        extract::Id,
        field::{FieldCode, FieldError},
    },
    operator_api::credits,
    pages::{
        components::{Field, fields, post, submit, table},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const TITLE: &str = "Credit";
const BOOKING: &Fields = &[
    ("minutes", Shape::Number),
    ("type", Shape::Optional),
    ("reference", Shape::Optional),
    ("description", Shape::Optional),
];
/// The types that operators may book; calls book `usage` themselves.
const TYPES: [TransactionType; 4] = [
    TransactionType::Purchase,
    TransactionType::Bonus,
    TransactionType::Refund,
    TransactionType::Adjustment,
];
const REFERENCE_CHARS: usize = 12;

/// `GET /tenants/{id}/credits`
pub async fn show(
    visit: ConsoleView,
    id: Id<TenantId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    // The form carries a reference, so that a repeated post books once.
    let fresh = FormState::with([("reference", reference())]);
    match content(&visit, id.0, &typed, &fresh).await {
        Ok(content) => Ok(layout::page(&visit, TITLE, content)),
        Err(error) => {
            let path = path_of(id.0, "/credits");
            List::new(&path, &[], &typed).refused(&visit, TITLE, error, &[])
        }
    }
}

/// A random, unused reference.
fn reference() -> String {
    let characters = rand::rng().sample_iter(Alphanumeric).take(REFERENCE_CHARS);
    let characters: String = characters.map(char::from).collect();
    format!("console-{characters}")
}

async fn content(
    visit: &ConsoleView,
    tenant: TenantId,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let path = path_of(tenant, "/credits");
    let list = List::new(&path, &[], asked);
    let id = Id(tenant);
    let found = credits::transactions(visit.operation(), id, list.query_of()?).await?;
    let minutes = credits::show(visit.operation(), id).await?;
    Ok(html! {
        (whose(visit, tenant).await?)
        dl.facts {
            dt { "Balance" } dd { (visit.number(minutes.balance_minutes)) " minutes" }
            dt { "Reserved for live calls" } dd { (visit.number(minutes.held_minutes)) }
            dt { "Purchased in total" } dd { (visit.number(minutes.lifetime_purchased_minutes)) }
            dt { "Used in total" } dd { (visit.number(minutes.lifetime_used_minutes)) }
        }
        @if visit.may_change() {
            section aria-labelledby="book" {
                h2 #book { "Add minutes" }
                (post(visit, &path, html! {
                    (fields(visit, filled, &booking_fields()))
                    (submit("Add"))
                }))
            }
        }
        h2 { "Transactions" }
        (rows(visit, &found))
        (list.paging(found.offset, found.has_more))
    })
}

fn booking_fields() -> [Field; 4] {
    let types = TYPES.map(TransactionType::as_str);
    let minutes = Field::number("minutes", "Minutes".to_owned());
    let reference = Field::text("reference", "Reference".to_owned()).optional();
    [
        minutes.hint("Negative only for an adjustment.".to_owned()),
        Field::select("type", "Type".to_owned(), one_of(&types)),
        reference.hint("A reference is booked once, even if it is sent again.".to_owned()),
        Field::text("description", "Description".to_owned()).optional(),
    ]
}

fn rows(visit: &ConsoleView, found: &TransactionList) -> Markup {
    if found.transactions.is_empty() {
        return html! { p.muted { "None yet." } };
    }
    let columns = [
        "When",
        "Type",
        "Minutes",
        "Balance",
        "Reference",
        "Description",
    ]
    .map(str::to_owned);
    let row = |of: &TransactionView| {
        vec![
            visit.time(of.created_at),
            html! { (of.kind.as_str()) },
            html! { (visit.number(of.minutes)) },
            html! { (visit.number(of.balance_after_minutes)) },
            html! { (or_none(of.reference.as_deref())) },
            html! {
                @match of.call_id {
                    Some(call) => a href={ "/calls/" (call) } { "call" },
                    None => { (or_none(of.description.as_deref())) }
                }
            },
        ]
    };
    table(
        visit,
        "Transactions",
        &columns,
        found.transactions.iter().map(row).collect(),
    )
}

/// `POST /tenants/{id}/credits`
pub async fn book(
    visit: ConsoleView,
    id: Id<TenantId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let tenant = id.0;
    let booked = match form::body(&typed, BOOKING) {
        Ok(body) => credits::book(visit.process(), visit.operation(), id, body).await,
        Err(error) => Err(error),
    };
    match booked.map_err(beside_its_field) {
        Ok(_) => Ok(visit.see(&path_of(tenant, "/credits"), "done-booked")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, TITLE, content))
        }
    }
}

/// Turns the API's error about the whole booking into an error of the responsible field.
fn beside_its_field(error: ApiError) -> ApiError {
    let (field, code) = match &error {
        ApiError::ReferenceConflict => ("reference", FieldCode::Duplicate),
        ApiError::InsufficientMinutes(_) => ("minutes", FieldCode::TooSmall),
        _ => return error,
    };
    ApiError::field(FieldError::translated(field, code, error.to_string()))
}
