//! Answers in chats, as server-sent events.

use actix_web::{HttpResponse, http::header::CONTENT_TYPE};
use bytes::Bytes;
use dikala_entities::ChatId;
use futures_util::{StreamExt, stream};

use crate::{
    http::{
        error::ApiError,
        extract::{Id, RequestBody},
    },
    openapi::StreamedEvents,
    operations::{
        OperationContext,
        chats::{self, ChatEvent},
    },
};

/// The events of an answer.
pub const STREAMED: StreamedEvents = StreamedEvents {
    about: "The data of an event is an object with its `type`: `turn` (`role`, `text` so far, `final`), `function` (`name`, `status` \
            `running`, `ok` or `error`, `parameters`, `result`, `code`), `error` (`code`, `message`), and at the end `done` \
            (`messagesLeft`, `costIdr`).",
    example: "event: turn\ndata: {\"type\":\"turn\",\"role\":\"agent\",\"text\":\"It arrives today.\",\"final\":true}\n\n\
              event: done\ndata: {\"type\":\"done\",\"messagesLeft\":49,\"costIdr\":176}\n\n",
};

/// Sends a message; the answer's events are streamed while it is written.
pub async fn send(
    context: OperationContext,
    id: Id<ChatId>,
    body: RequestBody,
) -> Result<HttpResponse, ApiError> {
    let mut events = chats::send(&context, id.0, &body).await?;
    let events = stream::poll_fn(move |context| events.poll_recv(context));
    Ok(HttpResponse::Ok()
        .insert_header((CONTENT_TYPE, "text/event-stream"))
        // Without it, proxies such as nginx buffer the answer.
        .insert_header(("X-Accel-Buffering", "no"))
        .streaming(events.map(|event| Ok::<Bytes, ApiError>(written(&event)))))
}

fn written(event: &ChatEvent) -> Bytes {
    let data = serde_json::to_string(event).unwrap_or_default();
    format!("event: {}\ndata: {data}\n\n", event.name()).into()
}
