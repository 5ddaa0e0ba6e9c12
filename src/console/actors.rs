//! Actor types, lag of event loops, and the activity of a type's instances.

use actix_web::HttpResponse;
use dikala_entities::Millis;
use maud::{Markup, html};

use super::{layout, list::word, view::ConsoleView};
use crate::{
    http::{error::ApiError, extract::TypeName},
    operator_api::actors::{
        ActorDetail, ActorInstance, ActorType, CallActorState, DurationPercentiles, Lag, Messages,
        lags, of_type, types,
    },
    pages::{
        components::{empty, short_id, table},
        form::FormValues,
    },
};

/// Instances on a page.
const SHOWN: usize = 25;
/// Latest messages shown per instance.
const RECENT: usize = 4;

/// `GET /actors`
pub async fn list(visit: ConsoleView) -> Result<HttpResponse, ApiError> {
    let content = visit.followed("actors", "", &part(&visit).await);
    Ok(layout::page(&visit, &visit.t("console-actors"), content))
}

/// The live part of the list.
pub async fn part(visit: &ConsoleView) -> Markup {
    let look = visit.process().overview.look().await;
    let (types, lags) = (types(&look), lags(&visit.process()));
    html! {
        div #part {
            section { (all(visit, &types)) }
            section {
                h2 { (visit.t("console-event-loops")) }
                (loops(visit, &lags))
            }
            section {
                h2 { (visit.t("console-messages")) }
                @for of in &types {
                    @if !of.messages.is_empty() {
                        details #{ "of-" (of.actors.kind) } {
                            summary { (of.actors.kind) }
                            (messages(visit, of.actors.kind, &of.messages))
                        }
                    }
                }
            }
        }
    }
}

fn all(visit: &ConsoleView, types: &[ActorType]) -> Markup {
    let columns = visit.columns("console-actor-types-columns");
    let rows = types.iter().map(|of| {
        let actors = &of.actors;
        vec![
            html! { a.number href={ "/actors/" (actors.kind) } { (actors.kind) } },
            html! { (actors.instances) },
            html! { (actors.mailbox) " / " (actors.mailbox_highest) },
            rate(actors),
            slowest(&of.messages, |of| of.wait_us),
            slowest(&of.messages, |of| of.handling_us),
            html! { (actors.errors) },
            count(actors.restarts),
            count(actors.lost),
        ]
    });
    table(
        visit,
        &visit.t("console-actor-types"),
        &columns,
        rows.collect(),
    )
}

fn rate(actors: &crate::operator_api::actors::ActorTypeSummary) -> Markup {
    html! {
        @match actors.messages_per_second { Some(rate) => (rate), None => "–" }
    }
}

/// A count, highlighted if it is not zero.
fn count(count: u64) -> Markup {
    html! { @if count > 0 { strong.bad { (count) } } @else { "0" } }
}

/// The percentiles of the slowest kind of message.
fn slowest(messages: &[Messages], of: fn(&Messages) -> DurationPercentiles) -> Markup {
    let worst = |percentile: fn(DurationPercentiles) -> Option<u64>| {
        let each = messages
            .iter()
            .filter_map(|message| percentile(of(message)));
        each.max()
    };
    let (p50, p99) = (worst(|times| times.p50), worst(|times| times.p99));
    html! { (duration(p50)) " / " (duration(p99)) }
}

fn loops(visit: &ConsoleView, lags: &[Lag]) -> Markup {
    let rows = lags.iter().map(|lag| {
        let is_late = lag.lag_us > 500_000;
        vec![
            html! { (lag.name) },
            html! { span.bad[is_late] { (duration(Some(lag.lag_us))) } },
        ]
    });
    let columns = visit.columns("console-event-loops-columns");
    table(
        visit,
        &visit.t("console-event-loops"),
        &columns,
        rows.collect(),
    )
}

fn messages(visit: &ConsoleView, kind: &str, messages: &[Messages]) -> Markup {
    let columns = visit.columns("console-messages-columns");
    let times =
        |times: DurationPercentiles| html! { (duration(times.p50)) " / " (duration(times.p99)) };
    let rows = messages.iter().map(|of| {
        vec![
            html! { code.word { (of.message) } },
            html! { (of.mailbox) },
            html! { (of.mailbox_highest) },
            html! { (of.handled) },
            times(of.wait_us),
            times(of.handling_us),
            html! { (of.errors) },
            count(of.lost),
        ]
    });
    let caption = visit.tn("console-messages-to", &[("kind", kind.into())]);
    table(visit, &caption, &columns, rows.collect())
}

/// `GET /actors/{type}`
pub async fn show(visit: ConsoleView, kind: TypeName) -> Result<HttpResponse, ApiError> {
    let part = instances_of(&visit, &kind.0).await?;
    let content = visit.followed("actor", &format!("&type={}", kind.0), &part);
    Ok(layout::page(&visit, &kind.0, content))
}

/// The live part of an actor type's page.
pub async fn instances(visit: &ConsoleView, asked: &FormValues) -> Result<Markup, ApiError> {
    instances_of(visit, asked.text("type").unwrap_or_default()).await
}

async fn instances_of(visit: &ConsoleView, kind: &str) -> Result<Markup, ApiError> {
    let detail = of_type(&visit.process(), kind, SHOWN).await?;
    let ActorDetail {
        of,
        messages: kinds,
        busiest,
    } = &detail;
    Ok(html! {
        div #part {
            dl.figures {
                div { dt { (visit.t("console-running")) } dd { (of.instances) } }
                div { dt { (visit.t("console-mailbox")) } dd { (of.mailbox) span.more { (visit.tn("console-highest-of", &[("count", of.mailbox_highest.to_string().into())])) } } }
                div { dt { (visit.t("console-messages-per-second")) } dd { (rate(of)) } }
                div { dt { (visit.t("console-errors")) } dd { (of.errors) } }
                div { dt { (visit.t("console-restarts")) } dd { (count(of.restarts)) } }
                div { dt { (visit.t("console-lost")) } dd { (count(of.lost)) } }
            }
            section { h2 { (visit.t("console-messages")) } (messages(visit, kind, kinds)) }
            section {
                h2 { (visit.t("console-busiest")) }
                @if busiest.is_empty() {
                    (empty(&visit.t("console-none-running"), &visit.t("console-none-running-words"), html! {}))
                } @else {
                    (running(visit, busiest))
                }
            }
        }
    })
}

fn running(visit: &ConsoleView, busiest: &[ActorInstance]) -> Markup {
    let has_calls = busiest.iter().any(|instance| instance.call.is_some());
    let mut columns = visit.columns("console-instances-columns");
    if has_calls {
        columns.push(visit.t("console-call"));
    }
    let now = visit.process().now();
    let rows = busiest.iter().map(|instance| {
        let mut cells = vec![
            html! { (short_id(&instance.id)) },
            doing(visit, instance),
            html! { (instance.handled) },
            html! { (duration(Some(instance.busy_us))) },
            recent(visit, instance, now),
        ];
        if has_calls {
            cells.push(
                instance
                    .call
                    .as_ref()
                    .map_or_else(|| html! { "–" }, |call| of_call(visit, call, now)),
            );
        }
        cells
    });
    table(
        visit,
        &visit.t("console-busiest-instances"),
        &columns,
        rows.collect(),
    )
}

fn doing(visit: &ConsoleView, instance: &ActorInstance) -> Markup {
    html! {
        @match instance.doing {
            Some(message) => (visit.rich("console-doing", &[
                ("message", html! { code { (message) } }),
                ("time", html! { (duration(instance.doing_us)) }),
            ])),
            None => span.muted { (visit.t("console-waits")) },
        }
    }
}

fn recent(visit: &ConsoleView, instance: &ActorInstance, now: Millis) -> Markup {
    html! {
        @for (n, came) in instance.last_messages.iter().take(RECENT).enumerate() {
            @if n > 0 { ", " }
            (visit.rich("console-message-ago", &[
                ("message", html! { code { (came.message) } }),
                ("time", html! { (visit.lang().duration(now.since(came.at))) }),
            ]))
        }
    }
}

fn of_call(visit: &ConsoleView, call: &CallActorState, now: Millis) -> Markup {
    let granted = [
        ("status", word(visit, call.status.as_str()).into()),
        ("minutes", call.granted_minutes.to_string().into()),
    ];
    let until = |at: Millis| [("time", visit.lang().duration(at.since(now)).into())];
    html! {
        (visit.tn("console-call-granted", &granted))
        @if let Some(at) = call.next_deadline { ", " (visit.tn("console-next-deadline", &until(at))) }
    }
}

/// A duration given in microseconds: `250 µs`, `2.5 ms`, `3 s`.
fn duration(us: Option<u64>) -> String {
    match us {
        None => "–".to_owned(),
        Some(us @ ..1_000) => format!("{us} µs"),
        Some(us @ 1_000..10_000) => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        Some(us @ 10_000..1_000_000) => format!("{} ms", us / 1_000),
        Some(us) => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_people_do() {
        for (us, written) in [
            (None, "–"),
            (Some(0), "0 µs"),
            (Some(999), "999 µs"),
            (Some(2_550), "2.5 ms"),
            (Some(10_000), "10 ms"),
            (Some(1_250_000), "1.2 s"),
        ] {
            assert_eq!(duration(us), written);
        }
    }
}
