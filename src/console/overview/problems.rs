//! The problems of the overview: each with its links, its duration, and the buttons that help.

use actix_web::HttpResponse;
use maud::{Markup, html};

use super::super::{list::acted, view::ConsoleView};
use crate::{
    http::error::ApiError,
    operations::problems as snoozing,
    overview::{
        OngoingProblem, OverviewReading,
        judge::{Problem, Severity},
    },
    pages::{
        components::{Tone, notice, post_from},
        form::FormValues,
        format::utc,
    },
};

const PATH: &str = "/";
/// The id of the form that all buttons belong to. It is outside of the live part, so its token stays.
const FORM: &str = "act";
const SNOOZE: &str = "/problems/snooze";
const SHOW: &str = "/problems/show";
/// Marks of the linked words in a problem's sentence. No text contains them.
const TENANT: char = '\u{e000}';
const TARGET: char = '\u{e001}';

/// The form of all buttons, for operators who may change things.
pub fn form(visit: &ConsoleView) -> Markup {
    html! { @if visit.may_change() { (post_from(visit, Some(FORM), SNOOZE, html! {})) } }
}

pub fn problems(visit: &ConsoleView, look: &OverviewReading) -> Markup {
    let (snoozed, open): (Vec<_>, Vec<_>) = look
        .problems
        .iter()
        .partition(|of| of.snoozed_until.is_some());
    html! {
        @if open.is_empty() {
            (notice(Tone::Good, html! { p { strong { (visit.t("console-no-problem")) } " " (visit.t("console-no-problem-words")) } }))
        } @else {
            ul.alerts {
                @for of in open {
                    li id=(id(of)) { (notice(tone(of.problem.severity), told(visit, look, of))) }
                }
            }
        }
        @if !snoozed.is_empty() {
            details #snoozed {
                summary { (visit.tn("console-snoozed", &[("count", snoozed.len().into())])) }
                ul.alerts { @for of in snoozed { li id=(id(of)) { (folded(visit, of)) } } }
            }
        }
    }
}

/// An element's id, so that live updates move no button to another problem.
fn id(of: &OngoingProblem) -> String {
    format!("p-{}", of.key.replace(' ', "-"))
}

const fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Warning,
    }
}

fn told(visit: &ConsoleView, look: &OverviewReading, of: &OngoingProblem) -> Markup {
    let lasts = visit.lang().duration(look.at.since(of.since));
    html! {
        p { strong { (sentence(visit, &of.problem)) } }
        p.muted {
            time datetime=(of.since) title=(utc(of.since)) { (visit.tn("console-lasts", &[("time", lasts.into())])) }
            @if let Some(amount) = of.problem.amount(visit.lang()) { " · " (amount) }
        }
        p { (of.problem.action(visit.lang())) }
        div.row {
            @if let Some((path, words)) = page_of(&of.problem) { a.button.secondary href=(path) { (visit.t(words)) } }
            @if visit.may_change() {
                (cures(visit, &of.problem))
                button.quiet type="submit" form=(FORM) name="problem" value=(of.key) { (visit.t("console-snooze")) }
            }
        }
    }
}

fn folded(visit: &ConsoleView, of: &OngoingProblem) -> Markup {
    html! {
        p {
            (sentence(visit, &of.problem))
            @if let Some(until) = of.snoozed_until { " " span.muted { (visit.rich("console-snoozed-until", &[("time", visit.time(until))])) } }
        }
        @if visit.may_change() {
            div.row {
                button.secondary type="submit" form=(FORM) formaction=(SHOW) name="problem" value=(of.key) { (visit.t("console-show-again")) }
            }
        }
    }
}

/// The problem's sentence, in which tenant and webhook are links.
fn sentence(visit: &ConsoleView, problem: &Problem) -> Markup {
    let mut marks = Vec::new();
    let mut links = Vec::new();
    if let Some(tenant) = problem.tenant_id {
        marks.push(("tenant", TENANT.to_string()));
        let name = problem.tenant().unwrap_or_default();
        links.push((TENANT, html! { a href={ "/tenants/" (tenant) } { (name) } }));
    }
    let target = problem.target.as_deref().unwrap_or_default();
    if let Some(path) = target_page(problem.code) {
        marks.push(("target", TARGET.to_string()));
        links.push((TARGET, html! { a href={ (path) (target) } { (target) } }));
    }
    visit.linked(&problem.summary_with(visit.lang(), &marks), &links)
}

/// The beginning of the address of a problem's object, if it has a page.
fn target_page(code: &str) -> Option<&'static str> {
    match code {
        "webhook_failing" | "webhook_disabled" | "webhook_paused" | "endpoint_hangs" => {
            Some("/webhooks/")
        }
        "actor_restarted" | "mailbox_full" | "mailbox_backlog" | "messages_lost" => {
            Some("/actors/")
        }
        _ => None,
    }
}

/// The page that shows more about a problem without a linked object, and its name.
fn page_of(problem: &Problem) -> Option<(String, &'static str)> {
    if problem.code.starts_with("credit_") {
        let tenant = problem.tenant_id?;
        return Some((format!("/tenants/{tenant}/credits"), "console-credit"));
    }
    let (path, name) = match problem.code {
        "not_ready" | "commits_slow" | "disk_low" => ("/database", "console-database"),
        "ledger_differences" => ("/ledger", "console-ledger"),
        "clock_off" | "database_clock_off" => ("/nodes", "console-nodes"),
        "event_loop_blocked" => ("/actors", "console-actors"),
        "acknowledgements_slow" | "bridges_gone" => ("/bridges", "console-bridges"),
        "requests_fail" => ("/http?sort=errors", "console-http"),
        "deliveries_late" | "deliveries_not_made" => {
            ("/deliveries?status=pending", "console-deliveries")
        }
        "more_webhooks" => ("/webhooks?state=failing", "console-webhooks"),
        "secrets_sealed" => ("/webhooks", "console-webhooks"),
        _ => return None,
    };
    Some((path.to_owned(), name))
}

/// The buttons of actions that end the problem.
fn cures(visit: &ConsoleView, problem: &Problem) -> Markup {
    let webhook = |action: &str| {
        let target = problem.target.as_deref().unwrap_or_default();
        format!("/webhooks/{target}/{action}")
    };
    let button = |path: String, words: &str| {
        html! { button.secondary type="submit" form=(FORM) formaction=(path) { (visit.t(words)) } }
    };
    match problem.code {
        "webhook_failing" => html! {
            (button(webhook("pause"), "console-pause-webhook"))
            @if let Some(since) = problem.since {
                button.secondary type="submit" form=(FORM) formaction=(webhook("recover")) name="since" value=(since) { (visit.t("console-recover")) }
            }
        },
        "endpoint_hangs" => button(webhook("pause"), "console-pause-webhook"),
        "webhook_paused" => button(webhook("resume"), "console-resume-webhook"),
        "ledger_differences" => button("/ledger/verify".to_owned(), "console-verify"),
        _ => html! {},
    }
}

/// `POST /problems/snooze`
pub async fn snooze(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let key = typed.text("problem").unwrap_or_default();
    let overview = visit.process().overview.clone();
    let look = overview.look().await;
    let Some(of) = look.problems.iter().find(|of| of.key == key) else {
        return Ok(visit.see(PATH, "console-done-problem-over"));
    };
    let is_critical = of.problem.severity == Severity::Critical;
    let done = snoozing::snooze(&visit.operation(), &of.key, is_critical).await;
    overview.snoozes_changed().await;
    acted(&visit, done, PATH, "console-done-problem-snoozed")
}

/// `POST /problems/show`
pub async fn show_again(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let key = typed.text("problem").unwrap_or_default();
    let done = snoozing::show(&visit.operation(), key).await;
    visit.process().overview.snoozes_changed().await;
    acted(&visit, done, PATH, "console-done-problem-shown")
}
