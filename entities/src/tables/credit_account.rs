//! `credit_accounts`: a tenant's minutes. `available + held + used = purchased + adjusted`, which the table itself checks.

use sea_orm::entity::prelude::*;

use crate::values::TenantId;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "credit_accounts")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: TenantId,
    pub available: i64,
    /// Granted to running calls and not begun.
    pub held: i64,
    pub used: i64,
    pub purchased: i64,
    /// The sum of refunds, bonuses and adjustments.
    pub adjusted: i64,
    /// The running sum of the transactions.
    pub posted: i64,
    /// The number of the last transaction.
    pub seq: i64,
    /// Number of running calls with a hold.
    pub open_holds: i64,
    pub low_threshold: i64,
    /// True if the next fall below the threshold is announced.
    pub low_armed: bool,
    pub version: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// The account of a tenant without minutes.
    pub fn empty(tenant: TenantId, low_threshold: i64) -> Self {
        Self {
            tenant_id: tenant,
            available: 0,
            held: 0,
            used: 0,
            purchased: 0,
            adjusted: 0,
            posted: 0,
            seq: 0,
            open_holds: 0,
            low_threshold,
            // Armed at or above the threshold.
            low_armed: low_threshold == 0,
            version: 0,
        }
    }
}
