//! The OpenAPI 3.1 description of an API, made from the route table, the handlers' types and the table of errors.

mod api;
pub mod errors;
mod events;
mod inputs;
mod route;
pub mod schema;

use std::collections::BTreeMap;

use dikala_entities::{
    AgentId, AuditAction, BridgeId, CallId, CallStatus, CallerNumber, ChannelKind, DeliveryStatus,
    EventId, InstantOrDate, Interval, NumberDisplay, PhoneNumber, PhoneNumberId, Ranking, TenantId,
    WebhookId, WebhookState,
};
use serde_json::{Map, Value, json};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, Schema},
};

use self::schema::{is_of_value, to_value, with_values};
use crate::http::{
    extract::{LIMIT_DEFAULT, LIMIT_MAX, OFFSET_MAX, SEARCHED},
    idempotency::KEY_LENGTH_MAX,
};

pub use api::Api;
pub use api::nothing;
pub use events::webhooks;
pub use route::{ApiRoute, BodyKind, StreamedEvents};
pub use route::{delete, get, patch, post};

/// Fields that may be absent in an answer; all others are always present.
const SOMETIMES: &[(&str, &str)] = &[
    ("AgentList", "limit"),
    ("AgentList", "offset"),
    ("AgentList", "hasMore"),
    ("AgentVersionList", "limit"),
    ("AgentVersionList", "offset"),
    ("AgentVersionList", "hasMore"),
    ("EventList", "limit"),
    ("EventList", "offset"),
    ("EventList", "hasMore"),
    ("FunctionList", "limit"),
    ("FunctionList", "offset"),
    ("FunctionList", "hasMore"),
    ("PhoneNumberList", "limit"),
    ("PhoneNumberList", "offset"),
    ("PhoneNumberList", "hasMore"),
    ("WebhookList", "limit"),
    ("WebhookList", "offset"),
    ("WebhookList", "hasMore"),
    ("WidgetList", "limit"),
    ("WidgetList", "offset"),
    ("WidgetList", "hasMore"),
    ("Turn", "at"),
    ("Turn", "interrupted"),
    ("Turn", "latencyMs"),
    ("FunctionOutcome", "result"),
    ("FunctionOutcome", "code"),
    ("FunctionOutcome", "message"),
];

/// The schemas of a document by name.
#[derive(Debug, Default)]
pub struct SchemaSet(BTreeMap<String, Value>);

impl SchemaSet {
    /// Adds the type of an answer and all types in it. Returns a reference.
    pub fn answer<T: ToSchema>(&mut self) -> Value {
        for (name, mut schema) in objects::<T>() {
            require_all(&name, &mut schema);
            self.0.insert(name, schema);
        }
        reference(&T::name())
    }

    /// Adds the type of a request body, with the route's ignored fields. Returns a reference.
    pub fn input<T: ToSchema>(&mut self, route: &ApiRoute, input: BodyKind) -> Value {
        let (name, schema) = objects::<T>().pop().expect("a body is an object");
        let (name, schema) = inputs::closed(&name, schema, input, route);
        self.0.insert(name.clone(), schema);
        reference(&name)
    }
}

/// The object schemas in a type, by name, and last the type itself.
fn objects<T: ToSchema>() -> Vec<(String, Value)> {
    let mut parts: Vec<(String, RefOr<Schema>)> = Vec::new();
    T::schemas(&mut parts);
    parts.push((T::name().into_owned(), T::schema()));
    let parts = parts
        .into_iter()
        .map(|(name, schema)| (name, merged(to_value(&schema))));
    let (values, objects): (Vec<_>, Vec<_>) = parts.partition(|(_, schema)| is_of_value(schema));
    let values: BTreeMap<String, Value> = values.into_iter().collect();
    objects
        .into_iter()
        .map(|(name, schema)| (name, with_values(schema, &values)))
        .collect()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// Merges `allOf`, which flattened fields produce, into one object.
fn merged(schema: Value) -> Value {
    let Some(Value::Array(parts)) = schema.get("allOf") else {
        return schema;
    };
    let parts: Vec<Value> = parts.iter().cloned().map(merged).collect();
    let mut whole = json!({"type": "object", "properties": {}});
    for part in &parts {
        for (name, property) in part["properties"].as_object().into_iter().flatten() {
            whole["properties"][name] = property.clone();
        }
    }
    for key in ["description", "example"] {
        let outer = schema.get(key);
        let inner = parts.iter().rev().find_map(|part| part.get(key));
        if let Some(value) = outer.or(inner) {
            whole[key] = value.clone();
        }
    }
    whole
}

fn require_all(schema_name: &str, schema: &mut Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    let always = |name: &&String| !SOMETIMES.contains(&(schema_name, name.as_str()));
    let required: Vec<&String> = properties.keys().filter(always).collect();
    schema["required"] = json!(required);
}

/// The OpenAPI document.
pub fn document(api: &Api) -> Value {
    let mut schemas = SchemaSet::default();
    let mut paths: Map<String, Value> = Map::new();
    for route in api.routes {
        let item = paths
            .entry(format!("{}{}", api.base, route.path))
            .or_insert_with(|| json!({}));
        item[route.method.as_str().to_ascii_lowercase()] = operation(api, route, &mut schemas);
    }
    schemas.0.insert("Error".to_owned(), errors::schema(api));
    let webhooks = api.webhooks.map(|webhooks| webhooks(&mut schemas));
    let (scheme, security) = api.security;
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": api.about,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{scheme: []}],
        "tags": tags(api.routes),
        "paths": paths,
        "components": {
            "schemas": schemas.0,
            "headers": headers(api),
            "responses": errors::shared(api),
            "securitySchemes": {scheme: security()},
        },
    });
    if let Some(webhooks) = webhooks {
        document["webhooks"] = webhooks;
    }
    document
}

fn tags(routes: &[ApiRoute]) -> Value {
    let mut tags: Vec<&str> = routes.iter().map(ApiRoute::tag).collect();
    tags.dedup();
    tags.iter().map(|tag| json!({"name": tag})).collect()
}

fn operation(api: &Api, route: &ApiRoute, schemas: &mut SchemaSet) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "tags": [route.tag()],
        "summary": route.summary,
        "parameters": parameters(api, route),
        "responses": responses(api, route, schemas),
    });
    if let Some((input, schema)) = route.input {
        operation["requestBody"] = request_body(input, schema(schemas, route, input), schemas);
    }
    operation
}

fn request_body(input: BodyKind, schema: Value, schemas: &SchemaSet) -> Value {
    let content = json!({"application/json": with_example(schema, schemas)});
    let mut body = json!({"required": input != BodyKind::Optional, "content": content});
    if input == BodyKind::Patch {
        // In words only: with two media types for one body, client generators send neither.
        body["description"] =
            json!("A JSON merge patch; application/merge-patch+json is taken as well.");
    }
    body
}

/// A media type with its type's example.
fn with_example(schema: Value, schemas: &SchemaSet) -> Value {
    let name = schema["$ref"]
        .as_str()
        .and_then(|path| path.rsplit('/').next());
    let example = name.and_then(|name| schemas.0.get(name)?.get("example"));
    let mut media = json!({"schema": schema});
    if let Some(example) = example {
        media["example"] = example.clone();
    }
    media
}

fn parameters(api: &Api, route: &ApiRoute) -> Vec<Value> {
    let mut parameters: Vec<Value> = Vec::new();
    for name in ["id", "name", "type"] {
        if route.path.contains(&format!("{{{name}}}")) {
            let schema = json!({"type": "string"});
            parameters
                .push(json!({"name": name, "in": "path", "required": true, "schema": schema}));
        }
    }
    if route.path.contains("{version}") {
        let schema = json!({"type": "integer", "minimum": 1});
        parameters
            .push(json!({"name": "version", "in": "path", "required": true, "schema": schema}));
    }
    for name in route.query {
        let (description, mut schema) = query_parameter(name, route);
        if api.skips_empty {
            schema = json!({"anyOf": [schema, {"type": "string", "pattern": "^\\s*$"}]});
        }
        parameters.push(json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema}));
    }
    for name in route.headers {
        parameters.push(json!({
            "name": name, "in": "header", "required": false,
            "description": "The id of the last event that was seen; the stream goes on after it. Without it, it begins now.",
            "schema": to_value(&EventId::schema()),
        }));
    }
    if route.is_post() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "The same key and body within 24 hours give the same answer, and the effect of one request.",
            "schema": {"type": "string", "minLength": 1, "maxLength": KEY_LENGTH_MAX, "pattern": "^[!-~]([ -~]*[!-~])?$"},
        }));
    }
    parameters
}

fn query_parameter(name: &str, route: &ApiRoute) -> (&'static str, Value) {
    let date = || to_value(&InstantOrDate::schema());
    if let Some(told) = parameter_of_ranks(name, route).or_else(|| parameter_of_whose(name)) {
        return told;
    }
    match name {
        "limit" => (
            "How many at most.",
            json!({"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}),
        ),
        "offset" => (
            "How many to leave out first.",
            json!({"type": "integer", "minimum": 0, "maximum": OFFSET_MAX, "default": 0}),
        ),
        "before" => (
            "The id of a call: only what is older. A cursor that calls which come in do not move.",
            to_value(&CallId::schema()),
        ),
        "interval" => (
            "How long the time of each figure is.",
            json!({"type": "string", "enum": Interval::WORDS, "default": "day"}),
        ),
        "timeZone" => (
            "Where a day begins: a name such as Asia/Jakarta, or an offset such as +07:00.",
            json!({"type": "string", "maxLength": 64, "default": "UTC"}),
        ),
        "from" if route.id == "calls.stats" => (
            "From the hour or day in which that is; 24 hours or 30 days if left out. A date means its midnight in timeZone.",
            date(),
        ),
        "to" if route.id == "calls.stats" => (
            "To the end of the hour or day before that, or in which that is; now if left out. At most 31 days after from by the \
             hour, 92 by the day.",
            date(),
        ),
        "period" => (
            "The time that the histories of the figures cover: ten minutes by ten seconds, or 24 hours by the minute.",
            json!({"type": "string", "enum": ["10m", "24h"], "default": "10m"}),
        ),
        "numbers" => (
            "How telephone numbers are shown.",
            json!({"type": "string", "enum": NumberDisplay::WORDS, "default": "masked"}),
        ),
        "q" => search(route),
        "state" => (
            "Only webhooks that fare so.",
            to_value(&WebhookState::schema()),
        ),
        "actor" => (
            "Only what this one did: operator, cli, or the id of a user or a key.",
            json!({"type": "string"}),
        ),
        "action" => ("Only what was done so.", to_value(&AuditAction::schema())),
        "from" if route.tag() == "audit" => ("Only what was done then or later.", date()),
        "to" if route.tag() == "audit" => ("Only what was done before.", date()),
        "from" => ("Only what started then or later.", date()),
        "to" => ("Only what started before.", date()),
        _ if route.tag() == "calls" => {
            ("Only calls in this state.", to_value(&CallStatus::schema()))
        }
        _ => (
            "Only deliveries in this state.",
            to_value(&DeliveryStatus::schema()),
        ),
    }
}

/// Parameters of statistics of this process: the order, and the name.
fn parameter_of_ranks(name: &str, route: &ApiRoute) -> Option<(&'static str, Value)> {
    Some(match name {
        "sort" => (
            "What the first have the most of: calls in the last minute, failures, or time.",
            json!({"type": "string", "enum": Ranking::WORDS, "default": "rate"}),
        ),
        "agentId" if route.tag() == "functions" => (
            "Only functions of this agent.",
            to_value(&AgentId::schema()),
        ),
        "name" => (
            "Only functions with this name.",
            json!({"type": "string", "minLength": 1, "maxLength": 64}),
        ),
        _ => return None,
    })
}

fn search(route: &ApiRoute) -> (&'static str, Value) {
    match route.tag() {
        "calls" => (
            "Only calls with this part of the caller's or called number. `0812` also finds numbers that begin with `+62812`. Of the \
             newest 200,000 calls, or of those between `from` and `to`.",
            json!({"type": "string", "minLength": SEARCHED.0, "maxLength": SEARCHED.1}),
        ),
        _ => (
            "Only tenants whose id is this, or whose name has it somewhere.",
            json!({"type": "string", "maxLength": 120}),
        ),
    }
}

/// Filters by owner: agent, number, tenant and others.
fn parameter_of_whose(name: &str) -> Option<(&'static str, Value)> {
    Some(match name {
        "agentId" => ("Only calls of this agent.", to_value(&AgentId::schema())),
        "phoneNumberId" => (
            "Only calls of this phone number.",
            to_value(&PhoneNumberId::schema()),
        ),
        "callerNumber" => (
            "Only calls of this caller.",
            to_value(&CallerNumber::schema()),
        ),
        "channel" => (
            "Only calls over this channel.",
            to_value(&ChannelKind::schema()),
        ),
        "tenantId" => ("Only what is this tenant's.", to_value(&TenantId::schema())),
        "bridgeId" => ("Only calls of this bridge.", to_value(&BridgeId::schema())),
        "webhookId" => (
            "Only deliveries to this webhook.",
            to_value(&WebhookId::schema()),
        ),
        "did" => (
            "Only calls to this number.",
            to_value(&PhoneNumber::schema()),
        ),
        _ => return None,
    })
}

fn responses(api: &Api, route: &ApiRoute, schemas: &mut SchemaSet) -> Value {
    let headers = errors::response_headers(api, route.status);
    let mut success = json!({"description": route.summary, "headers": headers});
    if let Some(answer) = route.answer {
        let schema = answer(schemas);
        success["content"] = json!({"application/json": with_example(schema, schemas)});
    }
    if let Some(events) = route.streams {
        success["content"] = json!({"text/event-stream": {
            "schema": {"type": "object", "description": events.about, "properties": {
                "id": {"type": "string"}, "event": {"type": "string"}, "data": {"type": "string"},
            }},
            "example": events.example,
        }});
    }
    let mut responses = errors::responses(api, route);
    if route.or_ok {
        responses.insert("200".to_owned(), success.clone());
    }
    if route.located {
        success["headers"]["Location"] = json!({
            "description": "The path of what was created.", "schema": {"type": "string"}, "required": true,
        });
    }
    responses.insert(route.status.to_string(), success);
    Value::Object(responses)
}

fn headers(api: &Api) -> Value {
    let integer = |description: &str| json!({"description": description, "schema": {"type": "integer"}, "required": true});
    let mut headers = json!({
        "RetryAfter": integer("Whole seconds until it makes sense to try again."),
        "RequestId": {"description": "Names the request; quote it to the operator.", "schema": {"type": "string"}, "required": true},
    });
    if api.limited {
        headers["RateLimitLimit"] = integer("Requests a minute.");
        headers["RateLimitRemaining"] = integer("Requests left in this window.");
        headers["RateLimitReset"] = integer("Unix seconds at which the window ends.");
    }
    headers
}
