//! The home page: today's calls, how long the credit lasts, problems, and the next step for a new tenant.

mod attention;
mod next_step;
mod today;

use actix_web::HttpResponse;
use maud::{Markup, html};

use self::{attention::AttentionItem, next_step::SetupStep, today::Today};
use super::{
    calls::rows::{self, CallNames},
    components::{Tone, notice},
    follow::{self, FollowedPart},
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
pub async fn show(visit: SignedIn) -> Result<HttpResponse, ApiError> {
    let position = follow::position(&visit).await?;
    let part = part(&visit).await?;
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
        (live::followed(&visit, FollowedPart::Home, "", position, part))
    };
    Ok(layout::page(&visit, &title, content))
}

/// The changing part of the page.
pub async fn part(visit: &SignedIn) -> Result<Markup, ApiError> {
    let (db, tenant) = (visit.store().api_reader(), visit.tenant());
    let today = Today::read(visit).await?;
    let latest = calls::latest(db, tenant, LATEST).await?;
    let names = CallNames::for_rows(visit, &latest).await?;
    let attention = attention::read(visit, &today.credit).await?;
    let step = next_step::read(visit, &today.credit, !latest.is_empty()).await?;
    Ok(html! {
        div #part {
            @if let Some(step) = &step { (next(visit, step)) }
            @if !attention.is_empty() { (alerts(visit, &attention)) }
            section aria-labelledby="today" {
                h2 #today { (visit.t("home-today")) }
                (today.show(visit))
            }
            @if !latest.is_empty() { (latest_calls(visit, &latest, &names)) }
        }
    })
}

/// The next step of a new tenant.
fn next(visit: &SignedIn, step: &SetupStep) -> Markup {
    notice(
        Tone::Plain,
        html! {
            p { strong { (visit.t("home-next")) } }
            p { (step.words(visit)) }
            @if let Some((path, label)) = step.link() {
                p { a.button href=(path) { (visit.t(label)) } }
            }
        },
    )
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
