//! Versions of an agent: the settings that calls began with.

use dikala_actors::calls::{settings::CallSettings, versions::first};
use dikala_entities::{
    AgentId, FunctionId, FunctionMethod, Millis, OfTenant, PhoneNumber, TenantId,
    agent::AgentPersona, kept_version,
};
use sea_orm::{ColumnTrait, Condition, QueryFilter, QuerySelect, Select, sea_query::Expr};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::find;
use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{Id, VersionNumber},
    },
    operations::{OperationContext, stored::Json},
};

const NAMED: &str = "EXISTS (SELECT 1 FROM calls c WHERE c.agent_id = kept_versions.agent_id \
    AND c.agent_version = kept_versions.version)";

/// An agent with its functions as it was from some time on. It never changes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3, "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "voiceProvider": null, "voiceName": null, "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id",
    "timeZone": null, "conversation": {"reminderAfterSeconds": 10, "endAfterSilenceSeconds": 45, "fillers": "words",
        "interruptions": "fast", "maskKeys": false}, "maxCallDurationMinutes": 10,
    "escalationNumber": "+6281234567890", "toolsEnabled": ["end_call", "check_stock"],
    "functions": [{
        "id": "fn_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "check_stock",
        "description": "Says how many pieces of an article are in stock.", "endpoint": "https://example.com/stock",
        "method": "GET", "parameters": {"type": "object", "properties": {}, "required": []}
    }],
    "createdAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct AgentVersion {
    agent_id: AgentId,
    #[schema(minimum = 1)]
    agent_version: i64,
    #[serde(flatten)]
    #[schema(inline)]
    persona: AgentPersona,
    escalation_number: Option<PhoneNumber>,
    tools_enabled: Vec<String>,
    functions: Vec<VersionFunction>,
    created_at: Millis,
}

/// A function in a version of its agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VersionFunction {
    id: Option<FunctionId>,
    name: String,
    description: String,
    endpoint: String,
    method: FunctionMethod,
    #[schema(value_type = Json)]
    parameters: Value,
}

impl From<kept_version::Model> for AgentVersion {
    fn from(row: kept_version::Model) -> Self {
        let settings: CallSettings = serde_json::from_str(&row.settings)
            .expect("a version holds the JSON that this program wrote");
        let enabled = settings
            .functions
            .iter()
            .filter(|function| function.enabled);
        let own = enabled.map(|function| function.name.clone());
        let tools_enabled = settings.tools.into_iter().chain(own).collect();
        let functions = settings
            .functions
            .into_iter()
            .map(|function| VersionFunction {
                id: function.id,
                name: function.name,
                description: function.description,
                endpoint: function.endpoint,
                method: function.method,
                parameters: function.parameters,
            });
        Self {
            agent_id: row.agent_id,
            agent_version: row.version,
            persona: settings.persona,
            escalation_number: settings.escalation_number,
            tools_enabled,
            functions: functions.collect(),
            created_at: row.created_at,
        }
    }
}

/// The visible versions. Of a deleted agent, only versions that calls name, even before the others are removed.
fn of_agent(tenant: TenantId, agent: AgentId) -> Select<kept_version::Entity> {
    kept_version::Entity::of(tenant)
        .filter(kept_version::Column::AgentId.eq(agent))
        .filter(
            Condition::any()
                .add(kept_version::Column::OrphanedAt.is_null())
                .add(Expr::cust(NAMED)),
        )
}

/// The versions of an agent, unordered. 404 unless it exists, or existed and calls name versions of it. An agent without a version
/// gets its first.
pub async fn versions_of(
    context: &OperationContext,
    id: AgentId,
) -> Result<Select<kept_version::Entity>, ApiError> {
    let (tenant, db) = (context.tenant()?, context.store().api_reader());
    let versions = of_agent(tenant, id);
    let one = versions.clone().select_only();
    let one = one.column(kept_version::Column::Version);
    if one.into_tuple::<i64>().one(db).await?.is_none() {
        let agent = find(db, tenant, id).await?;
        first(context.store(), agent.id, context.now).await?;
    }
    Ok(versions)
}

/// One version of an agent.
pub async fn version(
    context: OperationContext,
    id: Id<AgentId>,
    number: VersionNumber,
) -> Result<AgentVersion, ApiError> {
    let versions = versions_of(&context, id.0).await?;
    let version = versions.filter(kept_version::Column::Version.eq(number.0));
    let found = version.one(context.store().api_reader()).await?;
    let found = found.ok_or(ApiError::NotFound(Missing::Agent))?;
    Ok(found.into())
}
