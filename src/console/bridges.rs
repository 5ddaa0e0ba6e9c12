//! Bridges: connections and calls, creation with a token that is shown once, and revocation.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::BridgeId;
use dikala_sip::statistics::CallOutcomes;
use dikala_telephony::bridge::BridgeStatistics;
use maud::{Markup, html};

use super::{
    figures::{self, NONE, count},
    follow::followed,
    layout,
    list::{List, acted},
    view::ConsoleView,
};
use crate::{
    http::{error::ApiError, extract::Id},
    operations::bridges::{self, BridgeStatus},
    operator_api::actors::DurationPercentiles,
    pages::{
        components::{
            Field, Question, Tone, badge, copyable, empty, fields, notice, post, submit, table,
        },
        form::{self, FormState, FormValues},
    },
    telephony::distribution,
};

const PATH: &str = "/bridges";
const TITLE: &str = "Bridges";

/// `GET /bridges`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    match content(&visit, &typed, &FormState::blank()).await {
        Ok(content) => Ok(layout::page(&visit, TITLE, content)),
        Err(error) => List::new(PATH, &[], &typed).refused(&visit, TITLE, error, &[]),
    }
}

async fn content(
    visit: &ConsoleView,
    asked: &FormValues,
    filled: &FormState,
) -> Result<Markup, ApiError> {
    let more = List::new(PATH, &[], asked).query();
    Ok(html! {
        (followed(visit, "bridges", &more, &part(visit, asked).await?))
        @if visit.may_change() {
            section aria-labelledby="make" {
                h2 #make { "Create a bridge" }
                (post(visit, PATH, html! {
                    (fields(visit, filled, &[Field::text("name", "Name".to_owned())]))
                    (submit("Create a bridge"))
                }))
            }
        }
    })
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView, asked: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, &[], asked);
    let found = bridges::list(visit.operation(), list.query_of()?).await?;
    let columns = ["Bridge", "Status", "Calls", "Last seen", "Created"].map(str::to_owned);
    let row = |bridge: &BridgeStatus| {
        vec![
            html! { a href={ (PATH) "/" (bridge.view.id) } { (bridge.view.name) } },
            state(bridge),
            calls(visit, bridge),
            visit.time_or(bridge.view.last_seen_at, "never"),
            visit.time(bridge.view.created_at),
        ]
    };
    Ok(html! {
        div #part {
            @if found.bridges.is_empty() {
                (empty("No bridges", "Create one. The bridge signs in with its token.", html! {}))
            } @else {
                (table(visit, TITLE, &columns, found.bridges.iter().map(row).collect()))
            }
            (list.paging(found.offset, found.has_more))
            @if let Some(counted) = &visit.process().telephony { (inside(visit, &counted.read())) }
        }
    })
}

fn state(bridge: &BridgeStatus) -> Markup {
    if bridge.view.revoked_at.is_some() {
        badge(Tone::Plain, "revoked")
    } else if bridge.connected {
        badge(Tone::Good, "connected")
    } else {
        badge(Tone::Warning, "not connected")
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
    let number = |of: u64| count(visit, of);
    let within = |times| figures::times(&DurationPercentiles::from(&distribution(times)));
    html! {
        section aria-labelledby="inside" {
            h2 #inside { "Built-in bridge" }
            p { "Counts of the bridge in this process since its start; all of them are in " code { "/metrics" } " too." }
            dl.facts {
                dt { "Active calls" }
                dd { (number(sip.calls as u64)) ", " (number(sip.joined as u64)) " of them joined to a person" }
                dt { "Incoming calls" } dd { (outcomes(visit, &sip.callers)) }
                dt { "Calls to people" } dd { (outcomes(visit, &sip.persons)) }
                dt { "INVITE to answer, p50 / p99" } dd { (within(sip.answer)) }
                dt { "Interruption to silence, p50 / p99" } dd { (within(sip.barge_in)) }
                dt { "Trunks registered" } dd { (number(sip.registered_trunks as u64)) }
                dt { "Packets from callers, ended calls" }
                dd {
                    (number(sip.packets)) " received, " (number(sip.packets_lost)) " lost, "
                    (number(sip.packets_late)) " too late"
                }
                dt { "Packets to callers" }
                dd { (number(sip.ticks)) ", " (number(sip.ticks_late)) " more than 20 ms late" }
                dt { "Interruptions" }
                dd { (number(calls.pauses)) ", the model was interrupted " (number(calls.interruptions)) " times" }
                dt { "Model connections" }
                dd { (number(calls.reconnections)) " made again, " (number(calls.voices_lost)) " calls lost their voice" }
                dt { "Model cost" } dd { "IDR " (number(calls.cost_idr)) }
            }
        }
    }
}

fn outcomes(visit: &ConsoleView, of: &CallOutcomes) -> Markup {
    let number = |of: u64| count(visit, of);
    html! {
        (number(of.answered)) " answered, " (number(of.refused)) " refused, "
        (number(of.cancelled)) " cancelled, " (number(of.failed)) " failed"
    }
}

/// `POST /bridges`
pub async fn create(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let created = match form::body(&typed, bridges::FIELDS) {
        Ok(body) => bridges::create(visit.operation(), body).await,
        Err(error) => Err(error),
    };
    match created {
        Ok(created) => {
            let id = created.value.bridge.view.id.to_string();
            visit.leave_note(&id, &created.value.secret());
            Ok(visit.see(&format!("{PATH}/{id}"), "done-bridge-made"))
        }
        Err(error) => {
            let filled = FormState::again(typed, error)?;
            let content = content(&visit, &FormValues::default(), &filled).await?;
            Ok(layout::refused(&visit, TITLE, content))
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
                p { strong { "Copy the token now. It is not shown again." } }
                (copyable(&visit, "token", "Token", token.expose()))
            }))
        }
        dl.facts {
            dt { "Name" } dd { (view.name) br; code { (view.id) } }
            dt { "Status" } dd { (state(&bridge)) }
            dt { "Calls" } dd { (calls(&visit, &bridge)) }
            dt { "Last seen" } dd { (visit.time_or(view.last_seen_at, "never")) }
            dt { "Created" } dd { (visit.time(view.created_at)) }
            dt { "Revoked" } dd { (visit.time_or(view.revoked_at, NONE)) }
        }
        @if visit.may_change() && view.revoked_at.is_none() {
            div.actions { a.button.danger href={ (PATH) "/" (view.id) "/revoke" } { "Revoke" } }
        }
    };
    Ok(layout::page(&visit, "Bridge", content))
}

/// `GET /bridges/{id}/revoke`
pub async fn ask_revoke(visit: ConsoleView, id: Id<BridgeId>) -> Result<HttpResponse, ApiError> {
    let bridge = bridges::show(visit.operation(), id).await?;
    let path = format!("{PATH}/{}", id.0);
    let question = Question {
        path: &format!("{path}/revoke"),
        consequences: html! {
            p { "The token of " strong { (bridge.view.name) } " is refused from now on, and its sockets are closed within a second." }
            @if bridge.calls > 0 { p { "It holds " (visit.number(bridge.calls)) " calls, which nobody speaks for any more." } }
            p { "You cannot undo this. Create another bridge for another token." }
        },
        yes: "Revoke this bridge".to_owned(),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        "Revoke this bridge?",
        question.show(&visit),
    ))
}

/// `POST /bridges/{id}/revoke`
pub async fn revoke(visit: ConsoleView, id: Id<BridgeId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let done = bridges::delete(visit.operation(), id).await;
    acted(&visit, done, &path, "done-bridge-revoked")
}
