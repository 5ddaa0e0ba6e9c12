//! `nodes`: the processes that serve this database. One without a row owns nothing.

use sea_orm::entity::prelude::*;

use crate::values::{Millis, NodeId};

/// A process that serves this database, until it ends or others took its lease for lost. Times are the database's.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "nodes")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: NodeId,
    /// `node.name`: a label, which several may have.
    pub name: String,
    /// Where its public listener answers.
    pub address: String,
    /// Which process of which machine, for who starts there after it.
    pub process: String,
    pub version: String,
    pub started_at: Millis,
    pub lease_until: Millis,
    /// Calls in its memory when it renewed its lease the last time.
    pub calls: i64,
    /// Bridges with an open socket there, then.
    pub bridges: i64,
    /// How far its clock was ahead of the database's then, in milliseconds.
    pub ahead_ms: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
