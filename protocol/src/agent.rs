//! The agent, as the service gives it to a bridge with an accepted call.

use dikala_entities::{ConversationSettings, VoiceProvider};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// A bridge may be newer than its service: a new field is an `Option`, or has `#[serde(default)]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAgent {
    pub id: String,
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<String>,
    /// `None`: the bridge's own. A provider that this bridge does not know counts as none.
    #[serde(default, deserialize_with = "known")]
    pub voice_provider: Option<VoiceProvider>,
    /// The provider's own name of a voice.
    #[serde(default)]
    pub voice_name: Option<String>,
    pub greeting_text: Option<String>,
    pub language: String,
    /// A name of the time zone database. Only an older service sends none.
    #[serde(default)]
    pub time_zone: Option<String>,
    #[serde(default, deserialize_with = "known")]
    pub conversation: ConversationSettings,
    pub max_call_duration_minutes: u32,
    pub escalation_number: Option<String>,
    /// Built-in tools that are enabled, by name.
    pub tools: Vec<String>,
    pub functions: Vec<FunctionDeclaration>,
}

/// The value, or the default for one that only a newer service knows.
fn known<'de, T: DeserializeOwned + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// A function of the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionDeclaration {
    pub name: String,
    pub description: String,
    /// JSON Schema.
    pub parameters: Value,
}

#[cfg(test)]
mod tests {
    use dikala_entities::FillerKind;
    use serde_json::json;

    use super::*;

    fn read(more: Value) -> CallAgent {
        let mut agent = json!({"id": "a", "name": "Ayu", "systemPrompt": "Be kind.", "voiceId": null, "greetingText": null,
            "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": null, "tools": [], "functions": []});
        for (name, value) in more.as_object().expect("an object") {
            agent[name] = value.clone();
        }
        serde_json::from_value(agent).expect("an agent")
    }

    #[test]
    fn an_older_service_sends_no_voice_and_no_conversation() {
        let agent = read(json!({}));
        assert_eq!((agent.voice_provider, agent.voice_name), (None, None));
        assert_eq!(agent.conversation, ConversationSettings::default());
    }

    #[test]
    fn a_newer_service_may_send_what_this_bridge_does_not_know() {
        let agent = read(
            json!({"voiceProvider": "parrot", "conversation": {"fillers": "poems", "maskKeys": true}}),
        );
        assert_eq!(agent.voice_provider, None);
        assert_eq!(agent.conversation, ConversationSettings::default());
        let agent =
            read(json!({"voiceProvider": "openai", "conversation": {"fillers": "off", "mood": 1}}));
        assert_eq!(agent.voice_provider, Some(VoiceProvider::Openai));
        assert_eq!(agent.conversation.fillers, FillerKind::Off);
    }
}
