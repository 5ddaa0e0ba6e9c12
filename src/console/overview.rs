//! The home page: problems in words, and the figures of the last ten minutes or of a day.

mod charts;
mod problems;

use actix_web::HttpResponse;
use maud::{Markup, html};

use self::charts::ShownPeriod;
pub use self::problems::{show_again, snooze};
use super::{layout, view::ConsoleView};
use crate::{http::error::ApiError, overview::history::OverviewPeriod, pages::form::FormValues};

/// `GET /?period=24h`
pub async fn show(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let part = part(&visit, &typed).await;
    let more = match period(&typed) {
        OverviewPeriod::TenMinutes => "",
        OverviewPeriod::Day => "&period=24h",
    };
    let content = html! {
        (problems::form(&visit))
        (visit.followed("overview", more, &part))
    };
    Ok(layout::page(&visit, &visit.t("console-overview"), content))
}

/// The chosen period; ten minutes, unless the address names another.
fn period(typed: &FormValues) -> OverviewPeriod {
    let named = typed.text("period").and_then(OverviewPeriod::named);
    named.unwrap_or_default()
}

/// The live part of the page.
pub async fn part(visit: &ConsoleView, typed: &FormValues) -> Markup {
    let overview = visit.process().overview.clone();
    let look = overview.look().await;
    let shown = ShownPeriod::of(period(typed));
    let figures = overview.figures(shown.period, shown.steps);
    html! {
        div #part {
            section aria-labelledby="wrong" {
                h2 #wrong { (visit.t("console-problems")) }
                (problems::problems(visit, &look))
            }
            (charts::charts(visit, shown, &figures, &look.changes, look.at))
        }
    }
}
