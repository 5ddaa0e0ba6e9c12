//! `idempotency_keys`: the answer to a request with an `Idempotency-Key`.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, IdempotencyScope, Millis};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "idempotency_keys")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub scope: IdempotencyScope,
    #[sea_orm(primary_key, auto_increment = false)]
    pub key: String,
    /// SHA-256 of method, path and body.
    pub fingerprint: String,
    /// None while the request runs.
    pub status: Option<i64>,
    pub body: Option<String>,
    pub location: Option<String>,
    pub created_at: Millis,
    /// Size of the stored body in bytes, if it counts as large; else 0.
    pub size: i64,
    /// The answer of a test, which is kept only briefly.
    pub is_brief: bool,
    /// The node that handles or handled the request.
    pub node: String,
    /// The call that the answer is about.
    pub call_id: Option<CallId>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
