//! Events to the model.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Value, json};

/// An event with the id by which an error may refer to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::voice::openai) struct RealtimeRequest {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<&'static str>,
    #[serde(flatten)]
    pub request: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type")]
pub(in crate::voice::openai) enum RequestKind {
    #[serde(rename = "session.update")]
    UpdateSession { session: Value },
    #[serde(rename = "input_audio_buffer.append")]
    AppendAudio { audio: String },
    #[serde(rename = "input_audio_buffer.commit")]
    CommitAudio,
    #[serde(rename = "conversation.item.create")]
    CreateItem { item: Value },
    #[serde(rename = "conversation.item.truncate")]
    TruncateItem {
        item_id: String,
        content_index: u32,
        audio_end_ms: u64,
    },
    #[serde(rename = "conversation.item.delete")]
    DeleteItem { item_id: String },
    #[serde(rename = "response.create")]
    CreateResponse {
        #[serde(skip_serializing_if = "Option::is_none")]
        response: Option<Value>,
    },
    #[serde(rename = "response.cancel")]
    CancelResponse,
}

impl From<RequestKind> for RealtimeRequest {
    fn from(request: RequestKind) -> Self {
        Self {
            event_id: None,
            request,
        }
    }
}

/// The caller's samples, at 24 kHz.
pub(in crate::voice::openai) fn append(samples: &[i16]) -> RealtimeRequest {
    let bytes: Vec<u8> = samples.iter().flat_map(|one| one.to_le_bytes()).collect();
    let audio = STANDARD.encode(bytes);
    RequestKind::AppendAudio { audio }.into()
}

/// A text of the caller, or of the telephone system in square brackets.
pub(in crate::voice::openai) fn user_text(text: &str) -> RealtimeRequest {
    message("user", "input_text", text)
}

/// A text that the agent has said.
pub(in crate::voice::openai) fn agent_text(text: &str) -> RealtimeRequest {
    message("assistant", "output_text", text)
}

fn message(role: &str, kind: &str, text: &str) -> RealtimeRequest {
    let content = json!([{"type": kind, "text": text}]);
    let item = json!({"type": "message", "role": role, "content": content});
    RequestKind::CreateItem { item }.into()
}

/// The outcome of a function; `output` is JSON.
pub(in crate::voice::openai) fn function_output(call_id: &str, output: &str) -> RealtimeRequest {
    let item = json!({"type": "function_call_output", "call_id": call_id, "output": output});
    RequestKind::CreateItem { item }.into()
}
