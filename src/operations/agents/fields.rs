//! The fields of an agent: how they are described, read, shown, audited and edited. CONTRIBUTING says what a new field
//! takes besides its line here.

use dikala_actors::calls::settings::BUILT_IN_TOOLS;
use dikala_entities::{
    AgentId, ConversationSettings, Language, Millis, PhoneNumber, VoiceId, VoiceProvider,
    agent::{self, AgentPersona},
    described,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::{ToSchema, openapi::ArrayBuilder};

use super::{
    conversation::{self, ConversationInput},
    tools, tools_json,
    weight::FieldSizes,
};
use crate::{
    audit::{AuditChange, switched},
    http::{
        error::ApiError,
        extract::{
            FormFields, FormReader, ParseResult, boolean, integer, language, list, not_allowed,
            transfer_target, word,
        },
        field::{FieldCode, ValueFault},
    },
    openapi::schema,
    operations::{
        AgentLimits,
        texts::{texts, tool_name},
    },
    pages::form::{Shape, time_zone},
};

/// Read-only fields: accepted and ignored in requests, so that a client can send back what it read.
pub const READ_ONLY: &[&str] = &["id", "agentVersion", "createdAt", "updatedAt"];
const MINUTES_MIN: i64 = 1;
const MINUTES_MAX: i64 = 240;

texts! {
    /// The name of an agent.
    AgentName: 1 to 120 characters, Trim, line;
    /// Instructions and persona of the AI.
    SystemPrompt: 1 to 32_000 characters, Keep;
    /// The AI's first sentence.
    Greeting: 1 to 1_000 characters, Opaque;
    /// A provider's own name of a voice.
    VoiceName: 1 to 64 characters, Trim, line;
}

/// An agent as its tenant sets it up.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({
    "name": "Reception", "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id", "timeZone": "Asia/Jakarta",
    "conversation": {"reminderAfterSeconds": 8}, "maxCallDurationMinutes": 10, "escalationNumber": "+6281234567890"
}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct AgentInput {
    /// Display name.
    name: AgentName,
    /// Instructions and persona of the AI.
    system_prompt: SystemPrompt,
    voice_id: Option<VoiceId>,
    /// One of the providers that `GET /voices` has as available. Null: the installation's.
    voice_provider: Option<VoiceProvider>,
    /// The provider's own name of a voice. Null: `voiceId` with `gemini`, and the provider's usual voice otherwise.
    voice_name: Option<VoiceName>,
    /// Opening greeting.
    greeting_text: Option<Greeting>,
    #[schema(nullable, default = Language::default)]
    language: Language,
    /// The zone of the date and time that the agent is told, a name of the time zone database. Null: the installation's.
    time_zone: Option<String>,
    /// Behaviour in silences, waits and interruptions. Null resets all of it.
    #[schema(inline)]
    conversation: Option<ConversationInput>,
    /// The longest call, in minutes of talk.
    #[schema(nullable, default = json!(agent::MINUTES_DEFAULT))]
    max_call_duration_minutes: CallMinutes,
    /// The number that `transfer_to_human` connects the caller to.
    escalation_number: Option<PhoneNumber>,
    /// Names of enabled tools: `end_call`, `transfer_to_human` and the agent's own functions.
    #[schema(nullable, default = json!([agent::TOOL_DEFAULT]))]
    tools_enabled: EnabledTools,
    /// An inactive agent takes no calls.
    #[schema(nullable, default = true)]
    is_active: bool,
}

/// The longest call, in minutes of talk. It has no values; for descriptions only.
#[derive(Clone, Copy, Debug)]
pub enum CallMinutes {}

/// The names of an agent's enabled tools. It has no values; for descriptions only.
#[derive(Clone, Copy, Debug)]
pub enum EnabledTools {}

described! {
    CallMinutes: schema::integer(MINUTES_MIN, MINUTES_MAX);
    EnabledTools: ArrayBuilder::new().items(tool_name()).unique_items(true);
}

/// An agent as lists show it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentSummary {
    id: AgentId,
    #[serde(flatten)]
    #[schema(inline)]
    persona: AgentPersona,
    tools_enabled: Vec<String>,
    is_active: bool,
    /// Increases with every change of the settings that calls use, functions included.
    #[schema(minimum = 1)]
    agent_version: i64,
    created_at: Millis,
    updated_at: Millis,
}

impl From<agent::Model> for AgentSummary {
    fn from(agent: agent::Model) -> Self {
        Self {
            id: agent.id,
            tools_enabled: tools(&agent),
            is_active: agent.is_active,
            // The first version is written only when it is needed; until then the row has 0.
            agent_version: agent.version.max(1),
            created_at: agent.created_at,
            updated_at: agent.updated_at,
            persona: agent.into(),
        }
    }
}

/// An agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Agent, example = json!({
    "id": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "voiceProvider": null, "voiceName": null, "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id",
    "timeZone": "Asia/Jakarta", "conversation": {"reminderAfterSeconds": 8, "endAfterSilenceSeconds": 45, "fillers": "words",
        "interruptions": "fast", "maskKeys": false}, "maxCallDurationMinutes": 10,
    "escalationNumber": "+6281234567890", "toolsEnabled": ["end_call", "check_stock"], "isActive": true,
    "agentVersion": 3, "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct AgentView {
    #[serde(flatten)]
    #[schema(inline)]
    listed: AgentSummary,
    escalation_number: Option<PhoneNumber>,
}

impl AgentView {
    pub fn id(&self) -> AgentId {
        self.listed.id
    }
}

impl From<agent::Model> for AgentView {
    fn from(agent: agent::Model) -> Self {
        Self {
            escalation_number: agent.escalation_number.clone(),
            listed: agent.into(),
        }
    }
}

/// All agents of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"agents": [{
    "id": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "voiceProvider": null, "voiceName": null, "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id",
    "timeZone": "Asia/Jakarta", "conversation": {"reminderAfterSeconds": 8, "endAfterSilenceSeconds": 45, "fillers": "words",
        "interruptions": "fast", "maskKeys": false}, "maxCallDurationMinutes": 10,
    "toolsEnabled": ["end_call", "check_stock"], "isActive": true, "agentVersion": 3,
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}]}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct AgentList {
    pub agents: Vec<AgentSummary>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

/// A field that a tenant sets.
#[derive(Clone, Copy, Debug)]
pub struct AgentField {
    /// Its name in the API, the audit and the form.
    pub name: &'static str,
    /// The type of its value in the form.
    pub shape: Shape,
    /// The id of its label.
    pub label: &'static str,
    /// The id of its hint.
    pub hint: Option<&'static str>,
    read: fn(&mut FieldReader<'_, '_>, &'static str),
}

/// All fields, in the order in which they are read and their errors are reported.
#[rustfmt::skip]
pub const FIELDS: &[AgentField] = &[
    AgentField { name: "name", shape: Shape::Text, label: "agents-name", hint: Some("agents-name-hint"),
        read: |from, name| from.required(name, |row| &mut row.name, AgentName::parse) },
    AgentField { name: "systemPrompt", shape: Shape::Text, label: "agents-prompt", hint: Some("agents-prompt-hint"),
        read: |from, name| from.required(name, |row| &mut row.system_prompt, SystemPrompt::parse) },
    AgentField { name: "voiceId", shape: Shape::Optional, label: "agents-voice", hint: None,
        read: |from, name| from.optional(name, |row| &mut row.voice_id, word("a voice")) },
    AgentField { name: "voiceProvider", shape: Shape::Optional, label: "agents-provider", hint: None,
        read: |from, name| from.voice_provider(name) },
    AgentField { name: "voiceName", shape: Shape::Optional, label: "agents-voice-name", hint: Some("agents-voice-name-hint"),
        read: |from, name| from.optional(name, |row| &mut row.voice_name, text(VoiceName::parse)) },
    AgentField { name: "greetingText", shape: Shape::Optional, label: "agents-greeting", hint: Some("agents-greeting-hint"),
        read: |from, name| from.optional(name, |row| &mut row.greeting_text, text(Greeting::parse)) },
    AgentField { name: "language", shape: Shape::Optional, label: "agents-language", hint: None,
        read: |from, name| from.defaulted(name, |row| &mut row.language, language) },
    AgentField { name: "timeZone", shape: Shape::Optional, label: "agents-time-zone", hint: Some("agents-time-zone-hint"),
        read: |from, name| from.optional(name, |row| &mut row.time_zone, time_zone) },
    AgentField { name: "conversation", shape: Shape::Json, label: "agents-conversation", hint: None,
        read: |from, name| from.conversation(name) },
    AgentField { name: "maxCallDurationMinutes", shape: Shape::Number, label: "agents-minutes", hint: Some("agents-minutes-hint"),
        read: |from, name| from.defaulted(name, |row| &mut row.max_call_duration_minutes, integer(MINUTES_MIN, MINUTES_MAX)) },
    AgentField { name: "escalationNumber", shape: Shape::Phone, label: "agents-escalation", hint: Some("agents-escalation-hint"),
        read: |from, name| from.escalation_number(name) },
    AgentField { name: "toolsEnabled", shape: Shape::Words, label: "agents-tools", hint: Some("agents-tools-hint"),
        read: |from, name| from.tools_enabled(name) },
    AgentField { name: "isActive", shape: Shape::Switch, label: "agents-active", hint: Some("agents-active-hint"),
        read: |from, name| from.defaulted(name, |row| &mut row.is_active, boolean) },
];

/// The values of an agent's fields, by their names.
pub fn values(agent: &agent::Model) -> Value {
    json!(AgentView::from(agent.clone()))
}

/// Adds the names of the changed fields.
pub(super) fn changed(
    change: AuditChange,
    before: &agent::Model,
    after: &agent::Model,
) -> AuditChange {
    let (was, is) = (values(before), values(after));
    let fields = FIELDS.iter().map(|field| match field.name {
        "isActive" => switched(after.is_active, before.is_active),
        name => (name, is[name] != was[name]),
    });
    change.fields(&fields.collect::<Vec<_>>())
}

/// The sizes of the fields that make an agent heavy, in bytes.
pub(super) fn sizes(agent: &agent::Model) -> FieldSizes {
    let greeting = agent.greeting_text.as_ref().map_or(0, String::len);
    FieldSizes::from([
        ("systemPrompt", agent.system_prompt.len()),
        ("greetingText", greeting),
        ("name", agent.name.len()),
        ("toolsEnabled", tools(agent).iter().map(String::len).sum()),
    ])
}

/// Reads a new agent into a row of defaults, or changes into an existing row. `functions` are the names of the agent's own;
/// none for a new agent.
pub(super) fn read(
    form: &FormFields,
    row: agent::Model,
    functions: Option<&[String]>,
    limits: &AgentLimits,
) -> Result<agent::Model, ApiError> {
    form.read(READ_ONLY, |form| {
        Some(read_into(form, row, functions, limits))
    })
}

/// Reads the fields of a form into the row, as [`read`] does.
pub fn read_into(
    form: &mut FormReader<'_>,
    row: agent::Model,
    functions: Option<&[String]>,
    limits: &AgentLimits,
) -> agent::Model {
    let own = functions.into_iter().flatten().map(String::as_str);
    let tools: Vec<&str> = BUILT_IN_TOOLS.iter().copied().chain(own).collect();
    let mut reader = FieldReader {
        form,
        defaults: agent::Model::new(row.tenant_id, row.created_at),
        row,
        is_new: functions.is_none(),
        tools: &tools,
        limits,
    };
    for field in FIELDS {
        (field.read)(&mut reader, field.name);
    }
    reader.row
}

/// The state while the fields are read. A faulty field is reported and leaves the row without its value.
struct FieldReader<'a, 'f> {
    form: &'a mut FormReader<'f>,
    row: agent::Model,
    defaults: agent::Model,
    /// Required fields have no value yet.
    is_new: bool,
    /// The names of tools that can be enabled.
    tools: &'a [&'a str],
    limits: &'a AgentLimits,
}

type Column<T> = fn(&mut agent::Model) -> &mut T;

impl FieldReader<'_, '_> {
    fn required<T: Into<String>>(
        &mut self,
        name: &'static str,
        column: Column<String>,
        parse: fn(&Value) -> ParseResult<T>,
    ) {
        let column = column(&mut self.row);
        let current = (!self.is_new).then(|| column.clone());
        if let Some(value) = self.form.required(name, current, text(parse)) {
            *column = value;
        }
    }

    fn optional<T>(
        &mut self,
        name: &'static str,
        column: Column<Option<T>>,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) {
        let column = column(&mut self.row);
        *column = self.form.optional(name, column.take(), parse);
    }

    fn defaulted<T: Clone>(
        &mut self,
        name: &'static str,
        column: Column<T>,
        parse: impl FnOnce(&Value) -> ParseResult<T>,
    ) {
        let default = column(&mut self.defaults).clone();
        let column = column(&mut self.row);
        *column = self
            .form
            .defaulted(name, Some(column.clone()), default, parse);
    }

    fn escalation_number(&mut self, name: &'static str) {
        let transfers = &self.limits.transfers;
        let allowed = |value: &Value| transfer_target(transfers, value);
        self.optional(name, |row| &mut row.escalation_number, allowed);
    }

    fn voice_provider(&mut self, name: &'static str) {
        let available = &self.limits.voices.available;
        self.optional(
            name,
            |row| &mut row.voice_provider,
            |value| {
                let named = word("a provider of voices")(value).ok();
                named
                    .filter(|named| available.contains(named))
                    .ok_or_else(|| {
                        let allowed = available.iter().map(|provider| provider.as_str());
                        match value.as_str() {
                            Some(given) => {
                                not_allowed(given, "a configured provider of voices", allowed)
                            }
                            None => ValueFault::new(FieldCode::InvalidType, "must be a string"),
                        }
                        .into()
                    })
            },
        );
    }

    fn conversation(&mut self, name: &'static str) {
        let (current, default) = (self.row.conversation, ConversationSettings::default());
        self.row.conversation = self.form.merged(name, current, default, conversation::read);
    }

    fn tools_enabled(&mut self, name: &'static str) {
        let known = self.tools;
        let enabled = list(0, |value| tool(value, known), String::eq);
        let column: Column<String> = |row| &mut row.tools_enabled;
        self.defaulted(name, column, |value| Ok(tools_json(&enabled(value)?)));
    }
}

fn text<T: Into<String>>(
    parse: fn(&Value) -> ParseResult<T>,
) -> impl FnOnce(&Value) -> ParseResult<String> {
    move |value| parse(value).map(Into::into)
}

fn tool(value: &Value, known: &[&str]) -> ParseResult<String> {
    let name = value
        .as_str()
        .ok_or_else(|| ValueFault::new(FieldCode::InvalidType, "must be a string"))?;
    if known.contains(&name) {
        Ok(name.to_owned())
    } else {
        Err(not_allowed(name, "a tool of this agent", known.iter().copied()).into())
    }
}

#[cfg(test)]
mod tests {
    use dikala_entities::TenantId;
    use serde_json::Map;
    use utoipa::PartialSchema;

    use super::*;

    /// A value of each field that is not its default.
    fn samples() -> Map<String, Value> {
        let samples = json!({
            "name": "Reception", "systemPrompt": "Be kind.", "voiceId": "Kore", "voiceProvider": "scripted",
            "voiceName": "marin", "greetingText": "Halo", "language": "en", "timeZone": "Asia/Makassar",
            "conversation": {"reminderAfterSeconds": 20, "endAfterSilenceSeconds": 90, "fillers": "off",
                "interruptions": "model", "maskKeys": true},
            "maxCallDurationMinutes": 25, "escalationNumber": "+6281234567890", "toolsEnabled": ["transfer_to_human"],
            "isActive": false
        });
        samples.as_object().cloned().expect("an object")
    }

    fn blank() -> agent::Model {
        agent::Model::new(TenantId::new(Millis::MIN), Millis::MIN)
    }

    #[test]
    fn an_agents_name_stays_on_its_line_and_turns_nothing_around() {
        let read = |name: &str| AgentName::parse(&Value::from(name)).is_ok();
        assert!(read("Reception"));
        for name in ["a\nb", "a\u{1b}[2Jb", "a\u{7}", "a\u{85}b", "\u{202e}nimda"] {
            assert!(!read(name), "{name:?}");
        }
    }

    fn changed_by(before: &agent::Model, fields: Value) -> Result<agent::Model, ApiError> {
        let form = FormFields::from_body(fields).expect("an object");
        read(&form, before.clone(), Some(&[]), &AgentLimits::default())
    }

    #[test]
    fn every_field_is_described_and_has_a_sample() {
        let schema = json!(AgentInput::schema());
        let described = schema["properties"].as_object().expect("properties");
        let samples = samples();
        for field in FIELDS {
            assert!(described.contains_key(field.name), "{}", field.name);
            assert!(samples.contains_key(field.name), "{}", field.name);
        }
        assert_eq!([described.len(), samples.len()], [FIELDS.len(); 2]);
    }

    #[test]
    fn every_field_is_read_shown_audited_and_reset() {
        let form = FormFields::from_body(Value::Object(samples())).expect("an object");
        let filled = read(&form, blank(), None, &AgentLimits::default()).expect("is read");
        for (name, sample) in samples() {
            let changed_row = changed_by(&blank(), json!({&*name: sample})).expect("is read");
            assert_eq!(values(&changed_row)[&name], sample);
            assert_eq!(values(&filled)[&name], sample);
            let change = AuditChange::new(dikala_entities::AuditAction::AgentUpdate, "agent");
            let change = format!("{:?}", changed(change, &blank(), &changed_row));
            assert!(change.contains(&format!("detail: \"{name}")), "{change}");
            match changed_by(&filled, json!({&*name: null})) {
                Ok(reset) => assert_eq!(values(&reset)[&name], values(&blank())[&name]),
                Err(_) => assert!(["name", "systemPrompt"].contains(&&*name), "{name}"),
            }
        }
    }
}
