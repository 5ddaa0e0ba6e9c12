//! The present state of a tenant: calls, minutes, and what does not work.

use dikala_entities::{CallStatus, Plan};
use maud::{Markup, html};

use super::{
    super::{calls::reason_words, figures::short_address, list::word, view::ConsoleView},
    path_of,
};
use crate::{
    operations::tenants::{
        TenantView,
        activity::{DayCounts, MinutesForecast, TenantActivity},
    },
    pages::{
        components::{Tone, notice, table},
        format::share,
    },
};

/// Days of the compared week.
const WEEK_DAYS: i64 = 7;

/// Figures, troubles, and reasons of calls that failed.
pub fn cockpit(visit: &ConsoleView, tenant: &TenantView, of: &TenantActivity) -> Markup {
    let calls = format!("/calls?tenantId={}", tenant.id);
    html! {
        dl.figures {
            div { dt { (visit.t("console-calls-now")) } dd { a href=(calls) { (visit.number(of.running)) } } }
            div {
                dt { (visit.t("console-calls-today")) }
                dd { (visit.number(of.today.calls)) span.more { (visit.tn("console-a-day-last-week", &[("count", visit.number(of.week.calls / WEEK_DAYS).into())])) } }
            }
            div {
                dt { (visit.t("console-answered-today")) }
                dd { (percent(of.today)) span.more { (visit.tn("console-last-week", &[("share", percent(of.week).into())])) } }
            }
            div {
                dt { (visit.t("console-minutes-left")) }
                dd { a href=(path_of(tenant.id, "/credits")) { (visit.number(tenant.balance_minutes)) } span.more { (lasts(visit, of)) } }
            }
        }
        (troubles(visit, tenant, of))
        @if !of.reasons.is_empty() { (reasons(visit, tenant, of)) }
    }
}

fn percent(of: DayCounts) -> String {
    share(of.answered, of.calls).map_or_else(|| "–".to_owned(), |share| format!("{share}%"))
}

fn lasts(visit: &ConsoleView, of: &TenantActivity) -> String {
    if of.available < 1 {
        return visit.t("console-calls-are-refused");
    }
    match of.lasts {
        MinutesForecast::Unused => visit.t("console-minutes-unused"),
        MinutesForecast::TooEarly => visit.t("console-minutes-too-early"),
        MinutesForecast::Days(0) => visit.t("console-minutes-last-hours"),
        MinutesForecast::Days(days) => visit.tn(
            "console-minutes-last",
            &[("days", visit.number(days).into())],
        ),
    }
}

/// Troubles that need an act, each with a link. Empty without one.
fn troubles(visit: &ConsoleView, tenant: &TenantView, of: &TenantActivity) -> Markup {
    html! {
        @if of.available < 1 {
            (notice(Tone::Bad, html! { p { (visit.t("console-no-minutes-left")) " " a href=(path_of(tenant.id, "/credits")) { (visit.t("console-add-minutes")) } } }))
        }
        @for webhook in &of.webhooks {
            @let state = if !webhook.is_active { "disabled" } else if webhook.paused_at.is_some() { "paused" } else { "failing" };
            (notice(Tone::Warning, html! {
                p {
                    (visit.tn("console-webhook-is", &[("state", word(visit, state).into())])) " "
                    a href={ "/webhooks/" (webhook.id) } { (short_address(webhook.url.as_str())) }
                }
            }))
        }
        @for function in &of.functions {
            (notice(Tone::Warning, html! {
                p {
                    (visit.tn("console-function-fails", &[("name", function.name.as_str().into()), ("failed", function.failed.into())])) " "
                    a href={ "/functions?tenantId=" (tenant.id) "&agentId=" (function.agent_id) "&name=" (function.name) } { (visit.t("console-functions")) }
                }
            }))
        }
    }
}

/// Why calls failed or were dropped.
fn reasons(visit: &ConsoleView, tenant: &TenantView, of: &TenantActivity) -> Markup {
    let columns = visit.columns("console-reasons-columns");
    let rows = of.reasons.iter().map(|count| {
        vec![
            html! { (reason_words(visit, count.reason, None)) },
            html! { (visit.number(count.last_hour)) },
            html! { (visit.number(count.last_day)) },
        ]
    });
    let list = |status: CallStatus| format!("/calls?tenantId={}&status={status}", tenant.id);
    html! {
        h2 { (visit.t("console-reasons")) }
        (table(visit, &visit.t("console-reasons"), &columns, rows.collect()))
        @if of.has_more_reasons { p.muted { (visit.t("console-reasons-latest")) } }
        p {
            a href=(list(CallStatus::Failed)) { (visit.t("console-see-failed")) } " · "
            a href=(list(CallStatus::Dropped)) { (visit.t("console-see-dropped")) }
        }
    }
}

/// A limit of the tenant: its own value, or the plan's with the plan's name.
pub fn limit(visit: &ConsoleView, own: Option<i64>, plan: Plan, key: &str) -> String {
    if let Some(own) = own {
        return visit.number(own);
    }
    let key = format!("plans.{plan}.{key}");
    let process = visit.process();
    let of_plan = process.configuration.iter().find(|of| of.key == key);
    let value: Option<i64> = of_plan.and_then(|of| of.value.parse().ok());
    let value = match value {
        Some(0) => visit.t("console-unlimited"),
        Some(value) => visit.number(value),
        None => visit.t("console-plans-own"),
    };
    let parts = [("value", value.into()), ("plan", plan.as_str().into())];
    visit.tn("console-of-plan", &parts)
}
