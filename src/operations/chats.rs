//! Conversations in writing with an agent, to try it: its prompt and functions, without a telephone and without minutes. A chat is no
//! call.

mod answering;

use std::sync::Arc;

use dikala_actors::calls::settings::CallSettings;
use dikala_entities::{
    AgentId, AuditAction, ChatFault, ChatId, Millis, OfTenant, Speaker, chat, tenant,
};
use dikala_telephony::voice::pipeline::TextTurn;
use sea_orm::{
    ColumnTrait, EntityTrait, FromQueryResult, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect, Statement,
};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use utoipa::ToSchema;

use self::answering::Answering;
use super::{
    OperationContext, OperationWrite,
    agents::{self, draft::SavedAgent},
};
use crate::{
    audit::AuditChange,
    http::{
        answer::Created,
        error::{ApiError, Missing},
        extract::{BlankRule, Id, RequestBody, text},
        request_id::inherit,
        route::BASE,
    },
};

/// Messages of a chat.
pub const MESSAGES_MAX: i64 = 50;
/// Characters of a message.
pub const TEXT_CHARS_MAX: usize = 2_000;
/// The lifetime of a chat.
const LASTS_MS: i64 = 60 * 60 * 1_000;
/// Size of what was written and called in a chat, in characters of JSON, from which it takes no further message.
const TURNS_CHARS_MAX: usize = 512 * 1_024;
/// The longest time of an answer, with all functions. Proxies wait longer, and an `Idempotency-Key` is held as long. After a crash,
/// the chat goes on then.
const ANSWERING_MS: i64 = 60_000;
/// Events of an answer that wait for their reader.
const EVENTS_WAITING: usize = 16;
const TAKE: &str = "UPDATE chats SET messages = messages + 1, answering_until = $1 WHERE id = $2 AND tenant_id = $3 \
    AND expires_at > $4 AND messages < $5 AND LENGTH(turns) <= $6 AND (answering_until IS NULL OR answering_until <= $4) \
    RETURNING id, tenant_id, agent_id, settings, is_draft, turns, messages, cost, answering_until, created_at, expires_at";

/// A chat that is about to begin.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = ChatInput, example = json!({"draft": {"systemPrompt": "You answer the phone of a bakery."}}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct ChatInput {
    /// Changes of the agent that are tried and not saved: the fields of `PATCH /agents/{id}`.
    #[schema(required = false, value_type = Object)]
    pub draft: Option<Map<String, Value>>,
}

/// A chat.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chat, example = json!({
    "chatId": "chat_01k9zv3m8rj2q4w6y8a0c2e4g6", "greetingText": "Good day, Ana's bakery.", "expiresAt": "2026-01-15T04:30:00.000Z"
}))]
pub struct ChatView {
    pub chat_id: ChatId,
    /// The agent's first words.
    #[schema(required = true)]
    greeting_text: Option<String>,
    expires_at: Millis,
}

/// A message to an agent.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = ChatMessage, example = json!({"text": "Where is my order A-1042?"}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct ChatMessage {
    #[schema(min_length = 1, max_length = 2000)]
    pub text: String,
}

/// An event of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum ChatEvent {
    Turn {
        role: Speaker,
        /// All that was written in this turn so far.
        text: String,
        r#final: bool,
    },
    Function {
        name: String,
        /// `running`, then `ok` or `error`.
        status: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parameters: Option<Map<String, Value>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Map<String, Value>>,
        /// The code of a failure.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The answer ends without all of it.
    Error {
        code: ChatFault,
        message: &'static str,
    },
    /// The answer is over.
    Done { messages_left: i64, cost_idr: i64 },
}

impl ChatEvent {
    /// The `type` of the event.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Turn { .. } => "turn",
            Self::Function { .. } => "function",
            Self::Error { .. } => "error",
            Self::Done { .. } => "done",
        }
    }
}

/// The sentence of a fault, for people. A message after which functions were called is a part of the chat: they must not be called a
/// second time.
const fn message(fault: ChatFault, has_called: bool) -> &'static str {
    match fault {
        ChatFault::NoAnswer | ChatFault::Empty if has_called => {
            "The language model did not answer after functions were called. Write what the agent should do next."
        }
        ChatFault::NoAnswer => {
            "The language model did not answer. Send the message again in a moment."
        }
        ChatFault::Empty => "The language model answered with nothing. Send the message again.",
        ChatFault::Endless => {
            "The agent called functions without coming to an answer. Look at its prompt and its functions."
        }
        ChatFault::TooSlow => {
            "The answer took too long: the language model or a function is too slow."
        }
        ChatFault::NotKept => "The answer could not be kept. Send the message again in a moment.",
    }
}

/// Begins a chat.
pub async fn create(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<Created<ChatView>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let agent = agents::find(context.store().api_reader(), tenant, id.0).await?;
    let per_hour = context.chats()?.per_hour;
    let saved = SavedAgent::read(context.store(), agent, context.agent_limits()?).await?;
    let tried = body
        .optional_form()?
        .read(&[], |form| Some(saved.changed(form)))?;
    let greeting_text = tried
        .greeting_text
        .clone()
        .filter(|it| !it.trim().is_empty());
    let greeting = greeting_text.iter().map(|text| TextTurn::Agent {
        text: text.clone(),
        calls: Vec::new(),
    });
    let row = chat::Model {
        id: ChatId::new(now),
        tenant_id: tenant,
        agent_id: id.0,
        is_draft: saved.is_draft(&tried),
        settings: saved.settings(tried)?,
        turns: json(&greeting.collect::<Vec<_>>())?,
        messages: 0,
        cost: 0,
        answering_until: None,
        created_at: now,
        expires_at: now.plus_ms(LASTS_MS),
    };
    let view = ChatView {
        chat_id: row.id,
        greeting_text,
        expires_at: row.expires_at,
    };
    let mut write = context.begin().await?;
    refuse_too_many(&context, &write, per_hour).await?;
    let change = AuditChange::new(AuditAction::ChatCreate, id.0).with(row.id);
    let path = format!("{BASE}/chats/{}/messages", row.id);
    chat::Entity::insert(row.into_active_model())
        .exec_without_returning(&*write)
        .await?;
    write.record(tenant, change).await?;
    write.commit(Created::at(path, view)).await
}

/// The lock of the tenant's row has others count after the commit.
async fn refuse_too_many(
    context: &OperationContext,
    write: &OperationWrite<'_>,
    per_hour: u64,
) -> Result<(), ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let locked = tenant::Entity::find_by_id(tenant).lock_exclusive();
    locked.one(&**write).await?;
    let begun: Vec<Millis> = chat::Entity::of(tenant)
        .filter(chat::Column::ExpiresAt.gt(now))
        .order_by_asc(chat::Column::ExpiresAt)
        .select_only()
        .column(chat::Column::ExpiresAt)
        .limit(per_hour)
        .into_tuple()
        .all(&**write)
        .await?;
    match begun.first() {
        Some(oldest) if u64::try_from(begun.len()).is_ok_and(|it| it >= per_hour) => {
            let seconds = oldest.whole_seconds_since(now) + 1;
            Err(ApiError::TooManyChats(per_hour, seconds))
        }
        _ => Ok(()),
    }
}

/// The chat, if it is the tenant's and its hour is not over.
pub async fn find(context: &OperationContext, id: ChatId) -> Result<chat::Model, ApiError> {
    let found = chat::Entity::one_of(context.tenant()?, id)
        .filter(chat::Column::ExpiresAt.gt(context.now))
        .one(context.store().api_reader())
        .await?;
    found.ok_or(ApiError::NotFound(Missing::Chat))
}

/// The turns so far.
pub fn turns(chat: &chat::Model) -> Vec<TextTurn> {
    serde_json::from_str(&chat.turns).unwrap_or_default()
}

/// The last message of the person is this one.
pub fn has_last(chat: &chat::Model, words: &str) -> bool {
    let last = turns(chat).into_iter().rev().find_map(|turn| match turn {
        TextTurn::Caller { text } => Some(text),
        TextTurn::Agent { .. } => None,
    });
    last.as_deref() == Some(words)
}

/// The agent's name, as the chat has it.
pub fn agent_name(chat: &chat::Model) -> String {
    let settings: Option<CallSettings> = serde_json::from_str(&chat.settings).ok();
    settings.map_or_else(String::new, |settings| settings.persona.name)
}

/// The cost so far, to the nearest rupiah.
pub fn cost_idr(millionths: i64) -> i64 {
    millionths.saturating_add(500_000) / 1_000_000
}

/// Takes a message, and begins the answer. It is carried out and kept even if nobody waits for its events.
pub async fn send(
    context: &OperationContext,
    id: ChatId,
    body: &RequestBody,
) -> Result<mpsc::Receiver<ChatEvent>, ApiError> {
    find(context, id).await?;
    let chats = Arc::clone(context.chats()?);
    if !context.principal.may_change() {
        return Err(ApiError::ViewOnly);
    }
    let words = body.form()?.read(&[], |form| {
        form.required("text", None, text(1, TEXT_CHARS_MAX, BlankRule::Trim))
    })?;
    let place = chats.places.take(context.tenant()?);
    let place = place.ok_or(ApiError::Unavailable)?;
    let tenant = tenant::Entity::find_by_id(context.tenant()?)
        .one(context.store().reader())
        .await?
        .ok_or(ApiError::NotFound(Missing::Chat))?;
    let secret = context.function_secret(&tenant)?;
    let chat = take(context, id).await?;
    let settings: CallSettings =
        serde_json::from_str(&chat.settings).map_err(|_| ApiError::Internal)?;
    let (events, reader) = mpsc::channel(EVENTS_WAITING);
    let answering = Answering {
        agent: settings.agent(&context.agent_limits()?.transfers, &chats.default_time_zone),
        turns: turns(&chat),
        node: context.serving()?.node.clone(),
        chats,
        settings,
        chat,
        secret,
        events: Some(events),
        cost: 0,
        calls: 0,
    };
    actix_web::rt::spawn(inherit(async move {
        answering.run(words).await;
        drop(place);
    }));
    Ok(reader)
}

/// Counts a message, so that no other one is answered at the same time.
async fn take(context: &OperationContext, id: ChatId) -> Result<chat::Model, ApiError> {
    let store = context.store();
    let txn = store.begin().await?;
    let values = [
        context.now.plus_ms(ANSWERING_MS).into(),
        id.into(),
        context.tenant()?.into(),
        context.now.into(),
        MESSAGES_MAX.into(),
        i64::try_from(TURNS_CHARS_MAX).unwrap_or(i64::MAX).into(),
    ];
    let take = Statement::from_sql_and_values(store.backend(), TAKE, values);
    let taken = chat::Model::find_by_statement(take).one(&txn).await?;
    txn.commit().await.map_err(ApiError::of_commit)?;
    if let Some(taken) = taken {
        return Ok(taken);
    }
    let chat = find(context, id).await?;
    match chat.answering_until {
        Some(until) if until > context.now => Err(ApiError::ChatAnswering),
        _ => Err(ApiError::ChatFull(MESSAGES_MAX)),
    }
}

fn json(turns: &[TextTurn]) -> Result<String, ApiError> {
    serde_json::to_string(turns).map_err(|_| ApiError::Internal)
}
