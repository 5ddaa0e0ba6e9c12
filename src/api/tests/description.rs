//! The OpenAPI descriptions are valid and match the APIs.

use std::collections::BTreeSet;

use actix_web::http::Method;
use dikala_testkit::json_schema;
use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use super::prelude::*;
use super::world::described;
use crate::{
    http::error::Code,
    openapi::{self, Api, errors},
    operator_api,
    routes::{self, API, ROUTES},
};

/// The tenants' API and the operators' API.
const APIS: [&Api; 2] = [&API, &operator_api::API];

fn document() -> Value {
    serde_json::from_str(routes::description()).expect("JSON")
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let methods = |(path, item): (&String, &Value)| {
        let path = path.clone();
        let item = item.as_object().expect("an item").clone();
        item.into_iter()
            .map(move |(method, operation)| (path.clone(), method, operation))
    };
    paths.iter().flat_map(methods).collect()
}

#[test]
fn the_document_is_openapi_31_and_the_same_every_time() {
    let mut readable = document();
    // The library writes schemas without a type and cannot read them.
    let schemas = readable["components"]["schemas"].as_object_mut();
    for schema in schemas.expect("schemas").values_mut() {
        for property in schema["properties"]
            .as_object_mut()
            .into_iter()
            .flat_map(|p| p.values_mut())
        {
            if property["description"] == "Ignored." {
                property["type"] = json!("object");
            }
        }
    }
    let typed: OpenApi = serde_json::from_value(readable).expect("as the library has it");
    assert_eq!(
        typed
            .paths
            .paths
            .values()
            .filter(|item| item.get.is_some())
            .count(),
        ROUTES.iter().filter(|r| *r.method == Method::GET).count()
    );
    let document = document();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(
        document["components"]["securitySchemes"]["apiKey"]["name"],
        "x-api-key"
    );
    assert_eq!(document["webhooks"].as_object().map(|w| w.len()), Some(6));
}

/// Both APIs search by `q`, each for something else.
#[test]
fn a_search_is_described_as_what_it_is() {
    let shortest = |api: &Api, path: &str| {
        let document = openapi::document(api);
        let parameters = document["paths"][path]["get"]["parameters"].clone();
        let parameters = parameters.as_array().expect("parameters").iter();
        let mut search = parameters.filter(|parameter| parameter["name"] == "q");
        search.next().expect("a search")["schema"]["minLength"].clone()
    };
    assert_eq!(shortest(&API, "/api/v1/calls"), 3);
    assert_eq!(
        shortest(&operator_api::API, "/operator/v1/tenants"),
        Value::Null
    );
}

#[test]
fn the_committed_document_is_this_one() {
    let committed = include_str!("../../../openapi.json");
    let same = committed.trim_end() == routes::description();
    assert!(
        same,
        "openapi.json is out of date; refresh it: cargo run -- openapi > openapi.json"
    );
}

#[test]
fn every_route_is_an_operation_and_the_other_way_round() {
    APIS.into_iter().for_each(every_route_is_an_operation);
}

fn every_route_is_an_operation(api: &Api) {
    let document = openapi::document(api);
    let described: BTreeSet<(String, String, String)> = operations(&document)
        .into_iter()
        .map(|(path, method, operation)| {
            (
                path,
                method,
                operation["operationId"].as_str().expect("an id").to_owned(),
            )
        })
        .collect();
    let routed: BTreeSet<(String, String, String)> = api
        .routes
        .iter()
        .map(|r| {
            (
                format!("{}{}", api.base, r.path),
                r.method.as_str().to_lowercase(),
                r.id.to_owned(),
            )
        })
        .collect();
    assert_eq!(described, routed);
    let ids: BTreeSet<&str> = api.routes.iter().map(|route| route.id).collect();
    assert_eq!(ids.len(), api.routes.len());
}

#[test]
fn every_reference_leads_somewhere() {
    fn visit(document: &Value, node: &Value) {
        match node {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a local reference");
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                fields.values().for_each(|value| visit(document, value));
            }
            Value::Array(items) => items.iter().for_each(|value| visit(document, value)),
            _ => {}
        }
    }
    for document in APIS.map(openapi::document) {
        visit(&document, &document);
    }
}

#[test]
fn every_example_fits_its_schema() {
    assert!(examples_that_fit(&API) > 400);
    assert!(examples_that_fit(&operator_api::API) > 200);
}

/// Checks each example against its schema. Returns the number of examples.
fn examples_that_fit(api: &Api) -> usize {
    let document = openapi::document(api);
    let mut checked = 0;
    let mut check = |place: &str, media: &Value| {
        let mut schema = media["schema"].clone();
        schema["components"] = document["components"].clone();
        let single = media.get("example").into_iter();
        let several = media["examples"]
            .as_object()
            .into_iter()
            .flat_map(|e| e.values().map(|e| &e["value"]));
        for example in single.chain(several) {
            let mismatch = json_schema::mismatch(&schema, example);
            assert_eq!(mismatch, None, "{place}");
            checked += 1;
        }
    };
    for route in api.routes {
        let operation = &document["paths"][format!("{}{}", api.base, route.path)]
            [route.method.as_str().to_lowercase()];
        for status in operation["responses"]
            .as_object()
            .expect("responses")
            .keys()
        {
            let content = &described(&document, api.base, route, status)["content"];
            let stream = content["text/event-stream"]["example"].is_string();
            assert_eq!(
                stream,
                route.streams.is_some() && status == "200",
                "{}",
                route.id
            );
            let media = &content["application/json"];
            if status != "204" && !stream {
                let any = media["example"].is_object() || media["examples"].is_object();
                assert!(any, "{} {status} has no example", route.id);
                check(&format!("{} {status}", route.id), media);
            }
        }
        if let Some(body) = operation.get("requestBody") {
            check(route.id, &body["content"]["application/json"]);
        }
    }
    for (kind, item) in document["webhooks"].as_object().into_iter().flatten() {
        check(
            kind,
            &item["post"]["requestBody"]["content"]["application/json"],
        );
    }
    checked
}

#[test]
fn every_code_is_described_somewhere() {
    let of = |api: &'static Api| {
        api.routes
            .iter()
            .flat_map(move |route| errors::codes(api, route))
    };
    let described: BTreeSet<Code> = of(&API).chain(of(&operator_api::API)).collect();
    // This error comes from the path alone, before an operation is known.
    let missing: Vec<&Code> = Code::ALL
        .iter()
        .filter(|code| !described.contains(code))
        .collect();
    assert_eq!(missing, [&Code::MethodNotAllowed]);
}

#[test]
fn bodies_say_what_is_required_and_refuse_the_rest() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    assert_eq!(
        schemas["AgentCreate"]["required"],
        json!(["name", "systemPrompt"])
    );
    assert_eq!(schemas["AgentUpdate"].get("required"), None);
    assert_eq!(schemas["AgentUpdate"]["additionalProperties"], false);
    assert_eq!(
        schemas["FunctionCreate"]["required"],
        json!(["name", "description", "endpoint"])
    );
    assert_eq!(
        schemas["WebhookCreate"]["required"],
        json!(["url", "events", "secret"])
    );
    assert_eq!(schemas["Assignment"]["required"], json!(["agentId"]));
    assert_eq!(schemas["Recovery"]["required"], json!(["since"]));
    let agent = &schemas["Agent"];
    let properties = agent["properties"].as_object().expect("properties");
    assert_eq!(
        agent["required"],
        json!(properties.keys().collect::<Vec<_>>())
    );
}

#[rstest]
#[actix_web::test]
async fn the_document_and_its_browser_are_served_without_a_key(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let reply = world
        .send(&Method::GET, "/openapi.json", &[], Vec::new())
        .await;
    assert_eq!(
        (reply.status, reply.text.as_str()),
        (200, routes::description())
    );
    assert_eq!(reply.header("content-type"), "application/json");
    let reply = world.send(&Method::GET, "/docs", &[], Vec::new()).await;
    assert_eq!((reply.status, reply.header("location")), (307, "/docs/"));
    let reply = world.send(&Method::GET, "/docs/", &[], Vec::new()).await;
    assert!(
        reply.status == 200 && reply.text.contains("swagger-ui"),
        "{reply:?}"
    );
    let reply = world
        .send(
            &Method::GET,
            "/docs/swagger-initializer.js",
            &[],
            Vec::new(),
        )
        .await;
    assert!(reply.text.contains("/openapi.json"), "{}", reply.text);
}

#[test]
fn each_api_tells_of_its_own_codes_only() {
    let tenants = document();
    let codes = &tenants["components"]["schemas"]["Error"]["properties"]["error"]["properties"];
    let codes = codes["code"]["enum"].to_string();
    assert!(
        codes.contains("agent_not_found") && !codes.contains("operator_token"),
        "{codes}"
    );
    let operators = openapi::document(&operator_api::API).to_string();
    assert!(!operators.contains("RateLimitLimit") && !operators.contains("api_key"));
}

#[test]
fn every_route_of_operators_that_writes_says_what_it_leaves() {
    let silent = |route: &&openapi::ApiRoute| *route.method != Method::GET && route.audit.is_none();
    let silent: Vec<&str> = operator_api::ROUTES
        .iter()
        .filter(silent)
        .map(|route| route.id)
        .collect();
    assert_eq!(silent, ["ledger.verify"], "it changes nothing");
}
