//! The head of an agent's page: links to its parts, and figures of its last days.

use dikala_entities::AgentId;
use maud::{Markup, html};

use super::{
    super::{format::share, view::SignedIn},
    path_of,
};
use crate::{
    api::call_stats,
    http::{error::ApiError, extract::Query},
};

/// Days of the figures, with today.
const DAYS: i64 = 7;
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Links to the parts of the page, and to the pages of the agent. Only owners have a form.
pub fn tabs(visit: &SignedIn, agent: AgentId) -> Markup {
    let form = [
        ("#talk", "talk-title"),
        ("#f-systemPrompt", "agents-prompt"),
        ("#f-voiceId", "agents-voice"),
        ("#f-toolsEnabled", "agents-tools"),
    ];
    let form = form.into_iter().filter(|_| visit.is_owner());
    let parts = form.chain([("#functions", "functions-title")]);
    html! {
        nav.tabs aria-label=(visit.t("agents-parts")) {
            @for (place, name) in parts { a href=(place) { (visit.t(name)) } }
            a href="/dashboard/numbers" { (visit.t("agents-numbers")) }
            a href={ "/dashboard/calls?agentId=" (agent) } { (visit.t("nav-calls")) }
            a href={ (path_of(agent)) "/history" } { (visit.t("agents-history")) }
        }
    }
}

/// Calls, answered share and minutes of the agent's last days; nothing if it had no calls.
pub async fn figures(visit: &SignedIn, agent: AgentId) -> Result<Markup, ApiError> {
    let (_, end) = visit.zone().day_around(visit.now());
    let query = format!(
        "interval=day&timeZone={}&from={}&to={end}&agentId={agent}",
        visit.zone().name(),
        end.plus_ms(-DAYS * DAY_MS)
    );
    let total = call_stats::show(visit.operation(), Query::parse(&query)).await?;
    let total = total.total;
    if total.calls == 0 {
        return Ok(html! {});
    }
    let answered = share(total.answered, total.calls);
    let answered = answered.map_or_else(|| "–".to_owned(), |share| format!("{share}%"));
    let minutes = visit.tn("home-minutes", &[("minutes", total.minutes.into())]);
    let figure = |name: &str, value: &str| html! { div { dt { (visit.t(name)) } dd { (value) } } };
    Ok(html! {
        section aria-labelledby="lately" {
            h2 #lately { (visit.t("calls-period-7")) }
            dl.figures {
                (figure("home-calls", &visit.number(total.calls)))
                (figure("home-answered", &answered))
                (figure("home-used", &minutes))
            }
        }
    })
}
