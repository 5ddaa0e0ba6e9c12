//! Agents: persona, voice, greeting and limits of the AI.

use actix_web::{HttpResponse, web::Data};
use dikala_actors::calls::{settings::BUILT_IN_TOOLS, versions};
use dikala_entities::{
    AgentId, AuditAction, Language, Millis, OfTenant, PhoneNumber, TenantId, TransferPrefixes,
    VoiceId, agent, function, phone_number,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    TenantWrite,
    agent_limits::{CallMinutes, EnabledTools},
    listing::{self, Listing},
    texts::{AgentName, Greeting, SystemPrompt},
    weight::{self, FieldSizes},
};
use crate::{
    api::context::Services,
    audit::{AuditChange, switched},
    http::{
        answer::{ApiAnswer, Created},
        error::{ApiError, Missing},
        extract::{
            FormFields, Id, Query, RequestBody, TenantRequest, boolean, language, transfer_target,
            word,
        },
        field::{FieldCode, ValueFault},
        route::BASE,
    },
};

/// Read-only fields: accepted and ignored in requests, so that a client can send back what it read.
pub const READ_ONLY: &[&str] = &["id", "agentVersion", "createdAt", "updatedAt"];
/// Agents that a tenant can have.
pub const AGENTS_MAX: u64 = 1_000;
/// Agents per query of a list.
const BATCH: u64 = 8;

/// An agent as its tenant sets it up.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "camelCase", as = AgentInput, example = json!({
    "name": "Reception", "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id", "maxCallDurationMinutes": 10,
    "escalationNumber": "+6281234567890"
}))]
pub struct AgentDraft {
    /// Display name.
    name: AgentName,
    /// Instructions and persona of the AI.
    system_prompt: SystemPrompt,
    voice_id: Option<VoiceId>,
    /// Opening greeting.
    greeting_text: Option<Greeting>,
    #[schema(nullable, default = Language::default)]
    language: Language,
    /// The longest call, in minutes of talk.
    #[schema(nullable, default = CallMinutes::default)]
    max_call_duration_minutes: CallMinutes,
    /// The number that `transfer_to_human` connects the caller to.
    escalation_number: Option<PhoneNumber>,
    /// Names of enabled tools: `end_call`, `transfer_to_human` and the agent's own functions.
    #[schema(nullable, default = EnabledTools::default)]
    tools_enabled: EnabledTools,
    /// An inactive agent takes no calls.
    #[schema(nullable, default = true)]
    is_active: bool,
}

impl AgentDraft {
    fn of(agent: &agent::Model) -> Self {
        Self {
            name: agent.name.clone().into(),
            system_prompt: agent.system_prompt.clone().into(),
            voice_id: agent.voice_id,
            greeting_text: agent.greeting_text.clone().map(Into::into),
            language: agent.language.clone(),
            max_call_duration_minutes: CallMinutes(agent.max_call_duration_minutes),
            escalation_number: agent.escalation_number.clone(),
            tools_enabled: EnabledTools(tools(agent)),
            is_active: agent.is_active,
        }
    }

    /// Reads a draft; absent fields stay as in `now`. `functions` are the names of the agent's own.
    fn read(
        form: &FormFields,
        now: Option<&Self>,
        functions: &[String],
        transfers: &TransferPrefixes,
    ) -> Result<Self, ApiError> {
        let known: Vec<&str> = BUILT_IN_TOOLS
            .iter()
            .copied()
            .chain(functions.iter().map(String::as_str))
            .collect();
        form.read(READ_ONLY, |form| {
            let name = form.required("name", now.map(|now| now.name.clone()), AgentName::parse);
            let system_prompt = form.required(
                "systemPrompt",
                now.map(|now| now.system_prompt.clone()),
                SystemPrompt::parse,
            );
            let voice_id = now.and_then(|now| now.voice_id);
            let voice_id = form.optional("voiceId", voice_id, word("a voice"));
            let greeting_text = now.and_then(|now| now.greeting_text.clone());
            let greeting_text = form.optional("greetingText", greeting_text, Greeting::parse);
            let language = form.defaulted(
                "language",
                now.map(|now| now.language.clone()),
                Language::default(),
                language,
            );
            let max_call_duration_minutes = form.defaulted(
                "maxCallDurationMinutes",
                now.map(|now| now.max_call_duration_minutes),
                CallMinutes::default(),
                CallMinutes::parse,
            );
            let escalation_number = form.optional(
                "escalationNumber",
                now.and_then(|now| now.escalation_number.clone()),
                |value| transfer_target(transfers, value),
            );
            let tools_enabled = form.defaulted(
                "toolsEnabled",
                now.map(|now| now.tools_enabled.clone()),
                EnabledTools::default(),
                |value| EnabledTools::parse(value, &known),
            );
            let is_active = form.defaulted("isActive", now.map(|now| now.is_active), true, boolean);
            Some(Self {
                name: name?,
                system_prompt: system_prompt?,
                voice_id,
                greeting_text,
                language,
                max_call_duration_minutes,
                escalation_number,
                tools_enabled,
                is_active,
            })
        })
    }

    fn into_model(
        self,
        id: AgentId,
        tenant: TenantId,
        created_at: Millis,
        now: Millis,
    ) -> agent::Model {
        agent::Model {
            id,
            tenant_id: tenant,
            name: self.name.into(),
            system_prompt: self.system_prompt.into(),
            voice_id: self.voice_id,
            greeting_text: self.greeting_text.map(Into::into),
            language: self.language,
            max_call_duration_minutes: self.max_call_duration_minutes.0,
            escalation_number: self.escalation_number,
            tools_enabled: tools_json(&self.tools_enabled.0),
            is_active: self.is_active,
            created_at,
            updated_at: now,
            version: 0,
            weight: 0,
        }
    }

    fn change_of(&self, id: AgentId, before: &Self) -> AuditChange {
        AuditChange::new(AuditAction::AgentUpdate, id).fields(&[
            ("name", self.name != before.name),
            ("systemPrompt", self.system_prompt != before.system_prompt),
            ("voiceId", self.voice_id != before.voice_id),
            ("greetingText", self.greeting_text != before.greeting_text),
            ("language", self.language != before.language),
            (
                "maxCallDurationMinutes",
                self.max_call_duration_minutes != before.max_call_duration_minutes,
            ),
            (
                "escalationNumber",
                self.escalation_number != before.escalation_number,
            ),
            ("toolsEnabled", self.tools_enabled != before.tools_enabled),
            switched(self.is_active, before.is_active),
        ])
    }

    /// The sizes of the fields that make an agent heavy, in bytes.
    fn parts(&self) -> FieldSizes {
        let greeting = self
            .greeting_text
            .as_ref()
            .map_or(0, |text| text.as_str().len());
        let tools = self.tools_enabled.0.iter().map(String::len).sum();
        FieldSizes::from([
            ("systemPrompt", self.system_prompt.as_str().len()),
            ("greetingText", greeting),
            ("name", self.name.as_str().len()),
            ("toolsEnabled", tools),
        ])
    }
}

/// The tools that an agent's row enables.
pub fn tools(agent: &agent::Model) -> Vec<String> {
    serde_json::from_str(&agent.tools_enabled).unwrap_or_default()
}

/// The tools as stored in the row.
pub fn tools_json(tools: &[String]) -> String {
    Value::from(tools.to_vec()).to_string()
}

/// An agent as lists show it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = AgentSummary)]
pub struct AgentSummary {
    id: AgentId,
    name: String,
    system_prompt: String,
    voice_id: Option<VoiceId>,
    greeting_text: Option<String>,
    language: Language,
    max_call_duration_minutes: i64,
    tools_enabled: Vec<String>,
    is_active: bool,
    /// Increases with every change of the settings that calls use, functions included.
    #[schema(minimum = 1)]
    agent_version: i64,
    created_at: Millis,
    updated_at: Millis,
}

/// An agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Agent, example = json!({
    "id": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id", "maxCallDurationMinutes": 10,
    "escalationNumber": "+6281234567890", "toolsEnabled": ["end_call", "check_stock"], "isActive": true,
    "agentVersion": 3, "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct AgentView {
    #[serde(flatten)]
    #[schema(inline)]
    listed: AgentSummary,
    escalation_number: Option<PhoneNumber>,
}

/// All agents of the tenant; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"agents": [{
    "id": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "Reception",
    "systemPrompt": "You answer calls for a dental practice in Bandung.", "voiceId": "Kore",
    "greetingText": "Selamat pagi, ada yang bisa saya bantu?", "language": "id", "maxCallDurationMinutes": 10,
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

impl From<agent::Model> for AgentSummary {
    fn from(agent: agent::Model) -> Self {
        Self {
            tools_enabled: tools(&agent),
            id: agent.id,
            name: agent.name,
            system_prompt: agent.system_prompt,
            voice_id: agent.voice_id,
            greeting_text: agent.greeting_text,
            language: agent.language,
            max_call_duration_minutes: agent.max_call_duration_minutes,
            is_active: agent.is_active,
            // The first version is written only when it is needed; until then the row has 0.
            agent_version: agent.version.max(1),
            created_at: agent.created_at,
            updated_at: agent.updated_at,
        }
    }
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

pub async fn find(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: AgentId,
) -> Result<agent::Model, ApiError> {
    agent::Entity::one_of(tenant, id)
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Agent))
}

/// The tenant's agent, locked until the transaction ends, or 404. Records its state before the change as a version,
/// if it has none.
pub async fn lock(
    db: &impl ConnectionTrait,
    tenant: TenantId,
    id: AgentId,
    now: Millis,
) -> Result<agent::Model, ApiError> {
    let mut agent = agent::Entity::one_of(tenant, id)
        .lock_exclusive()
        .one(db)
        .await?
        .ok_or(ApiError::NotFound(Missing::Agent))?;
    if agent.version == 0 {
        let recorded = versions::record(db, &agent, now).await?;
        (agent.version, agent.weight) = (recorded.version, recorded.weight);
    }
    Ok(agent)
}

pub(super) async fn refuse_too_many(
    db: &impl ConnectionTrait,
    tenant: TenantId,
) -> Result<(), ApiError> {
    let count = agent::Entity::of(tenant).count(db).await?;
    if count < AGENTS_MAX {
        return Ok(());
    }
    let predicate = format!("would be one of more than {AGENTS_MAX} agents; delete one first");
    let fault = ValueFault::new(FieldCode::TooLarge, predicate);
    Err(ApiError::field(fault.in_field("name")))
}

async fn function_names(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
) -> Result<Vec<String>, ApiError> {
    let names = function::Entity::of_agent(agent)
        .select_only()
        .column(function::Column::Name)
        .order_by_asc(function::Column::Id)
        .into_tuple()
        .all(db)
        .await?;
    Ok(names)
}

/// `GET /agents`
pub async fn list_all(
    caller: TenantRequest,
    services: Data<Services>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let list = Listing {
        key: "agents",
        rows: agent::Entity::of(caller.tenant),
        by: agent::Column::Id,
        batch: BATCH,
        show: listing::json::<AgentSummary, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `POST /agents`
pub async fn create(
    caller: TenantRequest,
    services: Data<Services>,
    body: RequestBody,
) -> Result<Created<AgentView>, ApiError> {
    let draft = AgentDraft::read(&body.form()?, None, &[], &services.settings.transfers)?;
    let now = services.clock.now();
    let unit = TenantWrite::begin(&services, &caller).await?;
    refuse_too_many(unit.txn(), caller.tenant).await?;
    let growth = draft.parts();
    let agent = draft.into_model(AgentId::new(now), caller.tenant, now, now);
    agent::Entity::insert(agent.clone().into_active_model())
        .exec_without_returning(unit.txn())
        .await?;
    let agent = weight::renew(&unit, &services, agent, &growth, now).await?;
    let change = AuditChange::new(AuditAction::AgentCreate, agent.id).with(&agent.name);
    let path = format!("{BASE}/agents/{}", agent.id);
    let created = Created::at(path, AgentView::from(agent));
    unit.commit(created, Some(change)).await
}

/// `GET /agents/{id}`
pub async fn show(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
) -> Result<ApiAnswer, ApiError> {
    let agent = find(services.store.api_reader(), caller.tenant, id.0).await?;
    Ok(ApiAnswer::ok(&AgentView::from(agent)))
}

/// `PATCH /agents/{id}`
pub async fn update(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<ApiAnswer, ApiError> {
    find(services.store.api_reader(), caller.tenant, id.0).await?;
    let form = body.patch()?;
    let unit = TenantWrite::begin(&services, &caller).await?;
    let now = services.clock.now();
    let before = lock(unit.txn(), caller.tenant, id.0, now).await?;
    let functions = function_names(unit.txn(), &before).await?;
    let seen = AgentDraft::of(&before);
    let draft = AgentDraft::read(&form, Some(&seen), &functions, &services.settings.transfers)?;
    if draft == seen {
        return Ok(ApiAnswer::ok(&AgentView::from(before)));
    }
    let growth = weight::growth(&seen.parts(), draft.parts());
    let change = draft.change_of(id.0, &seen);
    let agent = agent::Model {
        version: before.version,
        weight: before.weight,
        ..draft.into_model(before.id, before.tenant_id, before.created_at, now)
    };
    let changed = agent.clone().into_active_model().reset_all();
    changed.update(unit.txn()).await?;
    let agent = weight::renew(&unit, &services, agent, &growth, now).await?;
    unit.commit(ApiAnswer::ok(&AgentView::from(agent)), Some(change))
        .await
}

/// `DELETE /agents/{id}`: deletes its functions too; its numbers stay without an agent.
pub async fn delete(
    caller: TenantRequest,
    services: Data<Services>,
    id: Id<AgentId>,
) -> Result<ApiAnswer, ApiError> {
    let unit = TenantWrite::begin(&services, &caller).await?;
    let now = services.clock.now();
    let agent = lock(unit.txn(), caller.tenant, id.0, now).await?;
    phone_number::Entity::update_many()
        .set(phone_number::ActiveModel {
            agent_id: Set(None),
            updated_at: Set(now),
            ..Default::default()
        })
        .filter(phone_number::Column::AgentId.eq(agent.id))
        .exec(unit.txn())
        .await?;
    versions::orphan(unit.txn(), agent.id, now).await?;
    agent::Entity::delete_by_id(agent.id)
        .exec(unit.txn())
        .await?;
    let change = AuditChange::new(AuditAction::AgentDelete, agent.id).with(&agent.name);
    unit.commit(ApiAnswer::no_content(), Some(change)).await
}
