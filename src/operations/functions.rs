//! Functions: endpoints of the tenant that an agent's AI may call.

mod failing;
pub mod parameters;
mod trial;
mod unusable;

use dikala_actors::{calls::settings::BUILT_IN_TOOLS, functions::FaultCode};
use dikala_entities::{
    AgentId, AuditAction, FunctionId, FunctionMethod, Millis, OutboundUrl, agent, described,
    function,
};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, Select,
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use self::parameters::Parameters;
pub use self::{
    failing::{FailingFunction, failing},
    trial::{FunctionTrial, test, try_out},
    unusable::unusable,
};
use super::{
    Addresses, OperationContext,
    agents::{self, weight, weight::FieldSizes},
    stored::Json,
    texts::{FunctionDescription, TOOL_NAME_CHARS_MAX, tool_name},
};
use crate::{
    audit::AuditChange,
    http::{
        answer::{Created, NoContent},
        error::{ApiError, Missing},
        extract::{
            BlankRule, FormFields, FunctionName, Id, KeyOrder, ParseResult, RequestBody, text, word,
        },
        field::{FieldCode, ValueFault},
        route::BASE,
    },
    openapi::schema::words,
};

/// Read-only fields: accepted and ignored in requests, so that a client can send back what it read.
pub const READ_ONLY: &[&str] = &["id", "agentId", "createdAt", "updatedAt"];
/// Functions of an agent. Bounds the reply to `call.incoming`, which lists them all.
const FUNCTIONS_MAX: u64 = 100;

/// A function as its tenant sets it up.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[schema(as = FunctionInput, example = json!({
    "name": "check_stock", "description": "Says how many pieces of an article are in stock.",
    "endpoint": "https://example.com/stock", "method": "GET",
    "parameters": {"type": "object", "properties": {"sku": {"type": "string", "description": "Article number"}},
                   "required": ["sku"]}
}))]
pub struct FunctionDraft {
    /// Unique in the agent; none of the built-in tools' names.
    name: ValidFunctionName,
    /// The function's purpose, read by the AI.
    description: FunctionDescription,
    endpoint: OutboundUrl,
    #[schema(nullable, default = "POST")]
    method: FunctionMethod,
    // As JSON text, with the names in the order in which they were sent.
    #[schema(value_type = Parameters, nullable, default = parameters::empty)]
    parameters: String,
}

impl FunctionDraft {
    fn of(function: &function::Model) -> Self {
        Self {
            name: ValidFunctionName(function.name.clone()),
            description: function.description.clone().into(),
            endpoint: function.endpoint.clone(),
            method: function.method,
            parameters: function.parameters.clone(),
        }
    }

    fn change_of(&self, id: FunctionId, before: &Self) -> AuditChange {
        AuditChange::new(AuditAction::FunctionUpdate, id).fields(&[
            ("name", self.name != before.name),
            ("description", self.description != before.description),
            ("endpoint", self.endpoint != before.endpoint),
            ("method", self.method != before.method),
            ("parameters", self.parameters != before.parameters),
        ])
    }

    fn read(
        form: &FormFields,
        order: &KeyOrder,
        now: Option<&Self>,
        addresses: Addresses,
    ) -> Result<Self, ApiError> {
        let order = order.inside("parameters");
        form.read(READ_ONLY, |form| {
            let name = form.required(
                "name",
                now.map(|now| now.name.clone()),
                ValidFunctionName::parse,
            );
            let description = form.required(
                "description",
                now.map(|now| now.description.clone()),
                FunctionDescription::parse,
            );
            let endpoint =
                form.required("endpoint", now.map(|now| now.endpoint.clone()), |value| {
                    addresses.parse(value)
                });
            let method = form.defaulted(
                "method",
                now.map(|now| now.method),
                FunctionMethod::Post,
                word("a method"),
            );
            let parameters = form.defaulted(
                "parameters",
                now.map(|now| now.parameters.clone()),
                parameters::empty().to_string(),
                |value| Ok(order.write(&parameters::parse(value)?)),
            );
            Some(Self {
                name: name?,
                description: description?,
                endpoint: endpoint?,
                method,
                parameters,
            })
        })
    }
}

/// The audit's entry of a function that is created or deleted.
fn change(action: AuditAction, function: &function::Model) -> AuditChange {
    let of = format!("{} of {}", function.name, function.agent_id);
    AuditChange::new(action, function.id).with(of)
}

/// The sizes of the fields that make a function heavy, in bytes.
fn parts(function: &function::Model) -> FieldSizes {
    FieldSizes::from([
        ("parameters", function.parameters.len()),
        ("description", function.description.len()),
        ("endpoint", function.endpoint.as_str().len()),
        ("name", function.name.len()),
    ])
}

fn is_name(text: &str) -> bool {
    let rest = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    text.len() <= TOOL_NAME_CHARS_MAX
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.bytes().all(rest)
}

/// The name by which the AI calls a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidFunctionName(String);

impl ValidFunctionName {
    fn parse(value: &Value) -> ParseResult<Self> {
        let name = text(1, usize::MAX, BlankRule::Trim)(value)?;
        if name.chars().count() > TOOL_NAME_CHARS_MAX {
            let predicate = format!("must have at most {TOOL_NAME_CHARS_MAX} characters");
            let fault = ValueFault::new(FieldCode::TooLong, predicate);
            Err(fault.bounded(TOOL_NAME_CHARS_MAX as i64).into())
        } else if !is_name(&name) {
            let predicate = "must begin with a letter or _ and go on with letters, digits, _ and -";
            let fault = ValueFault::new(FieldCode::InvalidFormat, predicate);
            Err(fault.in_words("fault-function-name").into())
        } else if BUILT_IN_TOOLS.contains(&name.as_str()) {
            let predicate = "must not be the name of a built-in tool";
            let fault = ValueFault::new(FieldCode::NotAllowed, predicate);
            Err(fault.in_words("fault-function-built-in").into())
        } else {
            Ok(Self(name))
        }
    }
}

described! {
    ValidFunctionName: tool_name();
    OutcomeCode: words(FaultCode::ALL.map(FaultCode::as_str));
}

/// A function of an agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(example = json!({
    "id": "fn_01k9zv3m8rj2q4w6y8a0c2e4g6", "agentId": "agent_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "check_stock",
    "description": "Says how many pieces of an article are in stock.", "endpoint": "https://example.com/stock",
    "method": "GET",
    "parameters": {"type": "object", "properties": {"sku": {"type": "string", "description": "Article number"}},
                   "required": ["sku"]},
    "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
}))]
pub struct Function {
    pub id: FunctionId,
    agent_id: AgentId,
    pub name: String,
    description: String,
    endpoint: OutboundUrl,
    method: FunctionMethod,
    parameters: Json,
    created_at: Millis,
    updated_at: Millis,
}

/// The parameters of a test call.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"parameters": {"sku": "A-100"}}))]
#[expect(dead_code, reason = "the description of what is read field by field")]
pub struct FunctionTest {
    #[schema(value_type = Json, nullable, default = json!({}))]
    pub parameters: Map<String, Value>,
}

/// The outcome of a test call, as the AI would get it.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"status": "ok", "result": {"pieces": 12}}))]
#[expect(
    dead_code,
    reason = "the description of what the invoker's answer is written as"
)]
pub struct FunctionOutcome {
    pub status: OutcomeStatus,
    /// The endpoint's object; with `ok` only.
    #[schema(value_type = Json, required = false)]
    pub result: Value,
    /// The error code; with `error` only.
    #[schema(required = false)]
    pub code: OutcomeCode,
    #[schema(required = false)]
    pub message: String,
}

/// `ok` if the AI gets a result, otherwise `error`.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(
    dead_code,
    reason = "the description of what the invoker's answer is written as"
)]
pub enum OutcomeStatus {
    Ok,
    Error,
}

/// The error codes of a function call, as [`FaultCode`] is written. Has no values; only for the OpenAPI description.
#[derive(Clone, Copy, Debug)]
pub enum OutcomeCode {}

impl From<function::Model> for Function {
    fn from(function: function::Model) -> Self {
        Self {
            id: function.id,
            agent_id: function.agent_id,
            name: function.name,
            description: function.description,
            endpoint: function.endpoint,
            method: function.method,
            parameters: Json::object(function.parameters),
            created_at: function.created_at,
            updated_at: function.updated_at,
        }
    }
}

fn by_name(agent: &agent::Model, name: &str) -> Select<function::Entity> {
    function::Entity::of_agent(agent).filter(function::Column::Name.eq(name))
}

/// The agent's function with that name, or 404.
pub async fn find(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
    name: &str,
) -> Result<function::Model, ApiError> {
    let missing = ApiError::NotFound(Missing::Function);
    // A path can hold any text, and the databases refuse some of it.
    if !is_name(name) {
        return Err(missing);
    }
    by_name(agent, name).one(db).await?.ok_or(missing)
}

async fn refuse_taken(
    db: &impl ConnectionTrait,
    agent: &agent::Model,
    name: &str,
) -> Result<(), ApiError> {
    match by_name(agent, name).one(db).await? {
        Some(function) => Err(ApiError::FunctionExists(function.name)),
        None => Ok(()),
    }
}

/// Stores the agent's tools. The agent's row is locked.
async fn set_tools(
    db: &impl ConnectionTrait,
    agent: agent::Model,
    tools: &[String],
    now: Millis,
) -> Result<agent::Model, ApiError> {
    let mut change = agent.into_active_model();
    change.tools_enabled = Set(agents::tools_json(tools));
    change.updated_at = Set(now);
    Ok(change.update(db).await?)
}

/// Creates a function and enables it.
pub async fn create(
    context: OperationContext,
    id: Id<AgentId>,
    body: RequestBody,
) -> Result<Created<Function>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    agents::find(context.store().api_reader(), tenant, id.0).await?;
    let form = body.form()?;
    let addresses = Addresses::check(&context, &form, "endpoint", None).await?;
    let draft = FunctionDraft::read(&form, &body.key_order(), None, addresses)?;
    let mut write = context.begin().await?;
    let agent = agents::lock(&write, tenant, id.0, now).await?;
    refuse_taken(&*write, &agent, &draft.name.0).await?;
    refuse_too_many(&*write, &agent).await?;
    let function = function::Model {
        id: FunctionId::new(now),
        tenant_id: tenant,
        agent_id: agent.id,
        name: draft.name.0,
        description: draft.description.into(),
        endpoint: draft.endpoint,
        method: draft.method,
        parameters: draft.parameters,
        created_at: now,
        updated_at: now,
    };
    function::Entity::insert(function.clone().into_active_model())
        .exec_without_returning(&*write)
        .await?;
    let mut tools = agents::tools(&agent);
    tools.push(function.name.clone());
    let agent = set_tools(&*write, agent, &tools, now).await?;
    let limits = context.agent_limits()?;
    weight::renew(&write, limits, agent, &parts(&function), now).await?;
    let change = change(AuditAction::FunctionCreate, &function);
    write.record(tenant, change).await?;
    let path = format!(
        "{BASE}/agents/{}/functions/{}",
        function.agent_id, function.name
    );
    write.commit(Created::at(path, function.into())).await
}

async fn refuse_too_many(db: &impl ConnectionTrait, agent: &agent::Model) -> Result<(), ApiError> {
    let count = function::Entity::of_agent(agent).count(db).await?;
    if count < FUNCTIONS_MAX {
        return Ok(());
    }
    let predicate =
        format!("would be one of more than {FUNCTIONS_MAX} functions; delete one first");
    let fault = ValueFault::new(FieldCode::TooLarge, predicate);
    let fault = fault
        .bounded(FUNCTIONS_MAX as i64)
        .in_words("fault-too-many-functions");
    Err(ApiError::field(fault.in_field("name")))
}

/// Changes a function.
pub async fn update(
    context: OperationContext,
    id: Id<AgentId>,
    name: FunctionName,
    body: RequestBody,
) -> Result<Function, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let db = context.store().api_reader();
    let seen = find(db, &agents::find(db, tenant, id.0).await?, &name.0).await?;
    let form = body.patch()?;
    let before = Some(&seen.endpoint);
    let addresses = Addresses::check(&context, &form, "endpoint", before).await?;
    let mut write = context.begin().await?;
    // The agent's lock covers its functions.
    let mut agent = agents::lock(&write, tenant, id.0, now).await?;
    let mut function = find(&*write, &agent, &name.0).await?;
    let target = function.id.to_string();
    context
        .refuse_if_changed(
            &*write,
            AuditAction::FunctionUpdate,
            target,
            function.updated_at,
        )
        .await?;
    let before = FunctionDraft::of(&function);
    let wanted = FunctionDraft::read(&form, &body.key_order(), Some(&before), addresses)?;
    if wanted == before {
        return Ok(function.into());
    }
    if wanted.name != before.name {
        refuse_taken(&*write, &agent, &wanted.name.0).await?;
        let tools = agents::tools(&agent).into_iter();
        let renamed = |tool| {
            if tool == before.name.0 {
                wanted.name.0.clone()
            } else {
                tool
            }
        };
        let tools: Vec<String> = tools.map(renamed).collect();
        agent = set_tools(&*write, agent, &tools, now).await?;
    }
    let change = wanted.change_of(function.id, &before);
    write.record(tenant, change).await?;
    let seen = parts(&function);
    function.name = wanted.name.0;
    function.description = wanted.description.into();
    function.endpoint = wanted.endpoint;
    function.method = wanted.method;
    function.parameters = wanted.parameters;
    function.updated_at = now;
    let changed = function.clone().into_active_model().reset_all();
    changed.update(&*write).await?;
    let growth = weight::growth(&seen, parts(&function));
    weight::renew(&write, context.agent_limits()?, agent, &growth, now).await?;
    write.commit(function.into()).await
}

/// Deletes a function.
pub async fn delete(
    context: OperationContext,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<NoContent<FunctionId>, ApiError> {
    let (tenant, now) = (context.tenant()?, context.now);
    let mut write = context.begin().await?;
    let agent = agents::lock(&write, tenant, id.0, now).await?;
    let function = find(&*write, &agent, &name.0).await?;
    let mut tools = agents::tools(&agent);
    tools.retain(|tool| *tool != function.name);
    let agent = set_tools(&*write, agent, &tools, now).await?;
    function::Entity::delete_by_id(function.id)
        .exec(&*write)
        .await?;
    let limits = context.agent_limits()?;
    weight::renew(&write, limits, agent, &FieldSizes::new(), now).await?;
    let change = change(AuditAction::FunctionDelete, &function);
    write.record(tenant, change).await?;
    write.commit(NoContent(function.id)).await
}
