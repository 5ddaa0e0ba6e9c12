//! `agents`: an AI agent as its tenant configures it.

use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

use crate::values::{
    AgentId, ConversationSettings, Language, Millis, PhoneNumber, TenantId, VoiceId, VoiceProvider,
};

/// The longest call of a new agent, in minutes of talk.
pub const MINUTES_DEFAULT: i64 = 10;
/// The only tool of a new agent.
pub const TOOL_DEFAULT: &str = "end_call";

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agents")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: AgentId,
    pub tenant_id: TenantId,
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<VoiceId>,
    /// `None`: the installation's.
    pub voice_provider: Option<VoiceProvider>,
    /// The provider's own name of a voice.
    pub voice_name: Option<String>,
    pub greeting_text: Option<String>,
    pub language: Language,
    /// A name of the time zone database; `None`: the installation's.
    pub time_zone: Option<String>,
    pub conversation: ConversationSettings,
    pub max_call_duration_minutes: i64,
    pub escalation_number: Option<PhoneNumber>,
    /// A JSON array of names.
    pub tools_enabled: String,
    pub is_active: bool,
    pub created_at: Millis,
    pub updated_at: Millis,
    /// The number of the present version; 0 if none was written yet.
    pub version: i64,
    /// Size of the present version, in bytes of JSON.
    pub weight: i64,
}

impl Model {
    /// A new agent with the default of each field. Its name and prompt are empty.
    pub fn new(tenant: TenantId, now: Millis) -> Self {
        Self {
            id: AgentId::new(now),
            tenant_id: tenant,
            name: String::new(),
            system_prompt: String::new(),
            voice_id: None,
            voice_provider: None,
            voice_name: None,
            greeting_text: None,
            language: Language::default(),
            time_zone: None,
            conversation: ConversationSettings::default(),
            max_call_duration_minutes: MINUTES_DEFAULT,
            escalation_number: None,
            tools_enabled: format!("[\"{TOOL_DEFAULT}\"]"),
            is_active: true,
            created_at: now,
            updated_at: now,
            version: 0,
            weight: 0,
        }
    }
}

/// Fields that lists, versions and bridges show unchanged. The escalation number and the tools are apart, because bridges
/// get them filtered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AgentPersona {
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<VoiceId>,
    /// Null: the installation's provider.
    #[serde(default)]
    pub voice_provider: Option<VoiceProvider>,
    /// The provider's own name of a voice.
    #[serde(default)]
    pub voice_name: Option<String>,
    pub greeting_text: Option<String>,
    pub language: Language,
    /// Null: the installation's time zone.
    #[serde(default)]
    pub time_zone: Option<String>,
    #[serde(default)]
    pub conversation: ConversationSettings,
    pub max_call_duration_minutes: i64,
}

impl From<Model> for AgentPersona {
    fn from(agent: Model) -> Self {
        Self {
            name: agent.name,
            system_prompt: agent.system_prompt,
            voice_id: agent.voice_id,
            voice_provider: agent.voice_provider,
            voice_name: agent.voice_name,
            greeting_text: agent.greeting_text,
            language: agent.language,
            time_zone: agent.time_zone,
            conversation: agent.conversation,
            max_call_duration_minutes: agent.max_call_duration_minutes,
        }
    }
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
