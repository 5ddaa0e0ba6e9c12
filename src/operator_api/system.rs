//! What runs here: `/actors`, `/nodes` and `/config`.

use actix_web::web::Data;
use dikala_actors::runtime::{
    histogram::Distribution,
    metrics::{ActorMeter, MessageReading, meters},
};
use dikala_entities::Millis;
use serde::Serialize;
use utoipa::ToSchema;

use super::desk::Desk;
use crate::{
    config::Shown,
    http::{
        answer::Answer,
        error::{ApiError, Missing},
        extract::TypeName,
    },
};

/// A type of actor, all of its instances together.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actors {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Running now.
    instances: i64,
    /// Messages in mailboxes now.
    mailbox: i64,
    /// The most of one kind that there ever were.
    mailbox_highest: i64,
    handled: u64,
    /// Messages that nobody handled.
    lost: u64,
    /// How often one was brought back after a panic.
    restarts: u64,
}

/// How late the event loop of a thread is.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lag {
    /// What the thread does, with a number.
    name: String,
    /// The longest of the last seconds, or now; the first answer after a while tells of that moment only.
    lag_us: u64,
}

/// All types of actor that have run in this process, and the threads that they run on.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({"actors": [{
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "lost": 0, "restarts": 0,
    "messages": [{
        "message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}
    }]
}], "eventLoops": [{"name": "core-0", "lagUs": 1100}]}))]
pub struct ActorList {
    actors: Vec<ActorDetail>,
    event_loops: Vec<Lag>,
}

/// How long something takes, in microseconds, as exactly as it is counted: half of all, and 99 of 100, take so long at most. Null
/// where there was none.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
pub struct Times {
    p50: Option<u64>,
    p99: Option<u64>,
}

impl From<&Distribution> for Times {
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
    message: &'static str,
    mailbox: i64,
    mailbox_highest: i64,
    handled: u64,
    lost: u64,
    /// From sending one until it leaves the mailbox.
    wait_us: Times,
    /// In the handler, without what that awaits.
    handling_us: Times,
}

/// A type of actor with the kinds of message that it takes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({
    "type": "credit_ledger", "instances": 1, "mailbox": 0, "mailboxHighest": 12, "handled": 8123, "lost": 0, "restarts": 0,
    "messages": [{"message": "Post", "mailbox": 0, "mailboxHighest": 12, "handled": 8101, "lost": 0,
        "waitUs": {"p50": 25, "p99": 250}, "handlingUs": {"p50": 10, "p99": 100}}]
}))]
pub struct ActorDetail {
    #[serde(flatten)]
    #[schema(inline)]
    actors: Actors,
    messages: Vec<Messages>,
}

impl Actors {
    fn of(meter: &ActorMeter, messages: &[MessageReading]) -> Self {
        Self {
            kind: meter.name(),
            instances: meter.running(),
            mailbox: messages.iter().map(|of| of.depth).sum(),
            mailbox_highest: messages.iter().map(|of| of.depth_max).max().unwrap_or(0),
            handled: messages.iter().map(|of| of.handling.count()).sum(),
            lost: messages.iter().map(|of| of.lost).sum(),
            restarts: meter.restarts(),
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
            lost: reading.lost,
            wait_us: Times::from(&reading.wait),
            handling_us: Times::from(&reading.handling),
        }
    }
}

impl From<&ActorMeter> for ActorDetail {
    fn from(meter: &ActorMeter) -> Self {
        let messages = meter.readings();
        Self {
            actors: Actors::of(meter, &messages),
            messages: messages.into_iter().map(Messages::from).collect(),
        }
    }
}

/// `GET /actors`
pub async fn actors(desk: Data<Desk>) -> Answer {
    let lags = desk.loops.lags().into_iter();
    Answer::ok(&ActorList {
        actors: meters().into_iter().map(ActorDetail::from).collect(),
        event_loops: lags
            .map(|(name, lag)| Lag {
                name,
                lag_us: u64::try_from(lag.as_micros()).unwrap_or(u64::MAX),
            })
            .collect(),
    })
}

/// `GET /actors/{type}`
pub async fn actor(kind: TypeName) -> Result<Answer, ApiError> {
    let mut meters = meters().into_iter();
    let meter = meters.find(|meter| meter.name() == kind.0);
    let meter = meter.ok_or(ApiError::NotFound(Missing::Actor))?;
    Ok(Answer::ok(&ActorDetail::from(meter)))
}

/// A process of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub name: String,
    pub version: &'static str,
    pub started_at: Millis,
    /// Calls with an actor now.
    pub calls: usize,
    /// Bridges with an open socket now.
    pub bridges: usize,
}

/// All nodes: this one.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"nodes": [{
    "name": "main", "version": "0.1.0", "startedAt": "2026-01-15T03:30:00.000Z", "calls": 12, "bridges": 2
}]}))]
pub struct NodeList {
    pub nodes: Vec<Node>,
}

/// `GET /nodes`
pub async fn nodes(desk: Data<Desk>) -> Result<Answer, ApiError> {
    Ok(Answer::ok(&read_nodes(&desk).await?))
}

/// The processes of the service.
pub async fn read_nodes(desk: &Desk) -> Result<NodeList, ApiError> {
    Ok(NodeList {
        nodes: vec![Node {
            name: desk.node.calls.node().to_string(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: desk.started_at,
            calls: desk.node.calls.in_memory(),
            bridges: desk.node.bridges.connected_count(),
        }],
    })
}

/// The configuration that this process started with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"keys": [{"key": "http.listen", "value": "127.0.0.1:8080", "origin": "default"}]}))]
pub struct Configuration {
    keys: Vec<Shown>,
}

/// `GET /config`
pub async fn config(desk: Data<Desk>) -> Answer {
    Answer::ok(&Configuration {
        keys: desk.configuration.to_vec(),
    })
}
