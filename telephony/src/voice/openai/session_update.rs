//! The terms of a session: the agent's instruction, voice and functions, and how turns are detected.

use dikala_protocol::CallAgent;
use serde_json::{Value, json};

use super::wire::client::{RealtimeRequest, RequestKind};
use crate::{settings::TurnDetection, voice::common::words};

/// The voice of an agent without one; OpenAI recommends it.
const VOICE: &str = "marin";
/// The event id of the update, to which an error may refer.
pub(super) const UPDATE_ID: &str = "session-update";
/// Tokens of a conversation that are kept, beside the instruction. Every turn bills the conversation so far again.
const CONVERSATION_TOKENS: u64 = 8_000;

#[derive(Debug)]
pub(super) struct SessionTerms {
    pub agent: CallAgent,
    /// Sentences about the call.
    pub circumstances: String,
    pub transcription_model: String,
    pub turn_detection: TurnDetection,
    /// The caller's voice stops the agent's.
    pub interruptible: bool,
    /// The service has refused the terms: only those are sent that every server knows.
    pub is_plain: bool,
}

impl SessionTerms {
    /// The update of a session.
    pub(super) fn update(&self) -> RealtimeRequest {
        let mut transcription = json!({"model": self.transcription_model});
        let mut output = json!({"format": pcm()});
        if !self.is_plain {
            output["voice"] = json!(self.agent.voice_name.as_deref().unwrap_or(VOICE));
            if let Some(language) = words::language_code(&self.agent) {
                transcription["language"] = json!(language);
            }
        }
        let mut session = json!({
            "type": "realtime",
            "output_modalities": ["audio"],
            "instructions": words::instruction(&self.agent, &self.circumstances, ""),
            "audio": {
                "input": {
                    "format": pcm(),
                    "transcription": transcription,
                    "turn_detection": self.turn_detection(),
                },
                "output": output,
            },
            "tools": self.tools(),
            "tool_choice": "auto",
        });
        if !self.is_plain {
            let limits = json!({"post_instructions": CONVERSATION_TOKENS});
            session["truncation"] =
                json!({"type": "retention_ratio", "retention_ratio": 0.8, "token_limits": limits});
        }
        RealtimeRequest {
            event_id: Some(UPDATE_ID),
            request: RequestKind::UpdateSession { session },
        }
    }

    fn turn_detection(&self) -> Value {
        let mut detection = match self.turn_detection {
            TurnDetection::Own => return Value::Null,
            TurnDetection::Semantic => json!({"type": "semantic_vad", "eagerness": "auto"}),
            TurnDetection::Server => json!({"type": "server_vad", "threshold": 0.5,
                "prefix_padding_ms": 300, "silence_duration_ms": 500}),
        };
        detection["create_response"] = json!(true);
        detection["interrupt_response"] = json!(self.interruptible);
        detection
    }

    fn tools(&self) -> Vec<Value> {
        let declared = words::declarations(&self.agent).into_iter();
        let tool = declared.map(|function| {
            json!({"type": "function", "name": function.name, "description": function.description,
                "parameters": function.parameters})
        });
        tool.collect()
    }
}

/// 24 kHz is the only rate of PCM. Telephone codecs are not taken: some models ignore that they are set for the output (AVA).
fn pcm() -> Value {
    json!({"type": "audio/pcm", "rate": 24_000})
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{SessionTerms, TurnDetection};
    use crate::voice::common::tests::agent;

    fn terms() -> SessionTerms {
        SessionTerms {
            agent: agent(),
            circumstances: "The call began at noon.".to_owned(),
            transcription_model: "gpt-4o-mini-transcribe".to_owned(),
            turn_detection: TurnDetection::Server,
            interruptible: true,
            is_plain: false,
        }
    }

    fn session(terms: &SessionTerms) -> Value {
        let update = serde_json::to_value(terms.update()).unwrap();
        assert_eq!(update["type"], "session.update");
        update["session"].clone()
    }

    #[test]
    fn an_agent_becomes_a_session() {
        let made = session(&terms());
        assert_eq!(made["type"], "realtime");
        assert_eq!(made["output_modalities"], json!(["audio"]));
        let pcm = json!({"type": "audio/pcm", "rate": 24_000});
        assert_eq!(made["audio"]["input"]["format"], pcm);
        assert_eq!(
            made["audio"]["output"],
            json!({"format": pcm, "voice": "marin"})
        );
        assert_eq!(made["audio"]["input"]["transcription"]["language"], "id");
        let instruction = made["instructions"].as_str().unwrap();
        assert!(
            instruction.starts_with("You answer for Kopi Senja."),
            "{instruction}"
        );
        let names: Vec<_> = made["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        assert_eq!(names, ["end_call", "transfer_to_human", "check_order"]);
        assert_eq!(
            made["truncation"]["token_limits"]["post_instructions"],
            8_000
        );
    }

    #[test]
    fn a_server_that_refuses_the_terms_gets_what_every_one_knows() {
        let mut plain = terms();
        plain.is_plain = true;
        let made = session(&plain);
        assert_eq!(made.get("truncation"), None);
        assert_eq!(made["audio"]["output"].get("voice"), None);
        assert_eq!(
            made["audio"]["input"]["transcription"],
            json!({"model": "gpt-4o-mini-transcribe"})
        );
        assert_eq!(made["tools"].as_array().unwrap().len(), 3);
    }

    #[rstest]
    #[case(TurnDetection::Server, "server_vad")]
    #[case(TurnDetection::Semantic, "semantic_vad")]
    fn the_server_detects_turns(#[case] detection: TurnDetection, #[case] name: &str) {
        for interruptible in [true, false] {
            let mut terms = terms();
            (terms.turn_detection, terms.interruptible) = (detection, interruptible);
            let made = session(&terms)["audio"]["input"]["turn_detection"].clone();
            assert_eq!(made["type"], name);
            assert_eq!(made["create_response"], true);
            assert_eq!(made["interrupt_response"], interruptible);
        }
    }

    #[test]
    fn turns_of_ones_own_are_detected_by_nobody_else() {
        let mut terms = terms();
        terms.turn_detection = TurnDetection::Own;
        assert_eq!(
            session(&terms)["audio"]["input"].get("turn_detection"),
            Some(&Value::Null)
        );
    }
}
