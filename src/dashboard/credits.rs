//! Credit: balance, holds and use; minutes per day; all transactions, also as a CSV file.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{TransactionId, TransactionType, credit_account, credit_transaction};
use futures_util::stream;
use maud::{Markup, html};

use super::{
    charts::{Bar, Chart, ChartSeries, Ink},
    components::{empty, paging, table},
    csv::{self, CsvLine},
    form::{self, Fields, Shape},
    layout,
    view::SignedIn,
};
use crate::{
    api::call_stats::{self, CallInterval},
    http::{
        error::ApiError,
        extract::{Query, id},
    },
    operations::credits,
};

const PATH: &str = "/dashboard/credits";
/// The cursor of the list.
const PLACE: &Fields = &[("before", Shape::Optional)];
/// Transactions on a page.
const PAGE: usize = 40;
/// Transactions per read of a file.
const BATCH: u64 = 500;
/// The file's columns, by the API's names.
const COLUMNS: [&str; 8] = [
    "id",
    "createdAt",
    "type",
    "minutes",
    "balanceAfterMinutes",
    "callId",
    "description",
    "reference",
];

/// `GET /dashboard/credits`
pub async fn show(visit: SignedIn, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let before = form::asked(&request, PLACE)?.read(&[], |form| {
        Some(form.optional("before", None, id("a transaction")))
    })?;
    let now = visit.services().clock.now();
    let account = credits::account(visit.store().api_reader(), visit.tenant(), now).await?;
    let movements = movements(&visit, before).await?;
    let content = html! {
        (figures(&visit, &account))
        (per_day(&visit).await?.show(visit.lang()))
        section aria-labelledby="movements" {
            h2 #movements { (visit.t("credits-movements")) }
            (movements)
        }
    };
    Ok(layout::page(&visit, &visit.t("credits-title"), content))
}

fn figures(visit: &SignedIn, account: &credit_account::Model) -> Markup {
    let minutes = |id: &str, minutes: i64| {
        html! { div { dt { (visit.t(id)) } dd { (visit.tn("home-minutes", &[("minutes", minutes.into())])) } } }
    };
    let low = account.low_threshold;
    html! {
        dl.figures {
            (minutes("credits-balance", account.available + account.held))
            (minutes("credits-held", account.held))
            (minutes("credits-used", account.used))
            (minutes("credits-purchased", account.purchased))
        }
        p.muted {
            (visit.t("credits-held-words"))
            @if low > 0 { " " (visit.tn("credits-low-words", &[("minutes", low.into())])) }
        }
    }
}

/// Minutes used on each of the last 30 days of the reader's time zone.
async fn per_day(visit: &SignedIn) -> Result<Chart<'static>, ApiError> {
    let query = format!("interval=day&timeZone={}", visit.zone().name());
    let query = Query::parse(&query);
    let days = call_stats::show(visit.operation(), query).await?;
    let bar = |day: &CallInterval| Bar {
        label: visit.zone().day_of_month(day.start),
        name: visit.zone().day(visit.lang(), day.start),
        values: vec![day.figures.minutes],
    };
    Ok(Chart {
        id: "minutes",
        title: visit.t("credits-per-day"),
        slot: visit.t("credits-day"),
        series: vec![ChartSeries::new(visit.t("credits-minutes"), Ink::Plain)],
        bars: days.intervals.iter().map(bar).collect(),
    })
}

async fn movements(visit: &SignedIn, before: Option<TransactionId>) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let one_more = u64::try_from(PAGE).unwrap_or(u64::MAX) + 1;
    let mut rows = credits::latest(db, visit.tenant(), before, one_more).await?;
    let has_more = rows.len() > PAGE;
    rows.truncate(PAGE);
    let last = rows.last().filter(|_| has_more);
    let older = last.map(|last| format!("{PATH}?before={}", last.id));
    let newer = before.map(|_| PATH);
    Ok(html! {
        @if rows.is_empty() {
            (empty(&visit.t("credits-none"), &visit.t("credits-none-words"), html! {}))
        } @else {
            (movement_table(visit, &rows))
            p.way { a href={ (PATH) ".csv" } download { (visit.t("credits-csv")) } }
        }
        (paging(visit, newer, older.as_deref()))
    })
}

fn kind_name(visit: &SignedIn, kind: TransactionType) -> String {
    visit.t(match kind {
        TransactionType::Purchase => "credits-purchase",
        TransactionType::Usage => "credits-usage",
        TransactionType::Refund => "credits-refund",
        TransactionType::Adjustment => "credits-adjustment",
        TransactionType::Bonus => "credits-bonus",
    })
}

fn movement_table(visit: &SignedIn, rows: &[credit_transaction::Model]) -> Markup {
    let columns = [
        "credits-when",
        "credits-kind",
        "credits-minutes",
        "credits-after",
        "credits-what-for",
    ];
    let row = |row: &credit_transaction::Model| {
        let sign = if row.minutes > 0 { "+" } else { "" };
        vec![
            visit.time(row.created_at),
            html! { (kind_name(visit, row.kind)) },
            html! { (sign) (visit.number(row.minutes)) },
            html! { (visit.number(row.balance_after)) },
            html! {
                @if let Some(call) = row.call_id {
                    a href={ "/dashboard/calls/" (call) } { (visit.t("credits-call")) }
                }
                @if let Some(description) = &row.description { (description) " " }
                @if let Some(reference) = &row.reference { code { (reference) } }
            },
        ]
    };
    table(
        visit,
        &visit.t("credits-movements"),
        &columns.map(|id| visit.t(id)),
        rows.iter().map(row).collect(),
    )
}

/// `GET /dashboard/credits.csv`: all transactions, newest first.
pub async fn file(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let (store, tenant) = (visit.store().clone(), visit.tenant());
    let pieces = stream::try_unfold(Some(None), move |next: Option<Option<TransactionId>>| {
        let store = store.clone();
        async move {
            let Some(before) = next else { return Ok(None) };
            let rows = credits::latest(store.api_reader(), tenant, before, BATCH).await?;
            let is_full = u64::try_from(rows.len()).is_ok_and(|count| count == BATCH);
            let next = rows.last().map(|last| Some(last.id)).filter(|_| is_full);
            let lines: String = rows.iter().map(line).collect();
            Ok(Some((lines, next)))
        }
    });
    csv::answer(&visit, "credits", &COLUMNS, pieces)
}

fn line(row: &credit_transaction::Model) -> String {
    CsvLine::new()
        .text(&row.id.to_string())
        .text(&row.created_at.to_string())
        .text(row.kind.as_str())
        .figure(Some(row.minutes))
        .figure(Some(row.balance_after))
        .maybe(row.call_id)
        .maybe(row.description.as_deref())
        .maybe(row.reference.as_deref())
        .end()
}
