//! Messages to the model. Each has exactly one key at its top level, which the enum guarantees.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, json};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) enum ClientMessage {
    Setup(Value),
    RealtimeInput(RealtimeInput),
    ClientContent(ClientContent),
    ToolResponse(ToolResponse),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) enum RealtimeInput {
    Audio(AudioBlob),
    Text(String),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::voice::gemini) struct AudioBlob {
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
    /// Left out if the model gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// 3.8 treats an answer without the name as a failure (roomkit#42, 2026-09-18).
    pub name: String,
    pub response: Map<String, Value>,
    /// Only for non-blocking functions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<&'static str>,
}

impl ClientMessage {
    /// The caller's samples.
    pub(in crate::voice::gemini) fn audio(samples: &[i16]) -> Self {
        let bytes: Vec<u8> = samples.iter().flat_map(|one| one.to_le_bytes()).collect();
        Self::RealtimeInput(RealtimeInput::Audio(AudioBlob {
            mime_type: "audio/pcm;rate=16000",
            data: STANDARD.encode(bytes),
        }))
    }

    /// Text that is read as it comes.
    pub(in crate::voice::gemini) fn text(words: String) -> Self {
        Self::RealtimeInput(RealtimeInput::Text(words))
    }

    /// Turns of the conversation; the model answers the last.
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
