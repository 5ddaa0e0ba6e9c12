//! What runs here: `/nodes` and `/config`.

use actix_web::web::Data;
use dikala_entities::Millis;
use serde::Serialize;
use utoipa::ToSchema;

use super::desk::Desk;
use crate::{
    config::Shown,
    http::{answer::Answer, error::ApiError},
};

/// A process of the service.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub name: String,
    pub version: &'static str,
    pub started_at: Millis,
    /// Calls with an actor now.
    pub calls: usize,
    /// Bridges with an open socket now.
    pub bridges: usize,
}

/// All nodes: this one.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"nodes": [{
    "name": "main", "version": "0.1.0", "startedAt": "2026-01-15T03:30:00.000Z", "calls": 12, "bridges": 2
}]}))]
pub struct NodeList {
    pub nodes: Vec<Node>,
}

/// `GET /nodes`
pub async fn nodes(desk: Data<Desk>) -> Result<Answer, ApiError> {
    Ok(Answer::ok(&read_nodes(&desk).await?))
}

/// The processes of the service.
pub async fn read_nodes(desk: &Desk) -> Result<NodeList, ApiError> {
    Ok(NodeList {
        nodes: vec![Node {
            name: desk.node.calls.node().to_string(),
            version: env!("CARGO_PKG_VERSION"),
            started_at: desk.started_at,
            calls: desk.node.calls.in_memory(),
            bridges: desk.node.bridges.connected_count(),
        }],
    })
}

/// The configuration that this process started with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"keys": [{"key": "http.listen", "value": "127.0.0.1:8080", "origin": "default"}]}))]
pub struct Configuration {
    keys: Vec<Shown>,
}

/// `GET /config`
pub async fn config(desk: Data<Desk>) -> Answer {
    Answer::ok(&Configuration {
        keys: desk.configuration.to_vec(),
    })
}
