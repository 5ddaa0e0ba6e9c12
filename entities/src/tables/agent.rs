//! `agents`: an AI agent as its tenant configures it.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, Language, Millis, PhoneNumber, TenantId, VoiceId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "agents")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: AgentId,
    pub tenant_id: TenantId,
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<VoiceId>,
    pub greeting_text: Option<String>,
    pub language: Language,
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

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
