//! The operators' API over HTTP, on the operators' listener.

mod access;
mod audit;
mod calls;
mod changes;
mod commands;
mod console;
mod console_alerts;
mod console_languages;
mod console_lists;
mod console_live;
mod console_overview;
mod console_tenants;
mod console_why;
mod console_work;
mod credits;
mod docs;
mod idempotency;
mod numbers;
mod people;
mod routes;
mod sign_outs;
mod system;
mod tenants;
mod watching;
mod webhooks;

use dikala_testkit::StoreKind;

use crate::support::{
    prelude::*,
    rest::RestResponse,
    server::{Installation, Server},
};

/// The operators' tokens.
const FULL: &str = "the-operators-full-token";
const READ: &str = "the-operators-read-token";
const BASE: &str = "/operator/v1";

/// A world whose operators' listener needs a token.
fn guarded() -> WorldSetup {
    WorldSetup::new()
        .set("operator.token", FULL)
        .set("operator.read_token", READ)
        .set("http.unauthenticated_requests_per_minute", 100_000)
}

/// A client of the operators' API.
fn client(server: &Server) -> Rest {
    Rest::new(&format!("{}{BASE}", server.operator))
}

/// A client with a token.
fn with(server: &Server, token: &str) -> Rest {
    client(server).with("authorization", &format!("Bearer {token}"))
}

/// A server without tenants.
fn empty(store: StoreKind) -> Option<Server> {
    let mut installation = Installation::migrated(store)?;
    installation.set("log.level", crate::support::statements::LOG_LEVEL);
    Some(Server::start(installation))
}

/// The document at the `Location` of an answer.
async fn made_at(server: &Server, made: &RestResponse) -> Value {
    let path = made.header("location").expect("where it is");
    Rest::new(&server.operator).get(path).await.expect(200)
}

/// An unused id.
fn nobody(prefix: &str) -> String {
    format!("{prefix}_01k9zv3m8rj2q4w6y8a0c2e4g6")
}

/// The ids of a list, in order.
fn ids(list: &Value) -> Vec<&str> {
    let rows = list.as_array().unwrap();
    rows.iter().map(|row| row["id"].as_str().unwrap()).collect()
}
