//! Calls: the list, active calls first; the page of one, with credit, events and deliveries; hang-up.

use actix_web::HttpResponse;
use dikala_entities::{CallId, CallStatus, with_numbers_masked};
use maud::{Markup, html};

use super::{
    call_diagnosis, deliveries,
    figures::{NONE, TenantNames, call_status, minutes, since},
    layout,
    list::{List, ListRows, ROWS, acted, any_of, word},
    view::ConsoleView,
};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{Id, RequestBody},
    },
    operations::calls::{
        self,
        all_tenants::{self, CallDetail, OperatorCall},
    },
    pages::{
        components::{Field, Question, short_id, table},
        form::FormValues,
    },
};

const PATH: &str = "/calls";
const TITLE: &str = "console-calls";
const FILTERS: &[&str] = &[
    "status",
    "tenantId",
    "bridgeId",
    "did",
    "callerNumber",
    "from",
    "to",
];

fn fields(visit: &ConsoleView) -> [Field; 7] {
    let text = |name, id: &str| Field::text(name, visit.t(id));
    let when = visit.t("console-moment-hint");
    [
        Field::select(
            "status",
            visit.t("console-status"),
            any_of(visit, CallStatus::WORDS),
        ),
        text("tenantId", "console-tenant-id"),
        text("bridgeId", "console-bridge-id"),
        text("did", "console-number-called").hint(visit.t("console-with-country-code")),
        text("callerNumber", "console-caller"),
        text("from", "console-started-from").hint(when.clone()),
        text("to", "console-started-before").hint(when),
    ]
}

/// `GET /calls`
pub async fn list(visit: ConsoleView, typed: FormValues) -> Result<HttpResponse, ApiError> {
    let list = List::new(PATH, FILTERS, &typed);
    let fields = fields(&visit);
    let content = part(&visit, &typed).await.map(|rows| {
        html! { (list.filter(&visit, &fields)) (visit.followed("calls", &list.query(), &rows)) }
    });
    list.page(&visit, TITLE, &fields, content)
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let list = List::new(PATH, FILTERS, typed);
    let found = all_tenants::list(visit.operation(), list.query_of()?).await?;
    let db = visit.store().api_reader();
    let names = TenantNames::of(db, found.calls.iter().map(|call| call.tenant_id)).await?;
    let mut columns = visit.columns("console-calls-columns");
    let has_others = visit.process().node.member.has_others();
    if has_others {
        columns.push(visit.t("console-node"));
    }
    if visit.may_change() {
        columns.push(String::new());
    }
    let row = |call: &OperatorCall| {
        let mut cells = vec![
            html! { a href={ (PATH) "/" (call.id) } { (visit.time(call.started_at)) } },
            call_status(visit, call.status),
            names.link(call.tenant_id),
            numbers(call),
            talk(visit, call),
        ];
        if has_others {
            cells.push(owner(visit, call));
        }
        if visit.may_change() {
            cells.push(end_link(visit, call));
        }
        cells
    };
    let rows = ListRows {
        title: TITLE,
        columns,
        rows: found.calls.iter().map(row).collect(),
        none: ("console-no-calls", "console-no-calls-words"),
    };
    Ok(list.part(visit, rows, found.offset, found.has_more))
}

/// Caller and callee, masked: enough to recognise a number that somebody mentions.
fn numbers(call: &OperatorCall) -> Markup {
    html! { (format!("{:?}", call.caller_number)) " → " (format!("{:?}", call.callee_number)) }
}

fn talk(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @match (call.talk_time_seconds, call.answered_at) {
            (Some(seconds), _) => { (visit.tn("console-seconds", &[("count", seconds.into())])) }
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

fn end_link(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @if !call.status.is_final() {
            a.button.secondary href={ (PATH) "/" (call.id) "/hangup" } aria-label=(visit.tn("console-end-of", &[("call", call.id.to_string().into())])) { (visit.t("console-end")) }
        }
    }
}

/// `GET /calls/{id}`
pub async fn show(
    visit: ConsoleView,
    id: Id<CallId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let list = List::new(&path, &[], &typed);
    let more = format!("&id={}{}", id.0, list.query());
    let content = visit.followed("call", &more, &detail(&visit, id.0, &list).await?);
    Ok(layout::page(&visit, &visit.t("console-call"), content))
}

/// The live part of a call's page.
pub async fn part_of_one(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let id = typed.text("id").and_then(|id| id.parse().ok());
    let id: CallId = id.ok_or(ApiError::NotFound(Missing::Call))?;
    let path = format!("{PATH}/{id}");
    detail(visit, id, &List::new(&path, &[], typed)).await
}

async fn detail(visit: &ConsoleView, id: CallId, list: &List<'_>) -> Result<Markup, ApiError> {
    let found = &all_tenants::show(visit.operation(), Id(id)).await?;
    let begin = list.text("offset").parse().unwrap_or(0).max(0);
    let names = TenantNames::of(visit.store().api_reader(), [found.call.tenant_id]).await?;
    let (events, more_events) = piece(&found.events, begin);
    let (sent, more_sent) = piece(&found.deliveries, begin);
    let diagnosis = call_diagnosis::show(visit, found).await?;
    let event_columns = visit.columns("console-call-events-columns");
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
            (diagnosis)
            h2 { (visit.t("console-events")) }
            @if events.is_empty() { p.muted { (visit.t("console-none-there")) } }
            @else { (table(visit, &visit.t("console-events"), &event_columns, event_rows.collect())) }
            h2 { (visit.t("console-deliveries")) }
            @if sent.is_empty() { p.muted { (visit.t("console-none-there")) } }
            @else { (deliveries::of_call(visit, sent)) }
            (list.paging(visit, begin, more_events || more_sent))
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
            dt { (visit.t("console-status")) } dd { (call_status(visit, call.status)) }
            dt { (visit.t("console-call")) } dd { code { (call.id) } br; span.muted { (bridge_call_id(visit, call)) } }
            dt { (visit.t("console-tenant")) } dd { (names.link(call.tenant_id)) }
            dt { (visit.t("console-from-to")) } dd { (numbers(call)) }
            dt { (visit.t("console-channel")) } dd { code { (call.channel) } }
            dt { (visit.t("console-bridge")) } dd { a href={ "/bridges/" (call.bridge_id) } { code { (call.bridge_id) } } }
            dt { (visit.t("console-node")) } dd { (owner(visit, call)) }
            dt { (visit.t("console-agent")) }
            dd {
                @if let Some(agent) = call.agent_id { code { (agent) } } @else { (NONE) }
                @if let Some(version) = call.agent_version { ", " (visit.tn("console-version", &[("version", version.to_string().into())])) }
            }
            dt { (visit.t("console-started")) } dd { (visit.time(call.started_at)) }
            dt { (visit.t("console-answered")) } dd { (visit.time_or(call.answered_at, NONE)) }
            @if let Some(at) = call.joined_at {
                dt { (visit.t("console-joined")) } dd { (visit.time(at)) }
            }
            dt { (visit.t("console-ended")) } dd { (visit.time_or(call.ended_at, NONE)) }
            dt { (visit.t("console-length")) } dd { (talk(visit, call)) }
            (conversation(visit, call))
            dt { (visit.t("console-last-heartbeat")) } dd { (visit.time(call.last_sign_at)) }
            @if let Some(reason) = call.hangup_reason {
                dt { (visit.t("console-reason")) }
                dd {
                    code { (reason.as_str()) }
                    @if let Some(by) = call.hangup_initiator { ", " (visit.tn("console-ended-by", &[("who", word(visit, by.as_str()).into())])) }
                }
            }
        }
        @if visit.may_change() && !call.status.is_final() {
            div.actions { a.button.danger href={ (PATH) "/" (call.id) "/hangup" } { (visit.t("console-end-call")) } }
        }
    }
}

/// The voice, and how the conversation went.
fn conversation(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @if let Some(provider) = call.voice_provider {
            dt { (visit.t("console-voice")) } dd { code { (provider) } }
        }
        @if let Some(ms) = call.turn_latency_ms {
            dt { (visit.t("console-turn-latency")) }
            dd { (visit.tn("console-turn-latency-of", &[("p50", ms.p50.into()), ("p95", ms.p95.into())])) }
        }
        @if let Some(count) = call.stalls {
            dt { (visit.t("console-stalls")) } dd { (visit.number(count)) }
        }
        @if let Some(count) = call.interruptions {
            dt { (visit.t("console-caller-interruptions")) } dd { (visit.number(count)) }
        }
    }
}

fn bridge_call_id(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    let id = html! { code { (with_numbers_masked(&call.bridge_call_id)) } };
    visit.rich("console-bridge-call-id", &[("id", id)])
}

fn credit(visit: &ConsoleView, found: &CallDetail) -> Markup {
    let columns = visit.columns("console-reservations-columns");
    let rows = found.holds.iter().map(|hold| {
        vec![
            minutes(visit, hold.held_minutes),
            minutes(visit, hold.used_minutes),
            html! {
                (visit.number(hold.grants))
                @if hold.last { " " (visit.t("console-last-grant")) }
                @if let Some(refusal) = &hold.refusal { br; span.muted { (visit.tn("console-grant-refused", &[("refusal", refusal.as_str().into())])) } }
            },
            visit.time(hold.created_at),
            visit.time_or(hold.settled_at, &visit.t("console-unsettled")),
        ]
    });
    html! {
        h2 { (visit.t("console-credit")) }
        @if found.holds.is_empty() { p.muted { (visit.t("console-no-reservation")) } }
        @else { (table(visit, &visit.t("console-reservations"), &columns, rows.collect())) }
    }
}

/// `GET /calls/{id}/hangup`
pub async fn ask_hang_up(visit: ConsoleView, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let call: OperatorCall = calls::show(visit.operation(), id).await?;
    let path = format!("{PATH}/{}", call.id);
    if call.status.is_final() {
        return Ok(visit.go(&path));
    }
    let question = Question {
        path: &format!("{path}/hangup"),
        consequences: html! {
            p { (visit.tn("console-end-call-words", &[("number", format!("{:?}", call.callee_number).into())])) }
            p { (visit.rich("console-end-call-reason", &[])) }
        },
        yes: visit.t("console-end-call"),
        back: &path,
    };
    Ok(layout::page(
        &visit,
        &visit.t("console-end-call-title"),
        question.show(&visit),
    ))
}

/// `POST /calls/{id}/hangup`
pub async fn hang_up(visit: ConsoleView, id: Id<CallId>) -> Result<HttpResponse, ApiError> {
    let path = format!("{PATH}/{}", id.0);
    let nothing = RequestBody::default();
    let done = calls::hang_up::<OperatorCall>(visit.operation(), id, nothing).await;
    acted(&visit, done, &path, "console-done-call-ending")
}
