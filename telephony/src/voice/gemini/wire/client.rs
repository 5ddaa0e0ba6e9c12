//! What is sent to the model. Each message has exactly one key at its top: an enum makes it so.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A message to the model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) enum Message {
    Setup(Value),
    RealtimeInput(RealtimeInput),
    ClientContent(ClientContent),
    ToolResponse(ToolResponse),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) enum RealtimeInput {
    Audio(Blob),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) struct Blob {
    mime_type: &'static str,
    data: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) struct ClientContent {
    pub turns: Vec<Value>,
    pub turn_complete: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) struct ToolResponse {
    pub function_responses: Vec<FunctionResponse>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(in crate::voice::gemini) struct FunctionResponse {
    /// Left out where the model gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// 3.8 reads an answer without the name as a failure (roomkit#42, 2026-09-18).
    pub name: String,
    pub response: Map<String, Value>,
    /// Only where calls do not block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<&'static str>,
}

impl Message {
    /// Samples of the caller.
    pub(in crate::voice::gemini) fn audio(samples: &[i16]) -> Self {
        let bytes: Vec<u8> = samples.iter().flat_map(|one| one.to_le_bytes()).collect();
        Self::RealtimeInput(RealtimeInput::Audio(Blob {
            mime_type: "audio/pcm;rate=16000",
            data: STANDARD.encode(bytes),
        }))
    }

    /// Words that are read as they come.
    pub(in crate::voice::gemini) fn text(words: String) -> Self {
        Self::RealtimeInput(RealtimeInput::Text(words))
    }

    /// Turns of the conversation, the last of which the model answers.
    pub(in crate::voice::gemini) fn turns(turns: Vec<Value>) -> Self {
        Self::ClientContent(ClientContent {
            turns,
            turn_complete: true,
        })
    }
}

/// A turn of a conversation; the role is `user` or `model`.
pub(in crate::voice::gemini) fn turn(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"text": text}]})
}
