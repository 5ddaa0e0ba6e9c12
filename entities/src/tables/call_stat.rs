//! `call_stats`: counts of ended calls in quarters of an hour, since every time zone's days begin at one.

use sea_orm::entity::prelude::*;

use crate::values::{Millis, TenantId};

/// A quarter of an hour, in milliseconds.
pub const SLOT_MS: i64 = 15 * 60 * 1_000;
/// The subject of all calls of a tenant.
pub const ALL: &str = "";

/// Classes by which turns of agents are counted: the longest latency in milliseconds, and the column.
pub const TURN_CLASSES: [(i64, &str); 12] = [
    (300, "turns_300"),
    (500, "turns_500"),
    (700, "turns_700"),
    (1_000, "turns_1000"),
    (1_500, "turns_1500"),
    (2_000, "turns_2000"),
    (3_000, "turns_3000"),
    (5_000, "turns_5000"),
    (10_000, "turns_10000"),
    (20_000, "turns_20000"),
    (60_000, "turns_60000"),
    (600_000, "turns_600000"),
];

/// Ended calls of one subject that began in the same quarter of an hour.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "call_stats")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub tenant_id: TenantId,
    /// The id of an agent or phone number, or [`ALL`].
    #[sea_orm(primary_key, auto_increment = false)]
    pub subject: String,
    /// The beginning of the quarter of an hour.
    #[sea_orm(primary_key, auto_increment = false)]
    pub slot: Millis,
    pub calls: i64,
    pub answered: i64,
    pub ended: i64,
    pub dropped: i64,
    pub failed: i64,
    /// Minutes used.
    pub minutes: i64,
    pub talk_seconds: i64,
    pub duration_seconds: i64,
    pub stalls: i64,
    pub interruptions: i64,
    pub turns_300: i64,
    pub turns_500: i64,
    pub turns_700: i64,
    pub turns_1000: i64,
    pub turns_1500: i64,
    pub turns_2000: i64,
    pub turns_3000: i64,
    pub turns_5000: i64,
    pub turns_10000: i64,
    pub turns_20000: i64,
    pub turns_60000: i64,
    pub turns_600000: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// The quarter of an hour of an instant.
pub const fn slot_of(at: Millis) -> Millis {
    at.plus_ms(-(at.as_i64() % SLOT_MS))
}
