//! The service's rules, each with its source. A violation yields a close code and a reason in the service's style.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use crate::{model_socket::Breach, sound};

/// Samples per millisecond of the caller's audio.
const HEARD: u64 = 16;

/// Names of voices, matched exactly (livekit's Google plugin, checked in November 2026).
const VOICES: &[&str] = &[
    "Achernar",
    "Achird",
    "Algenib",
    "Algieba",
    "Alnilam",
    "Aoede",
    "Autonoe",
    "Callirrhoe",
    "Charon",
    "Despina",
    "Enceladus",
    "Erinome",
    "Fenrir",
    "Gacrux",
    "Iapetus",
    "Kore",
    "Laomedeia",
    "Leda",
    "Orus",
    "Puck",
    "Pulcherrima",
    "Rasalgethi",
    "Sadachbia",
    "Sadaltager",
    "Schedar",
    "Sulafat",
    "Umbriel",
    "Vindemiatrix",
    "Zephyr",
    "Zubenelgenubi",
];
/// Languages of voices (ai.google.dev/api/generate-content#SpeechConfig, November 2026).
const LANGUAGES: &[&str] = &[
    "id-ID", "en-US", "en-GB", "en-AU", "en-IN", "de-DE", "es-ES", "es-US", "fr-FR", "fr-CA",
    "hi-IN", "pt-BR", "it-IT", "ja-JP", "ko-KR", "nl-NL", "pl-PL", "ru-RU", "th-TH", "tr-TR",
    "vi-VN", "cmn-CN", "ar-XA", "bn-IN", "gu-IN", "kn-IN", "ml-IN", "mr-IN", "ta-IN", "te-IN",
];
/// Fields of a setup (ai.google.dev/api/live, November 2026).
const SETUP: &[&str] = &[
    "model",
    "generationConfig",
    "systemInstruction",
    "tools",
    "realtimeInputConfig",
    "sessionResumption",
    "contextWindowCompression",
    "inputAudioTranscription",
    "outputAudioTranscription",
    "proactivity",
    "historyConfig",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Family {
    /// gemini-3.8-live
    #[default]
    Stable,
    /// gemini-3.1-flash-live-preview
    Flash31,
    /// gemini-2.5-flash-native-audio
    Native25,
}

/// State of a session. A handle keeps the state at the time of its creation.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    pub(super) session: u64,
    /// Unanswered function calls: id and function name.
    pub(super) pending: BTreeMap<String, String>,
}

/// The rules of one connection.
#[derive(Debug, Default)]
pub(super) struct ProtocolRules {
    family: Family,
    /// Functions by name; true if they block.
    functions: BTreeMap<String, bool>,
    pub(super) memory: Memory,
    realtime: bool,
}

/// Kinds of received messages.
#[derive(Debug, PartialEq)]
pub(super) enum ModelInput {
    Audio {
        milliseconds: u64,
        voice: bool,
    },
    /// Requires an answer.
    Text(String),
    /// Requires no answer.
    Quiet,
    /// Function responses: name, response, and whether the model should talk about them.
    Answers(Vec<(String, Value, bool)>),
}

fn invalid<T>(reason: impl Into<String>) -> Result<T, Breach> {
    let mut reason = reason.into();
    reason.truncate(reason.floor_char_boundary(120));
    Err((1007, reason))
}

/// The only key of a message, and its value ("exactly one of the fields", ai.google.dev/api/live).
pub(super) fn single(message: &Value) -> Result<(&str, &Value), Breach> {
    match message.as_object() {
        Some(fields) if fields.len() == 1 => {
            let (key, value) = fields.iter().next().unwrap();
            Ok((key, value))
        }
        _ => invalid("Request contains an invalid argument: one field is wanted"),
    }
}

impl ProtocolRules {
    /// Checks the first message.
    pub(super) fn set_up(message: &Value) -> Result<Self, Breach> {
        let (key, setup) = single(message)?;
        if key != "setup" {
            return invalid("setup must be the first message and only the first");
        }
        for key in setup.as_object().into_iter().flat_map(|it| it.keys()) {
            if !SETUP.contains(&key.as_str()) {
                return invalid(format!(
                    "Invalid JSON payload received. Unknown name \"{key}\" at 'setup'"
                ));
            }
        }
        let model = setup["model"].as_str().unwrap_or_default();
        let family = match model.strip_prefix("models/") {
            Some(name) if name.starts_with("gemini-3.8-live") => Family::Stable,
            Some("gemini-3.1-flash-live-preview") => Family::Flash31,
            Some(name) if name.starts_with("gemini-2.5-flash-native-audio") => Family::Native25,
            _ => return Err((1008, format!("{model} is not found for API version v1beta"))),
        };
        let mut rules = Self {
            family,
            ..Self::default()
        };
        rules.generation(&setup["generationConfig"], setup)?;
        for tool in setup["tools"].as_array().into_iter().flatten() {
            for declared in tool["functionDeclarations"]
                .as_array()
                .into_iter()
                .flatten()
            {
                rules.declare(declared)?;
            }
        }
        Ok(rules)
    }

    fn generation(&self, config: &Value, setup: &Value) -> Result<(), Breach> {
        if config["responseModalities"] != serde_json::json!(["AUDIO"]) {
            return invalid("Live models answer in AUDIO only");
        }
        // models/gemini-3.8-live, September 2026: these have become errors.
        let gone = config.get("thinkingConfig").is_some()
            || config.get("enableAffectiveDialog").is_some()
            || setup["proactivity"]["proactiveAudio"] == false;
        if self.family == Family::Stable && gone {
            return invalid(
                "thinkingConfig, affective dialog and proactiveAudio false are not supported",
            );
        }
        let speech = &config["speechConfig"];
        let voice = &speech["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"];
        if !voice.is_null() && !VOICES.contains(&voice.as_str().unwrap_or_default()) {
            return invalid(format!("Requested voice {voice} is not available"));
        }
        let language = &speech["languageCode"];
        if !language.is_null() && !LANGUAGES.contains(&language.as_str().unwrap_or_default()) {
            return invalid(format!("Unsupported language code {language}"));
        }
        Ok(())
    }

    fn declare(&mut self, declared: &Value) -> Result<(), Breach> {
        let name = declared["name"].as_str().unwrap_or_default();
        let fits =
            |each: char| each.is_ascii_alphanumeric() || matches!(each, '_' | '-' | '.' | ':');
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            return invalid(format!("Invalid function name {name}"));
        }
        if declared.get("parameters").is_some() && declared.get("parametersJsonSchema").is_some() {
            return invalid("parameters and parameters_json_schema are mutually exclusive");
        }
        let behavior = declared["behavior"].as_str();
        if !matches!(behavior, None | Some("BLOCKING" | "NON_BLOCKING")) {
            return invalid("Invalid value at behavior");
        }
        // models/gemini-3.1-flash-live-preview, March 2026: asynchronous calls are not supported.
        if self.family == Family::Flash31 && behavior == Some("NON_BLOCKING") {
            return invalid("NON_BLOCKING is not supported by this model");
        }
        // Default: 3.8 does not block (September 2026), older models do.
        let blocks = match behavior {
            Some(behavior) => behavior == "BLOCKING",
            None => self.family != Family::Stable,
        };
        if self.functions.insert(name.to_owned(), blocks).is_some() {
            return invalid(format!("Duplicate function declaration {name}"));
        }
        Ok(())
    }

    /// Records a function call by the model.
    pub(super) fn called(&mut self, id: &str, name: &str) {
        self.memory.pending.insert(id.to_owned(), name.to_owned());
    }

    fn blocked(&self) -> bool {
        let mut pending = self.memory.pending.values();
        pending.any(|name| self.functions.get(name) == Some(&true))
    }

    /// Checks a message after the setup.
    pub(super) fn take(&mut self, message: &Value) -> Result<ModelInput, Breach> {
        let (key, value) = single(message)?;
        match key {
            "realtimeInput" => self.realtime(value),
            "clientContent" => self.content(value),
            "toolResponse" => self.responses(value),
            "setup" => invalid("setup must be the first message and only the first"),
            other => invalid(format!(
                "Invalid JSON payload received. Unknown name \"{other}\""
            )),
        }
    }

    fn realtime(&mut self, input: &Value) -> Result<ModelInput, Breach> {
        // autonomous-os#231 and #237 (August 2026), litellm#26590.
        if self.blocked() {
            return Err((
                1008,
                "realtime input while a function call is pending".to_owned(),
            ));
        }
        self.realtime = true;
        match single(input)? {
            ("text", text) => match text.as_str() {
                // 2.5 is greeted with a turn; realtime text has no effect before it has heard a voice.
                Some(_) if self.family == Family::Native25 => Ok(ModelInput::Quiet),
                Some(text) => Ok(ModelInput::Text(text.to_owned())),
                None => invalid("text is no string"),
            },
            ("audio", audio) => {
                if audio["mimeType"] != "audio/pcm;rate=16000" {
                    return invalid("audio is wanted as audio/pcm;rate=16000");
                }
                match sound::heard(audio["data"].as_str().unwrap_or_default(), HEARD) {
                    Some((milliseconds, voice)) => Ok(ModelInput::Audio {
                        milliseconds,
                        voice,
                    }),
                    None => invalid("audio is no base64 of 16-bit samples"),
                }
            }
            ("audioStreamEnd", _) => Ok(ModelInput::Quiet),
            (other, _) => invalid(format!("Unknown name \"{other}\" at 'realtime_input'")),
        }
    }

    fn content(&mut self, content: &Value) -> Result<ModelInput, Breach> {
        // livekit/agents#5262 (March 2026): 3.1 accepts no clientContent.
        if self.family == Family::Flash31 {
            return invalid("Request contains an invalid argument.");
        }
        let turns = content["turns"].as_array().cloned().unwrap_or_default();
        let mut last = None;
        for turn in &turns {
            // models/gemini-3.8-live, September 2026: roles must be explicit.
            if !matches!(turn["role"].as_str(), Some("user" | "model")) {
                return invalid("Please use a valid role: user, model.");
            }
            let Some(text) = turn["parts"][0]["text"]
                .as_str()
                .filter(|it| !it.is_empty())
            else {
                return invalid("a turn without parts");
            };
            last = Some(text.to_owned());
        }
        match (last, content["turnComplete"].as_bool()) {
            (Some(text), Some(true)) => Ok(ModelInput::Text(text)),
            (_, Some(_)) => Ok(ModelInput::Quiet),
            (_, None) => invalid("turnComplete is wanted"),
        }
    }

    fn responses(&mut self, response: &Value) -> Result<ModelInput, Breach> {
        let Some(responses) = response["functionResponses"].as_array() else {
            return invalid("functionResponses is wanted");
        };
        let mut answers = Vec::new();
        let mut seen = HashSet::new();
        for one in responses {
            let id = one["id"].as_str().unwrap_or_default();
            let name = one["name"].as_str().unwrap_or_default();
            // "id required on the Gemini API"; the name since 3.8 (roomkit#42, 2026-09-18).
            match self.memory.pending.remove(id) {
                Some(asked) if asked == name && seen.insert(id) => {}
                Some(asked) => {
                    return invalid(format!("{id} was a call of {asked}, not of {name}"));
                }
                None => return invalid(format!("no function call {id} is pending")),
            }
            if one["response"]
                .as_object()
                .is_none_or(serde_json::Map::is_empty)
            {
                return invalid("response is no object that says something");
            }
            let scheduling = one["scheduling"].as_str();
            let blocks = self.functions.get(name).copied().unwrap_or_default();
            match scheduling {
                None => {}
                Some(_) if blocks => return invalid("scheduling is for NON_BLOCKING functions"),
                Some("SILENT" | "WHEN_IDLE" | "INTERRUPT") => {}
                Some(_) => return invalid("Invalid value at scheduling"),
            }
            answers.push((
                name.to_owned(),
                one["response"].clone(),
                scheduling != Some("SILENT"),
            ));
        }
        Ok(ModelInput::Answers(answers))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::ProtocolRules;

    fn setup(changes: impl FnOnce(&mut Value)) -> Value {
        let mut setup = json!({"setup": {"model": "models/gemini-3.8-live", "generationConfig": {"responseModalities": ["AUDIO"],
            "speechConfig": {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}, "languageCode": "id-ID"}},
            "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {"type": "object"}}]}]}});
        changes(&mut setup["setup"]);
        setup
    }

    #[track_caller]
    fn refused(message: &Value, why: &str) {
        let (_, reason) = ProtocolRules::set_up(message).unwrap_err();
        assert!(reason.contains(why), "{reason}");
    }

    #[test]
    fn setups_that_break_a_rule_are_refused() {
        assert!(ProtocolRules::set_up(&setup(|_| {})).is_ok());
        refused(&json!({"realtimeInput": {"text": "hi"}}), "first message");
        refused(&json!({"setup": {}, "toolResponse": {}}), "one field");
        refused(
            &setup(|it| it["model"] = json!("models/gemini-9")),
            "not found",
        );
        refused(&setup(|it| it["wish"] = json!(1)), "Unknown name");
        refused(
            &setup(|it| it["generationConfig"]["thinkingConfig"] = json!({})),
            "thinkingConfig",
        );
        let voice = |it: &mut Value| {
            it["generationConfig"]["speechConfig"]["voiceConfig"]["prebuiltVoiceConfig"]["voiceName"] =
                json!("kore");
        };
        refused(&setup(voice), "voice");
        refused(
            &setup(|it| it["generationConfig"]["speechConfig"]["languageCode"] = json!("id")),
            "language",
        );
        refused(
            &setup(|it| it["tools"][0]["functionDeclarations"][0]["parameters"] = json!({})),
            "exclusive",
        );
        let behavior = |it: &mut Value| {
            it["model"] = json!("models/gemini-3.1-flash-live-preview");
            it["tools"][0]["functionDeclarations"][0]["behavior"] = json!("NON_BLOCKING");
        };
        refused(&setup(behavior), "NON_BLOCKING");
    }

    #[test]
    fn messages_that_break_a_rule_are_refused() {
        let flash = |it: &mut Value| it["model"] = json!("models/gemini-3.1-flash-live-preview");
        let mut rules = ProtocolRules::set_up(&setup(flash)).unwrap();
        let text = json!({"realtimeInput": {"text": "hi"}});
        assert!(rules.take(&text).is_ok());
        let turns = json!({"clientContent": {"turns": [{"role": "user", "parts": [{"text": "hi"}]}], "turnComplete": true}});
        assert_eq!(rules.take(&turns).unwrap_err().0, 1007);
        rules.called("a", "f");
        assert_eq!(rules.take(&text).unwrap_err().0, 1008);
        let answer = |id: &str, name: &str| json!({"toolResponse": {"functionResponses": [{"id": id, "name": name, "response": {"output": 1}}]}});
        assert!(rules.take(&answer("b", "f")).is_err());
        assert!(rules.take(&answer("a", "f")).is_ok());
        assert!(rules.take(&answer("a", "f")).is_err());
        assert!(rules.take(&text).is_ok());
        let odd = json!({"realtimeInput": {"audio": {"mimeType": "audio/pcm;rate=16000", "data": "AAAA"}}});
        assert!(rules.take(&odd).is_err());
    }
}
