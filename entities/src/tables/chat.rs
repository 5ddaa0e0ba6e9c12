//! `chats`: a conversation in writing with an agent, to try it. It is no call, and is removed an hour after it began.

use sea_orm::entity::prelude::*;

use crate::values::{AgentId, ChatId, Millis, TenantId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "chats")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: ChatId,
    pub tenant_id: TenantId,
    pub agent_id: AgentId,
    /// The agent and its functions when the chat began, as JSON.
    pub settings: String,
    /// The settings were not saved.
    pub is_draft: bool,
    /// The turns so far, as JSON.
    pub turns: String,
    /// Messages of the person so far.
    pub messages: i64,
    /// The cost of the language model so far, in millionths of a rupiah.
    pub cost: i64,
    /// Set while a message is being answered; no other one is taken before this time.
    pub answering_until: Option<Millis>,
    pub created_at: Millis,
    pub expires_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
