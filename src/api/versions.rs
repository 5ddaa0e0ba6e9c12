//! Versions of an agent: the settings that calls began with.

use actix_web::{HttpResponse, web::Data};
use dikala_actors::calls::settings::CallSettings;
use dikala_entities::{
    AgentId, FunctionId, FunctionMethod, Language, Millis, OfTenant, PhoneNumber, TenantId,
    VoiceId, kept_version,
};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, PaginatorTrait, QueryFilter, Select, sea_query::Expr,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    agents,
    listing::{self, Listing},
    stored::Json,
};
use crate::{
    api::context::Services,
    http::{
        answer::ApiAnswer,
        error::{ApiError, Missing},
        extract::{Id, Query, TenantRequest, VersionNumber},
    },
};

/// Versions per query of a list.
const BATCH: u64 = 4;
const NAMED: &str = "EXISTS (SELECT 1 FROM calls c WHERE c.agent_id = kept_versions.agent_id \
    AND c.agent_version = kept_versions.version)";

/// An agent with its functions as it was from some time on. It never changes.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentVersion": 3, "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id", "maxCallDurationMinutes": 10,
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
    name: String,
    system_prompt: String,
    voice_id: Option<VoiceId>,
    greeting_text: Option<String>,
    language: Language,
    max_call_duration_minutes: i64,
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

/// The versions of an agent that are kept, oldest first; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"versions": []}))]
#[expect(dead_code, reason = "the description of what is written row by row")]
pub struct AgentVersionList {
    pub versions: Vec<AgentVersion>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
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
            name: settings.name,
            system_prompt: settings.system_prompt,
            voice_id: settings.voice_id,
            greeting_text: settings.greeting_text,
            language: settings.language,
            max_call_duration_minutes: settings.max_call_duration_minutes,
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

/// 404 unless the agent exists, or existed and calls name versions of it. An agent without a version gets its first.
async fn expect(services: &Services, tenant: TenantId, agent: AgentId) -> Result<(), ApiError> {
    let db = services.store.api_reader();
    if of_agent(tenant, agent).count(db).await? > 0 {
        return Ok(());
    }
    let agent = agents::find(db, tenant, agent).await?;
    let now = services.clock.now();
    dikala_actors::calls::versions::first(&services.store, agent.id, now).await?;
    Ok(())
}

async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    agent: AgentId,
    version: i64,
) -> Result<kept_version::Model, ApiError> {
    of_agent(tenant, agent)
        .filter(kept_version::Column::Version.eq(version))
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Agent))
}

/// `GET /agents/{id}/versions`
pub async fn list_all(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    expect(&services, caller.tenant, id.0).await?;
    let list = Listing {
        key: "versions",
        rows: of_agent(caller.tenant, id.0),
        by: kept_version::Column::Version,
        batch: BATCH,
        show: listing::json::<AgentVersion, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `GET /agents/{id}/versions/{version}`
pub async fn show(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
    version: VersionNumber,
) -> Result<ApiAnswer, ApiError> {
    expect(&services, caller.tenant, id.0).await?;
    let row = find(services.store.api_reader(), caller.tenant, id.0, version.0).await?;
    Ok(ApiAnswer::ok(&AgentVersion::from(row)))
}
