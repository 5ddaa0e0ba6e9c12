//! Requests to the three endpoints, and their answers. Unknown fields are ignored, and null is the same as an absent field.

use dikala_entities::foreign_json;
use dikala_protocol::FunctionDeclaration;
use dikala_sip::leg::CALLER_RATE;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value, json};

use crate::voice::{
    Usage,
    common::{ModelError, null_is_empty, read_message},
};

/// The longest line of a stream, in bytes.
const LINE_MOST: usize = 256 * 1024;
/// The longest answer, in characters.
pub(super) const ANSWER_MOST: usize = 4_000;
/// Calls of one answer, and the bytes of their names and arguments.
const CALLS_MOST: usize = 16;
const CALLS_BYTES_MOST: usize = 64 * 1024;
/// Tools that end the conversation. They are called once all was said, so that they do not cut it off.
pub(super) const PARTING: [&str; 2] = ["end_call", "transfer_to_human"];

/// A request to one of the endpoints.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PipelineRequest {
    /// Audio of the caller, to be written down.
    Transcribe(Vec<i16>),
    Chat {
        messages: Vec<Value>,
        tools: Vec<Value>,
        /// The server has refused to tell the usage in a stream.
        is_plain: bool,
    },
    Speak {
        text: String,
    },
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PipelineReply {
    Transcript(String),
    Chat(ChatDelta),
    Audio(Vec<i16>),
    /// The answer is complete.
    Done,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ChatDelta {
    pub content: String,
    pub calls: Vec<CallDelta>,
    /// It has thoughts, which are left out.
    pub is_thinking: bool,
    /// Nothing but the usage follows.
    pub is_last: bool,
    pub usage: Option<Usage>,
}

/// A piece of a call of a function.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct CallDelta {
    #[serde(deserialize_with = "null_is_empty")]
    pub index: u32,
    #[serde(deserialize_with = "null_is_empty")]
    pub id: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub function: FunctionDelta,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct FunctionDelta {
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    /// A piece of JSON.
    #[serde(deserialize_with = "null_is_empty")]
    pub arguments: String,
}

impl FunctionDelta {
    /// The name with the characters that names can have.
    pub(super) fn plain_name(&self) -> String {
        let is_plain = |sign: &char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-');
        self.name.chars().filter(is_plain).take(64).collect()
    }

    /// The arguments; `None` if they are no JSON object.
    pub(super) fn object(&self) -> Option<Map<String, Value>> {
        match self.arguments.trim() {
            "" => Some(Map::new()),
            text => foreign_json::object(text.as_bytes()).ok(),
        }
    }
}

/// Adds a piece of a call. Some servers number all calls alike, and some give no ids: a new id begins a new call, and so does a
/// name after complete arguments.
pub(super) fn add_piece(calls: &mut Vec<CallDelta>, delta: CallDelta) {
    let is_other = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
    let is_complete = |call: &FunctionDelta| !call.arguments.is_empty() && call.object().is_some();
    let is_same = |call: &CallDelta| {
        let is_named = delta.id.is_empty() && !delta.function.name.is_empty();
        let is_next = is_named && is_complete(&call.function);
        call.index == delta.index && !is_other(&call.id, &delta.id) && !is_next
    };
    let same = calls.iter().rposition(is_same);
    let bytes = |call: &CallDelta| call.function.name.len() + call.function.arguments.len();
    match same {
        Some(at) => {
            let call = &mut calls[at];
            if bytes(call) + bytes(&delta) <= CALLS_BYTES_MOST {
                call.function.name.push_str(&delta.function.name);
                call.function.arguments.push_str(&delta.function.arguments);
            }
        }
        None if calls.len() < CALLS_MOST && bytes(&delta) <= CALLS_BYTES_MOST => calls.push(delta),
        None => {}
    }
}

/// Declarations as the chat interface has them.
pub(super) fn tools(declared: Vec<FunctionDeclaration>) -> Vec<Value> {
    let tools = declared.into_iter().map(|it| {
        let function =
            json!({"name": it.name, "description": it.description, "parameters": it.parameters});
        json!({"type": "function", "function": function})
    });
    tools.collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChatChunk {
    #[serde(deserialize_with = "null_is_empty")]
    choices: Vec<Choice>,
    usage: Option<ChatUsage>,
    error: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Choice {
    #[serde(deserialize_with = "null_is_empty")]
    delta: Delta,
    finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Delta {
    #[serde(deserialize_with = "null_is_empty")]
    content: String,
    #[serde(deserialize_with = "null_is_empty")]
    tool_calls: Vec<CallDelta>,
}

/// Cached tokens are a part of the prompt.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ChatUsage {
    #[serde(deserialize_with = "null_is_empty")]
    prompt_tokens: u64,
    #[serde(deserialize_with = "null_is_empty")]
    completion_tokens: u64,
    #[serde(deserialize_with = "null_is_empty")]
    prompt_tokens_details: PromptDetails,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "null_is_empty")]
    cached_tokens: u64,
}

impl From<ChatUsage> for Usage {
    fn from(usage: ChatUsage) -> Self {
        let cached_in = usage.prompt_tokens_details.cached_tokens;
        Self {
            text_in: usage.prompt_tokens.saturating_sub(cached_in),
            cached_in,
            text_out: usage.completion_tokens,
            ..Self::default()
        }
    }
}

/// The data of one event of a chat's stream. Errors are for operators.
pub(super) fn read_chunk(data: &[u8]) -> Result<ChatDelta, String> {
    let chunk: Option<ChatChunk> = read_message(data);
    let chunk = chunk.ok_or("it sends a stream that cannot be read")?;
    if chunk.error.is_some() {
        return Err("it sends an error within its stream".to_owned());
    }
    let mut delta = ChatDelta {
        usage: chunk.usage.map(Usage::from),
        ..ChatDelta::default()
    };
    if let Some(choice) = chunk.choices.into_iter().next() {
        delta.content = choice.delta.content;
        delta.calls = choice.delta.tool_calls;
        delta.is_last = choice
            .finish_reason
            .is_some_and(|reason| !reason.is_empty());
    }
    Ok(delta)
}

/// The text of a transcription: JSON, or nothing but the text.
pub(super) fn read_transcript(body: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Transcription {
        #[serde(deserialize_with = "null_is_empty")]
        text: String,
    }
    let unreadable = "it sends a transcription that cannot be read";
    if body.trim_ascii_start().starts_with(b"{") {
        let read: Option<Transcription> = read_message(body);
        return read.map(|it| it.text).ok_or(unreadable.to_owned());
    }
    String::from_utf8(body.to_vec()).map_err(|_| unreadable.to_owned())
}

/// The code in the body of a refusal; empty if there is none that can be shown.
pub(super) fn error_code(body: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Refusal {
        #[serde(deserialize_with = "null_is_empty")]
        error: ModelError,
    }
    let error = read_message::<Refusal>(body).unwrap_or_default().error;
    match error.code.is_empty() && error.kind.is_empty() {
        true => String::new(),
        false => error.shown(),
    }
}

/// Cuts a stream of server-sent events into the data of its events, a line each.
#[derive(Debug, Default)]
pub(super) struct EventLines {
    pending: Vec<u8>,
}

impl EventLines {
    /// Adds bytes. `None` if a line is too long.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.pending.extend_from_slice(bytes);
        let mut found = Vec::new();
        let mut taken = 0;
        while let Some(length) = self.pending[taken..].iter().position(|byte| *byte == b'\n') {
            let line = &self.pending[taken..taken + length];
            if let Some(data) = line.strip_prefix(b"data:") {
                found.push(data.trim_ascii().to_vec());
            }
            taken += length + 1;
        }
        self.pending.drain(..taken);
        (self.pending.len() <= LINE_MOST).then_some(found)
    }
}

/// A file of 16-bit mono audio at [`CALLER_RATE`].
pub(super) fn wav(samples: &[i16]) -> Vec<u8> {
    let length = u32::try_from(samples.len() * 2).unwrap_or(u32::MAX - 36);
    let mut file = Vec::with_capacity(44 + samples.len() * 2);
    file.extend(b"RIFF");
    file.extend((36 + length).to_le_bytes());
    file.extend(b"WAVEfmt ");
    file.extend(16_u32.to_le_bytes());
    // PCM with one channel.
    file.extend([1, 0, 1, 0]);
    file.extend(CALLER_RATE.to_le_bytes());
    file.extend((CALLER_RATE * 2).to_le_bytes());
    file.extend([2, 0, 16, 0]);
    file.extend(b"data");
    file.extend(length.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!({"choices": [{"delta": {"role": "assistant", "content": null}}]}), "", false)]
    #[case(json!({"choices": [{"delta": {"content": "Halo"}, "finish_reason": null}], "usage": null}), "Halo", false)]
    #[case(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}), "", true)]
    #[case(json!({"choices": [{"delta": {"content": "Halo"}, "finish_reason": ""}]}), "Halo", false)]
    #[case(json!({"choices": [], "x": {"y": 1}}), "", false)]
    #[case(json!({"error": null}), "", false)]
    fn chunks_are_read(#[case] chunk: Value, #[case] content: &str, #[case] is_last: bool) {
        let delta = read_chunk(chunk.to_string().as_bytes()).unwrap();
        assert_eq!((delta.content.as_str(), delta.is_last), (content, is_last));
    }

    #[rstest]
    #[case("{")]
    #[case("7")]
    #[case(r#"{"error":{"code":429,"message":"overloaded"}}"#)]
    #[case(r#"{"choices":[{"delta":{"content":7}}]}"#)]
    fn wrong_chunks_are_told(#[case] chunk: &str) {
        read_chunk(chunk.as_bytes()).unwrap_err();
        read_chunk("[".repeat(100_000).as_bytes()).unwrap_err();
    }

    #[test]
    fn cached_tokens_are_counted_once() {
        let chunk = json!({"choices": [], "usage": {"prompt_tokens": 100, "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 64}}});
        let usage = read_chunk(chunk.to_string().as_bytes())
            .unwrap()
            .usage
            .unwrap();
        assert_eq!(
            (usage.text_in, usage.cached_in, usage.text_out),
            (36, 64, 7)
        );
        let odd =
            json!({"usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}}});
        let usage = read_chunk(odd.to_string().as_bytes())
            .unwrap()
            .usage
            .unwrap();
        assert_eq!((usage.text_in, usage.text_out), (0, 0));
    }

    #[test]
    fn calls_without_numbers_and_ids_are_told_apart() {
        let mut calls = Vec::new();
        for (name, arguments) in [
            ("check_", ""),
            ("order", "{\"n\""),
            ("", ": 1}"),
            ("check_order", "{}"),
            ("check_order", "{\"n\": 2}"),
        ] {
            let function = json!({"name": name, "arguments": arguments});
            let delta = serde_json::from_value(json!({"function": function})).unwrap();
            add_piece(&mut calls, delta);
        }
        let read: Vec<_> = calls
            .iter()
            .map(|it| {
                (
                    it.function.plain_name(),
                    it.function.object().unwrap().get("n").cloned(),
                )
            })
            .collect();
        let named = |n: Option<Value>| ("check_order".to_owned(), n);
        assert_eq!(
            read,
            [named(Some(json!(1))), named(None), named(Some(json!(2)))]
        );
    }

    #[test]
    fn lines_are_whole_and_bounded() {
        let mut lines = EventLines::default();
        assert_eq!(
            lines.push(b": ping\r\ndata: a\r\nda"),
            Some(vec![b"a".to_vec()])
        );
        assert_eq!(lines.push(b"ta:b\nevent: x\n\n"), Some(vec![b"b".to_vec()]));
        assert_eq!(lines.push(&vec![b'x'; LINE_MOST]), Some(vec![]));
        assert_eq!(lines.push(b"x"), None);
    }

    #[rstest]
    #[case(r#"{"text": " Halo "}"#, Some(" Halo "))]
    #[case(r#"{"text": null, "segments": []}"#, Some(""))]
    #[case("Halo\n", Some("Halo\n"))]
    #[case(r#"{"words": 1}"#, None)]
    #[case("{", None)]
    fn transcriptions_are_read(#[case] body: &str, #[case] text: Option<&str>) {
        assert_eq!(read_transcript(body.as_bytes()).ok().as_deref(), text);
    }

    #[rstest]
    #[case(
        r#"{"error": {"code": "model_not_found", "message": "no gpt-0"}}"#,
        "model_not_found"
    )]
    #[case(r#"{"error": {"type": "server_error", "code": null}}"#, "server_error")]
    #[case(r#"{"error": "some words"}"#, "")]
    #[case(r#"{"detail": "Not Found"}"#, "")]
    #[case("<html>", "")]
    fn codes_of_errors_are_shown(#[case] body: &str, #[case] code: &str) {
        assert_eq!(error_code(body.as_bytes()), code);
    }
}
