//! The form of an agent, with all of its fields.

use dikala_entities::{FillerKind, InterruptionMode, VoiceId, VoiceProvider, agent};
use serde_json::Value;

use super::super::{
    calls::words::provider_id,
    components::Field,
    form::{FormState, Shape},
    view::DashboardView,
};
use crate::operations::agents::{self, FormField};

const PROMPT_ROWS: u8 = 12;
const GREETING_ROWS: u8 = 3;

/// The offered languages, each in its own name. An agent's other language, set over the API, is kept.
const LANGUAGES: &[(&str, &str)] = &[
    ("id", "Bahasa Indonesia"),
    ("en", "English"),
    ("jv", "Basa Jawa"),
    ("su", "Basa Sunda"),
    ("ms", "Bahasa Melayu"),
    ("ar", "العربية"),
    ("de", "Deutsch"),
    ("es", "Español"),
    ("fil", "Filipino"),
    ("fr", "Français"),
    ("hi", "हिन्दी"),
    ("it", "Italiano"),
    ("ja", "日本語"),
    ("ko", "한국어"),
    ("nl", "Nederlands"),
    ("pt", "Português"),
    ("ru", "Русский"),
    ("th", "ไทย"),
    ("tr", "Türkçe"),
    ("vi", "Tiếng Việt"),
    ("zh", "中文"),
];

/// The name of a known language, or else its tag.
pub fn language_name(tag: &str) -> &str {
    let known = LANGUAGES.iter().find(|(known, _)| *known == tag);
    known.map_or(tag, |(_, name)| name)
}

/// The form, filled with an agent's values.
pub fn of(agent: &agent::Model) -> FormState {
    let values = agents::values(agent);
    let value = |name: &str| values.pointer(&format!("/{}", name.replace('.', "/")));
    let texts = |name: &str| match value(name).unwrap_or_default() {
        Value::Null | Value::Bool(false) => Vec::new(),
        Value::String(text) => vec![text.clone()],
        Value::Array(words) => words
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        figure => vec![figure.to_string()],
    };
    let fields = agents::in_form().into_iter();
    FormState::with(fields.flat_map(|field| {
        let texts = texts(field.name).into_iter();
        texts.map(move |text| (field.name, text))
    }))
}

/// The parts of the form that are no words of ours.
#[derive(Clone, Copy, Debug)]
pub struct FormChoices<'a> {
    /// The names of the agent's functions.
    pub functions: &'a [String],
    /// The providers of voices that are configured.
    pub providers: &'a [VoiceProvider],
}

/// The fields of an agent.
pub fn fields(view: &DashboardView, filled: &FormState, choices: FormChoices<'_>) -> Vec<Field> {
    let shown = |FormField {
                     name,
                     shape,
                     label,
                     hint,
                 }| {
        let label = view.t(label);
        let shown = match (name, shape) {
            ("systemPrompt", _) => Field::area(name, label, PROMPT_ROWS),
            ("greetingText", _) => Field::area(name, label, GREETING_ROWS).optional(),
            ("voiceId", _) => Field::select(name, label, voices(view)).optional(),
            ("voiceProvider", _) => {
                Field::select(name, label, providers(view, filled, choices.providers)).optional()
            }
            ("conversation.fillers", _) => Field::select(name, label, fillers(view)),
            ("conversation.interruptions", _) => Field::select(name, label, interruptions(view)),
            ("language", _) => Field::select(name, label, languages(filled)),
            (_, Shape::Number) => Field::number(name, label),
            (_, Shape::Words) => Field::boxes(name, label, tools(view, choices.functions)),
            (_, Shape::Switch) => Field::switch(name, label),
            (_, Shape::Text | Shape::Json) => Field::text(name, label),
            (_, Shape::Optional | Shape::Phone) => Field::text(name, label).optional(),
        };
        match hint {
            Some(hint) => shown.hint(view.t(hint)),
            None => shown,
        }
    };
    agents::in_form().into_iter().map(shown).collect()
}

fn voices(view: &DashboardView) -> Vec<(String, String)> {
    let none = (String::new(), view.t("agents-voice-none"));
    let named = |voice: &VoiceId| {
        let sounds = view.t(match voice {
            VoiceId::Puck => "agents-voice-puck",
            VoiceId::Charon => "agents-voice-charon",
            VoiceId::Kore => "agents-voice-kore",
            VoiceId::Fenrir => "agents-voice-fenrir",
            VoiceId::Aoede => "agents-voice-aoede",
        });
        (voice.to_string(), format!("{voice} – {sounds}"))
    };
    std::iter::once(none)
        .chain(VoiceId::ALL.iter().map(named))
        .collect()
}

/// The configured providers, and the one currently in the form.
fn providers(
    view: &DashboardView,
    filled: &FormState,
    configured: &[VoiceProvider],
) -> Vec<(String, String)> {
    let present = filled.text("voiceProvider").parse().ok();
    let offered = VoiceProvider::ALL
        .iter()
        .filter(|provider| configured.contains(provider) || present == Some(**provider));
    let named = |provider: &VoiceProvider| (provider.to_string(), view.t(provider_id(*provider)));
    std::iter::once((String::new(), view.t("agents-provider-default")))
        .chain(offered.map(named))
        .collect()
}

fn fillers(view: &DashboardView) -> Vec<(String, String)> {
    let named = |kind: &FillerKind| {
        let id = match kind {
            FillerKind::Words => "agents-fillers-words",
            FillerKind::Tone => "agents-fillers-tone",
            FillerKind::Off => "agents-fillers-off",
        };
        (kind.to_string(), view.t(id))
    };
    FillerKind::ALL.iter().map(named).collect()
}

fn interruptions(view: &DashboardView) -> Vec<(String, String)> {
    let named = |mode: &InterruptionMode| {
        let id = match mode {
            InterruptionMode::Fast => "agents-interruptions-fast",
            InterruptionMode::Model => "agents-interruptions-model",
            InterruptionMode::Off => "agents-interruptions-off",
        };
        (mode.to_string(), view.t(id))
    };
    InterruptionMode::ALL.iter().map(named).collect()
}

/// The offered languages and the one currently in the form.
fn languages(filled: &FormState) -> Vec<(String, String)> {
    let known = LANGUAGES
        .iter()
        .map(|(tag, name)| ((*tag).to_owned(), (*name).to_owned()));
    let mut all: Vec<(String, String)> = known.collect();
    let present = filled.text("language");
    if !present.is_empty() && !all.iter().any(|(tag, _)| tag == present) {
        all.push((present.to_owned(), present.to_owned()));
    }
    all
}

fn tools(view: &DashboardView, functions: &[String]) -> Vec<(String, String)> {
    let built_in = [
        ("end_call", "agents-tool-end"),
        ("transfer_to_human", "agents-tool-transfer"),
    ];
    let built_in = built_in.map(|(tool, id)| (tool.to_owned(), format!("{} ({tool})", view.t(id))));
    let named = |name: &String| (name.clone(), name.clone());
    built_in
        .into_iter()
        .chain(functions.iter().map(named))
        .collect()
}

#[cfg(test)]
mod tests {
    use dikala_actors::calls::settings::BUILT_IN_TOOLS;
    use dikala_entities::{Language, Millis, TenantId};

    use super::*;

    /// The form for a new agent.
    fn blank() -> FormState {
        of(&agent::Model::new(TenantId::new(Millis::MIN), Millis::MIN))
    }

    #[test]
    fn what_a_new_agent_begins_with_is_what_the_api_gives_it() {
        let blank = blank();
        assert_eq!(blank.text("language"), "id");
        assert_eq!(blank.text("maxCallDurationMinutes"), "10");
        assert!(blank.is_ticked("toolsEnabled", "end_call") && blank.is_ticked("isActive", "true"));
        assert_eq!(blank.text("conversation.reminderAfterSeconds"), "10");
        assert_eq!(blank.text("conversation.fillers"), "words");
    }

    #[test]
    fn a_language_that_is_not_in_the_list_stays() {
        let filled = FormState::with([("language", "ban-Latn")]);
        assert_eq!(languages(&filled).len(), LANGUAGES.len() + 1);
        assert_eq!(languages(&blank()).len(), LANGUAGES.len());
        for (tag, _) in LANGUAGES {
            assert!(tag.parse::<Language>().is_ok(), "{tag}");
        }
    }

    #[test]
    fn every_built_in_tool_has_its_box() {
        assert_eq!(BUILT_IN_TOOLS, ["end_call", "transfer_to_human"]);
    }
}
