//! The page of one call.

use actix_web::{HttpResponse, http::StatusCode};
use dikala_entities::{CallId, call};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        components::{Tone, notice},
        follow::{self, FollowedPart},
        form::FormValues,
        layout,
        names::cut,
        view::SignedIn,
    },
    conversation, deliveries, facts, path_of,
    record::{self, CallRecord},
    words,
};
use crate::{
    http::{error::ApiError, extract::Id},
    pages::live,
};

/// Longest shown part of a summary, in characters.
const SUMMARY_CHARS_MAX: usize = 1_000;

/// `GET /dashboard/calls/{id}`
pub async fn show(
    visit: SignedIn,
    id: Id<CallId>,
    asked: FormValues,
) -> Result<HttpResponse, ApiError> {
    let first = asked.text("from").and_then(|from| from.parse().ok());
    let (title, content) = content(&visit, id.0, first).await?;
    Ok(layout::with_heading(
        &visit,
        StatusCode::OK,
        &title,
        content,
    ))
}

/// The page's title and content, with the conversation from entry number `first` on. Without a number it follows the call.
pub async fn content(
    visit: &SignedIn,
    id: CallId,
    first: Option<usize>,
) -> Result<(String, Markup), ApiError> {
    let position = follow::position(visit).await?;
    let shown = part(visit, id, first).await?;
    let content = html! {
        @if shown.is_settled || first.is_some() { (shown.html) }
        @else {
            (live::sign(visit))
            (live::followed(visit, FollowedPart::Call(id), "", position, shown.html))
        }
    };
    Ok((shown.title, content))
}

/// The changing part of a call's page: all but its frame.
pub struct CallPart {
    pub title: String,
    pub html: Markup,
    /// True if the page will not change again.
    pub is_settled: bool,
}

/// The changing part, with the conversation from entry number `first` on.
pub async fn part(
    visit: &SignedIn,
    id: CallId,
    first: Option<usize>,
) -> Result<CallPart, ApiError> {
    let call = record::find(visit, id).await?;
    let record = record::read(visit, call).await?;
    let now = visit.services().clock.now();
    let title = words::heading(visit, &record.call, record.hand.as_ref());
    let html = html! {
        div #part {
            // It gets the focus if the script removes what had it.
            h1 tabindex="-1" { (title) }
            (under_way(visit, &record.call))
            (actions(visit, &record.call))
            div.beside {
                div {
                    (summary(visit, &record))
                    h2 #timeline { (visit.t("calls-timeline")) }
                    (conversation::list(visit, &record, &path_of(id), first))
                    (deliveries::list(visit, &record))
                }
                div { (facts::list(visit, &record, now)) }
            }
        }
    };
    Ok(CallPart {
        title,
        is_settled: record.is_settled(now),
        html,
    })
}

fn summary(visit: &SignedIn, record: &CallRecord) -> Markup {
    html! {
        @if let Some(summary) = record.summary() {
            h2 { (visit.t("calls-summary")) }
            p.words.summed { (cut(summary, SUMMARY_CHARS_MAX)) }
        }
    }
}

/// Actions that were requested and that the bridge has not done yet.
fn under_way(visit: &SignedIn, call: &call::Model) -> Markup {
    let pending: Value = call
        .pending
        .as_deref()
        .and_then(|pending| serde_json::from_str(pending).ok())
        .unwrap_or_default();
    let told = [
        ("hangup", "calls-is-ending"),
        ("transfer", "calls-is-transferring"),
    ];
    let told = told
        .into_iter()
        .find(|(command, _)| !pending[command].is_null());
    html! {
        @if let Some((_, words)) = told.filter(|_| !call.status.is_final()) {
            div #under-way { (notice(Tone::Good, html! { p role="status" { (visit.t(words)) } })) }
        }
    }
}

/// Links to the possible actions on a running call.
fn actions(visit: &SignedIn, call: &call::Model) -> Markup {
    let path = path_of(call.id);
    html! {
        @if visit.is_owner() && !call.status.is_final() {
            div.actions #acts {
                a.button.danger href={ (path) "/hangup" } { (visit.t("calls-hangup")) }
                a.button.secondary href={ (path) "/transfer" } { (visit.t("calls-transfer")) }
            }
        }
    }
}
