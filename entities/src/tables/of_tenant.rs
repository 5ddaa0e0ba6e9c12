//! Tenancy: every read on behalf of a tenant begins with the tenant.

use sea_orm::{ColumnTrait, EntityTrait, PrimaryKeyTrait, QueryFilter, Select};

use super::{
    agent, agent_setting, agent_version, api_key, attempt, call, chat, credit_account, credit_hold,
    credit_transaction, delivery, erasure, event, function, invocation, kept_version, mail,
    phone_number, recovery, transcript, user, webhook, widget,
};
use crate::values::TenantId;

/// A table whose rows belong to tenants. Another tenant's rows are not found.
///
/// Rows that belong to a row found this way have finders beside it, such as [`delivery::Entity::of_webhook`]. These
/// take the row itself, so an id of another tenant's cannot be used.
pub trait OfTenant: EntityTrait {
    /// The column of the tenant's id.
    const TENANT: Self::Column;

    /// The tenant's rows.
    fn of(tenant: TenantId) -> Select<Self> {
        Self::find().filter(Self::TENANT.eq(tenant))
    }

    /// The tenant's row with this key.
    fn one_of(
        tenant: TenantId,
        key: impl Into<<Self::PrimaryKey as PrimaryKeyTrait>::ValueType>,
    ) -> Select<Self> {
        Self::find_by_id(key).filter(Self::TENANT.eq(tenant))
    }
}

macro_rules! of_tenant {
    ($($table:ident)*) => {$(
        impl OfTenant for $table::Entity {
            const TENANT: $table::Column = $table::Column::TenantId;
        }
    )*};
}

of_tenant! {
    agent agent_setting agent_version api_key attempt call chat credit_account credit_hold credit_transaction delivery erasure event
    function invocation kept_version mail phone_number recovery transcript user webhook widget
}

impl attempt::Entity {
    /// The attempts of this delivery.
    pub fn of_delivery(delivery: &delivery::Model) -> Select<Self> {
        Self::find().filter(attempt::Column::DeliveryId.eq(delivery.id))
    }
}

impl delivery::Entity {
    /// The deliveries to this webhook. Its index suffices to skip rows in a long list.
    pub fn of_webhook(webhook: &webhook::Model) -> Select<Self> {
        Self::find().filter(delivery::Column::WebhookId.eq(webhook.id))
    }
}

impl function::Entity {
    /// The functions of this agent.
    pub fn of_agent(agent: &agent::Model) -> Select<Self> {
        Self::find().filter(function::Column::AgentId.eq(agent.id))
    }
}

impl invocation::Entity {
    /// The invocations of this function. Its index holds their results, so large outcomes are not read.
    pub fn of_function(function: &function::Model) -> Select<Self> {
        Self::find().filter(invocation::Column::FunctionId.eq(function.id))
    }
}

impl recovery::Entity {
    /// The recoveries of this webhook.
    pub fn of_webhook(webhook: &webhook::Model) -> Select<Self> {
        Self::find().filter(recovery::Column::WebhookId.eq(webhook.id))
    }
}
