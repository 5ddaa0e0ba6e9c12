//! `nodes`: the processes that serve this database. A process without a row owns nothing.

use sea_orm::entity::prelude::*;

use crate::values::{Millis, NodeId};

/// A process that serves this database, until it ends or its lease is over and others end it. Times are the
/// database's.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "nodes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: NodeId,
    /// Configuration key `node.name`: a label, which need not be unique.
    pub name: String,
    /// The address of its public listener.
    pub address: String,
    /// Identifies the process on its machine, for nodes that start there later.
    pub process: String,
    pub version: String,
    pub started_at: Millis,
    pub lease_until: Millis,
    /// Calls in its memory at the last renewal of its lease.
    pub calls: i64,
    /// Bridges with an open socket there, at that time.
    pub bridges: i64,
    /// Its clock's lead over the database's at that time, in milliseconds.
    pub ahead_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
