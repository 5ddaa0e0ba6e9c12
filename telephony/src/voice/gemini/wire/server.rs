//! Messages from the model. Unknown names are ignored, and one message may contain any of these fields.

use dikala_entities::foreign_json;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::voice::common::{null_is_empty, read_message};

/// Parses a message. `None` if it is unreadable.
pub(in crate::voice::gemini) fn read(bytes: &[u8]) -> Option<ServerMessage> {
    read_message(bytes)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct ServerMessage {
    #[serde(alias = "setup_complete", deserialize_with = "present")]
    pub setup_complete: bool,
    #[serde(alias = "server_content")]
    pub server_content: Option<ServerContent>,
    #[serde(alias = "tool_call")]
    pub tool_call: Option<ToolCall>,
    #[serde(alias = "tool_call_cancellation")]
    pub tool_call_cancellation: Option<ToolCallCancellation>,
    #[serde(alias = "go_away")]
    pub go_away: Option<GoAway>,
    #[serde(alias = "session_resumption_update")]
    pub session_resumption_update: Option<SessionResumptionUpdate>,
    #[serde(alias = "usage_metadata")]
    pub usage_metadata: Option<UsageMetadata>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct ServerContent {
    #[serde(alias = "model_turn")]
    pub model_turn: Option<ModelTurn>,
    #[serde(alias = "turn_complete")]
    pub turn_complete: Option<bool>,
    #[serde(alias = "generation_complete")]
    pub generation_complete: Option<bool>,
    pub interrupted: Option<bool>,
    #[serde(alias = "input_transcription")]
    pub input_transcription: Option<Transcription>,
    #[serde(alias = "output_transcription")]
    pub output_transcription: Option<Transcription>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::gemini) struct ModelTurn {
    #[serde(deserialize_with = "null_is_empty")]
    pub parts: Vec<ContentPart>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct ContentPart {
    #[serde(alias = "inline_data")]
    pub inline_data: Option<InlineData>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct InlineData {
    #[serde(alias = "mime_type", deserialize_with = "null_is_empty")]
    pub mime_type: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub data: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::gemini) struct Transcription {
    #[serde(deserialize_with = "null_is_empty")]
    pub text: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct ToolCall {
    #[serde(alias = "function_calls", deserialize_with = "null_is_empty")]
    pub function_calls: Vec<ModelFunctionCall>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::gemini) struct ModelFunctionCall {
    pub id: Option<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    #[serde(deserialize_with = "arguments")]
    pub args: Map<String, Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(in crate::voice::gemini) struct ToolCallCancellation {
    #[serde(deserialize_with = "null_is_empty")]
    pub ids: Vec<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct GoAway {
    #[serde(alias = "time_left", deserialize_with = "foreign_json::field")]
    time_left: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct SessionResumptionUpdate {
    #[serde(alias = "new_handle", deserialize_with = "null_is_empty")]
    pub new_handle: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub resumable: bool,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct UsageMetadata {
    #[serde(alias = "prompt_token_count", deserialize_with = "null_is_empty")]
    pub prompt_token_count: u64,
    #[serde(alias = "response_token_count", deserialize_with = "null_is_empty")]
    pub response_token_count: u64,
    #[serde(alias = "thoughts_token_count", deserialize_with = "null_is_empty")]
    pub thoughts_token_count: u64,
    #[serde(
        alias = "tool_use_prompt_token_count",
        deserialize_with = "null_is_empty"
    )]
    pub tool_use_prompt_token_count: u64,
    #[serde(alias = "prompt_tokens_details", deserialize_with = "null_is_empty")]
    pub prompt_tokens_details: Vec<ModalityTokens>,
    #[serde(alias = "response_tokens_details", deserialize_with = "null_is_empty")]
    pub response_tokens_details: Vec<ModalityTokens>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::voice::gemini) struct ModalityTokens {
    #[serde(deserialize_with = "null_is_empty")]
    pub modality: String,
    #[serde(alias = "token_count", deserialize_with = "null_is_empty")]
    pub token_count: u64,
}

impl GoAway {
    /// Milliseconds until the connection is closed, from a Duration of protocol buffers such as `5s` or `1.5s`.
    pub(in crate::voice::gemini) fn milliseconds_left(&self) -> Option<u64> {
        let text = self.time_left.as_ref()?.as_str()?.strip_suffix('s')?;
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
        let seconds: u64 = seconds.parse().ok()?;
        seconds.checked_mul(1000)?.checked_add(digits.parse().ok()?)
    }
}

fn arguments<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    foreign_json::field::<D, Option<_>>(from).map(Option::unwrap_or_default)
}

/// True for anything but null: `setupComplete` is an empty object.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(deserializer)?.is_some())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{GoAway, ServerMessage};

    fn read(text: &Value) -> ServerMessage {
        serde_json::from_value(text.clone()).unwrap()
    }

    #[test]
    fn both_spellings_are_read_and_unknown_names_passed_over() {
        let camel = json!({"serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAA="}}, {"thought": true, "text": "hm"}]},
            "inputTranscription": {"text": "halo", "finished": true}, "turnCompleteReason": "X", "turnComplete": true}, "voiceActivity": {}});
        let snake = json!({"server_content": {"model_turn": {"parts": [{"inline_data": {"mime_type": "audio/pcm;rate=24000", "data": "AAA="}}, {}]},
            "input_transcription": {"text": "halo"}, "turn_complete": true}});
        for message in [read(&camel), read(&snake)] {
            let content = message.server_content.unwrap();
            let parts = content.model_turn.unwrap().parts;
            assert_eq!(parts.len(), 2);
            assert_eq!(parts[0].inline_data.as_ref().unwrap().data, "AAA=");
            assert_eq!(content.input_transcription.unwrap().text, "halo");
            assert_eq!(content.turn_complete, Some(true));
        }
    }

    #[test]
    fn json_in_strings_is_not_read() {
        let hidden = r#"{"$serde_json::private::RawValue":"[1]"}"#;
        let call = |args: &str| {
            format!(r#"{{"toolCall":{{"functionCalls":[{{"name":"f","args":{args}}}]}}}}"#)
        };
        assert!(super::read(call(r#"{"a":1}"#).as_bytes()).is_some());
        assert!(super::read(call("null").as_bytes()).is_some());
        for text in [
            call(hidden),
            call(&format!(r#"{{"a":[{hidden}]}}"#)),
            format!(r#"{{"goAway":{{"timeLeft":{hidden}}}}}"#),
        ] {
            assert!(super::read(text.as_bytes()).is_none(), "{text}");
        }
    }

    #[test]
    fn a_message_of_a_million_pieces_is_never_made_into_them() {
        let many = |piece: &str| vec![piece; 1_000_000].join(",");
        for (before, piece, behind) in [
            (r#"{"serverContent":{"modelTurn":{"parts":["#, "{}", "]}}}"),
            (r#"{"toolCall":{"functionCalls":["#, "{}", "]}}"),
            (
                r#"{"toolCall":{"functionCalls":[{"name":"f","args":{"a":["#,
                "0",
                "]}}]}}",
            ),
            (r#"{"toolCallCancellation":{"ids":["#, r#""""#, "]}}"),
            (r#"{"usageMetadata":{"promptTokensDetails":["#, "{}", "]}}"),
            (r#"{"goAway":{"timeLeft":["#, "0", "]}}"),
            (r#"{"somethingNew":["#, "0", "]}"),
        ] {
            let text = format!("{before}{}{behind}", many(piece));
            assert!(super::read(text.as_bytes()).is_none(), "{before}");
            let text = format!("{before}{piece},{piece}{behind}");
            assert!(super::read(text.as_bytes()).is_some(), "{before}");
        }
        let minute = "A".repeat(3_840_000);
        let part = format!(r#"{{"inlineData":{{"data":"{minute}"}}}}"#);
        let text = format!(r#"{{"serverContent":{{"modelTurn":{{"parts":[{part}]}}}}}}"#);
        assert!(super::read(text.as_bytes()).is_some(), "a minute of speech");
    }

    #[test]
    fn null_is_nothing() {
        let message = read(
            &json!({"setupComplete": null, "serverContent": {"modelTurn": {"parts": null}},
            "toolCall": {"functionCalls": [{"id": null, "name": "f", "args": null}]},
            "sessionResumptionUpdate": {"newHandle": null, "resumable": null}}),
        );
        assert!(!message.setup_complete);
        let call = &message.tool_call.unwrap().function_calls[0];
        assert_eq!((call.id.as_deref(), call.args.len()), (None, 0));
        assert!(read(&json!({"setupComplete": {}})).setup_complete);
    }

    #[rstest]
    #[case(json!("5s"), Some(5_000))]
    #[case(json!("1.5s"), Some(1_500))]
    #[case(json!("0.123456789s"), Some(123))]
    #[case(json!("99999999999999999999s"), None)]
    #[case(json!("soon"), None)]
    #[case(json!(5), None)]
    #[case(Value::Null, None)]
    fn time_left_is_a_duration(#[case] given: Value, #[case] expected: Option<u64>) {
        let away: GoAway = serde_json::from_value(json!({"timeLeft": given})).unwrap();
        assert_eq!(away.milliseconds_left(), expected);
    }
}
