//! The answer to one message: the language model is asked, its functions are carried out, and it is asked again, until it has
//! said all.

use std::{sync::Arc, time::Duration};

use dikala_actors::{
    calls::settings::CallSettings,
    functions::{FaultCode, FunctionSpec, InvocationSpan, Invoke, Outcome},
    outbound::Permission,
};
use dikala_entities::{CallId, ChatFault, Secret, Speaker, chat};
use dikala_protocol::{CallAgent, InvocationOutcome};
use dikala_telephony::voice::pipeline::{TextCall, TextTurn};
use sea_orm::{ConnectionTrait, DbErr, Statement};
use tokio::{sync::mpsc, time::timeout};

use super::{ANSWERING_MS, ChatEvent, MESSAGES_MAX, TURNS_CHARS_MAX, cost_idr, json, message};
use crate::{http::request_id::current_trace, node::Runtime, operations::ChatService};

/// Requests to the language model for one message.
const ROUNDS_MAX: usize = 8;
/// Functions that one message may call.
const CALLS_MAX: usize = 16;
/// Longest time that a reader may leave an event unread.
const UNREAD: Duration = Duration::from_secs(5);
/// Bytes after which a turn is told again while it is written.
const TOLD_EVERY: usize = 24;
/// Left of the time of an answer for keeping it.
const KEEPS_WITHIN_MS: i64 = 10_000;
const KEEP: &str = "UPDATE chats SET turns = $1, cost = cost + $2, answering_until = NULL WHERE id = $3 AND answering_until = $4";

/// An answer under way.
pub(super) struct Answering {
    pub(super) chats: Arc<ChatService>,
    pub(super) node: Runtime,
    pub(super) chat: chat::Model,
    pub(super) settings: CallSettings,
    pub(super) agent: CallAgent,
    pub(super) turns: Vec<TextTurn>,
    /// The tenant's secret for signing function requests.
    pub(super) secret: Secret,
    /// None once nobody reads them.
    pub(super) events: Option<mpsc::Sender<ChatEvent>>,
    /// The cost of this answer, in millionths of a rupiah.
    pub(super) cost: i64,
    /// Functions called for this answer.
    pub(super) calls: usize,
}

/// Sends an event. `None` once the reader is gone or reads nothing: nothing waits for it any more.
async fn tell(events: &mut Option<mpsc::Sender<ChatEvent>>, event: ChatEvent) {
    if let Some(reader) = events
        && reader.send_timeout(event, UNREAD).await.is_err()
    {
        *events = None;
    }
}

impl Answering {
    pub(super) async fn run(mut self, words: String) {
        self.turns.push(TextTurn::Caller { text: words });
        let most = u64::try_from(ANSWERING_MS - KEEPS_WITHIN_MS).unwrap_or_default();
        let answered = timeout(Duration::from_millis(most), self.answer()).await;
        let answered = answered.unwrap_or(Err(ChatFault::TooSlow));
        if matches!(self.turns.last(), Some(TextTurn::Caller { .. })) {
            // Without an answer the message is to be sent again.
            self.turns.pop();
        }
        let kept = match self.keep().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(ChatFault::NotKept),
            Err(error) => {
                tracing::warn!(chat = %self.chat.id, %error, "an answer in a chat could not be kept");
                Err(ChatFault::NotKept)
            }
        };
        if let Err(code) = answered.and(kept) {
            let message = message(code, self.calls > 0);
            self.tell(ChatEvent::Error { code, message }).await;
        }
        let done = ChatEvent::Done {
            messages_left: MESSAGES_MAX - self.chat.messages,
            cost_idr: cost_idr(self.chat.cost.saturating_add(self.cost)),
        };
        self.tell(done).await;
    }

    async fn tell(&mut self, event: ChatEvent) {
        tell(&mut self.events, event).await;
    }

    async fn answer(&mut self) -> Result<(), ChatFault> {
        for _ in 0..ROUNDS_MAX {
            let (text, calls) = self.ask().await?;
            if text.is_empty() && calls.is_empty() {
                return Err(ChatFault::Empty);
            }
            if !text.is_empty() {
                self.tell(said(text.clone(), true)).await;
            }
            let ends = calls.iter().any(TextCall::ends_the_conversation);
            let goes_on = !calls.is_empty() && !ends;
            // Calls that are not carried out are in the conversation, too, so that a model does not repeat them.
            let turn = self.turns.len();
            self.turns.push(TextTurn::Agent {
                text,
                calls: calls.clone(),
            });
            for (n, call) in calls.iter().enumerate() {
                if self.calls == CALLS_MAX {
                    return Err(ChatFault::Endless);
                }
                let outcome = self.carry_out(call).await;
                if let Some(TextTurn::Agent { calls, .. }) = self.turns.get_mut(turn) {
                    calls[n].outcome = Some(outcome);
                }
            }
            if !goes_on {
                return Ok(());
            }
            if json(&self.turns).is_ok_and(|it| it.len() > TURNS_CHARS_MAX) {
                break;
            }
        }
        Err(ChatFault::Endless)
    }

    async fn ask(&mut self) -> Result<(String, Vec<TextCall>), ChatFault> {
        let (mut so_far, mut told) = (String::new(), 0);
        let Self {
            chats,
            agent,
            turns,
            events,
            ..
        } = self;
        let write = async |words: &str| {
            so_far.push_str(words);
            if so_far.len() >= told + TOLD_EVERY {
                told = so_far.len();
                tell(events, said(so_far.clone(), false)).await;
            }
        };
        let now = self.node.clock.now();
        let answer = chats.model.answer(agent, turns, now, write);
        match answer.await {
            Ok(answer) => {
                self.cost = self
                    .cost
                    .saturating_add(i64::try_from(answer.cost).unwrap_or(i64::MAX));
                Ok((answer.text, answer.calls))
            }
            Err(error) => {
                tracing::warn!(chat = %self.chat.id, %error, "the language model did not answer in a chat");
                Err(ChatFault::NoAnswer)
            }
        }
    }

    async fn carry_out(&mut self, call: &TextCall) -> InvocationOutcome {
        self.calls += 1;
        self.tell(ChatEvent::Function {
            name: call.name.clone(),
            status: "running",
            parameters: call.arguments.clone(),
            result: None,
            code: None,
        })
        .await;
        let outcome = self.outcome(call).await;
        let (status, result, code) = match outcome.clone() {
            InvocationOutcome::Ok { result } => ("ok", Some(result), None),
            InvocationOutcome::Error { code, .. } => ("error", None, Some(code)),
        };
        self.tell(ChatEvent::Function {
            name: call.name.clone(),
            status,
            parameters: None,
            result,
            code,
        })
        .await;
        outcome
    }

    async fn outcome(&self, call: &TextCall) -> InvocationOutcome {
        let error = |code: FaultCode, message: &str| InvocationOutcome::Error {
            code: code.as_str().to_owned(),
            message: message.to_owned(),
        };
        let Some(parameters) = call.arguments.clone() else {
            return error(
                FaultCode::InvalidArguments,
                "The arguments are no JSON object.",
            );
        };
        if self.settings.tools.contains(&call.name) {
            // Nobody hangs up, and nobody is called.
            return InvocationOutcome::Ok {
                result: serde_json::Map::new(),
            };
        }
        let function = self.settings.function(&call.name);
        let Some(function) = function.filter(|function| function.enabled) else {
            return error(FaultCode::UnknownFunction, "There is no such function.");
        };
        let Some(endpoint) = function.endpoint() else {
            return error(
                FaultCode::BlockedTarget,
                "The endpoint's address is not allowed any more.",
            );
        };
        let traced = InvocationSpan::begin(current_trace().as_ref());
        let invoke = Invoke {
            call: CallId::new(self.node.clock.now()),
            tenant: self.chat.tenant_id,
            agent: Some(self.chat.agent_id),
            function: FunctionSpec {
                name: function.name.clone(),
                endpoint,
                method: function.method,
                parameters: function.parameters.to_string().into(),
            },
            parameters,
            secret: self.secret.clone(),
            is_test: true,
            traceparent: traced.traceparent.clone(),
            permission: Permission::given(),
        };
        let invoked = self.node.functions.invoke(invoke).await;
        traced.end(self.chat.tenant_id, None, function.id, &invoked);
        match invoked.outcome {
            Outcome::Ok { result } => InvocationOutcome::Ok { result },
            Outcome::Error { code, message } => error(code, &message),
        }
    }

    /// False if the chat is gone, or another message was taken.
    async fn keep(&self) -> Result<bool, DbErr> {
        let store = &self.node.store;
        let turns = json(&self.turns).map_err(|error| DbErr::Custom(error.to_string()))?;
        let values = [
            turns.into(),
            self.cost.into(),
            self.chat.id.into(),
            self.chat.answering_until.into(),
        ];
        let keep = Statement::from_sql_and_values(store.backend(), KEEP, values);
        let kept = store.writer().execute_raw(keep).await?;
        Ok(kept.rows_affected() == 1)
    }
}

fn said(text: String, is_over: bool) -> ChatEvent {
    ChatEvent::Turn {
        role: Speaker::Agent,
        text,
        r#final: is_over,
    }
}
