//! A tenant's minutes: transactions, and a form that books minutes.

use actix_web::HttpResponse;
use dikala_entities::{TenantId, TransactionType};
use maud::{Markup, html};
use rand::{RngExt, distr::Alphanumeric};

use super::{
    super::{
        layout,
        list::{List, one_of, word},
        view::ConsoleView,
    },
    or_none, path_of, whose,
};
use crate::{
    http::{
        error::ApiError,
        extract::Id,
        field::{FieldCode, FieldError},
    },
    operations::credits::{self, TransactionList, TransactionView},
    pages::{
        components::{Field, fields, post, submit, table},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const TITLE: &str = "console-credit";
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
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    // The form carries a reference, so that a repeated post books once.
    let fresh = FormState::with([("reference", reference())]);
    let path = path_of(id.0, "/credits");
    let content = content(&visit, id.0, &typed, &fresh).await;
    List::new(&path, &[], &typed).page(&visit, TITLE, &[], content)
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
            dt { (visit.t("console-balance")) } dd { (visit.tn("console-balance-of", &[("minutes", minutes.balance_minutes.into())])) }
            dt { (visit.t("console-held")) } dd { (visit.number(minutes.held_minutes)) }
            dt { (visit.t("console-purchased")) } dd { (visit.number(minutes.lifetime_purchased_minutes)) }
            dt { (visit.t("console-used-total")) } dd { (visit.number(minutes.lifetime_used_minutes)) }
        }
        @if visit.may_change() {
            section aria-labelledby="book" {
                h2 #book { (visit.t("console-add-minutes")) }
                (post(visit, &path, html! {
                    (fields(visit, filled, &booking_fields(visit)))
                    (submit(&visit.t("console-add")))
                }))
            }
        }
        h2 { (visit.t("console-transactions")) }
        (rows(visit, &found))
        (list.paging(visit, found.offset, found.has_more))
    })
}

fn booking_fields(visit: &ConsoleView) -> [Field; 4] {
    let types = TYPES.map(TransactionType::as_str);
    let minutes = Field::number("minutes", visit.t("console-minutes"));
    let reference = Field::text("reference", visit.t("console-reference")).optional();
    [
        minutes.hint(visit.t("console-minutes-hint")),
        Field::select("type", visit.t("console-type"), one_of(visit, &types)),
        reference.hint(visit.t("console-reference-hint")),
        Field::text("description", visit.t("console-description")).optional(),
    ]
}

fn rows(visit: &ConsoleView, found: &TransactionList) -> Markup {
    if found.transactions.is_empty() {
        return html! { p.muted { (visit.t("console-none-yet")) } };
    }
    let columns = visit.columns("console-transactions-columns");
    let row = |of: &TransactionView| {
        vec![
            visit.precise(of.created_at),
            html! { (word(visit, of.kind.as_str())) },
            html! { (visit.number(of.minutes)) },
            html! { (visit.number(of.balance_after_minutes)) },
            html! { (or_none(of.reference.as_deref())) },
            html! {
                @match of.call_id {
                    Some(call) => a href={ "/calls/" (call) } { (visit.t("console-of-call")) },
                    None => { (or_none(of.description.as_deref())) }
                }
            },
        ]
    };
    table(
        visit,
        &visit.t("console-transactions"),
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
    let book = async {
        let body = form::body(&typed, BOOKING)?;
        credits::book(visit.operation(), id, body).await
    };
    match book.await.map_err(|error| beside_its_field(&visit, error)) {
        Ok(_) => Ok(visit.see(&path_of(tenant, "/credits"), "console-done-booked")),
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, tenant, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

/// Turns the API's error about the whole booking into an error of the responsible field.
fn beside_its_field(visit: &ConsoleView, error: ApiError) -> ApiError {
    let (field, code, sentence) = match error {
        ApiError::ReferenceConflict => {
            let sentence = visit.t("console-reference-taken");
            ("reference", FieldCode::Duplicate, sentence)
        }
        ApiError::InsufficientMinutes(minutes) => {
            let left = [("minutes", minutes.to_string().into())];
            let sentence = visit.tn("console-minutes-short-of", &left);
            ("minutes", FieldCode::TooSmall, sentence)
        }
        _ => return error,
    };
    ApiError::field(FieldError::translated(field, code, sentence))
}
