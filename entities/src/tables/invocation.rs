//! `invocations`: an invocation of a function by the AI, with its outcome, from which a repeat is answered.

use sea_orm::entity::prelude::*;

use crate::values::{CallId, FunctionId, Millis, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "invocations")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub call_id: CallId,
    #[sea_orm(primary_key, auto_increment = false)]
    pub invocation_id: String,
    pub tenant_id: TenantId,
    pub function_name: String,
    /// The outcome as sent to the bridge, as JSON.
    pub outcome: String,
    /// 0 if nothing was sent.
    pub duration_ms: i64,
    pub created_at: Millis,
    /// None if the agent had no such function, and for older calls.
    pub function_id: Option<FunctionId>,
    /// The code of an error outcome.
    pub fault: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
