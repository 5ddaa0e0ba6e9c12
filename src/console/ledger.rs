//! The ledger: open holds, differences, and the verification of balances.

use actix_web::HttpResponse;
use dikala_entities::Secret;
use maud::{Markup, html};

use super::{
    figures::{TenantNames, count, minutes, since},
    layout,
    view::ConsoleView,
};
use crate::{
    http::error::ApiError,
    operator_api::ledger::{self, LedgerStatus, OpenHold, Verification},
    pages::{
        components::{Field, Tone, badge, fields, notice, post, submit, table},
        form::{self, Fields, FormState, FormValues, Shape},
    },
};

const PATH: &str = "/ledger";
const TITLE: &str = "console-ledger";
const WHOSE: &Fields = &[("tenantId", Shape::Optional)];
/// Shown open holds.
const HOLDS_SHOWN: usize = 20;
/// Shown differences; a single one is serious enough.
const DIFFERENCES_SHOWN: usize = 20;
/// Key of the note that holds a tenant's verification result.
const OUTCOME: &str = "ledger-of-one";

/// `GET /ledger`
pub async fn show(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let content = content(&visit, &FormState::blank()).await?;
    Ok(layout::page(&visit, &visit.t(TITLE), content))
}

async fn content(visit: &ConsoleView, filled: &FormState) -> Result<Markup, ApiError> {
    let [above, below] = parts(visit).await?;
    let of_one = visit.take_note(OUTCOME);
    let books = html! {
        (above)
        @if visit.may_change() { (verify_form(visit, filled)) }
        (below)
    };
    Ok(html! {
        @if let Some(outcome) = &of_one { (notice(Tone::Plain, html! { p { (outcome.expose()) } })) }
        (visit.followed("ledger", "", &books))
    })
}

/// The live parts: above the form, and below it.
pub async fn parts(visit: &ConsoleView) -> Result<[Markup; 2], ApiError> {
    let found = ledger::read(&visit.process()).await?;
    let db = visit.store().api_reader();
    let shown = &found.oldest_holds[..found.oldest_holds.len().min(HOLDS_SHOWN)];
    let names = TenantNames::of(db, shown.iter().map(|hold| hold.tenant_id)).await?;
    let above = html! {
        div #part {
            (facts(visit, &found))
            h2 { (visit.t("console-last-verification")) }
            (last(visit, found.last_verification.as_ref()))
        }
    };
    let below = html! {
        div #below {
            h2 { (visit.t("console-oldest-reservations")) }
            (holds(visit, shown, &names))
        }
    };
    Ok([above, below])
}

fn facts(visit: &ConsoleView, found: &LedgerStatus) -> Markup {
    let tone = if found.differences > 0 {
        Tone::Bad
    } else {
        Tone::Good
    };
    html! {
        dl.facts {
            dt { (visit.t("console-open-reservations")) } dd { (visit.tn("console-open-reservations-of", &[("holds", found.open_holds.into()), ("minutes", found.held_minutes.into())])) }
            dt { (visit.t("console-differences")) }
            dd { (visit.rich("console-differences-of", &[("count", badge(tone, &found.differences.to_string()))])) }
            dt { (visit.t("console-checked")) }
            dd { (visit.tn("console-checked-of", &[("items", count(visit, found.items).into()), ("batches", count(visit, found.batches).into())])) }
        }
    }
}

fn last(visit: &ConsoleView, last: Option<&Verification>) -> Markup {
    let Some(found) = last else {
        return html! { p.muted { (visit.t("console-not-verified")) } };
    };
    let number = |name, figure| (name, html! { (visit.number(figure)) });
    html! {
        p {
            (visit.rich("console-verified", &[
                ("time", visit.time(found.verified_at)), number("tenants", found.tenants),
                number("transactions", found.transactions), number("holds", found.holds),
            ])) " "
            @if found.differences.is_empty() { (badge(Tone::Good, &visit.t("console-books-right"))) }
            @else { (badge(Tone::Bad, &visit.tn("console-books-wrong", &[("count", found.differences.len().into())]))) }
        }
        @if !found.differences.is_empty() {
            ul lang="en" { @for told in found.differences.iter().take(DIFFERENCES_SHOWN) { li { (told) } } }
        }
        @if found.differences.len() > DIFFERENCES_SHOWN {
            p.muted { (visit.rich("console-first-differences", &[("count", html! { (DIFFERENCES_SHOWN) })])) }
        }
    }
}

fn verify_form(visit: &ConsoleView, filled: &FormState) -> Markup {
    let whose = Field::text("tenantId", visit.t("console-tenant-id"));
    let whose = whose.hint(visit.t("console-verify-tenant-hint")).optional();
    html! {
        p { (visit.t("console-verify-words")) }
        (post(visit, "/ledger/verify", html! {
            (fields(visit, filled, &[whose]))
            (submit(&visit.t("console-verify")))
        }))
    }
}

fn holds(visit: &ConsoleView, holds: &[OpenHold], names: &TenantNames) -> Markup {
    let columns = visit.columns("console-open-reservations-columns");
    let row = |hold: &OpenHold| {
        vec![
            html! { a href={ "/calls/" (hold.call_id) } { (hold.call_id) } },
            names.link(hold.tenant_id),
            minutes(visit, hold.held_minutes),
            minutes(visit, hold.used_minutes),
            html! { (since(visit, hold.created_at)) },
            html! { (hold.owner) },
        ]
    };
    html! {
        @if holds.is_empty() { p.muted { (visit.t("console-no-open-reservations")) } }
        @else { (table(visit, &visit.t("console-open-reservations"), &columns, holds.iter().map(row).collect())) }
    }
}

/// `POST /ledger/verify`
pub async fn verify(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let of_one = typed
        .text("tenantId")
        .is_some_and(|id| !id.trim().is_empty());
    let verify = async {
        ledger::verify(
            visit.process(),
            visit.operation(),
            form::body(&typed, WHOSE)?,
        )
        .await
    };
    match verify.await {
        Ok(found) => {
            if of_one {
                visit.leave_note(OUTCOME, &Secret::new(outcome(&visit, &found)));
            }
            Ok(visit.see(PATH, "console-done-ledger-verified"))
        }
        Err(error) => {
            let content = content(&visit, &FormState::again(typed, error)?).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

/// The result for one tenant, short enough for a cookie.
fn outcome(visit: &ConsoleView, found: &Verification) -> String {
    let first = found.differences.first().map_or("", String::as_str);
    let first: String = first.chars().take(500).collect();
    match found.differences.len() {
        0 => visit.tn(
            "console-one-right",
            &[("count", found.transactions.to_string().into())],
        ),
        1 => visit.tn("console-one-difference", &[("first", first.into())]),
        more => {
            let values = [("count", more.to_string().into()), ("first", first.into())];
            visit.tn("console-one-differences", &values)
        }
    }
}
