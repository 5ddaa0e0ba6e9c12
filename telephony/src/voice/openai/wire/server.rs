//! Events from the model. Unknown ones and unknown fields are ignored, and null is the same as an absent field.

use dikala_entities::foreign_json;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Number, Value};

use crate::voice::common::{ModelError, null_is_empty, read_message};

/// The longest id, in bytes. OpenAI's have some 30.
const ID_MOST: usize = 256;

/// Parses an event. `None` if it is unreadable.
pub(in crate::voice::openai) fn read(bytes: &[u8]) -> Option<RealtimeEvent> {
    read_message(bytes)
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type")]
pub(in crate::voice::openai) enum RealtimeEvent {
    #[serde(rename = "session.created")]
    SessionCreated,
    #[serde(rename = "session.updated")]
    SessionUpdated,
    #[serde(rename = "input_audio_buffer.speech_started")]
    SpeechStarted(CallerTurn),
    #[serde(rename = "input_audio_buffer.speech_stopped")]
    SpeechStopped,
    #[serde(rename = "input_audio_buffer.committed")]
    Committed(CallerTurn),
    #[serde(rename = "conversation.item.input_audio_transcription.completed")]
    Transcribed(Transcript),
    #[serde(rename = "response.created")]
    ResponseCreated(ResponseEvent),
    #[serde(rename = "response.done")]
    ResponseDone(ResponseEvent),
    #[serde(rename = "response.output_item.done")]
    OutputDone(OutputItemEvent),
    #[serde(rename = "response.output_audio.delta", alias = "response.audio.delta")]
    Audio(ContentDelta),
    #[serde(
        rename = "response.output_audio_transcript.delta",
        alias = "response.audio_transcript.delta"
    )]
    AudioTranscript(ContentDelta),
    #[serde(rename = "response.output_text.delta", alias = "response.text.delta")]
    Text(ContentDelta),
    #[serde(rename = "response.function_call_arguments.done")]
    CallArguments(OutputItem),
    #[serde(rename = "error")]
    Error(ErrorEvent),
    #[serde(other)]
    Unknown,
}

/// An id of the server. Ids are remembered, so a long one makes its event unreadable.
fn short_id<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let id: String = null_is_empty(from)?;
    match id.len() {
        0..=ID_MOST => Ok(id),
        _ => Err(D::Error::custom("an id that is too long")),
    }
}

/// A turn of the caller.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct CallerTurn {
    #[serde(deserialize_with = "short_id")]
    pub item_id: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct Transcript {
    #[serde(deserialize_with = "short_id")]
    pub item_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub transcript: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub usage: TranscriptionUsage,
}

/// The units that a transcription bills: `seconds`, or tokens.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct TranscriptionUsage {
    pub seconds: Option<Number>,
    #[serde(deserialize_with = "null_is_empty")]
    pub input_token_details: TokensByKind,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct ResponseEvent {
    #[serde(deserialize_with = "null_is_empty")]
    pub response: ModelResponse,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct ModelResponse {
    #[serde(deserialize_with = "short_id")]
    pub id: String,
    /// `completed`, `cancelled`, `incomplete` or `failed`.
    #[serde(deserialize_with = "null_is_empty")]
    pub status: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub status_details: StatusDetails,
    #[serde(deserialize_with = "null_is_empty")]
    pub output: Vec<OutputItem>,
    pub usage: Option<ResponseUsage>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct StatusDetails {
    #[serde(deserialize_with = "null_is_empty")]
    pub error: ModelError,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct OutputItemEvent {
    #[serde(deserialize_with = "short_id")]
    pub response_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub item: OutputItem,
}

/// An item of the model's answer: a message, or a function call. The event of its arguments has the same fields.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct OutputItem {
    /// `message` or `function_call`; the event of arguments has none.
    #[serde(rename = "type", deserialize_with = "null_is_empty")]
    pub kind: String,
    #[serde(deserialize_with = "short_id")]
    pub response_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub call_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    /// A JSON object as text.
    #[serde(deserialize_with = "null_is_empty")]
    pub arguments: String,
    /// An interrupted item is `incomplete`.
    #[serde(deserialize_with = "null_is_empty")]
    pub status: String,
}

impl OutputItem {
    /// The arguments of a function call; `None` if they are no object.
    pub(in crate::voice::openai) fn arguments(&self) -> Option<Map<String, Value>> {
        match self.arguments.trim() {
            "" => Some(Map::new()),
            text => foreign_json::object(text.as_bytes()).ok(),
        }
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct ContentDelta {
    #[serde(deserialize_with = "short_id")]
    pub response_id: String,
    #[serde(deserialize_with = "short_id")]
    pub item_id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub content_index: u32,
    #[serde(deserialize_with = "null_is_empty")]
    pub delta: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct ErrorEvent {
    #[serde(deserialize_with = "null_is_empty")]
    pub error: ModelError,
}

/// The tokens of a response. Cached ones are a part of the input.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct ResponseUsage {
    #[serde(deserialize_with = "null_is_empty")]
    pub input_tokens: u64,
    #[serde(deserialize_with = "null_is_empty")]
    pub output_tokens: u64,
    #[serde(deserialize_with = "null_is_empty")]
    pub input_token_details: TokensByKind,
    #[serde(deserialize_with = "null_is_empty")]
    pub output_token_details: TokensByKind,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct TokensByKind {
    #[serde(deserialize_with = "null_is_empty")]
    pub audio_tokens: u64,
    /// Of the input only: the part that was in the cache.
    #[serde(deserialize_with = "null_is_empty")]
    pub cached_tokens: u64,
    #[serde(deserialize_with = "null_is_empty")]
    pub cached_tokens_details: CachedTokens,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::openai) struct CachedTokens {
    #[serde(deserialize_with = "null_is_empty")]
    pub audio_tokens: u64,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::{OutputItem, RealtimeEvent, read};

    #[rstest]
    #[case("response.output_audio.delta")]
    #[case("response.audio.delta")]
    fn both_names_of_audio_are_read(#[case] name: &str) {
        let event = json!({"type": name, "response_id": "r", "item_id": "i", "content_index": null, "delta": "AAAA", "obfuscation": {}});
        let event = read(event.to_string().as_bytes());
        assert!(matches!(event, Some(RealtimeEvent::Audio(it)) if it.delta == "AAAA"));
    }

    #[rstest]
    #[case("response.audio_transcript.delta")]
    #[case("response.output_audio_transcript.delta")]
    fn both_names_of_its_words_are_read(#[case] name: &str) {
        let event = json!({"type": name, "delta": "Halo"}).to_string();
        let event = read(event.as_bytes());
        assert!(matches!(event, Some(RealtimeEvent::AudioTranscript(it)) if it.delta == "Halo"));
    }

    #[rstest]
    #[case(json!({"type": "rate_limits.updated", "rate_limits": [{"name": "tokens", "delta": []}]}), true)]
    #[case(json!({"type": "response.mcp_call.in_progress", "delta": {}, "response": 7}), true)]
    #[case(json!({"type": "session.created", "session": {"expires_at": 1}}), true)]
    #[case(json!({"type": "response.done", "response": null}), true)]
    #[case(json!({"type": "response.done", "response": 7}), false)]
    #[case(json!({"delta": "AAAA"}), false)]
    #[case(json!([]), false)]
    fn unknown_events_are_ignored_and_wrong_ones_unreadable(
        #[case] event: serde_json::Value,
        #[case] is_readable: bool,
    ) {
        let event = read(event.to_string().as_bytes());
        assert_eq!(event.is_some(), is_readable, "{event:?}");
    }

    #[rstest]
    #[case("input_audio_buffer.speech_started", "/item_id")]
    #[case("response.output_audio.delta", "/item_id")]
    #[case("response.output_audio.delta", "/response_id")]
    #[case("response.created", "/response/id")]
    fn long_ids_are_not_kept(#[case] name: &str, #[case] path: &str) {
        for (length, is_readable) in [(256, true), (257, false)] {
            let mut event =
                json!({"type": name, "item_id": "", "response_id": "", "response": {"id": ""}});
            *event.pointer_mut(path).unwrap() = json!("x".repeat(length));
            let event = read(event.to_string().as_bytes());
            assert_eq!(event.is_some(), is_readable, "{event:?}");
        }
    }

    #[rstest]
    #[case(r#"{"orderId": "1001"}"#, Some(1))]
    #[case("", Some(0))]
    #[case("{}", Some(0))]
    #[case("[]", None)]
    #[case("{\"a\":", None)]
    #[case(r#"{"$serde_json::private::RawValue":"[1]"}"#, None)]
    fn arguments_are_an_object_as_text(#[case] text: &str, #[case] fields: Option<usize>) {
        let item = OutputItem {
            arguments: text.to_owned(),
            ..OutputItem::default()
        };
        assert_eq!(item.arguments().map(|it| it.len()), fields);
    }
}
