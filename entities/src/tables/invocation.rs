//! `invocations`: a function that the AI invoked, with its outcome: a repeat of the invocation is answered from here.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, FunctionId, Millis, TenantId};

/// A function that the AI invoked, with its outcome: a repeat of the invocation is answered from here.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "invocations")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub invocation_id: String,
    pub tenant_id: TenantId,
    pub function_name: String,
    /// The outcome as the bridge was told it, as JSON.
    pub outcome: String,
    /// 0 where nothing was sent.
    pub duration_ms: i64,
    pub created_at: Millis,
    /// None where the agent had no such function, and for calls from before this was kept.
    pub function_id: Option<FunctionId>,
    /// The code of an outcome that is an error.
    pub fault: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
