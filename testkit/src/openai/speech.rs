//! The events of a response.

use serde_json::{Value, json};

use crate::sound;

/// Length of one piece of outgoing audio.
const PIECE_MS: u64 = 100;

/// A response with one item.
#[derive(Debug, Clone)]
pub(super) struct ResponseScript {
    pub(super) response_id: String,
    pub(super) item_id: String,
    pub(super) beta: bool,
}

impl ResponseScript {
    fn name(&self, current: &str) -> String {
        let text = format!("response.{current}");
        match self.beta {
            false => text,
            true => text
                .replace("output_audio", "audio")
                .replace("output_text", "text"),
        }
    }

    /// The response and its message begin.
    pub(super) fn begin(&self) -> Vec<Value> {
        let added = match self.beta {
            true => "conversation.item.created",
            false => "conversation.item.added",
        };
        let item =
            json!({"id": self.item_id, "type": "message", "role": "assistant", "content": []});
        vec![
            json!({"type": "response.created", "response": {"id": self.response_id, "status": "in_progress", "output": []}}),
            json!({"type": "response.output_item.added", "response_id": self.response_id, "output_index": 0, "item": item}),
            json!({"type": added, "item": item, "previous_item_id": null}),
        ]
    }

    /// Speech, faster than it is played: of the recording, or else of a tone.
    pub(super) fn audio(&self, recording: Option<&[u8]>, milliseconds: u64) -> Vec<Value> {
        let pieces = match recording {
            Some(recording) => sound::recorded(recording, milliseconds, PIECE_MS),
            None => {
                let pieces = 0..milliseconds.div_ceil(PIECE_MS);
                let length = |at| PIECE_MS.min(milliseconds - at * PIECE_MS);
                pieces.map(|at| sound::tone(length(at))).collect()
            }
        };
        let delta = |piece: &String| self.delta("output_audio.delta", piece);
        pieces.iter().map(delta).collect()
    }

    /// The words of the speech.
    pub(super) fn transcript(&self, text: &str) -> Vec<Value> {
        let words = text.split_inclusive(' ');
        words
            .map(|word| self.delta("output_audio_transcript.delta", word))
            .collect()
    }

    /// Words in place of speech.
    pub(super) fn text(&self, text: &str) -> Vec<Value> {
        let words = text.split_inclusive(' ');
        words
            .map(|word| self.delta("output_text.delta", word))
            .collect()
    }

    fn delta(&self, name: &str, delta: &str) -> Value {
        json!({"type": self.name(name), "response_id": self.response_id, "item_id": self.item_id,
            "output_index": 0, "content_index": 0, "delta": delta})
    }

    /// A function call, told three times, as the service does.
    pub(super) fn call(&self, call_id: &str, name: &str, arguments: &Value) -> Vec<Value> {
        let arguments = arguments.to_string();
        let item = json!({"id": format!("item-{call_id}"), "type": "function_call", "status": "completed",
            "call_id": call_id, "name": name, "arguments": arguments});
        vec![
            json!({"type": "response.function_call_arguments.delta", "response_id": self.response_id, "delta": arguments}),
            json!({"type": "response.function_call_arguments.done", "response_id": self.response_id,
                "item_id": item["id"], "call_id": call_id, "name": name, "arguments": arguments}),
            json!({"type": "response.output_item.done", "response_id": self.response_id, "output_index": 0, "item": item}),
        ]
    }

    pub(super) fn done(
        &self,
        status: &str,
        details: &Value,
        spoken_ms: u64,
        output: &[Value],
    ) -> Value {
        // A token is 50 ms of the agent's speech, and every turn bills the whole conversation.
        let audio = spoken_ms / 50;
        let usage = json!({"total_tokens": 130 + audio, "input_tokens": 120, "output_tokens": 10 + audio,
            "input_token_details": {"text_tokens": 100, "audio_tokens": 20, "image_tokens": 0, "cached_tokens": 64,
                "cached_tokens_details": {"text_tokens": 64, "audio_tokens": 0}},
            "output_token_details": {"text_tokens": 10, "audio_tokens": audio}});
        json!({"type": "response.done", "response": {"id": self.response_id, "status": status,
            "status_details": details, "output": output, "usage": usage}})
    }
}
