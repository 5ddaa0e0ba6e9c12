//! The service's rules, each with its source.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::sound;

/// Samples per millisecond: 24 kHz is the only rate of PCM (openapi, 2026-08-21).
const RATE: u64 = 24;
/// Bytes of an event with audio (openapi: 15 MiB).
const APPEND_MOST: usize = 15 * 1024 * 1024;
/// Fields of a session (openapi, 2026-08-21).
const SESSION: &[&str] = &[
    "type",
    "model",
    "output_modalities",
    "instructions",
    "max_output_tokens",
    "tool_choice",
    "tools",
    "audio",
    "truncation",
    "tracing",
    "include",
    "prompt",
];
/// Names of the former beta's flat session.
const BETA: &[&str] = &[
    "modalities",
    "voice",
    "input_audio_format",
    "output_audio_format",
    "turn_detection",
    "input_audio_transcription",
    "temperature",
];
const VOICES: &[&str] = &[
    "alloy", "ash", "ballad", "coral", "echo", "sage", "shimmer", "verse", "marin", "cedar",
];

/// An error of the service: its code, and the message.
pub(super) type Refusal = (&'static str, String);

/// The state that rules are about.
#[derive(Debug, Default)]
pub(super) struct RealtimeRules {
    is_set_up: bool,
    /// The server detects turns.
    pub(super) detects: bool,
    pub(super) interrupts: bool,
    /// The running response.
    pub(super) active: Option<String>,
    /// Speech of the model by item, in milliseconds.
    pub(super) spoken: BTreeMap<String, u64>,
    /// Ids of all items.
    pub(super) items: BTreeSet<String>,
    /// Function calls without an output.
    pub(super) pending: BTreeSet<String>,
    uncommitted_ms: u64,
}

/// Kinds of received events.
#[derive(Debug, PartialEq)]
pub(super) enum ClientInput {
    Updated,
    Audio {
        milliseconds: u64,
        voice: bool,
    },
    Commit,
    /// A text of the caller's side, or the outcome of a function.
    Text(String),
    History,
    /// The item was cut or removed.
    Cut(&'static str, String),
    Respond(Value),
    Cancel,
}

fn refuse<T>(code: &'static str, message: impl Into<String>) -> Result<T, Refusal> {
    Err((code, message.into()))
}

fn invalid<T>(message: impl Into<String>) -> Result<T, Refusal> {
    refuse("invalid_value", message)
}

impl RealtimeRules {
    pub(super) fn take(&mut self, event: &Value) -> Result<ClientInput, Refusal> {
        let kind = event["type"].as_str().unwrap_or_default();
        // The formats are not agreed before.
        if !self.is_set_up && kind != "session.update" {
            return invalid(format!("{kind} before session.update"));
        }
        match kind {
            "session.update" => self.update(&event["session"]),
            "input_audio_buffer.append" => self.append(event),
            "input_audio_buffer.commit" if self.detects => {
                invalid("a commit, though the server detects turns")
            }
            "input_audio_buffer.commit" => {
                match std::mem::take(&mut self.uncommitted_ms) {
                    // openapi: at least 100 ms.
                    0..100 => refuse("input_audio_buffer_commit_empty", "the buffer is too small"),
                    _ => Ok(ClientInput::Commit),
                }
            }
            "conversation.item.create" => self.create(&event["item"]),
            "conversation.item.truncate" => self.truncate(event),
            "conversation.item.delete" => {
                let id = event["item_id"].as_str().unwrap_or_default();
                if !self.items.remove(id) {
                    return refuse("item_delete_invalid_item_id", format!("no item {id}"));
                }
                self.spoken.remove(id);
                Ok(ClientInput::Cut("conversation.item.deleted", id.to_owned()))
            }
            "response.create" => self.respond(&event["response"]),
            "response.cancel" if self.active.is_none() => {
                refuse("response_cancel_not_active", "no active response")
            }
            "response.cancel" => Ok(ClientInput::Cancel),
            other => invalid(format!("unknown event {other}")),
        }
    }

    fn update(&mut self, session: &Value) -> Result<ClientInput, Refusal> {
        for key in session.as_object().into_iter().flat_map(|it| it.keys()) {
            if BETA.contains(&key.as_str()) {
                return refuse("beta_api_shape_disabled", format!("{key} is of the beta"));
            }
            if !SESSION.contains(&key.as_str()) {
                return refuse("unknown_parameter", format!("session.{key}"));
            }
        }
        if session["type"] != "realtime" {
            return invalid("session.type is no realtime");
        }
        // Audio or text, not both.
        if session["output_modalities"]
            .as_array()
            .is_none_or(|it| it.len() != 1)
        {
            return invalid("output_modalities has one element");
        }
        let audio = &session["audio"];
        for direction in ["input", "output"] {
            let format = &audio[direction]["format"];
            if format["type"] != "audio/pcm" || format["rate"] != 24_000 {
                return invalid(format!("the format of {direction}"));
            }
        }
        match audio["output"]["voice"].as_str() {
            Some(voice) if !VOICES.contains(&voice) => return invalid(format!("voice {voice}")),
            _ => {}
        }
        let detection = &audio["input"]["turn_detection"];
        match detection["type"].as_str() {
            None if detection.is_null() => {}
            Some("server_vad") => {}
            Some("semantic_vad") if detection.get("threshold").is_none() => {}
            _ => return invalid("turn_detection"),
        }
        for tool in session["tools"].as_array().into_iter().flatten() {
            // Not nested in `function`, as in the chat API.
            if tool["type"] != "function" || tool["name"].as_str().is_none_or(str::is_empty) {
                return invalid("a tool without type and name");
            }
        }
        self.detects = !detection.is_null();
        self.interrupts = detection["interrupt_response"] == true;
        self.is_set_up = true;
        Ok(ClientInput::Updated)
    }

    fn append(&mut self, event: &Value) -> Result<ClientInput, Refusal> {
        let audio = event["audio"].as_str().unwrap_or_default();
        match sound::heard(audio, RATE) {
            Some((milliseconds, voice)) if audio.len() <= APPEND_MOST => {
                self.uncommitted_ms += milliseconds;
                Ok(ClientInput::Audio {
                    milliseconds,
                    voice,
                })
            }
            _ => invalid("audio is no base64 of 16-bit samples"),
        }
    }

    fn create(&mut self, item: &Value) -> Result<ClientInput, Refusal> {
        if item["type"] == "function_call_output" {
            let id = item["call_id"].as_str().unwrap_or_default();
            if !self.pending.remove(id) {
                return refuse("item_create_invalid_tool_call_id", format!("no call {id}"));
            }
            // openapi: free text; an object is refused.
            return match item["output"].as_str() {
                Some(output) => Ok(ClientInput::Text(output.to_owned())),
                None => invalid("output is no string"),
            };
        }
        let content = &item["content"][0];
        let text = content["text"].as_str().unwrap_or_default();
        // An item without text empties the history (livekit#5887).
        if item["type"] != "message" || text.is_empty() {
            return invalid("an item without text");
        }
        match (item["role"].as_str(), content["type"].as_str()) {
            (Some("user" | "system"), Some("input_text")) => Ok(ClientInput::Text(text.to_owned())),
            (Some("assistant"), Some("output_text")) => Ok(ClientInput::History),
            other => invalid(format!("content of {other:?}")),
        }
    }

    fn truncate(&mut self, event: &Value) -> Result<ClientInput, Refusal> {
        let id = event["item_id"].as_str().unwrap_or_default();
        let end = event["audio_end_ms"].as_u64().unwrap_or_default();
        let Some(length) = self.spoken.get_mut(id) else {
            return refuse("invalid_item", format!("{id} has no audio"));
        };
        if event["content_index"] != 0 || end == 0 {
            return invalid("content_index is 0, and audio_end_ms is positive");
        }
        if end > *length {
            let message = format!("Audio content of {length}ms is already shorter than {end}ms");
            return invalid(message);
        }
        *length = end;
        Ok(ClientInput::Cut(
            "conversation.item.truncated",
            id.to_owned(),
        ))
    }

    fn respond(&mut self, response: &Value) -> Result<ClientInput, Refusal> {
        if self.active.is_some() && response["conversation"] != "none" {
            return refuse("conversation_already_has_active_response", "one is active");
        }
        let modalities = response["output_modalities"].as_array();
        if modalities.is_some_and(|it| it.len() != 1) || response.get("modalities").is_some() {
            return invalid("output_modalities has one element");
        }
        Ok(ClientInput::Respond(response.clone()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ClientInput, RealtimeRules};

    fn update(changes: impl FnOnce(&mut Value)) -> Value {
        let pcm = json!({"type": "audio/pcm", "rate": 24_000});
        let mut event = json!({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["audio"],
            "audio": {"input": {"format": pcm, "turn_detection": {"type": "server_vad"}}, "output": {"format": pcm, "voice": "marin"}}}});
        changes(&mut event["session"]);
        event
    }

    #[track_caller]
    fn refused(event: &Value, code: &str) {
        let (got, words) = RealtimeRules::default().take(event).unwrap_err();
        assert_eq!(got, code, "{words}");
    }

    #[test]
    fn updates_that_break_a_rule_are_refused() {
        let taken = RealtimeRules::default().take(&update(|_| {}));
        assert_eq!(taken, Ok(ClientInput::Updated));
        let beta = |it: &mut Value| it["modalities"] = json!(["audio"]);
        refused(&update(beta), "beta_api_shape_disabled");
        refused(&update(|it| it["wish"] = json!(1)), "unknown_parameter");
        for (path, value) in [
            ("/output_modalities", json!(["audio", "text"])),
            ("/audio/input/format/rate", json!(16_000)),
            ("/audio/output/voice", json!("Kore")),
            ("/audio/input/turn_detection/type", json!("clever_vad")),
        ] {
            let change = |it: &mut Value| *it.pointer_mut(path).unwrap() = value;
            refused(&update(change), "invalid_value");
        }
        refused(&json!({"type": "response.create"}), "invalid_value");
    }

    #[test]
    fn events_that_break_a_rule_are_refused() {
        let mut rules = RealtimeRules::default();
        rules.take(&update(|_| {})).unwrap();
        rules.spoken.insert("spoken".to_owned(), 500);
        rules.pending.insert("call".to_owned());
        let truncate = |id: &str, end: u64| json!({"type": "conversation.item.truncate", "item_id": id, "content_index": 0, "audio_end_ms": end});
        for (id, end) in [("spoken", 0), ("spoken", 501), ("restored", 100)] {
            assert!(rules.take(&truncate(id, end)).is_err(), "{id} {end}");
        }
        assert!(rules.take(&truncate("spoken", 500)).is_ok());
        let output = |output: Value| json!({"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "call", "output": output}});
        assert!(rules.take(&output(json!("{}"))).is_ok());
        assert!(rules.take(&output(json!("{}"))).is_err(), "it is answered");
        rules.active = Some("running".to_owned());
        let create = json!({"type": "response.create"});
        assert_eq!(
            rules.take(&create).unwrap_err().0,
            "conversation_already_has_active_response"
        );
        rules.active = None;
        assert_eq!(
            rules
                .take(&json!({"type": "response.cancel"}))
                .unwrap_err()
                .0,
            "response_cancel_not_active"
        );
    }
}
