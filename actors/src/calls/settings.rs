//! The agent version that a call began with, including its functions. A running call keeps it.

use dikala_entities::{
    AgentId, FunctionId, FunctionMethod, OutboundUrl, PhoneNumber, TransferPrefixes,
    agent::{self, AgentPersona},
    function,
};
use dikala_protocol::{CallAgent, FunctionDeclaration};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

/// Tools that every agent can be given.
pub const BUILT_IN_TOOLS: &[&str] = &["end_call", "transfer_to_human"];

/// The settings of an agent version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallSettings {
    pub id: AgentId,
    #[serde(flatten)]
    pub persona: AgentPersona,
    #[serde(default, deserialize_with = "if_still_valid")]
    pub escalation_number: Option<PhoneNumber>,
    pub tools: Vec<String>,
    pub functions: Vec<FunctionSettings>,
}

/// The settings of a function in an agent version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FunctionSettings {
    /// `None` in calls from before it was stored.
    #[serde(default)]
    pub id: Option<FunctionId>,
    pub name: String,
    pub description: String,
    pub parameters: Value,
    pub endpoint: String,
    pub method: FunctionMethod,
    pub enabled: bool,
}

/// Drops a number that was valid when stored and is not any more: the call continues without it.
fn if_still_valid<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PhoneNumber>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.and_then(|text| text.parse().ok()))
}

impl CallSettings {
    pub fn new(agent: agent::Model, functions: Vec<function::Model>) -> Self {
        let enabled: Vec<String> = serde_json::from_str(&agent.tools_enabled).unwrap_or_default();
        let functions = functions
            .into_iter()
            .map(|function| FunctionSettings {
                id: Some(function.id),
                enabled: enabled.contains(&function.name),
                name: function.name,
                description: function.description,
                parameters: serde_json::from_str(&function.parameters)
                    .unwrap_or_else(|_| json!({})),
                endpoint: function.endpoint.as_str().to_owned(),
                method: function.method,
            })
            .collect();
        Self {
            id: agent.id,
            escalation_number: agent.escalation_number.clone(),
            persona: agent.into(),
            tools: enabled
                .into_iter()
                .filter(|tool| BUILT_IN_TOOLS.contains(&tool.as_str()))
                .collect(),
            functions,
        }
    }

    pub fn function(&self, name: &str) -> Option<&FunctionSettings> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// The agent as a bridge sees it, as JSON.
    pub fn for_bridge(&self, transfers: &TransferPrefixes, default_time_zone: &str) -> Value {
        json!(self.agent(transfers, default_time_zone))
    }

    /// The agent as its voice sees it: enabled functions without endpoints, and no escalation number to which transfers are not
    /// allowed. `default_time_zone` is the zone of agents without one.
    pub fn agent(&self, transfers: &TransferPrefixes, default_time_zone: &str) -> CallAgent {
        let escalation_number = self.escalation_number.as_ref();
        let escalation_number = escalation_number.filter(|number| transfers.allow(number));
        let enabled = self.functions.iter().filter(|function| function.enabled);
        let persona = self.persona.clone();
        CallAgent {
            id: self.id.to_string(),
            name: persona.name,
            system_prompt: persona.system_prompt,
            voice_id: persona.voice_id.as_ref().map(ToString::to_string),
            voice_provider: persona.voice_provider,
            voice_name: persona.voice_name,
            greeting_text: persona.greeting_text,
            language: persona.language.as_str().to_owned(),
            time_zone: persona
                .time_zone
                .or_else(|| Some(default_time_zone.to_owned())),
            conversation: persona.conversation,
            max_call_duration_minutes: u32::try_from(persona.max_call_duration_minutes)
                .unwrap_or(u32::MAX),
            escalation_number: escalation_number.map(|number| number.as_str().to_owned()),
            tools: self.tools.clone(),
            functions: enabled.map(FunctionSettings::for_bridge).collect(),
        }
    }
}

impl FunctionSettings {
    fn for_bridge(&self) -> FunctionDeclaration {
        FunctionDeclaration {
            name: self.name.clone(),
            description: self.description.clone(),
            parameters: self.parameters.clone(),
        }
    }

    /// The endpoint; `None` if the current rules refuse it.
    pub fn endpoint(&self) -> Option<OutboundUrl> {
        let policy = dikala_entities::UrlPolicy { allow_http: true };
        OutboundUrl::parse(&self.endpoint, policy).ok()
    }
}
