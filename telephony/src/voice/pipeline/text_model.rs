//! The language model of a pipeline for conversations in writing: no speech, and nobody who interrupts.

use std::time::Duration;

use dikala_entities::Millis;
use dikala_protocol::{CallAgent, InvocationOutcome};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::time::{Instant, timeout};

use super::{
    check, endpoint,
    http::{self, ChatStream, HttpClient, HttpEndpoint},
    machine::{ANSWERED, push},
    wire::{ANSWER_MOST, PARTING, add_piece, tools},
};
use crate::{
    cost::Meter,
    settings::{Prices, TextModelSettings},
    trust::Trust,
    voice::{
        ToolOutcome, Usage,
        common::{Bill, BillDecision, CloseReason, words},
        local_time,
    },
};

/// Time limit of one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A turn of a conversation in writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum TextTurn {
    Caller {
        text: String,
    },
    Agent {
        text: String,
        /// The functions that it calls after these words.
        #[serde(default)]
        calls: Vec<TextCall>,
    },
}

/// A call of a function in a conversation in writing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TextCall {
    /// Unique in its turn.
    pub id: String,
    pub name: String,
    /// `None` if the model wrote no JSON object.
    pub arguments: Option<Map<String, Value>>,
    pub outcome: Option<InvocationOutcome>,
}

impl TextCall {
    /// After this call nothing more is said.
    pub fn ends_the_conversation(&self) -> bool {
        PARTING.contains(&self.name.as_str())
    }
}

/// One answer of the model, and what it cost.
#[derive(Debug, Clone, PartialEq)]
pub struct TextAnswer {
    pub text: String,
    pub calls: Vec<TextCall>,
    /// In millionths of a rupiah.
    pub cost: u64,
}

/// No answer, with words for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TextModelError(String);

/// A language model behind an OpenAI-compatible endpoint. Cheap to clone.
#[derive(Clone)]
pub struct TextModel {
    client: HttpClient,
    llm: HttpEndpoint,
    prices: Prices,
}

impl std::fmt::Debug for TextModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TextModel(…)")
    }
}

impl TextModel {
    pub fn new(settings: &TextModelSettings, trust: &Trust) -> Self {
        Self {
            client: http::client(trust),
            llm: endpoint("telephony.pipeline.llm", &settings.llm, "/chat/completions"),
            prices: settings.prices,
        }
    }

    /// Asks for the next answer. Its words go to `said` as they come.
    ///
    /// Errors: no answer within 60 s, or a broken one; what was said before that stays said.
    pub async fn answer(
        &self,
        agent: &CallAgent,
        turns: &[TextTurn],
        now: Millis,
        mut said: impl AsyncFnMut(&str),
    ) -> Result<TextAnswer, TextModelError> {
        let messages = messages(agent, turns, now);
        let tools = tools(words::declarations(agent));
        let answer = async {
            let plain = [false, true];
            let mut refused = None;
            for is_plain in plain {
                let body = http::chat_body(&self.llm.model, &messages, &tools, is_plain);
                let (kind, body) = http::json_body(&body);
                match self.llm.ask(&self.client, kind, body).await {
                    Ok(answer) => return self.read(answer.into_body(), &mut said).await,
                    // A server may not know how to tell the usage in a stream.
                    Err(why) if why.refused && !why.is_final => refused = Some(why),
                    Err(why) => return Err(why),
                }
            }
            Err(refused.unwrap_or_default())
        };
        match timeout(PATIENCE, answer).await {
            Ok(answer) => answer.map_err(|why| TextModelError(why.words)),
            Err(_) => Err(TextModelError(format!(
                "no complete answer came within {} s",
                PATIENCE.as_secs()
            ))),
        }
    }

    /// Asks for one word, for `dikala check`. Both results are messages for people.
    pub async fn check(&self) -> Result<String, String> {
        let setting = self.llm.setting;
        let began = Instant::now();
        let asked = async {
            let body = http::chat_body(&self.llm.model, &check::question(), &[], true);
            let (kind, body) = http::json_body(&body);
            let answer = self.llm.ask(&self.client, kind, body).await;
            let answer = answer.map_err(|why| why.words)?;
            let first = ChatStream::new(answer.into_body()).next().await?;
            first.ok_or("it answers with nothing".to_owned())
        };
        match timeout(check::PATIENCE, asked).await {
            Ok(Ok(_)) => Ok(format!(
                "{setting} answers in chats ({} ms)",
                began.elapsed().as_millis()
            )),
            Ok(Err(words)) => {
                let advice = check::advice(&words, setting);
                Err(format!("{setting}: {words}{advice}"))
            }
            Err(_) => Err(format!(
                "{setting}: nothing came within {} s",
                check::PATIENCE.as_secs()
            )),
        }
    }

    async fn read(
        &self,
        body: hyper::body::Incoming,
        said: &mut impl AsyncFnMut(&str),
    ) -> Result<TextAnswer, CloseReason> {
        let mut stream = ChatStream::new(body);
        let (mut text, mut pieces, mut usage) = (String::new(), Vec::new(), Usage::default());
        let mut characters = 0;
        while let Some(delta) = stream
            .next()
            .await
            .map_err(|words| CloseReason::gone(&words))?
        {
            characters += delta.content.chars().count();
            // An answer without end is cut. Its usage would follow at the end.
            if characters > ANSWER_MOST {
                break;
            }
            if !delta.content.is_empty() {
                text.push_str(&delta.content);
                said(&delta.content).await;
            }
            for piece in delta.calls {
                add_piece(&mut pieces, piece);
            }
            usage = delta.usage.unwrap_or(usage);
        }
        let named = pieces
            .iter()
            .map(|piece| (piece.function.plain_name(), piece.function.object()))
            .filter(|(name, _)| !name.is_empty());
        let calls = (1..).zip(named).map(|(n, (name, arguments))| TextCall {
            id: format!("call-{n}"),
            name,
            arguments,
            outcome: None,
        });
        Ok(TextAnswer {
            text: text.trim().to_owned(),
            calls: calls.collect(),
            cost: self.cost(usage),
        })
    }

    fn cost(&self, usage: Usage) -> u64 {
        let mut meter = Meter::default();
        match Bill::default().add(usage, PATIENCE) {
            BillDecision::Believed(usage) => meter.add(usage, Some(self.prices)),
            BillDecision::Absurd { .. } => {
                tracing::warn!(
                    "the language model bills more tokens than an answer can use; they are not counted"
                );
            }
        }
        meter.millionths()
    }
}

/// The conversation as messages of the chat interface, the instruction first.
fn messages(agent: &CallAgent, turns: &[TextTurn], now: Millis) -> Vec<Value> {
    let zone = agent.time_zone.as_deref().unwrap_or("UTC");
    let time = local_time(now, zone).map(|time| format!("It is {time} ({zone}). "));
    let circumstances = format!(
        "{}This time the caller writes instead of speaking, to try you out: write what you would say.",
        time.unwrap_or_default()
    );
    let instruction = words::instruction(agent, &circumstances, "");
    let mut messages = vec![json!({"role": "system", "content": instruction})];
    if !matches!(turns.first(), Some(TextTurn::Caller { .. })) {
        messages.push(json!({"role": "user", "content": ANSWERED}));
    }
    for (n, turn) in turns.iter().enumerate() {
        match turn {
            TextTurn::Caller { text } => push(&mut messages, "user", "\n", text),
            TextTurn::Agent { text, calls } if calls.is_empty() => {
                push(&mut messages, "assistant", " ", text);
            }
            TextTurn::Agent { text, calls } => push_calls(&mut messages, n, text, calls),
        }
    }
    messages
}

/// Adds words with calls, and each call's outcome. Ids are unique in a conversation.
fn push_calls(messages: &mut Vec<Value>, turn: usize, text: &str, calls: &[TextCall]) {
    let id = |call: &TextCall| format!("{}-{turn}", call.id);
    let called = calls.iter().map(|call| {
        let arguments = Value::Object(call.arguments.clone().unwrap_or_default());
        let function = json!({"name": call.name, "arguments": arguments.to_string()});
        json!({"id": id(call), "type": "function", "function": function})
    });
    let called: Vec<Value> = called.collect();
    messages.push(json!({"role": "assistant", "content": text, "tool_calls": called}));
    for call in calls {
        let outcome = match &call.outcome {
            Some(InvocationOutcome::Ok { result }) => {
                ToolOutcome::success(Value::Object(result.clone()))
            }
            Some(InvocationOutcome::Error { code, message }) => ToolOutcome::failure(code, message),
            None => ToolOutcome::failure("interrupted", "The function was not carried out."),
        };
        messages.push(json!({"role": "tool", "tool_call_id": id(call), "content": outcome.text()}));
    }
}
