//! `/nodes` and `/config`.

use actix_web::web::Data;
use dikala_actors::nodes::{NodeRow, all as all_nodes};
use dikala_entities::Millis;
use sea_orm::{ConnectionTrait, DbErr};
use serde::Serialize;
use utoipa::ToSchema;

use super::context::{OperatorContext, UNANSWERED, in_time};
use crate::{config::ConfigurationKey, http::answer::ApiAnswer};

/// A process of the service, from its start, or from when it came back after it lost its lease.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Node)]
pub struct NodeStatus {
    pub id: String,
    /// `node.name`: a label, which several may have.
    pub name: String,
    /// Where its public listener answers.
    pub address: String,
    pub version: String,
    pub started_at: Millis,
    /// Seconds left of its lease; at 0 the other nodes are about to take over.
    pub lease_seconds: i64,
    /// Calls with an actor there; of others a few seconds ago.
    pub calls: i64,
    /// Bridges with an open socket there; of others a few seconds ago.
    pub bridges: i64,
    /// True for the node that answers.
    pub is_this: bool,
}

/// All nodes, the oldest first. Their times are the database's.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"unanswered": null, "nodes": [{
    "id": "node_01k9zv3m8rj2q4w6y8a0c2e4g6", "name": "main", "address": "http://127.0.0.1:8080", "version": "0.1.0",
    "startedAt": "2026-01-15T03:30:00.000Z", "leaseSeconds": 12, "calls": 12, "bridges": 2, "isThis": true
}]}))]
pub struct NodeList {
    pub nodes: Vec<NodeStatus>,
    /// A sentence where the database did not answer in time: only the node that answers is told of then.
    pub unanswered: Option<&'static str>,
}

/// `GET /nodes`
pub async fn nodes(process: Data<OperatorContext>) -> ApiAnswer {
    ApiAnswer::ok(&read_nodes(&process).await)
}

impl From<NodeRow> for NodeStatus {
    fn from(row: NodeRow) -> Self {
        let left_ms = row.lease_until.since(row.now);
        Self {
            id: row.id,
            name: row.name,
            address: row.address,
            version: row.version,
            started_at: row.started_at,
            lease_seconds: left_ms.max(0) / 1_000,
            calls: row.calls,
            bridges: row.bridges,
            is_this: false,
        }
    }
}

/// All nodes, as they reported themselves a few seconds ago.
pub async fn stored_nodes(db: &impl ConnectionTrait) -> Result<NodeList, DbErr> {
    let rows = all_nodes(db).await?;
    Ok(NodeList {
        nodes: rows.into_iter().map(NodeStatus::from).collect(),
        unanswered: None,
    })
}

/// All nodes; this one with its current state, even without the database.
pub async fn read_nodes(process: &OperatorContext) -> NodeList {
    let here = &process.node;
    let Some(mut list) = in_time(stored_nodes(here.store.api_reader())).await else {
        return NodeList {
            nodes: vec![this(process)],
            unanswered: Some(UNANSWERED),
        };
    };
    if let Some(found) = list.nodes.iter_mut().find(|node| here.member.is(&node.id)) {
        *found = NodeStatus {
            started_at: found.started_at,
            ..this(process)
        };
    }
    list
}

/// The current state of this node.
fn this(process: &OperatorContext) -> NodeStatus {
    let here = &process.node;
    let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let of_itself = here.member.identity();
    NodeStatus {
        id: here.member.id().to_string(),
        name: of_itself.name.to_string(),
        address: of_itself.address.clone(),
        version: of_itself.version.to_owned(),
        started_at: process.started_at,
        lease_seconds: here.member.lease_left_ms().max(0) / 1_000,
        calls: whole(here.calls.in_memory()),
        bridges: whole(here.bridges.connected_count()),
        is_this: true,
    }
}

/// The configuration that this process started with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(example = json!({"keys": [{"key": "http.listen", "value": "127.0.0.1:8080", "origin": "default"}]}))]
pub struct Configuration {
    keys: Vec<ConfigurationKey>,
}

/// `GET /config`
pub async fn config(process: Data<OperatorContext>) -> ApiAnswer {
    ApiAnswer::ok(&Configuration {
        keys: process.configuration.to_vec(),
    })
}
