//! Writes to an agent, with the settings of its form, saved or not. Works without a script: an answer is a new page.

use actix_web::HttpResponse;
use dikala_entities::{AgentId, ChatFault, ChatId, Speaker, chat};
use dikala_protocol::InvocationOutcome;
use dikala_telephony::voice::pipeline::{TextCall, TextTurn};
use maud::{Markup, html};
use serde_json::Value;

use super::{
    super::{
        calls::conversation,
        calls::record::TranscriptTurn,
        calls::timeline::InvokedFunction,
        components::{self, Field, post, submit},
        errors,
        form::{self, Fields, FormState, FormValues, Shape},
        format, layout,
        view::SignedIn,
    },
    path_of,
};
use crate::{
    http::{
        error::ApiError,
        extract::Id,
        field::{FieldCode, FieldError},
    },
    operations::chats::{self, ChatEvent},
};

const TEXT: &Fields = &[("text", Shape::Text)];
const TEXT_ROWS: u8 = 3;
/// The id of the agent's form.
pub const FORM: &str = "agent";

/// The path of a chat.
pub fn path(id: ChatId) -> String {
    format!("/dashboard/chats/{id}")
}

/// The part of the agent's page that begins a chat with what the form says. The form stays as it is.
pub fn section(visit: &SignedIn, agent: AgentId) -> Markup {
    html! {
        @if visit.operation().chats().is_ok() {
            section aria-labelledby="chat-title" {
                h2 #chat-title { (visit.t("chat-title")) }
                p { (visit.t("chat-invitation")) }
                button.secondary type="submit" form=(FORM) formaction={ (path_of(agent)) "/chats" } formtarget="_blank" {
                    (visit.t("chat-begin"))
                }
            }
        }
    }
}

/// `GET /dashboard/chats/{id}`
pub async fn show(visit: SignedIn, id: Id<ChatId>) -> Result<HttpResponse, ApiError> {
    let chat = chats::find(&visit.operation(), id.0).await?;
    let content = content(&visit, &chat, &FormState::blank());
    Ok(layout::page(&visit, &title(&visit, &chat), content))
}

fn title(visit: &SignedIn, chat: &chat::Model) -> String {
    let name = chats::agent_name(chat);
    visit.tn("chat-with", &[("name", name.as_str().into())])
}

fn content(visit: &SignedIn, chat: &chat::Model, filled: &FormState) -> Markup {
    let left = chats::MESSAGES_MAX - chat.messages;
    let cost = format::rupiah(visit.lang(), chats::cost_idr(chat.cost));
    let facts = [("left", left.into()), ("cost", cost.as_str().into())];
    html! {
        p.way { a href=(path_of(chat.agent_id)) { (visit.t("chat-back")) } }
        p.muted { (visit.t(if chat.is_draft { "chat-draft" } else { "chat-saved" })) " " (visit.t("chat-words")) }
        ol.conversation { (turns(visit, &chats::turns(chat))) }
        p.hint #end { (visit.tn("chat-facts", &facts)) " " (visit.t("chat-until")) " " (visit.time(chat.expires_at)) }
        @if left > 0 && visit.is_owner() {
            (post(visit, &path(chat.id), html! {
                (components::fields(visit, filled, &[Field::area("text", visit.t("chat-text"), TEXT_ROWS)]))
                (submit(&visit.t("chat-send")))
            }))
        } @else {
            (components::summary(visit, filled, &[]))
        }
    }
}

fn turns(visit: &SignedIn, turns: &[TextTurn]) -> Markup {
    let nowhen = html! {};
    let said = |role, text: &str| {
        let turn = TranscriptTurn {
            role,
            text: text.to_owned(),
            at: None,
            latency_ms: None,
            interrupted: false,
        };
        conversation::said(visit, &nowhen, &turn)
    };
    let mut functions = 0;
    html! {
        @for turn in turns {
            @match turn {
                TextTurn::Caller { text } => (said(Speaker::Caller, text)),
                TextTurn::Agent { text, calls } => {
                    @if !text.is_empty() { (said(Speaker::Agent, text)) }
                    @for call in calls {
                        (conversation::called(visit, &nowhen, &invoked(call), { functions += 1; functions }))
                    }
                }
            }
        }
    }
}

fn invoked(call: &TextCall) -> InvokedFunction {
    let (result, fault) = match &call.outcome {
        Some(InvocationOutcome::Ok { result }) => (Some(Value::Object(result.clone())), None),
        Some(InvocationOutcome::Error { code, message }) => {
            (Some(Value::String(message.clone())), Some(code.clone()))
        }
        None => (None, None),
    };
    InvokedFunction {
        name: call.name.clone(),
        parameters: call.arguments.clone().map(Value::Object),
        result,
        fault,
        duration_ms: None,
    }
}

/// `POST /dashboard/chats/{id}`: a message. Waits for the answer.
pub async fn send(
    visit: SignedIn,
    id: Id<ChatId>,
    typed: FormValues,
) -> Result<HttpResponse, ApiError> {
    let sent = match form::body(&typed, TEXT) {
        Ok(body) => chats::send(&visit.operation(), id.0, &body).await,
        Err(error) => Err(error),
    };
    let mut events = match sent {
        Ok(events) => events,
        Err(error) => {
            let chat = chats::find(&visit.operation(), id.0).await?;
            return refused(&visit, &chat, typed, error);
        }
    };
    let mut fault = None;
    while let Some(event) = events.recv().await {
        if let ChatEvent::Error { code, .. } = event {
            fault = Some(code);
        }
    }
    let Some(fault) = fault else {
        return Ok(visit.go(&format!("{}#end", path(id.0))));
    };
    let chat = chats::find(&visit.operation(), id.0).await?;
    // A message that is no part of the chat is in the field again.
    let text = typed.text("text").unwrap_or_default();
    let typed = match chats::has_last(&chat, text.trim()) {
        true => FormValues::default(),
        false => typed,
    };
    // An error of the text box gives it the focus: the end of a long chat is far below the top of the page.
    let sentence = visit.t(fault_id(fault));
    let error = FieldError::translated("text", FieldCode::NotAllowed, sentence);
    refused(&visit, &chat, typed, ApiError::Validation(vec![error]))
}

/// The chat, with the reason why the message has no answer.
fn refused(
    visit: &SignedIn,
    chat: &chat::Model,
    typed: FormValues,
    error: ApiError,
) -> Result<HttpResponse, ApiError> {
    let filled = FormState::again(typed, error)?;
    let content = content(visit, chat, &filled);
    let title = title(visit, chat);
    Ok(errors::refused(visit, &title, content, &filled))
}

const fn fault_id(fault: ChatFault) -> &'static str {
    match fault {
        ChatFault::NoAnswer => "chat-no-answer",
        ChatFault::Empty => "chat-empty",
        ChatFault::Endless => "chat-endless",
        ChatFault::TooSlow => "chat-too-slow",
        ChatFault::NotKept => "chat-not-kept",
    }
}
