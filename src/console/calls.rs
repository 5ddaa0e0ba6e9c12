//! Calls: the list, active calls first; the page of one, with credit, events and deliveries; hang-up.

use actix_web::{HttpRequest, HttpResponse};
use dikala_entities::{CallId, CallStatus, with_numbers_masked};
use futures_util::future::LocalBoxFuture;
use maud::{Markup, html};

use super::{
    deliveries,
    figures::{NONE, TenantNames, call_status, since},
    follow, layout,
    list::{List, ROWS, acted, any_of},
    view::ConsoleView,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operator_api::calls::{self, CallDetail, CallList, OperatorCall},
    pages::{
        components::{Field, Question, empty, short_id, table},
        form::FormValues,
    },
};

const PATH: &str = "/calls";
const TITLE: &str = "Calls";
const FILTERS: &[&str] = &[
    "status",
    "tenantId",
    "bridgeId",
    "did",
    "callerNumber",
    "from",
    "to",
];

fn fields() -> [Field; 7] {
    let text = |name, label: &str| Field::text(name, label.to_owned());
    let when = "2026-01-15, or 2026-01-15T03:30:00Z";
    [
        Field::select("status", "Status".to_owned(), any_of(CallStatus::WORDS)),
        text("tenantId", "Tenant's id"),
        text("bridgeId", "Bridge's id"),
        text("did", "Number called").hint("With + and country code.".to_owned()),
        text("callerNumber", "Caller"),
        text("from", "Started at or after").hint(when.to_owned()),
        text("to", "Started before").hint(when.to_owned()),
    ]
}

/// `GET /calls`
pub async fn list(visit: ConsoleView, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let list = List::new(PATH, FILTERS, &typed);
    match found(&visit, &list).await {
        Ok(found) => {
            let rows = rows(&visit, &list, &found).await?;
            let content = html! {
                (list.filter(&visit, &fields()))
                (follow::followed(&visit, "calls", &list.query(), &rows))
            };
            Ok(layout::page(&visit, TITLE, content))
        }
        Err(error) => list.refused(&visit, TITLE, error, &fields()),
    }
}

async fn found(visit: &ConsoleView, list: &List<'_>) -> Result<CallList, ApiError> {
    let db = visit.store().api_reader();
    calls::page(db, &list.form()?, visit.state().now()).await
}

/// The live part of the list.
pub fn part<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    Box::pin(async move {
        let list = List::new(PATH, FILTERS, typed);
        let found = found(visit, &list).await?;
        rows(visit, &list, &found).await
    })
}

async fn rows(visit: &ConsoleView, list: &List<'_>, found: &CallList) -> Result<Markup, ApiError> {
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.calls.iter().map(|call| call.tenant_id)).await?;
    let mut columns = ["Started", "Status", "Tenant", "From, to", "Length"]
        .map(str::to_owned)
        .to_vec();
    let has_others = visit.process().node.member.has_others();
    if has_others {
        columns.push("Node".to_owned());
    }
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |call: &OperatorCall| {
        let mut cells = vec![
            html! { a href={ (PATH) "/" (call.id) } { (visit.time(call.started_at)) } },
            call_status(call.status),
            names.link(call.tenant_id),
            numbers(call),
            talk(visit, call),
        ];
        if has_others {
            cells.push(owner(visit, call));
        }
        if visit.may_change() {
            cells.push(end_link(call));
        }
        cells
    };
    Ok(html! {
        div #part {
            @if found.calls.is_empty() {
                (empty("No calls", "No calls are active on this node, or none match the filter.", html! {}))
            } @else {
                (table(visit, TITLE, &columns, found.calls.iter().map(row).collect()))
            }
            (list.paging(found.offset, found.has_more))
        }
    })
}

/// Caller and callee, masked: enough to recognise a number that somebody mentions.
fn numbers(call: &OperatorCall) -> Markup {
    html! { (format!("{:?}", call.caller_number)) " → " (format!("{:?}", call.callee_number)) }
}

fn talk(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @match (call.talk_time_seconds, call.answered_at) {
            (Some(seconds), _) => { (visit.number(seconds)) " s" }
            (None, Some(at)) if !call.status.is_final() => { (since(visit, at)) }
            _ => { (NONE) }
        }
    }
}

/// The node that owns the call; this node by its name.
fn owner(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    let is_own = *visit.process().node.member.id() == *call.owner;
    html! {
        @match call.owner.as_str() {
            "" => (NONE),
            owner if is_own => span title=(owner) { (visit.node()) },
            owner => (short_id(owner)),
        }
    }
}

fn end_link(call: &OperatorCall) -> Markup {
    html! {
        @if !call.status.is_final() {
            a.button.secondary href={ (PATH) "/" (call.id) "/hangup" } aria-label={ "End call " (call.id) } { "End" }
        }
    }
}

/// `GET /calls/{id}`
pub async fn show(
    visit: ConsoleView,
    id: Id<CallId>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    let typed = FormValues::parse(request.query_string().as_bytes());
    let found = calls::detail(visit.store().api_reader(), id.0).await?;
    let path = format!("{PATH}/{}", id.0);
    let list = List::new(&path, &[], &typed);
    let begin = offset(&list);
    let more = format!("&id={}{}", id.0, list.query());
    let content = follow::followed(
        &visit,
        "call",
        &more,
        &detail(&visit, &found, &list, begin).await?,
    );
    Ok(layout::page(&visit, "Call", content))
}

/// The live part of a call's page.
pub fn part_of_one<'a>(
    visit: &'a ConsoleView,
    typed: &'a FormValues,
) -> LocalBoxFuture<'a, Result<Markup, ApiError>> {
    Box::pin(async move {
        let id: CallId = typed
            .text("id")
            .and_then(|id| id.parse().ok())
            .ok_or(ApiError::NotFound(crate::http::error::Missing::Call))?;
        let found = calls::detail(visit.store().api_reader(), id).await?;
        let path = format!("{PATH}/{id}");
        let list = List::new(&path, &[], typed);
        let begin = offset(&list);
        detail(visit, &found, &list, begin).await
    })
}

fn offset(list: &List<'_>) -> i64 {
    list.text("offset").parse().unwrap_or(0).max(0)
}

async fn detail(
    visit: &ConsoleView,
    found: &CallDetail,
    list: &List<'_>,
    begin: i64,
) -> Result<Markup, ApiError> {
    let names = TenantNames::of(visit.store().api_reader(), [found.call.tenant_id]).await?;
    let (events, more_events) = piece(&found.events, begin);
    let (sent, more_sent) = piece(&found.deliveries, begin);
    let event_columns = ["Event", "When"].map(str::to_owned);
    let event_rows = events.iter().map(|event| {
        vec![
            html! { code.word { (event.event.as_str()) } },
            visit.time(event.timestamp),
        ]
    });
    Ok(html! {
        div #part {
            (facts(visit, &found.call, &names))
            (credit(visit, found))
            h2 { "Events" }
            @if events.is_empty() { p.muted { "None." } }
            @else { (table(visit, "Events", &event_columns, event_rows.collect())) }
            h2 { "Deliveries" }
            @if sent.is_empty() { p.muted { "None." } }
            @else { (deliveries::of_call(visit, sent)) }
            (list.paging(begin, more_events || more_sent))
        }
    })
}

fn piece<T>(all: &[T], begin: i64) -> (&[T], bool) {
    let count = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
    let rest = all.get(count(begin)..).unwrap_or_default();
    (
        &rest[..rest.len().min(count(ROWS))],
        rest.len() > count(ROWS),
    )
}

fn facts(visit: &ConsoleView, call: &OperatorCall, names: &TenantNames) -> Markup {
    html! {
        dl.facts {
            dt { "Status" } dd { (call_status(call.status)) }
            dt { "Call" } dd { code { (call.id) } br; span.muted { "the bridge's own id: " code { (with_numbers_masked(&call.bridge_call_id)) } } }
            dt { "Tenant" } dd { (names.link(call.tenant_id)) }
            dt { "From, to" } dd { (numbers(call)) }
            dt { "Bridge" } dd { a href={ "/bridges/" (call.bridge_id) } { code { (call.bridge_id) } } }
            dt { "Node" } dd { (owner(visit, call)) }
            dt { "Agent" }
            dd {
                @if let Some(agent) = call.agent_id { code { (agent) } } @else { (NONE) }
                @if let Some(version) = call.agent_version { ", version " (version) }
            }
            dt { "Started" } dd { (visit.time(call.started_at)) }
            dt { "Answered" } dd { (visit.time_or(call.answered_at, NONE)) }
            dt { "Ended" } dd { (visit.time_or(call.ended_at, NONE)) }
            dt { "Length" } dd { (talk(visit, call)) }
            dt { "Last heartbeat" } dd { (visit.time(call.last_sign_at)) }
            @if let Some(reason) = call.hangup_reason {
                dt { "Reason" }
                dd {
                    code { (reason.as_str()) }
                    @if let Some(by) = call.hangup_initiator { ", by " (by.as_str()) }
                }
            }
        }
        @if visit.may_change() && !call.status.is_final() {
            div.actions { a.button.danger href={ (PATH) "/" (call.id) "/hangup" } { "End this call" } }
        }
    }
}

fn credit(visit: &ConsoleView, found: &CallDetail) -> Markup {
    let columns = ["Reserved", "Used", "Grants", "Created", "Settled"].map(str::to_owned);
    let rows = found.holds.iter().map(|hold| {
        vec![
            html! { (visit.number(hold.held_minutes)) " min" },
            html! { (visit.number(hold.used_minutes)) " min" },
            html! {
                (visit.number(hold.grants))
                @if hold.last { " (the last)" }
                @if let Some(refusal) = &hold.refusal { br; span.muted { "refused: " (refusal) } }
            },
            visit.time(hold.created_at),
            visit.time_or(hold.settled_at, "open"),
        ]
    });
    html! {
        h2 { "Credit" }
        @if found.holds.is_empty() { p.muted { "No reservation: the call was refused before it needed credit, or the record was deleted." } }
        @else { (table(visit, "Reservations", &columns, rows.collect())) }
    }
}

/// `GET /calls/{id}/hangup`
pub async fn ask_hang_up(visit: ConsoleView, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call = calls::find(visit.store().api_reader(), id.0).await?;
    let path = format!("{PATH}/{}", call.id);
    if call.status.is_final() {
        return Ok(visit.go(&path));
    }
    let question = Question {
        path: &format!("{path}/hangup"),
        consequences: html! {
            p { "The bridge is told to hang up " (format!("{:?}", call.callee_number)) ". Where it does not confirm, the call ends in the books after ten seconds." }
            p { "It ends with the reason " code { "operator" } "; the tenant is told of it, and the minutes that were begun are paid." }
        },
        yes: "End this call".to_owned(),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        "End this call?",
        question.show(&visit),
    ))
}

/// `POST /calls/{id}/hangup`
pub async fn hang_up(visit: ConsoleView, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let nothing = RequestBody::default();
    let done = calls::hang_up(visit.process(), visit.operation(), id, nothing).await;
    acted(&visit, done, &path, "done-call-ending")
}
