//! The form of an agent, with all of its fields.

use dikala_entities::{Language, VoiceId, agent};
use maud::Markup;

use super::super::{
    components::{self, Field},
    form::{Fields, FormState, Shape},
    view::DashboardView,
};
use crate::api::agents;

/// The fields, by the API's names.
pub const FIELDS: &Fields = &[
    ("name", Shape::Text),
    ("systemPrompt", Shape::Text),
    ("greetingText", Shape::Optional),
    ("voiceId", Shape::Optional),
    ("language", Shape::Optional),
    ("maxCallDurationMinutes", Shape::Number),
    ("toolsEnabled", Shape::Words),
    ("escalationNumber", Shape::Phone),
    ("isActive", Shape::Switch),
];

/// Default maximum call duration, in minutes.
const MINUTES: &str = "10";
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

/// The form for a new agent.
pub fn blank() -> FormState {
    FormState::with([
        ("language", Language::default().as_str()),
        ("maxCallDurationMinutes", MINUTES),
        ("toolsEnabled", "end_call"),
        ("isActive", "true"),
    ])
}

/// The form, filled with an agent's values.
pub fn of(agent: &agent::Model) -> FormState {
    let text = |name, value: &str| (name, value.to_owned());
    let mut values = vec![
        text("name", &agent.name),
        text("systemPrompt", &agent.system_prompt),
        text("language", agent.language.as_str()),
        (
            "maxCallDurationMinutes",
            agent.max_call_duration_minutes.to_string(),
        ),
    ];
    values.extend(
        agent
            .greeting_text
            .iter()
            .map(|words| text("greetingText", words)),
    );
    values.extend(
        agent
            .voice_id
            .iter()
            .map(|voice| text("voiceId", voice.as_str())),
    );
    let escalation = agent.escalation_number.iter();
    values.extend(escalation.map(|number| text("escalationNumber", number.as_str())));
    values.extend(
        agents::tools(agent)
            .into_iter()
            .map(|tool| ("toolsEnabled", tool)),
    );
    values.extend(agent.is_active.then(|| text("isActive", "true")));
    FormState::with(values)
}

/// The fields below their errors. `functions` are the names of the agent's functions.
pub fn fields(view: &DashboardView, filled: &FormState, functions: &[String]) -> Markup {
    let t = |id: &str| view.t(id);
    let tools = tools(view, functions);
    let fields = [
        Field::text("name", t("agents-name")).hint(t("agents-name-hint")),
        Field::area("systemPrompt", t("agents-prompt"), PROMPT_ROWS).hint(t("agents-prompt-hint")),
        Field::area("greetingText", t("agents-greeting"), GREETING_ROWS)
            .hint(t("agents-greeting-hint"))
            .optional(),
        Field::select("voiceId", t("agents-voice"), voices(view)).optional(),
        Field::select("language", t("agents-language"), languages(filled)),
        Field::number("maxCallDurationMinutes", t("agents-minutes")).hint(t("agents-minutes-hint")),
        Field::boxes("toolsEnabled", t("agents-tools"), tools).hint(t("agents-tools-hint")),
        Field::text("escalationNumber", t("agents-escalation"))
            .hint(t("agents-escalation-hint"))
            .optional(),
        Field::switch("isActive", t("agents-active")).hint(t("agents-active-hint")),
    ];
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

    use super::*;

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
