//! The first message of a connection: the agent's instruction, voice and tools.

use dikala_protocol::{CallAgent, FunctionDeclaration};
use serde_json::{Value, json};

use super::{
    profile::{FunctionMode, History, Profile},
    wire::client::ClientMessage,
};
use crate::voice::common::words;

/// Supported languages; the first region of a language is its default.
///
/// Source: <https://ai.google.dev/api/generate-content#SpeechConfig>, read in November 2026.
const LANGUAGES: &[&str] = &[
    "id-ID", "en-US", "en-GB", "en-AU", "en-IN", "de-DE", "es-ES", "es-US", "fr-FR", "fr-CA",
    "hi-IN", "pt-BR", "it-IT", "ja-JP", "ko-KR", "nl-NL", "pl-PL", "ru-RU", "th-TH", "tr-TR",
    "vi-VN", "cmn-CN", "ar-XA", "bn-IN", "gu-IN", "kn-IN", "ml-IN", "mr-IN", "ta-IN", "te-IN",
];
/// The voice of an agent without one: the model's own default.
const VOICE: &str = "Puck";

/// The contents of a setup.
#[derive(Debug)]
pub(super) struct SessionSettings {
    pub agent: CallAgent,
    /// Sentences about the call.
    pub circumstances: String,
    pub model: String,
    pub profile: &'static Profile,
    /// The service has refused the language code: only the prompt names the language.
    pub without_language: bool,
    /// The caller's voice stops the agent's.
    pub interruptible: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum SessionStart<'a> {
    /// Resumes the session of this handle.
    Resumed(&'a str),
    /// A fresh session; the text is the record of the conversation so far, if any.
    Fresh(&'a str),
}

impl SessionSettings {
    pub(super) fn new(agent: CallAgent, model: &str) -> Self {
        Self {
            agent,
            circumstances: String::new(),
            profile: Profile::of(model),
            model: if model.contains('/') {
                model.to_owned()
            } else {
                format!("models/{model}")
            },
            without_language: false,
            interruptible: true,
        }
    }

    /// Leaves out what the service refuses with these words. False if there is nothing that could be left out: each voice
    /// supports only some languages, and models have different voices. The prompt names the language, too.
    pub(super) fn leave_out(&mut self, words: &str) -> bool {
        let words = words.to_lowercase();
        if words.contains("language") && self.language_code().is_some() {
            self.without_language = true;
            true
        } else {
            words.contains("voice") && self.agent.voice_name.take().is_some()
        }
    }

    /// The setup message of a connection.
    pub(super) fn setup(&self, beginning: SessionStart<'_>) -> ClientMessage {
        let (handle, before) = match beginning {
            SessionStart::Resumed(handle) => (json!({"handle": handle}), ""),
            SessionStart::Fresh(before) => (json!({}), before),
        };
        let before = match self.profile.history {
            History::Instruction => before,
            History::Turns => "",
        };
        let activity = match self.interruptible {
            true => "START_OF_ACTIVITY_INTERRUPTS",
            false => "NO_INTERRUPTION",
        };
        let mut setup = json!({
            "model": self.model,
            // No thinkingConfig: 3.8 refuses it (ai.google.dev, models/gemini-3.8-live, September 2026), and it costs time.
            "generationConfig": {
                "responseModalities": ["AUDIO"],
                "speechConfig": self.speech(),
            },
            "systemInstruction": {"parts": [{"text": self.instruction(before)}]},
            "realtimeInputConfig": {"activityHandling": activity},
            "inputAudioTranscription": {},
            "outputAudioTranscription": {},
            "sessionResumption": handle,
            // Without compression a session with audio ends after 15 minutes.
            "contextWindowCompression": {"slidingWindow": {}},
        });
        let declarations = self.declarations();
        if !declarations.is_empty() {
            setup["tools"] = json!([{"functionDeclarations": declarations}]);
        }
        ClientMessage::Setup(setup)
    }

    fn instruction(&self, before: &str) -> String {
        words::instruction(&self.agent, &self.circumstances, before)
    }

    fn speech(&self) -> Value {
        let names = [&self.agent.voice_name, &self.agent.voice_id];
        let voice = names.into_iter().flatten().next();
        let voice = voice.map_or(VOICE, String::as_str);
        let mut speech = json!({"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": voice}}});
        if let Some(code) = self.language_code() {
            speech["languageCode"] = json!(code);
        }
        speech
    }

    /// The language with its region; `None` if no voice supports it.
    pub(super) fn language_code(&self) -> Option<&'static str> {
        if self.without_language {
            return None;
        }
        let given = self.agent.language.as_str();
        let same = |code: &&&str| code.eq_ignore_ascii_case(given);
        let primary = match given.split('-').next().unwrap_or_default() {
            "zh" => "cmn",
            primary => primary,
        };
        let spoken = |code: &&&str| {
            code.split('-')
                .next()
                .is_some_and(|of| of.eq_ignore_ascii_case(primary))
        };
        LANGUAGES
            .iter()
            .find(same)
            .or_else(|| LANGUAGES.iter().find(spoken))
            .copied()
    }

    fn declarations(&self) -> Vec<Value> {
        let declared = words::declarations(&self.agent).into_iter();
        declared
            .map(|function| self.declaration(function))
            .collect()
    }

    fn declaration(&self, function: FunctionDeclaration) -> Value {
        let mut declared = json!({
            "name": function.name,
            "description": function.description,
            "parametersJsonSchema": function.parameters,
        });
        if self.profile.functions == FunctionMode::NonBlocking {
            declared["behavior"] = json!("NON_BLOCKING");
        }
        declared
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::{CallAgent, SessionSettings, SessionStart};
    use crate::voice::gemini::wire::client::ClientMessage;

    fn session_settings(model: &str, changes: &Value) -> SessionSettings {
        let mut agent = json!({"id": "agent_1", "name": "Ayu", "systemPrompt": "You answer for Kopi Senja.", "voiceId": "Kore",
            "greetingText": "Halo!", "language": "id", "maxCallDurationMinutes": 10, "escalationNumber": null,
            "tools": ["end_call"], "functions": [{"name": "check_order", "description": "Looks an order up.",
                "parameters": {"type": "object", "properties": {"orderId": {"type": "string"}}}}]});
        for (name, value) in changes.as_object().unwrap() {
            agent[name] = value.clone();
        }
        let agent: CallAgent = serde_json::from_value(agent).unwrap();
        SessionSettings::new(agent, model)
    }

    fn setup(session_settings: &SessionSettings, beginning: SessionStart<'_>) -> Value {
        match session_settings.setup(beginning) {
            ClientMessage::Setup(setup) => setup,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_agent_becomes_a_setup() {
        let made = setup(
            &session_settings("gemini-3.8-live", &json!({})),
            SessionStart::Fresh(""),
        );
        assert_eq!(made["model"], "models/gemini-3.8-live");
        let speech = &made["generationConfig"]["speechConfig"];
        assert_eq!(speech["languageCode"], "id-ID");
        assert_eq!(
            speech["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"],
            "Kore"
        );
        let instruction = made["systemInstruction"]["parts"][0]["text"]
            .as_str()
            .unwrap();
        assert!(
            instruction.starts_with("You answer for Kopi Senja."),
            "{instruction}"
        );
        let tools = made["tools"][0]["functionDeclarations"].as_array().unwrap();
        let names: Vec<_> = tools.iter().map(|tool| &tool["name"]).collect();
        assert_eq!(names, ["end_call", "check_order"]);
        assert_eq!(
            tools[1]["parametersJsonSchema"]["properties"]["orderId"],
            json!({"type": "string"})
        );
        assert!(tools.iter().all(|tool| tool.get("parameters").is_none()));
        assert!(tools.iter().all(|tool| tool["behavior"] == "NON_BLOCKING"));
        assert_eq!(made["sessionResumption"], json!({}));
        assert_eq!(
            made["contextWindowCompression"],
            json!({"slidingWindow": {}})
        );
    }

    #[test]
    fn only_what_is_enabled_is_declared() {
        let both = session_settings(
            "gemini-3.8-live",
            &json!({"tools": ["transfer_to_human", "unheard_of"], "functions": [], "escalationNumber": "+622150009999"}),
        );
        let made = setup(&both, SessionStart::Fresh(""));
        let tools = made["tools"][0]["functionDeclarations"].as_array().unwrap();
        assert_eq!(tools.len(), 1);
        assert_eq!(tools[0]["name"], "transfer_to_human");
        // Without an escalation number there is no one to transfer to.
        let none = session_settings(
            "gemini-3.8-live",
            &json!({"tools": ["transfer_to_human"], "functions": []}),
        );
        assert!(setup(&none, SessionStart::Fresh("")).get("tools").is_none());
    }

    #[test]
    fn synchronous_models_are_not_told_of_behaviour() {
        let made = setup(
            &session_settings("gemini-3.1-flash-live-preview", &json!({})),
            SessionStart::Fresh("Caller: hello\n"),
        );
        let tools = made["tools"][0]["functionDeclarations"].as_array().unwrap();
        assert!(tools.iter().all(|tool| tool.get("behavior").is_none()));
        let instruction = made["systemInstruction"]["parts"][0]["text"]
            .as_str()
            .unwrap();
        assert!(instruction.contains("Caller: hello"), "{instruction}");
    }

    #[test]
    fn an_agent_may_be_left_to_finish() {
        let mut session_settings = session_settings("gemini-3.8-live", &json!({}));
        let handling = |session_settings: &SessionSettings| {
            let made = setup(session_settings, SessionStart::Fresh(""));
            made["realtimeInputConfig"]["activityHandling"].clone()
        };
        assert_eq!(handling(&session_settings), "START_OF_ACTIVITY_INTERRUPTS");
        session_settings.interruptible = false;
        assert_eq!(handling(&session_settings), "NO_INTERRUPTION");
    }

    #[test]
    fn a_handle_resumes() {
        let made = setup(
            &session_settings("gemini-3.8-live", &json!({})),
            SessionStart::Resumed("h1"),
        );
        assert_eq!(made["sessionResumption"], json!({"handle": "h1"}));
    }

    #[rstest]
    #[case("id", Some("id-ID"))]
    #[case("en", Some("en-US"))]
    #[case("en-au", Some("en-AU"))]
    #[case("en-NZ", Some("en-US"))]
    #[case("zh-Hans-CN", Some("cmn-CN"))]
    #[case("jv", None)]
    #[case("", None)]
    fn languages_get_their_region(#[case] language: &str, #[case] expected: Option<&str>) {
        let session_settings = session_settings("gemini-3.8-live", &json!({"language": language}));
        assert_eq!(session_settings.language_code(), expected);
    }

    #[test]
    fn an_agent_without_voice_and_greeting_can_speak() {
        let bare = session_settings(
            "gemini-3.8-live",
            &json!({"voiceId": null, "greetingText": null}),
        );
        let made = setup(&bare, SessionStart::Fresh(""));
        let voice = &made["generationConfig"]["speechConfig"]["voiceConfig"];
        assert_eq!(voice["prebuiltVoiceConfig"]["voiceName"], "Puck");
    }
}
