//! `/actors`: actor types and the activity of their instances.

use std::{collections::HashMap, time::Duration};

use actix_web::web::Data;
use dikala_actors::{
    calls::messages::CallSnapshot,
    runtime::{
        histogram::Distribution,
        instances::InstanceReading,
        metrics::{ActorMeter, MessageReading, meters},
    },
};
use dikala_entities::{CallId, CallStatus, Millis};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::OperatorContext;
use crate::{
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::TypeName,
    },
    overview::{OverviewReading, figures::Thousandths},
};

/// Maximum number of shown instances.
const INSTANCES_MAX: usize = 100;

/// A type of actor, all of its instances together.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Actors)]
pub struct ActorTypeSummary {
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Running now.
    pub instances: i64,
    /// Messages in mailboxes now.
    pub mailbox: i64,
    /// The most that there ever were at once.
    pub mailbox_highest: i64,
    pub handled: u64,
    /// Handlers that answered with an error, refusals too, or panicked.
    pub errors: u64,
    /// Messages that nobody handled.
    pub lost: u64,
    /// How often one was brought back after a panic.
    pub restarts: u64,
    /// Messages that may wait for one instance; past that senders wait.
    pub mailbox_capacity: i64,
    /// Handled messages per second over the last ten seconds; null if the figures were not requested recently.
    #[schema(value_type = Option<f64>)]
    pub messages_per_second: Option<Thousandths>,
}

/// The lag of a thread's event loop.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// The task of the thread, with a number.
    pub name: String,
    /// The largest lag of the last seconds. The first answer after a pause has the current lag only.
    pub lag_us: u64,
}

/// All types of actor that have run in this process, and the threads that they run on.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"actors": [{
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "errors": 2, "lost": 0, "restarts": 0,
    "mailboxCapacity": 4096, "messagesPerSecond": 12.5,
    "messages": [{
        "message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "errors": 2, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}
    }]
}], "eventLoops": [{"name": "core-0", "lagUs": 1100}]}))]
pub struct ActorList {
    actors: Vec<ActorType>,
    event_loops: Vec<Lag>,
}

/// Median and 99th percentile of a duration, in microseconds, as upper bounds of the counted classes. Null if
/// nothing was counted.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = Times)]
pub struct DurationPercentiles {
    pub p50: Option<u64>,
    pub p99: Option<u64>,
}

impl From<&Distribution> for DurationPercentiles {
    fn from(times: &Distribution) -> Self {
        Self {
            p50: times.percentile(50),
            p99: times.percentile(99),
        }
    }
}

/// One kind of message to a type of actor.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Messages {
    pub message: &'static str,
    pub mailbox: i64,
    pub mailbox_highest: i64,
    pub handled: u64,
    pub errors: u64,
    pub lost: u64,
    /// From sending one until it leaves the mailbox.
    pub wait_us: DurationPercentiles,
    /// In the handler, without what that awaits.
    pub handling_us: DurationPercentiles,
}

/// A type of actor with the kinds of message that it takes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "errors": 2, "lost": 0, "restarts": 0,
    "mailboxCapacity": 4096, "messagesPerSecond": 12.5,
    "messages": [{"message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "errors": 2, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}}]
}))]
pub struct ActorType {
    #[serde(flatten)]
    #[schema(inline)]
    pub actors: ActorTypeSummary,
    pub messages: Vec<Messages>,
}

/// A message that came to an actor.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Came)]
pub struct HandledMessage {
    pub message: &'static str,
    pub at: Millis,
}

/// The call of an actor.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = CallState)]
pub struct CallActorState {
    pub status: CallStatus,
    /// Minutes that the ledger granted so far.
    pub granted_minutes: i64,
    /// When it looks at the clock again.
    pub next_deadline: Option<Millis>,
}

/// One instance of a type of actor.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Instance)]
pub struct ActorInstance {
    /// The call's id; of other types a number.
    pub id: String,
    pub started_at: Millis,
    pub handled: u64,
    /// In handlers, in all.
    pub busy_us: u64,
    /// The message that is handled, or waited for, now.
    pub doing: Option<&'static str>,
    /// For how long.
    pub doing_us: Option<u64>,
    /// The newest first.
    pub last_messages: Vec<HandledMessage>,
    /// Of a call's actor; null where it does not answer at once.
    pub call: Option<CallActorState>,
}

/// A type of actor with the kinds of message that it takes, and its instances.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "call", "instances": 1, "mailbox": 0, "mailboxHighest": 2, "handled": 3, "errors": 0, "lost": 0, "restarts": 0,
    "mailboxCapacity": 16, "messagesPerSecond": 0.5,
    "messages": [{"message": "Tell", "mailbox": 0, "mailboxHighest": 2, "handled": 3, "errors": 0, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}}],
    "busiest": [{"id": "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "startedAt": "2026-01-15T03:30:00.000Z", "handled": 3, "busyUs": 120,
        "doing": null, "doingUs": null, "lastMessages": [{"message": "Tell", "at": "2026-01-15T03:30:04.000Z"}],
        "call": {"status": "answered", "grantedMinutes": 2, "nextDeadline": "2026-01-15T03:31:30.000Z"}}]
}))]
pub struct ActorDetail {
    #[serde(flatten)]
    #[schema(inline)]
    pub of: ActorTypeSummary,
    pub messages: Vec<Messages>,
    /// Those that handled for longest first; 100 at most.
    pub busiest: Vec<ActorInstance>,
}

impl ActorTypeSummary {
    fn of(meter: &ActorMeter, messages: &[MessageReading], look: &OverviewReading) -> Self {
        let mailbox = meter.mailbox();
        Self {
            kind: meter.name(),
            instances: meter.running(),
            mailbox: mailbox.now,
            mailbox_highest: mailbox.highest,
            handled: messages
                .iter()
                .filter(|of| !of.is_look)
                .map(|of| of.handling.count())
                .sum(),
            errors: messages.iter().map(|of| of.errors).sum(),
            lost: messages.iter().map(|of| of.lost).sum(),
            restarts: meter.restarts(),
            mailbox_capacity: meter.capacity(),
            messages_per_second: look.rate_of(meter.name()).map(Thousandths),
        }
    }
}

impl From<MessageReading> for Messages {
    fn from(reading: MessageReading) -> Self {
        Self {
            message: reading.message,
            mailbox: reading.depth,
            mailbox_highest: reading.depth_max,
            handled: reading.handling.count(),
            errors: reading.errors,
            lost: reading.lost,
            wait_us: DurationPercentiles::from(&reading.wait),
            handling_us: DurationPercentiles::from(&reading.handling),
        }
    }
}

impl ActorType {
    fn of(meter: &ActorMeter, look: &OverviewReading) -> Self {
        let messages = meter.readings();
        Self {
            actors: ActorTypeSummary::of(meter, &messages, look),
            messages: messages.into_iter().map(Messages::from).collect(),
        }
    }
}

impl ActorInstance {
    fn of(reading: InstanceReading, now: Millis, calls: &HashMap<CallId, CallSnapshot>) -> Self {
        let before =
            |ago: Duration| now.plus_ms(i64::try_from(ago.as_millis()).map_or(i64::MIN, |ms| -ms));
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let call = reading.name.parse().ok().and_then(|id| calls.get(&id));
        let came = reading.recent.into_iter();
        Self {
            started_at: before(reading.running),
            handled: reading.handled,
            busy_us: us(reading.busy),
            doing: reading.doing.map(|(message, _)| message),
            doing_us: reading.doing.map(|(_, since)| us(since)),
            last_messages: came
                .map(|(message, ago)| HandledMessage {
                    message,
                    at: before(ago),
                })
                .collect(),
            call: call.map(|call| CallActorState {
                status: call.status,
                granted_minutes: call.granted_minutes,
                next_deadline: call.next_deadline,
            }),
            id: reading.name,
        }
    }
}

/// All actor types that have run in this process.
pub fn types(look: &OverviewReading) -> Vec<ActorType> {
    let meters = meters().into_iter();
    meters.map(|meter| ActorType::of(meter, look)).collect()
}

/// The lag of all event loops.
pub fn lags(process: &OperatorContext) -> Vec<Lag> {
    let lags = process.loops.lags().into_iter();
    lags.map(|(name, lag)| Lag {
        name,
        lag_us: u64::try_from(lag.as_micros()).unwrap_or(u64::MAX),
    })
    .collect()
}

/// An actor type with its busiest instances, at most `most`.
pub async fn of_type(
    process: &OperatorContext,
    kind: &str,
    most: usize,
) -> Result<ActorDetail, ApiError> {
    let meter = meters().into_iter().find(|meter| meter.name() == kind);
    let meter = meter.ok_or(ApiError::NotFound(Missing::Actor))?;
    let look = process.overview.look().await;
    let ActorType { actors, messages } = ActorType::of(meter, &look);
    let busiest = meter.busiest(most);
    let calls: Vec<CallId> = busiest
        .iter()
        .filter_map(|reading| reading.name.parse().ok())
        .collect();
    let calls = process.node.calls.describe(&calls).await;
    let now = process.now();
    Ok(ActorDetail {
        of: actors,
        messages,
        busiest: busiest
            .into_iter()
            .map(|reading| ActorInstance::of(reading, now, &calls))
            .collect(),
    })
}

/// `GET /actors`
pub async fn list(process: Data<OperatorContext>) -> ApiAnswer {
    let look = process.overview.look().await;
    ApiAnswer::ok(&ActorList {
        actors: types(&look),
        event_loops: lags(&process),
    })
}

/// `GET /actors/{type}`
pub async fn show(process: Data<OperatorContext>, kind: TypeName) -> Result<ApiAnswer, ApiError> {
    Ok(ApiAnswer::ok(
        &of_type(&process, &kind.0, INSTANCES_MAX).await?,
    ))
}
