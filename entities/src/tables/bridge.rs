//! `bridges`: a telephony bridge: its token's hash, and when it last gave a sign of life.

use sea_orm::entity::prelude::*;

use crate::values::{BridgeId, CredentialHash, Millis};

/// A telephony bridge: its token's hash, and when it last gave a sign of life.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "bridges")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: BridgeId,
    pub name: String,
    pub hash: CredentialHash,
    pub created_at: Millis,
    /// Written every few seconds while the bridge is there, so that calls are billed rightly after a crash.
    pub last_seen_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    /// Where its newest socket is; none where it has none, or had none since that node was lost.
    pub node: Option<String>,
    /// When it last said something over a socket: an open one may be long dead.
    pub last_frame_at: Option<Millis>,
    /// When its newest socket was opened.
    pub connected_at: Option<Millis>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
