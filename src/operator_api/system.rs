//! What runs here: `/nodes` and `/config`.

use actix_web::web::Data;
use dikala_actors::nodes::{Entered, all as all_nodes};
use dikala_entities::Millis;
use serde::Serialize;
use utoipa::ToSchema;

use super::desk::Desk;
use crate::{
    config::Shown,
    http::{answer::Answer, error::ApiError},
};

/// A process of the service, from its start, or from when it came back after it lost its lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    pub id: String,
    /// `node.name`: a label, which several may have.
    pub name: String,
    /// Where its public listener answers.
    pub address: String,
    pub version: String,
    pub started_at: Millis,
    /// What is left of its lease; 0 where others are about to take what it has.
    pub lease_seconds: i64,
    /// Calls with an actor there; of others a few seconds ago.
    pub calls: i64,
    /// Bridges with an open socket there; of others a few seconds ago.
    pub bridges: i64,
    /// Whether it is the one that answers.
    pub is_this: bool,
}

/// All nodes, the oldest first. Their times are the database's.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"nodes": [{
    "id": "node_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "main", "address": "http://127.0.0.1:8080", "version": "0.1.0",
    "startedAt": "2026-01-15T03:30:00.000Z", "leaseSeconds": 12, "calls": 12, "bridges": 2, "isThis": true
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
    let here = &desk.node;
    let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let shown = |row: Entered| {
        let is_this = here.member.is(&row.id);
        let (calls, bridges, left_ms) = if is_this {
            (
                whole(here.calls.in_memory()),
                whole(here.bridges.connected_count()),
                here.member.lease_left_ms(),
            )
        } else {
            (row.calls, row.bridges, row.lease_until.since(row.now))
        };
        Node {
            id: row.id,
            name: row.name,
            address: row.address,
            version: row.version,
            started_at: row.started_at,
            lease_seconds: left_ms.max(0) / 1_000,
            calls,
            bridges,
            is_this,
        }
    };
    let rows = all_nodes(here.store.api_reader()).await?;
    Ok(NodeList {
        nodes: rows.into_iter().map(shown).collect(),
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
