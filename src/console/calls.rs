//! Calls: the list, active calls first, and hang-up.

use actix_web::HttpResponse;
use dikala_entities::{CallId, CallStatus, HangupInitiator, HangupReason};
use maud::{Markup, html};

use super::{
    figures::{NONE, TenantNames, call_status, since},
    layout,
    list::{List, ListRows, acted, any_of},
    view::ConsoleView,
};
use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    operations::calls::{
        self,
        all_tenants::{self, OperatorCall},
    },
    pages::{
        components::{Field, Question, short_id},
        form::FormValues,
        view::View,
        words::reason_id,
    },
};

pub const PATH: &str = "/calls";
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
    // Such a search reads up to 100,000 calls, so it is not repeated each second.
    let is_search = list.text("tenantId").is_empty() && !list.text("callerNumber").is_empty();
    let content = part(&visit, &typed).await.map(|rows| {
        html! {
            (list.filter(&visit, &fields))
            @if is_search {
                p.hint { (visit.t("console-calls-reach")) }
                (rows)
            } @else {
                (visit.followed("calls", &list.query(), &rows))
            }
        }
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
            html! { a href={ (PATH) "/" (call.id) } { (visit.precise(call.started_at)) } },
            call_status(visit, call.status),
            html! { (outcome(visit, call).unwrap_or_else(|| NONE.to_owned())) },
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
    html! { span.word { (format!("{:?}", call.caller_number)) " →" } " " span.word { (callee(call)) } }
}

/// The called number: whole if it is the tenant's own, otherwise masked.
pub fn callee(call: &OperatorCall) -> String {
    match call.phone_number_id {
        Some(_) => call.callee_number.as_str().to_owned(),
        None => format!("{:?}", call.callee_number),
    }
}

/// Why a call ended, in words; `None` while it runs.
pub fn outcome(view: &View, call: &OperatorCall) -> Option<String> {
    let reason = call.hangup_reason?;
    Some(reason_words(view, reason, call.hangup_initiator))
}

/// A reason in an operator's words.
pub fn reason_words(view: &View, reason: HangupReason, by: Option<HangupInitiator>) -> String {
    view.t(match (reason, by) {
        (HangupReason::Normal, Some(HangupInitiator::Caller)) => "calls-caller-hung-up",
        (HangupReason::Normal, Some(HangupInitiator::Agent)) => "calls-agent-hung-up",
        (HangupReason::Requested, _) => "console-reason-requested",
        (HangupReason::Operator, _) => "console-reason-operator",
        (HangupReason::TenantSuspended, _) => "console-reason-suspended",
        (reason, _) => reason_id(reason),
    })
}

pub fn talk(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @match (call.talk_time_seconds, call.answered_at) {
            (Some(seconds), _) => { (visit.tn("console-seconds", &[("count", seconds.into())])) }
            (None, Some(at)) if !call.status.is_final() => { (since(visit, at)) }
            _ => { (NONE) }
        }
    }
}

/// The node that owns the call; this node by its name.
pub fn owner(visit: &ConsoleView, call: &OperatorCall) -> Markup {
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
