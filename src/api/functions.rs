//! Functions: endpoints of the tenant that an agent's AI may call.

use actix_web::{HttpResponse, web::Data};
use dikala_actors::call::settings::BUILT_IN_TOOLS;
use dikala_entities::{AgentId, FunctionId, FunctionMethod, Millis, OutboundUrl, agent, function};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, Select,
};
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use utoipa::ToSchema;

use super::{
    Addresses, Answer, READ_ONLY, Unit, agents,
    calls::raw,
    listing::{self, Listing},
    parameters,
    weight::{self, Parts},
};
use crate::{
    error::{ApiError, Missing},
    extract::{
        BlankRule, Body, Caller, Fault, FieldCode, Form, FunctionName, Id, Parsed, Query, object,
        text, word,
    },
    openapi::schema,
    services::Services,
};

const NAME_CHARS_MAX: usize = 64;
/// A call's answer to its bridge names them all: this bounds it.
const FUNCTIONS_MAX: u64 = 100;
/// Functions that are read at once for a list.
const BATCH: u64 = 16;

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
    #[schema(schema_with = schema::function_name)]
    name: String,
    /// What the function does, read by the AI.
    #[schema(schema_with = schema::function_description)]
    description: String,
    #[schema(schema_with = schema::outbound_url)]
    endpoint: OutboundUrl,
    #[schema(schema_with = schema::method_input)]
    method: FunctionMethod,
    #[schema(schema_with = schema::parameters_input)]
    parameters: Value,
}

impl FunctionDraft {
    fn of(function: &function::Model) -> Self {
        Self {
            name: function.name.clone(),
            description: function.description.clone(),
            endpoint: function.endpoint.clone(),
            method: function.method,
            parameters: serde_json::from_str(&function.parameters)
                .unwrap_or_else(|_| parameters::empty()),
        }
    }

    fn read(form: &Form, now: Option<&Self>, addresses: Addresses) -> Result<Self, ApiError> {
        let read_only = [READ_ONLY, &["agentId"]].concat();
        form.read(&read_only, |form| {
            let name = form.required("name", now.map(|now| now.name.clone()), name);
            let description = form.required(
                "description",
                now.map(|now| now.description.clone()),
                text(1, 1_000, BlankRule::Trim),
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
                parameters::empty(),
                parameters::parse,
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

/// What can make a function heavy, in bytes.
fn parts(function: &function::Model) -> Parts {
    Parts::from([
        ("parameters", function.parameters.len()),
        ("description", function.description.len()),
        ("endpoint", function.endpoint.as_str().len()),
        ("name", function.name.len()),
    ])
}

fn is_name(text: &str) -> bool {
    let rest = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    text.len() <= NAME_CHARS_MAX
        && text
            .bytes()
            .next()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && text.bytes().all(rest)
}

fn name(value: &Value) -> Parsed<String> {
    let name = text(1, usize::MAX, BlankRule::Trim)(value)?;
    if name.chars().count() > NAME_CHARS_MAX {
        let predicate = format!("must have at most {NAME_CHARS_MAX} characters");
        Err(Fault::new(FieldCode::TooLong, predicate).into())
    } else if !is_name(&name) {
        let predicate = "must begin with a letter or _ and go on with letters, digits, _ and -";
        Err(Fault::new(FieldCode::InvalidFormat, predicate).into())
    } else if BUILT_IN_TOOLS.contains(&name.as_str()) {
        let predicate = "must not be the name of a built-in tool";
        Err(Fault::new(FieldCode::NotAllowed, predicate).into())
    } else {
        Ok(name)
    }
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
    #[schema(schema_with = schema::function_id)]
    id: FunctionId,
    #[schema(schema_with = schema::agent_id)]
    agent_id: AgentId,
    name: String,
    description: String,
    #[schema(value_type = String)]
    endpoint: OutboundUrl,
    #[schema(schema_with = schema::method)]
    method: FunctionMethod,
    #[schema(schema_with = schema::any_object)]
    parameters: Box<RawValue>,
    #[schema(schema_with = schema::instant)]
    created_at: Millis,
    #[schema(schema_with = schema::instant)]
    updated_at: Millis,
}

/// All functions of an agent; with `limit` or `offset` a page of them.
#[derive(Clone, Debug, ToSchema)]
#[schema(rename_all = "camelCase", example = json!({"functions": []}))]
pub struct FunctionList {
    pub functions: Vec<Function>,
    pub limit: i64,
    pub offset: i64,
    pub has_more: bool,
}

/// What to call the function with.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"parameters": {"sku": "A-100"}}))]
pub struct FunctionTest {
    #[schema(schema_with = schema::any_object_input)]
    pub parameters: Map<String, Value>,
}

/// What came of calling the endpoint: what the AI would be told.
#[derive(Clone, Debug, ToSchema)]
#[schema(example = json!({"status": "ok", "result": {"pieces": 12}}))]
pub struct FunctionOutcome {
    #[schema(schema_with = schema::outcome_status)]
    pub status: String,
    /// The endpoint's object; with `ok` only.
    #[schema(schema_with = schema::any_object, required = false)]
    pub result: Value,
    /// What went wrong; with `error` only.
    #[schema(schema_with = schema::outcome_code, required = false)]
    pub code: String,
    #[schema(required = false)]
    pub message: String,
}

impl From<function::Model> for Function {
    fn from(function: function::Model) -> Self {
        Self {
            id: function.id,
            agent_id: function.agent_id,
            name: function.name,
            description: function.description,
            endpoint: function.endpoint,
            method: function.method,
            parameters: raw(function.parameters, "{}"),
            created_at: function.created_at,
            updated_at: function.updated_at,
        }
    }
}

fn by_name(agent: AgentId, name: &str) -> Select<function::Entity> {
    function::Entity::find()
        .filter(function::Column::AgentId.eq(agent))
        .filter(function::Column::Name.eq(name))
}

/// The agent's function of that name, or 404. The agent is known to be the tenant's.
pub async fn find(
    db: &impl ConnectionTrait,
    agent: AgentId,
    name: &str,
) -> Result<function::Model, ApiError> {
    let missing = ApiError::NotFound(Missing::Function);
    // A path can hold anything, and some of it no database takes.
    if !is_name(name) {
        return Err(missing);
    }
    by_name(agent, name).one(db).await?.ok_or(missing)
}

async fn refuse_taken(
    db: &impl ConnectionTrait,
    agent: AgentId,
    name: &str,
) -> Result<(), ApiError> {
    match by_name(agent, name).one(db).await? {
        Some(function) => Err(ApiError::FunctionExists(function.name)),
        None => Ok(()),
    }
}

/// Writes which tools the agent has. The agent's row is locked.
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

/// `GET /agents/{id}/functions`
pub async fn list_all(
    caller: Caller,
    services: Data<Services>,
    id: Id<AgentId>,
    query: Query,
) -> Result<HttpResponse, ApiError> {
    let agent = agents::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let list = Listing {
        key: "functions",
        rows: function::Entity::find().filter(function::Column::AgentId.eq(agent.id)),
        by: function::Column::Id,
        batch: BATCH,
        show: listing::json::<Function, _>,
    };
    listing::answer(services, &caller, &query, list).await
}

/// `POST /agents/{id}/functions`: the function is enabled at once.
pub async fn create(
    caller: Caller,
    services: Data<Services>,
    id: Id<AgentId>,
    body: Body,
) -> Result<Answer, ApiError> {
    agents::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let form = body.form()?;
    let addresses = Addresses::ask(&services, caller.tenant, &form, "endpoint", None).await;
    let draft = FunctionDraft::read(&form, None, addresses)?;
    let now = services.clock.now();
    let unit = Unit::begin(&services, &caller).await?;
    let agent = agents::lock(unit.txn(), caller.tenant, id.0, now).await?;
    refuse_taken(unit.txn(), agent.id, &draft.name).await?;
    refuse_too_many(unit.txn(), agent.id).await?;
    let function = function::Model {
        id: FunctionId::new(now),
        tenant_id: caller.tenant,
        agent_id: agent.id,
        name: draft.name,
        description: draft.description,
        endpoint: draft.endpoint,
        method: draft.method,
        parameters: draft.parameters.to_string(),
        created_at: now,
        updated_at: now,
    };
    function::Entity::insert(function.clone().into_active_model())
        .exec_without_returning(unit.txn())
        .await?;
    let mut tools = agents::tools(&agent);
    tools.push(function.name.clone());
    let agent = set_tools(unit.txn(), agent, &tools, now).await?;
    weight::renew(&unit, &services, agent, &parts(&function), now).await?;
    let path = format!("/agents/{}/functions/{}", function.agent_id, function.name);
    unit.commit(Answer::created(&path, &Function::from(function)))
        .await
}

async fn refuse_too_many(db: &impl ConnectionTrait, agent: AgentId) -> Result<(), ApiError> {
    let count = function::Entity::find()
        .filter(function::Column::AgentId.eq(agent))
        .count(db)
        .await?;
    if count < FUNCTIONS_MAX {
        return Ok(());
    }
    let predicate =
        format!("would be one of more than {FUNCTIONS_MAX} functions; delete one first");
    Err(ApiError::field(
        Fault::new(FieldCode::TooLarge, predicate).in_field("name"),
    ))
}

/// `PATCH /agents/{id}/functions/{name}`
pub async fn update(
    caller: Caller,
    services: Data<Services>,
    id: Id<AgentId>,
    name: FunctionName,
    body: Body,
) -> Result<Answer, ApiError> {
    let agent = agents::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let seen = FunctionDraft::of(&find(services.store.api_reader(), agent.id, &name.0).await?);
    let form = body.patch()?;
    let before = Some(&seen.endpoint);
    let addresses = Addresses::ask(&services, caller.tenant, &form, "endpoint", before).await;
    FunctionDraft::read(&form, Some(&seen), addresses)?;
    let now = services.clock.now();
    let unit = Unit::begin(&services, &caller).await?;
    // The agent's lock covers its functions.
    let mut agent = agents::lock(unit.txn(), caller.tenant, id.0, now).await?;
    let mut function = find(unit.txn(), agent.id, &name.0).await?;
    let before = FunctionDraft::of(&function);
    let wanted = FunctionDraft::read(&form, Some(&before), addresses)?;
    if wanted == before {
        return Ok(Answer::ok(&Function::from(function)));
    }
    if wanted.name != before.name {
        refuse_taken(unit.txn(), agent.id, &wanted.name).await?;
        let tools = agents::tools(&agent).into_iter();
        let renamed = |tool| {
            if tool == before.name {
                wanted.name.clone()
            } else {
                tool
            }
        };
        let tools: Vec<String> = tools.map(renamed).collect();
        agent = set_tools(unit.txn(), agent, &tools, now).await?;
    }
    let seen = parts(&function);
    function.name = wanted.name;
    function.description = wanted.description;
    function.endpoint = wanted.endpoint;
    function.method = wanted.method;
    function.parameters = wanted.parameters.to_string();
    function.updated_at = now;
    let change = function.clone().into_active_model().reset_all();
    change.update(unit.txn()).await?;
    weight::renew(
        &unit,
        &services,
        agent,
        &weight::growth(&seen, parts(&function)),
        now,
    )
    .await?;
    unit.commit(Answer::ok(&Function::from(function))).await
}

/// `DELETE /agents/{id}/functions/{name}`
pub async fn delete(
    caller: Caller,
    services: Data<Services>,
    id: Id<AgentId>,
    name: FunctionName,
) -> Result<Answer, ApiError> {
    let now = services.clock.now();
    let unit = Unit::begin(&services, &caller).await?;
    let agent = agents::lock(unit.txn(), caller.tenant, id.0, now).await?;
    let function = find(unit.txn(), agent.id, &name.0).await?;
    let mut tools = agents::tools(&agent);
    tools.retain(|tool| *tool != function.name);
    let agent = set_tools(unit.txn(), agent, &tools, now).await?;
    function::Entity::delete_by_id(function.id)
        .exec(unit.txn())
        .await?;
    weight::renew(&unit, &services, agent, &Parts::new(), now).await?;
    unit.commit(Answer::no_content()).await
}

/// `POST /agents/{id}/functions/{name}/test`
pub async fn test(
    caller: Caller,
    services: Data<Services>,
    id: Id<AgentId>,
    name: FunctionName,
    body: Body,
) -> Result<Answer, ApiError> {
    let agent = agents::find(services.store.api_reader(), caller.tenant, id.0).await?;
    let function = find(services.store.api_reader(), agent.id, &name.0).await?;
    let parameters = body.optional_form()?.read(&[], |form| {
        Some(form.defaulted("parameters", None, Map::new(), object))
    })?;
    let outcome = services
        .outbound
        .test_function(function, parameters)
        .await
        .map_err(|error| super::refused(error, Missing::Function))?;
    Ok(Answer::ok(&outcome))
}
