//! The page of a call: why it ended, its facts, its timeline, and the same as a text to send on.

use actix_web::{HttpResponse, http::StatusCode, http::header::CONTENT_TYPE};
use dikala_entities::{CallId, CallStatus, DeliveryStatus, with_numbers_masked};
use maud::{Markup, html};

use super::{
    call_diagnosis, call_steps,
    calls::{PATH, callee, outcome, owner, talk},
    figures::{NONE, TenantNames, call_status, minutes},
    layout,
    list::{List, word},
    view::ConsoleView,
};
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::Id,
    },
    operations::{
        calls::{
            all_tenants::{self, CallDetail, OperatorCall},
            timeline::{self, CallTimeline},
        },
        numbers::{self, NumberView},
    },
    pages::{
        components::{Tone, notice, table},
        form::FormValues,
    },
};

/// Entries of the timeline on one page.
const STEPS: i64 = 40;
/// Longest shown description of a failure, in characters.
const FAILURE_CHARS_MAX: usize = 300;

/// A call with everything that its page shows.
struct ShownCall {
    found: CallDetail,
    names: TenantNames,
    /// The tenant's number that was called; none if it was removed since.
    number: Option<NumberView>,
    timeline: CallTimeline,
}

impl ShownCall {
    async fn read(visit: &ConsoleView, id: CallId) -> Result<Self, ApiError> {
        let context = visit.operation();
        let found = all_tenants::show(context.clone(), Id(id)).await?;
        let number = match found.call.phone_number_id {
            Some(number) => match numbers::show(context.clone(), Id(number)).await {
                Ok(number) => Some(number),
                Err(ApiError::NotFound(_)) => None,
                Err(error) => return Err(error),
            },
            None => None,
        };
        let db = visit.store().api_reader();
        Ok(Self {
            names: TenantNames::of(db, [found.call.tenant_id]).await?,
            timeline: timeline::timeline(&context, &found).await?,
            number,
            found,
        })
    }

    /// `+62*****7890 → +62215550100 · 19 s · Caller hung up`
    fn heading(&self, visit: &ConsoleView) -> String {
        let call = &self.found.call;
        let numbers = format!("{:?} → {}", call.caller_number, callee(call));
        let length = call.talk_time_seconds.filter(|talk| *talk > 0);
        let length = length.map(|talk| visit.tn("console-seconds", &[("count", talk.into())]));
        let state = outcome(visit, call).unwrap_or_else(|| word(visit, call.status.as_str()));
        let parts = [Some(numbers), length, Some(state)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" · ")
    }
}

/// `GET /calls/{id}`; with `format=text` the same as a text.
pub async fn show(
    visit: ConsoleView,
    id: Id<CallId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let shown = ShownCall::read(&visit, id.0).await?;
    if typed.text("format") == Some("text") {
        let report = report(&visit, &shown);
        return Ok(HttpResponse::Ok()
            .insert_header((CONTENT_TYPE, "text/plain; charset=utf-8"))
            .body(report));
    }
    let path = format!("{PATH}/{}", id.0);
    let list = List::new(&path, &[], &typed).of(STEPS);
    let more = format!("&id={}{}", id.0, list.query());
    // Of a call that is over only deliveries change.
    let of = match shown.found.call.status.is_final() {
        true => "call-over",
        false => "call",
    };
    let content = visit.followed(of, &more, &part(&visit, &shown, &list).await);
    let title = shown.heading(&visit);
    Ok(layout::with_heading(
        &visit,
        StatusCode::OK,
        &title,
        content,
    ))
}

/// The live part of a call's page.
pub async fn part_of_one(visit: &ConsoleView, typed: &FormValues) -> Result<Markup, ApiError> {
    let id = typed.text("id").and_then(|id| id.parse().ok());
    let id: CallId = id.ok_or(ApiError::NotFound(Missing::Call))?;
    let path = format!("{PATH}/{id}");
    let shown = ShownCall::read(visit, id).await?;
    Ok(part(visit, &shown, &List::new(&path, &[], typed).of(STEPS)).await)
}

async fn part(visit: &ConsoleView, shown: &ShownCall, list: &List<'_>) -> Markup {
    let found = &shown.found;
    let begin = list.text("offset").parse().unwrap_or(0).max(0);
    let (steps, has_more) = piece(&shown.timeline.steps, begin);
    let actor = actor(visit, &found.call).await;
    html! {
        div #part {
            h1 { (shown.heading(visit)) }
            (why(visit, &found.call))
            (facts(visit, shown, &actor))
            h2 { (visit.t("console-timeline")) }
            p.muted {
                (visit.rich("console-timeline-words", &[("day", visit.day(shown.timeline.rang_at))]))
                " " a href={ (PATH) "/" (found.call.id) "?format=text" } { (visit.t("console-as-text")) }
            }
            (call_steps::show(visit, &shown.timeline, steps, found.call.tenant_id))
            (list.paging(visit, begin, has_more))
            (call_steps::gaps(visit, &shown.timeline))
            (credit(visit, found))
            (call_diagnosis::media(visit, found))
        }
    }
}

fn piece<T>(all: &[T], begin: i64) -> (&[T], bool) {
    let count = |figure: i64| usize::try_from(figure).unwrap_or(usize::MAX);
    let rest = all.get(count(begin)..).unwrap_or_default();
    let steps = count(STEPS);
    (&rest[..rest.len().min(steps)], rest.len() > steps)
}

/// The reason of a call that failed or was dropped, with the bridge's description.
fn why(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    let is_bad = matches!(call.status, CallStatus::Failed | CallStatus::Dropped);
    html! {
        @if let Some(outcome) = outcome(visit, call).filter(|_| is_bad) {
            (notice(Tone::Bad, html! {
                p { strong { (outcome) } }
                @if let Some(detail) = &call.failure_detail { p lang="en" { (failure(detail)) } }
            }))
        }
    }
}

/// The API's name of the reason, and whose act the end was.
fn reason_code(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    html! {
        @if let Some(reason) = call.hangup_reason { code { (reason.as_str()) } }
        @if let Some(by) = call.hangup_initiator { ", " (visit.tn("console-ended-by", &[("who", word(visit, by.as_str()).into())])) }
    }
}

/// A bridge's description, which may quote what a peer sent.
fn failure(detail: &str) -> String {
    let masked = with_numbers_masked(detail).to_string();
    masked.chars().take(FAILURE_CHARS_MAX).collect()
}

/// The state of the call's actor, if it runs here.
async fn actor(visit: &ConsoleView, call: &OperatorCall) -> Markup {
    if call.status.is_final() {
        return html! {};
    }
    let running = visit.process().node.calls.describe(&[call.id]).await;
    let Some(running) = running.get(&call.id) else {
        return html! {};
    };
    let now = visit.state().now();
    let granted = [
        ("status", word(visit, running.status.as_str()).into()),
        ("minutes", running.granted_minutes.to_string().into()),
    ];
    html! {
        dt { a href="/actors/call" { (visit.t("console-call-actor")) } }
        dd {
            (visit.tn("console-call-granted", &granted))
            @if let Some(at) = running.next_deadline {
                ", " (visit.tn("console-next-deadline", &[("time", visit.lang().duration(at.since(now)).into())]))
            }
        }
    }
}

fn facts(visit: &ConsoleView, shown: &ShownCall, actor: &Markup) -> Markup {
    let call = &shown.found.call;
    let has_others = visit.process().node.member.has_others();
    html! {
        dl.facts {
            dt { (visit.t("console-status")) } dd { (call_status(visit, call.status)) }
            @if let Some(outcome) = outcome(visit, call) {
                dt { (visit.t("console-reason")) } dd { (outcome) " " (reason_code(visit, call)) }
            }
            dt { (visit.t("console-call")) } dd { code { (call.id) } br; span.muted { (bridge_call_id(visit, call)) } }
            dt { (visit.t("console-tenant")) } dd { (shown.names.link(call.tenant_id)) }
            dt { (visit.t("console-from-to")) } dd { (numbers_of(visit, shown)) }
            dt { (visit.t("console-channel")) } dd { code { (call.channel) } }
            dt { (visit.t("console-bridge")) } dd { a href={ "/bridges/" (call.bridge_id) } { code { (call.bridge_id) } } }
            @if has_others { dt { (visit.t("console-node")) } dd { (owner(visit, call)) } }
            (actor)
            dt { (visit.t("console-agent")) }
            dd {
                @if let Some(agent) = call.agent_id { code { (agent) } } @else { (NONE) }
                @if let Some(version) = call.agent_version { ", " (visit.tn("console-version", &[("version", version.to_string().into())])) }
            }
            dt { (visit.t("console-length")) } dd { (talk(visit, call)) }
            (conversation(visit, call))
            dt { (visit.t("console-last-heartbeat")) } dd { (visit.precise(call.last_sign_at)) }
            dt { (visit.t("console-deliveries")) } dd { (deliveries(visit, &shown.found)) }
        }
        @if visit.may_change() && !call.status.is_final() {
            div.actions { a.button.danger href={ (PATH) "/" (call.id) "/hangup" } { (visit.t("console-end-call")) } }
        }
    }
}

/// The masked caller, and the called number with a link if the tenant still has it.
fn numbers_of(visit: &ConsoleView, shown: &ShownCall) -> Markup {
    let call = &shown.found.call;
    html! {
        (format!("{:?}", call.caller_number)) " → "
        @match &shown.number {
            Some(number) => {
                @let path = if visit.may_change() { format!("/numbers/{}", number.id) } else { format!("/tenants/{}/numbers", number.tenant_id) };
                a href=(path) { (callee(call)) } " " span.muted { (number.label) }
            },
            None => (callee(call)),
        }
    }
}

/// The number of deliveries in each status.
fn deliveries(visit: &ConsoleView, found: &CallDetail) -> String {
    let count = |status| {
        let sent = found.deliveries.iter();
        i64::try_from(sent.filter(|sent| sent.status == status).count()).unwrap_or(i64::MAX)
    };
    let counts = [
        ("succeeded", count(DeliveryStatus::Succeeded).into()),
        ("pending", count(DeliveryStatus::Pending).into()),
        ("failed", count(DeliveryStatus::Failed).into()),
    ];
    visit.tn("console-call-deliveries-of", &counts)
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
            visit.precise(hold.created_at),
            html! { @if let Some(at) = hold.settled_at { (visit.precise(at)) } @else { span.muted { (visit.t("console-unsettled")) } } },
        ]
    });
    html! {
        h2 { (visit.t("console-credit")) }
        @if found.holds.is_empty() { p.muted { (visit.t("console-no-reservation")) } }
        @else { (table(visit, &visit.t("console-reservations"), &columns, rows.collect())) }
    }
}

/// The call as a text, without a page's frame.
fn report(visit: &ConsoleView, shown: &ShownCall) -> String {
    let call = &shown.found.call;
    let by = call.hangup_initiator.map(|by| word(visit, by.as_str()));
    let reason = call.hangup_reason.map(|reason| reason.as_str().to_owned());
    let facts = [
        ("console-call", Some(call.id.to_string())),
        ("console-tenant", Some(call.tenant_id.to_string())),
        ("console-bridge", Some(call.bridge_id.to_string())),
        (
            "console-agent",
            call.agent_id.map(|agent| agent.to_string()),
        ),
        ("console-channel", Some(call.channel.to_string())),
        ("console-started", Some(call.started_at.to_string())),
        ("console-reason", reason),
        ("console-ended-by-column", by),
        (
            "console-failure",
            call.failure_detail.as_deref().map(failure),
        ),
    ];
    let mut text = format!("{}\n\n", shown.heading(visit));
    for (name, value) in facts {
        if let Some(value) = value {
            text.push_str(&format!("{}: {value}\n", visit.t(name)));
        }
    }
    text.push('\n');
    for step in &shown.timeline.steps {
        text.push_str(&call_steps::line(
            visit,
            &shown.timeline,
            step,
            call.tenant_id,
        ));
    }
    text
}
