//! The HTTP transport: a request holds up to a hundred messages; the answer holds their replies in the same order,
//! and waiting commands.

use std::collections::BTreeMap;

use actix_web::{Error, HttpResponse, web};
use dikala_actors::bridges::Poll;
use dikala_entities::{BridgeId, foreign_json};
use dikala_protocol::{Command, MESSAGES_MAX};
use serde_json::{Value, json, value::RawValue};

use super::{
    BridgeContext,
    budget::ROOM_WITHIN,
    ordering::{OrderingQueues, payer},
    protocol::{self, MessageRefusal},
    ticket::Ticket,
};
use crate::{
    http::{
        body::RawBody,
        error::ApiError,
        field::{FieldCode, FieldError},
        request_id::named_trace,
    },
    node::Runtime,
};

/// Commands in one answer; the others wait for the next request.
const COMMANDS_MAX: usize = 100;

/// `POST /bridge/v1/messages`
pub async fn messages(
    bridge: web::ReqData<BridgeId>,
    context: web::Data<BridgeContext>,
    body: web::ReqData<RawBody>,
) -> Result<HttpResponse, Error> {
    let bridge = bridge.into_inner();
    let trace = named_trace();
    let requests: Vec<Result<_, MessageRefusal>> = parse(&body.0)?
        .into_iter()
        .map(|message| {
            let message = protocol::parse_text(message.get().as_bytes())?;
            Ok(message.within(trace.as_ref()))
        })
        .collect();
    let ids = requests.iter().map(|request| match request {
        Ok(message) => Some(message.id.as_str()),
        Err(refusal) => refusal.id.as_deref(),
    });
    let poll = Poll::new(ids, context.runtime.clock.now());
    let mut replies: Vec<Value> = vec![Value::Null; requests.len()];
    let share = context.budgets.of(bridge);
    // Splits the body's length evenly: the share matters only for functions, which take it along when they step
    // aside.
    let length = body.0.len().div_ceil(requests.len());
    let tickets: Vec<Ticket> = requests
        .iter()
        .enumerate()
        .map(|(place, request)| Ticket::new(place, request))
        .collect();
    let weighed = requests.into_iter().map(|request| {
        share.weigh(length, request, |request| {
            payer(&context.runtime.calls, request)
        })
    });
    let (requests, weights): (Vec<_>, Vec<_>) = weighed.unzip();
    let rooms = tokio::time::timeout(ROOM_WITHIN, share.rooms(weights))
        .await
        .map_err(|_| ApiError::Unavailable)?;
    let mut queues = OrderingQueues::new(&context, share, bridge);
    for (ticket, (request, room)) in tickets.into_iter().zip(requests.into_iter().zip(rooms)) {
        queues.accept(ticket, request, room);
    }
    // The rooms are held until the replies are written.
    let mut kept = Vec::with_capacity(replies.len());
    while let Some(finished) = queues.next().await {
        replies[finished.ticket.place] = finished.reply;
        kept.push((finished.ticket, finished.room));
    }
    let commands = commands_for(&context.runtime, bridge, &poll).await;
    let response = HttpResponse::Ok().json(json!({"replies": replies, "commands": commands}));
    for (ticket, room) in kept {
        ticket.answered(&context.runtime.bridges);
        drop(room);
    }
    Ok(response)
}

/// Commands that wait for the bridge, here and at other nodes. Those that cannot be read now wait for the next
/// request.
async fn commands_for(runtime: &Runtime, bridge: BridgeId, poll: &Poll) -> Vec<Command> {
    let given = runtime
        .bridges
        .give(&runtime.store, bridge, poll, COMMANDS_MAX);
    given.await.unwrap_or_else(|error| {
        tracing::warn!(%bridge, %error, "could not read commands for a bridge; they come with its next request");
        Vec::new()
    })
}

/// Splits a body into the texts of its messages, so that one that cannot be read is refused alone.
fn parse(body: &[u8]) -> Result<Vec<&RawValue>, ApiError> {
    let Ok(fields) = serde_json::from_slice::<BTreeMap<String, &RawValue>>(body) else {
        let error = foreign_json::value(body).err();
        let error = error.map(|error| ApiError::InvalidJson(error.to_string()));
        return Err(error.unwrap_or_else(|| wrong(FieldCode::Required)));
    };
    let messages = fields.get("messages");
    let messages = messages.ok_or_else(|| wrong(FieldCode::Required))?;
    let messages: Vec<&RawValue> =
        serde_json::from_str(messages.get()).map_err(|_| wrong(FieldCode::InvalidType))?;
    match messages.len() {
        0 => Err(wrong(FieldCode::TooShort)),
        1..=MESSAGES_MAX => Ok(messages),
        _ => Err(wrong(FieldCode::TooLong)),
    }
}

fn wrong(code: FieldCode) -> ApiError {
    ApiError::field(FieldError::new(
        "messages",
        code,
        "must be an array of 1 to 100 messages",
    ))
}
