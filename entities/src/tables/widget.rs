//! `widgets`: a button for websites that calls an agent from the visitor's browser.

use std::collections::BTreeMap;

use sea_orm::{Select, entity::prelude::*};

use crate::values::{AgentId, Millis, TenantId, WidgetId};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "widgets")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: WidgetId,
    pub tenant_id: TenantId,
    pub agent_id: AgentId,
    pub name: String,
    /// Stands in the pages of websites, so it is no secret.
    pub key: String,
    /// The origins of these websites, as browsers write them: a JSON array.
    pub origins: String,
    pub calls_per_visitor: i64,
    pub max_concurrent: i64,
    /// Texts in place of the built-in ones: a JSON object.
    pub texts: String,
    /// `#rrggbb`.
    pub color: Option<String>,
    pub created_at: Millis,
    pub updated_at: Millis,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Entity {
    /// The widget with this key, of any tenant: visitors of websites know nothing else.
    pub fn with_key(key: &str) -> Select<Self> {
        Self::find().filter(Column::Key.eq(key))
    }
}

impl Model {
    pub fn origins(&self) -> Vec<String> {
        serde_json::from_str(&self.origins).unwrap_or_default()
    }

    pub fn texts(&self) -> BTreeMap<String, String> {
        serde_json::from_str(&self.texts).unwrap_or_default()
    }
}
