//! The ledger: open holds, differences, and the verification of balances.

use actix_web::HttpResponse;
use dikala_entities::Secret;
use maud::{Markup, html};

use super::{
    figures::{TenantNames, count, since},
    follow::followed,
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
const TITLE: &str = "Ledger";
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
    Ok(layout::page(&visit, TITLE, content))
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
        (followed(visit, "ledger", "", &books))
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
            h2 { "Last verification" }
            (last(visit, found.last_verification.as_ref()))
        }
    };
    let below = html! {
        div #below {
            h2 { "Oldest open reservations" }
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
            dt { "Open reservations" } dd { (visit.number(found.open_holds)) ", " (visit.number(found.held_minutes)) " minutes" }
            dt { "Differences" }
            dd { (badge(tone, &found.differences.to_string())) " accounts and open holds that did not add up at the last look, a minute ago at most" }
            dt { "Checked" }
            dd { (count(visit, found.items)) " items in " (count(visit, found.batches)) " transactions since the start" }
        }
    }
}

fn last(visit: &ConsoleView, last: Option<&Verification>) -> Markup {
    let Some(found) = last else {
        return html! { p.muted { "None since this node started, or one is running now." } };
    };
    html! {
        p {
            (visit.time(found.verified_at)) ": "
            (visit.number(found.tenants)) " tenants, " (visit.number(found.transactions)) " transactions, "
            (visit.number(found.holds)) " holds. "
            @if found.differences.is_empty() { (badge(Tone::Good, "the books are right")) }
            @else { (badge(Tone::Bad, &format!("{} differences", found.differences.len()))) }
        }
        @if !found.differences.is_empty() {
            ul { @for told in found.differences.iter().take(DIFFERENCES_SHOWN) { li { (told) } } }
        }
        @if found.differences.len() > DIFFERENCES_SHOWN {
            p.muted { "The first " (DIFFERENCES_SHOWN) "; " code { "GET /operator/v1/ledger" } " has all." }
        }
    }
}

fn verify_form(visit: &ConsoleView, filled: &FormState) -> Markup {
    let whose = Field::text("tenantId", "Tenant's id".to_owned());
    let whose = whose
        .hint("Leave empty to check all tenants.".to_owned())
        .optional();
    html! {
        p { "Recomputes every balance from its transactions and reservations. With many tenants it may take minutes." }
        (post(visit, "/ledger/verify", html! {
            (fields(visit, filled, &[whose]))
            (submit("Verify"))
        }))
    }
}

fn holds(visit: &ConsoleView, holds: &[OpenHold], names: &TenantNames) -> Markup {
    let columns = ["Call", "Tenant", "Reserved", "Used", "Since", "Node"].map(str::to_owned);
    let row = |hold: &OpenHold| {
        vec![
            html! { a href={ "/calls/" (hold.call_id) } { (hold.call_id) } },
            names.link(hold.tenant_id),
            html! { (visit.number(hold.held_minutes)) " min" },
            html! { (visit.number(hold.used_minutes)) " min" },
            html! { (since(visit, hold.created_at)) },
            html! { (hold.owner) },
        ]
    };
    html! {
        @if holds.is_empty() { p.muted { "None: no call is active." } }
        @else { (table(visit, "Open reservations", &columns, holds.iter().map(row).collect())) }
    }
}

/// `POST /ledger/verify`
pub async fn verify(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let of_one = typed
        .text("tenantId")
        .is_some_and(|id| !id.trim().is_empty());
    let done = match form::body(&typed, WHOSE) {
        Ok(body) => ledger::verify(visit.process(), visit.operation(), body).await,
        Err(error) => Err(error),
    };
    match done {
        Ok(found) => {
            if of_one {
                visit.leave_note(OUTCOME, &Secret::new(outcome(&found)));
            }
            Ok(visit.see(PATH, "done-ledger-verified"))
        }
        Err(error) => {
            let content = content(&visit, &FormState::again(typed, error)?).await?;
            Ok(layout::refused(&visit, TITLE, content))
        }
    }
}

/// The result for one tenant, short enough for a cookie.
fn outcome(found: &Verification) -> String {
    let first = found.differences.first().map_or("", String::as_str);
    let first: String = first.chars().take(500).collect();
    match found.differences.len() {
        0 => format!(
            "The books of this tenant are right: {} transactions.",
            found.transactions
        ),
        1 => format!("One difference in the books of this tenant: {first}"),
        more => format!("{more} differences in the books of this tenant, first: {first}"),
    }
}
