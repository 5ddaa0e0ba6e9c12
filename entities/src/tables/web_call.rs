//! `web_calls`: a token for one call from a browser, of which only the hash is kept. A used one is kept until its call was opened.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, CallerNumber, CredentialHash, Millis, TenantId, WidgetId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "web_calls")]
pub struct Model {
    /// Also the bridge's id of the call.
    #[sea_orm(primary_key, auto_increment = false)]
    pub hash: CredentialHash,
    pub tenant_id: TenantId,
    pub agent_id: AgentId,
    pub caller_number: CallerNumber,
    /// The agent and its functions, as JSON, if settings are tried that are not saved.
    pub settings: Option<String>,
    /// Its page shows arguments and results of functions.
    pub is_detailed: bool,
    pub expires_at: Millis,
    pub used_at: Option<Millis>,
    /// The widget that a visitor of a website pressed. Such a row is kept as long as its call can last.
    pub widget_id: Option<WidgetId>,
    /// A hash of that visitor's network address.
    pub visitor: Option<String>,
    /// The id of the API key or member that made it. A token ends with its maker.
    pub maker: Option<String>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
