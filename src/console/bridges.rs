//! Bridges: connections and calls, creation with a token that is shown once, and revocation.

use actix_web::HttpResponse;
use dikala_entities::BridgeId;
use dikala_sip::statistics::CallOutcomes;
use dikala_telephony::bridge::BridgeStatistics;
use fluent_bundle::FluentValue;
use maud::{Markup, html};

use super::{
    figures::{self, NONE, count},
    layout,
    list::{List, ListRows, acted},
    view::ConsoleView,
};
use crate::{
    http::{error::ApiError, extract::Id},
    operations::bridges::{self, BridgeStatus},
    operator_api::actors::DurationPercentiles,
    pages::{
        components::{Field, Question, Tone, badge, copyable, fields, notice, post, submit},
        form::{self, FormState, FormValues},
    },
    telephony::distribution,
};

const PATH: &str = "/bridges";
const TITLE: &str = "console-bridges";

/// `GET /bridges`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let content = content(&visit, &typed, &FormState::blank()).await;
    List::new(PATH, &[], &typed).page(&visit, TITLE, &[], content)
}

async fn content(
    visit: &ConsoleView,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let more = List::new(PATH, &[], asked).query();
    Ok(html! {
        (visit.followed("bridges", &more, &part(visit, asked).await?))
        @if visit.may_change() {
            section aria-labelledby="make" {
                h2 #make { (visit.t("console-create-bridge")) }
                (post(visit, PATH, html! {
                    (fields(visit, filled, &[Field::text("name", visit.t("console-name"))]))
                    (submit(&visit.t("console-create-bridge")))
                }))
            }
        }
    })
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView, asked: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, &[], asked);
    let found = bridges::list(visit.operation(), list.query_of()?).await?;
    let row = |bridge: &BridgeStatus| {
        vec![
            html! { a href={ (PATH) "/" (bridge.view.id) } { (bridge.view.name) } },
            state(visit, bridge),
            calls(visit, bridge),
            visit.time_or(bridge.view.last_seen_at, &visit.t("console-never")),
            visit.time(bridge.view.created_at),
        ]
    };
    let rows = ListRows {
        title: TITLE,
        columns: visit.columns("console-bridges-columns"),
        rows: found.bridges.iter().map(row).collect(),
        none: ("console-no-bridges", "console-no-bridges-words"),
    };
    Ok(html! {
        div #part {
            (rows.show(visit))
            (list.paging(visit, found.offset, found.has_more))
            @if let Some(counted) = &visit.process().telephony { (inside(visit, &counted.read())) }
        }
    })
}

fn state(visit: &ConsoleView, bridge: &BridgeStatus) -> Markup {
    if bridge.view.revoked_at.is_some() {
        badge(Tone::Plain, &visit.t("console-is-revoked"))
    } else if bridge.connected {
        badge(Tone::Good, &visit.t("console-connected"))
    } else {
        badge(Tone::Warning, &visit.t("console-not-connected"))
    }
}

fn calls(visit: &ConsoleView, bridge: &BridgeStatus) -> Markup {
    html! {
        @if bridge.calls > 0 { a href={ "/calls?bridgeId=" (bridge.view.id) } { (visit.number(bridge.calls)) } }
        @else { "0" }
    }
}

/// Counters of the telephony bridge inside this process.
fn inside(visit: &ConsoleView, counted: &BridgeStatistics) -> Markup {
    let (sip, calls) = (&counted.sip, &counted.calls);
    let number = |name, of: u64| (name, count(visit, of).into());
    let told = |id, counts: &[(&'static str, FluentValue<'_>)]| visit.tn(id, counts);
    let within = |times| figures::times(&DurationPercentiles::from(&distribution(times)));
    html! {
        section aria-labelledby="inside" {
            h2 #inside { (visit.t("console-built-in-bridge")) }
            p { (visit.rich("console-built-in-words", &[])) }
            dl.facts {
                dt { (visit.t("console-active-calls")) }
                dd { (told("console-joined-calls", &[number("calls", sip.calls as u64), number("joined", sip.joined as u64)])) }
                dt { (visit.t("console-incoming-calls")) } dd { (outcomes(visit, &sip.callers)) }
                dt { (visit.t("console-calls-to-people")) } dd { (outcomes(visit, &sip.persons)) }
                dt { (visit.t("console-answer-times")) } dd { (within(&sip.answer)) }
                dt { (visit.t("console-barge-in-times")) } dd { (within(&sip.barge_in)) }
                dt { (visit.t("console-trunks")) } dd { (count(visit, sip.registered_trunks as u64)) }
                dt { (visit.t("console-packets-in")) }
                dd {
                    (told("console-packets-in-of", &[
                        number("received", sip.packets), number("lost", sip.packets_lost), number("late", sip.packets_late),
                    ]))
                }
                dt { (visit.t("console-packets-out")) }
                dd { (told("console-packets-out-of", &[number("sent", sip.ticks), number("late", sip.ticks_late)])) }
                dt { (visit.t("console-interruptions")) }
                dd { (told("console-interruptions-of", &[number("pauses", calls.pauses), number("interruptions", calls.interruptions)])) }
                dt { (visit.t("console-model-connections")) }
                dd { (told("console-model-connections-of", &[number("again", calls.reconnections), number("lost", calls.voices_lost)])) }
                dt { (visit.t("console-model-cost")) } dd { "IDR " (count(visit, calls.cost_idr)) }
            }
        }
    }
}

fn outcomes(visit: &ConsoleView, of: &CallOutcomes) -> String {
    let number = |name, of: u64| (name, count(visit, of).into());
    let counts = [
        number("answered", of.answered),
        number("refused", of.refused),
        number("cancelled", of.cancelled),
        number("failed", of.failed),
    ];
    visit.tn("console-outcomes", &counts)
}

/// `POST /bridges`
pub async fn create(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let create =
        async { bridges::create(visit.operation(), form::body(&typed, bridges::FIELDS)?).await };
    match create.await {
        Ok(created) => {
            let id = created.value.bridge.view.id.to_string();
            visit.leave_note(&id, &created.value.secret());
            Ok(visit.see(&format!("{PATH}/{id}"), "console-done-bridge-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, &visit.t(TITLE), content))
        }
    }
}

/// `GET /bridges/{id}`
pub async fn show(visit: ConsoleView, id: Id<BridgeId>) -> Result<HttpResponse, ApiError> {
    let bridge = bridges::show(visit.operation(), id).await?;
    let view = &bridge.view;
    let token = visit.take_note(&view.id.to_string());
    let content = html! {
        @if let Some(token) = &token {
            (notice(Tone::Warning, html! {
                p { strong { (visit.t("console-copy-token")) } }
                (copyable(&visit, "token", &visit.t("console-token"), token.expose()))
            }))
        }
        dl.facts {
            dt { (visit.t("console-name")) } dd { (view.name) br; code { (view.id) } }
            dt { (visit.t("console-status")) } dd { (state(&visit, &bridge)) }
            dt { (visit.t("console-calls")) } dd { (calls(&visit, &bridge)) }
            dt { (visit.t("console-last-seen")) } dd { (visit.time_or(view.last_seen_at, &visit.t("console-never"))) }
            dt { (visit.t("console-created")) } dd { (visit.time(view.created_at)) }
            dt { (visit.t("console-revoked")) } dd { (visit.time_or(view.revoked_at, NONE)) }
        }
        @if visit.may_change() && view.revoked_at.is_none() {
            div.actions { a.button.danger href={ (PATH) "/" (view.id) "/revoke" } { (visit.t("console-revoke")) } }
        }
    };
    Ok(layout::page(&visit, &visit.t("console-bridge"), content))
}

/// `GET /bridges/{id}/revoke`
pub async fn ask_revoke(visit: ConsoleView, id: Id<BridgeId>) -> Result<HttpResponse, ApiError> {
    let bridge = bridges::show(visit.operation(), id).await?;
    let path = format!("{PATH}/{}", id.0);
    let question = Question {
        path: &format!("{path}/revoke"),
        consequences: html! {
            p { (visit.rich("console-revoke-bridge-words", &[("name", html! { strong { (bridge.view.name) } })])) }
            @if bridge.calls > 0 { p { (visit.tn("console-revoke-bridge-calls", &[("calls", bridge.calls.into())])) } }
            p { (visit.t("console-revoke-bridge-final")) }
        },
        yes: visit.t("console-revoke-bridge"),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-revoke-bridge-title"),
        question.show(&visit),
    ))
}

/// `POST /bridges/{id}/revoke`
pub async fn revoke(visit: ConsoleView, id: Id<BridgeId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = bridges::delete(visit.operation(), id).await;
    acted(&visit, done, &path, "console-done-bridge-revoked")
}
