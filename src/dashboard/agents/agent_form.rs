//! The form of an agent, with all of its fields.

use dikala_entities::{VoiceId, agent};
use maud::Markup;
use serde_json::Value;

use super::super::{
    components::{self, Field},
    form::{FormState, Shape},
    view::DashboardView,
};
use crate::operations::agents::{self, AgentField};

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
    let texts = |name: &str| match &values[name] {
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

/// The fields below their errors. `functions` are the names of the agent's functions.
pub fn fields(view: &DashboardView, filled: &FormState, functions: &[String]) -> Markup {
    let shown = |AgentField {
                     name,
                     shape,
                     label,
                     hint,
                     ..
                 }| {
        let label = view.t(label);
        let shown = match (name, shape) {
            ("systemPrompt", _) => Field::area(name, label, PROMPT_ROWS),
            ("greetingText", _) => Field::area(name, label, GREETING_ROWS).optional(),
            ("voiceId", _) => Field::select(name, label, voices(view)).optional(),
            ("language", _) => Field::select(name, label, languages(filled)),
            (_, Shape::Number) => Field::number(name, label),
            (_, Shape::Words) => Field::boxes(name, label, tools(view, functions)),
            (_, Shape::Switch) => Field::switch(name, label),
            (_, Shape::Text | Shape::Json) => Field::text(name, label),
            (_, Shape::Optional | Shape::Phone) => Field::text(name, label).optional(),
        };
        match hint {
            Some(hint) => shown.hint(view.t(hint)),
            None => shown,
        }
    };
    let fields: Vec<Field> = agents::in_form().into_iter().map(shown).collect();
    components::fields(view, filled, &fields)
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
    let named = |name: &String| {
        (
            name.clone(),
            format!("{} {name}", view.t("agents-tool-function")),
        )
    };
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
