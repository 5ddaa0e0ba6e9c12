//! The home page: problems in words, and the figures of the last ten minutes beside their limits.

use actix_web::HttpResponse;
use dikala_entities::Millis;
use maud::{Markup, html};

use super::{follow::followed, layout, view::ConsoleView};
use crate::{
    http::error::ApiError,
    overview::{
        OverviewReading,
        figures::{Figure, STEP_MS, STEPS, Thousandths},
        judge::{Problem, Severity},
    },
    pages::{
        components::{Tone, notice, table},
        lines::line,
    },
};

/// Steps of a history per row of the table.
const STEPS_A_ROW: usize = 6;

/// `GET /`
pub async fn show(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let part = part(&visit).await;
    let content = followed(&visit, "overview", "", &part);
    Ok(layout::page(&visit, "Overview", content))
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView) -> Markup {
    let look = visit.process().overview.look().await;
    html! {
        div #part {
            section aria-labelledby="wrong" {
                h2 #wrong { "Problems" }
                (problems(&look))
            }
            section aria-labelledby="figures" {
                h2 #figures { "The last ten minutes" }
                div.lines { @for figure in &look.figures { (shown(figure)) } }
                details #table {
                    summary { "As a table" }
                    (history(visit, &look))
                }
            }
        }
    }
}

fn problems(look: &OverviewReading) -> Markup {
    html! {
        @if look.problems.is_empty() {
            (notice(Tone::Good, html! { p { strong { "Nothing." } " Calls, minutes and webhooks flow." } }))
        } @else {
            ul.alerts {
                @for problem in &look.problems {
                    li { (notice(tone(problem.severity), told(problem))) }
                }
            }
        }
    }
}

const fn tone(severity: Severity) -> Tone {
    match severity {
        Severity::Critical => Tone::Bad,
        Severity::Warning => Tone::Warning,
    }
}

fn told(problem: &Problem) -> Markup {
    html! {
        p { strong { (problem.summary) } }
        p { (problem.action) }
    }
}

fn shown(figure: &Figure) -> Markup {
    let Figure {
        label,
        unit,
        value,
        limit,
        history,
        ..
    } = figure;
    let is_over = value
        .zip(*limit)
        .is_some_and(|(value, limit)| value > limit);
    let history: Vec<Option<i64>> = history.iter().map(|it| it.map(|it| it.0)).collect();
    html! {
        div {
            h3 { (label) }
            p.value.bad[is_over] { (number(*value)) @if value.is_some() { span.more { " " (unit) } } }
            p.more {
                @if let Some(limit) = limit { "limit " (limit) " " (unit) } @else { "no limit" }
            }
            (line(&history, limit.map(|limit| limit.0)))
        }
    }
}

fn number(value: Option<Thousandths>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn history(visit: &ConsoleView, look: &OverviewReading) -> Markup {
    let label = |figure: &Figure| format!("{} ({})", figure.label, figure.unit);
    let columns: Vec<String> = std::iter::once("Until".to_owned())
        .chain(look.figures.iter().map(label))
        .collect();
    let ends = (0..STEPS).skip(STEPS_A_ROW - 1).step_by(STEPS_A_ROW);
    let rows = ends.map(|step| {
        let figures = look.figures.iter();
        let cells = figures.map(|figure| {
            let value = figure.history.get(step).copied().flatten();
            html! { (number(value)) }
        });
        std::iter::once(until(look.at, step)).chain(cells).collect()
    });
    table(visit, "The last ten minutes", &columns, rows.collect())
}

/// Time of day of a step's end.
fn until(now: Millis, step: usize) -> Markup {
    let back = i64::try_from(STEPS - 1 - step).unwrap_or(0);
    let at = now.plus_ms(-back.saturating_mul(STEP_MS));
    let text = at.to_string();
    html! { time datetime=(at) { (text.get(11..19).unwrap_or_default()) } }
}
