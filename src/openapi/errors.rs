//! The error responses in the description: the codes of each route, with examples.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::http::Method;
use serde_json::{Map, Value, json};

use super::{Api, ApiRoute};
use crate::http::{error::Code, field::FieldCode};

/// The body of every error.
pub(super) fn schema(api: &Api) -> Value {
    let given: BTreeSet<Code> = api
        .routes
        .iter()
        .flat_map(|route| codes(api, route))
        .collect();
    // This error comes from the path alone, before a route is found.
    let is_given = |code: &&Code| **code == Code::MethodNotAllowed || given.contains(code);
    let codes: Vec<&str> = Code::ALL
        .iter()
        .filter(is_given)
        .map(|code| code.as_str())
        .collect();
    json!({
        "type": "object",
        "required": ["error"],
        "properties": {"error": {
            "type": "object",
            "required": ["code", "message", "requestId"],
            "properties": {
                "code": {"type": "string", "enum": codes},
                "message": {"type": "string", "description": "For people; may change."},
                "requestId": {"type": "string"},
                "fields": {
                    "type": "array",
                    "description": "With validation_failed only: every wrong field.",
                    "items": {
                        "type": "object",
                        "required": ["field", "code", "message"],
                        "properties": {
                            "field": {"type": "string", "description": "The path, such as parameters.required[1]."},
                            "code": {"type": "string", "enum": FieldCode::WORDS},
                            "message": {"type": "string"},
                            "allowed": {"type": "array", "items": {"type": "string"}},
                        },
                    },
                },
            },
        }},
    })
}

/// Every code that a route can answer with.
pub fn codes(api: &Api, route: &ApiRoute) -> Vec<Code> {
    let mut codes = api.always.to_vec();
    if *route.method != Method::GET {
        codes.extend(api.on_writes);
    }
    codes.extend(route.errors);
    if route.path.contains('{') {
        codes.push(Code::RouteNotFound);
    }
    if route.input.is_some() || route.is_post() {
        codes.extend([
            Code::InvalidJson,
            Code::RequestTimeout,
            Code::BodyTooLarge,
            Code::UnsupportedMediaType,
        ]);
    }
    if route.is_post() {
        codes.extend([Code::IdempotencyInProgress, Code::IdempotencyKeyReused]);
    }
    codes.sort_unstable();
    codes
}

/// The codes of a route by status.
fn by_status(api: &Api, route: &ApiRoute) -> BTreeMap<u16, Vec<Code>> {
    let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
    for code in codes(api, route) {
        by_status.entry(code.status()).or_default().push(code);
    }
    by_status
}

/// Routes with the same codes share a response, named by its codes.
fn name(codes: &[Code]) -> String {
    let words: Vec<&str> = codes.iter().map(|code| code.as_str()).collect();
    words.join(".")
}

/// References to a route's error answers, by status.
pub(super) fn responses(api: &Api, route: &ApiRoute) -> Map<String, Value> {
    by_status(api, route)
        .into_iter()
        .map(|(status, codes)| {
            let path = format!("#/components/responses/{}", name(&codes));
            (status.to_string(), json!({"$ref": path}))
        })
        .collect()
}

/// All error answers, by name.
pub(super) fn shared(api: &Api) -> Map<String, Value> {
    api.routes
        .iter()
        .flat_map(|route| by_status(api, route))
        .map(|(status, codes)| (name(&codes), response(api, status, &codes)))
        .collect()
}

fn response(api: &Api, status: u16, codes: &[Code]) -> Value {
    let meanings: Vec<String> = codes
        .iter()
        .map(|code| format!("`{}`: {}", code.as_str(), code.meaning()))
        .collect();
    let examples: Map<String, Value> = codes
        .iter()
        .map(|code| (code.as_str().to_owned(), json!({"value": example(*code)})))
        .collect();
    json!({
        "description": meanings.join(" "),
        "headers": response_headers(api, status),
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}, "examples": examples}},
    })
}

fn example(code: Code) -> Value {
    let mut error = json!({
        "code": code.as_str(),
        "message": code.meaning(),
        "requestId": "req_01k9zv3m8rj2q4w6y8a0c2e4g6",
    });
    if code == Code::ValidationFailed {
        error["message"] = json!("1 field is invalid: nmae.");
        error["fields"] = json!([{
            "field": "nmae", "code": "unknown_field",
            "message": "\"nmae\" is not a known field; did you mean \"name\"?",
        }]);
    }
    json!({"error": error})
}

/// The headers of an answer of that status.
pub(super) fn response_headers(api: &Api, status: u16) -> Value {
    let header = |name: &str| json!({"$ref": format!("#/components/headers/{name}")});
    let mut headers = json!({"X-Request-Id": header("RequestId")});
    // Unknown clients have no limit, and a 503 may come before authentication.
    if api.limited && !matches!(status, 401 | 429 | 503 | 500) {
        headers["X-RateLimit-Limit"] = header("RateLimitLimit");
        headers["X-RateLimit-Remaining"] = header("RateLimitRemaining");
        headers["X-RateLimit-Reset"] = header("RateLimitReset");
    }
    if matches!(status, 429 | 503) {
        headers["Retry-After"] = header("RetryAfter");
    }
    headers
}
