//! The home page: the calls of today or of the last days, how long the credit lasts, problems, and what a new tenant has to do.

mod attention;
mod checklist;
mod counted;
mod credit;
mod missed;
mod period;

use actix_web::HttpResponse;
use maud::{Markup, html};

pub use self::period::Period;
use self::{
    attention::AttentionItem, checklist::Checklist, credit::CreditSummary, period::PeriodFigures,
};
use super::{
    calls::rows::{self, CallNames},
    components::{Tone, notice},
    follow::{self, FollowedPart},
    form::FormValues,
    layout,
    view::SignedIn,
};
use crate::{
    http::error::ApiError,
    operations::calls::{self, CallView},
    pages::live,
};

/// Number of latest calls.
const LATEST: u64 = 5;

/// `GET /dashboard`
pub async fn show(visit: SignedIn, asked: FormValues) -> Result<HttpResponse, ApiError> {
    let period = Period::read(asked.text("days"));
    let position = follow::position(&visit).await?;
    let part = part(&visit, period).await?;
    let title = visit.tn(
        "home-title",
        &[("name", visit.person().name.as_str().into())],
    );
    let content = html! {
        @if !visit.person().has_password {
            (notice(Tone::Warning, html! {
                p { (visit.t("home-no-password")) }
                p.way { a href="/dashboard/password" { (visit.t("home-set-password")) } }
            }))
        }
        (live::sign(&visit))
        (live::followed(&visit, FollowedPart::Home, &format!("&days={}", period.days()), position, part))
    };
    Ok(layout::page(&visit, &title, content))
}

/// The changing part of the page.
pub async fn part(visit: &SignedIn, period: Period) -> Result<Markup, ApiError> {
    let (db, tenant) = (visit.store().api_reader(), visit.tenant());
    let credit = CreditSummary::read(visit).await?;
    let latest = calls::latest(db, tenant, LATEST).await?;
    if let Some(checklist) = Checklist::read(visit, &credit, !latest.is_empty()).await? {
        let attention = attention::before_the_first_call(visit, &credit).await?;
        return Ok(html! {
            div #part {
                (checklist.show(visit))
                @if !attention.is_empty() { (alerts(visit, &attention)) }
            }
        });
    }
    let figures = PeriodFigures::read(visit, period).await?;
    let names = CallNames::for_rows(visit, &latest).await?;
    let attention = attention::read(visit, &credit).await?;
    Ok(html! {
        div #part {
            @if !attention.is_empty() { (alerts(visit, &attention)) }
            section aria-labelledby="figures" {
                h2 #figures { (visit.t("home-figures")) }
                (period.links(visit))
                (figures.show(visit, &credit))
            }
            (latest_calls(visit, &latest, &names))
        }
    })
}

fn alerts(visit: &SignedIn, attention: &[AttentionItem]) -> Markup {
    html! {
        section aria-labelledby="attention" {
            h2 #attention { (visit.t("home-attention")) }
            ul.alerts {
                @for one in attention {
                    li.notice.(if one.is_bad() { "bad" } else { "warning" }) {
                        p { (one.words(visit)) }
                        p.way { a href=(one.path()) { (visit.t(one.cure())) } }
                    }
                }
            }
        }
    }
}

fn latest_calls(visit: &SignedIn, latest: &[CallView], names: &CallNames) -> Markup {
    html! {
        section aria-labelledby="latest" {
            h2 #latest { (visit.t("home-latest")) }
            (rows::table(visit, &visit.t("home-latest"), latest, names))
            p.way { a href="/dashboard/calls" { (visit.t("home-all-calls")) } }
        }
    }
}
