//! The home page: problems in words, and the figures of the last ten minutes beside their limits.

mod problems;

use actix_web::HttpResponse;
use dikala_entities::Millis;
use maud::{Markup, html};

pub use self::problems::{show_again, snooze};
use super::{layout, view::ConsoleView};
use crate::{
    http::error::ApiError,
    overview::{
        OverviewReading,
        figures::{Figure, STEP_MS, STEPS, Thousandths},
    },
    pages::{components::table, lines::line},
};

/// Steps of a history per row of the table.
const STEPS_A_ROW: usize = 6;

/// `GET /`
pub async fn show(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let part = part(&visit).await;
    let content = html! {
        (problems::form(&visit))
        (visit.followed("overview", "", &part))
    };
    Ok(layout::page(&visit, &visit.t("console-overview"), content))
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView) -> Markup {
    let look = visit.process().overview.look().await;
    html! {
        div #part {
            section aria-labelledby="wrong" {
                h2 #wrong { (visit.t("console-problems")) }
                (problems::problems(visit, &look))
            }
            section aria-labelledby="figures" {
                h2 #figures { (visit.t("console-ten-minutes")) }
                div.lines { @for figure in &look.figures { (shown(visit, figure)) } }
                details #table {
                    summary { (visit.t("console-as-table")) }
                    (history(visit, &look))
                }
            }
        }
    }
}

/// A figure's label and unit.
fn words(visit: &ConsoleView, figure: &Figure) -> (String, String) {
    let unit = format!("console-unit-{}", figure.unit.replace(' ', "-"));
    let label = visit.t(&format!("console-figure-{}", figure.name));
    (label, visit.t(&unit))
}

fn shown(visit: &ConsoleView, figure: &Figure) -> Markup {
    let Figure {
        value,
        limit,
        history,
        ..
    } = figure;
    let (label, unit) = words(visit, figure);
    let is_over = value
        .zip(*limit)
        .is_some_and(|(value, limit)| value > limit);
    let history: Vec<Option<i64>> = history.iter().map(|it| it.map(|it| it.0)).collect();
    html! {
        div {
            h3 { (label) }
            p.value.bad[is_over] { (number(*value)) @if value.is_some() { span.more { " " (unit) } } }
            p.more {
                @if let Some(limit) = limit {
                    (visit.tn("console-limit", &[("limit", limit.to_string().into()), ("unit", unit.as_str().into())]))
                } @else { (visit.t("console-no-limit")) }
            }
            (line(&history, limit.map(|limit| limit.0)))
        }
    }
}

fn number(value: Option<Thousandths>) -> String {
    value.map_or_else(|| "–".to_owned(), |value| value.to_string())
}

fn history(visit: &ConsoleView, look: &OverviewReading) -> Markup {
    let label = |figure: &Figure| {
        let (label, unit) = words(visit, figure);
        format!("{label} ({unit})")
    };
    let columns: Vec<String> = std::iter::once(visit.t("console-until-when"))
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
    table(
        visit,
        &visit.t("console-ten-minutes"),
        &columns,
        rows.collect(),
    )
}

/// Time of day of a step's end.
fn until(now: Millis, step: usize) -> Markup {
    let back = i64::try_from(STEPS - 1 - step).unwrap_or(0);
    let at = now.plus_ms(-back.saturating_mul(STEP_MS));
    let text = at.to_string();
    html! { time datetime=(at) { (text.get(11..19).unwrap_or_default()) } }
}
