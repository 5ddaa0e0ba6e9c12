//! `bridges`: a telephony bridge: its token's hash and its last sign of life.

use sea_orm::entity::prelude::*;

use crate::values::{BridgeId, CredentialHash, Millis};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "bridges")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: BridgeId,
    pub name: String,
    /// It may report calls from browsers, which call an agent and no number.
    pub is_web: bool,
    pub hash: CredentialHash,
    pub created_at: Millis,
    /// The time of its last frame over a socket or heartbeat over HTTP, written within seconds: calls of a lost bridge are billed
    /// to it.
    pub last_seen_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// The node of its newest socket. None if it has none, or since that node was lost.
    pub node: Option<String>,
    /// The time at which its newest socket was opened.
    pub connected_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
