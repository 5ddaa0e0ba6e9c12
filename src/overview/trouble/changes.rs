//! The latest changes that may be the cause of a problem: starts of nodes, and what operators changed.

use dikala_actors::nodes::all as all_nodes;
use dikala_entities::{
    Actor, AuditAction, Millis,
    audit::{Column, Entity},
};
use sea_orm::{
    ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::Expr,
};

use crate::overview::{OverviewSources, history::OverviewPeriod};

/// Maximum number of changes.
const CHANGES_MAX: usize = 10;
/// Changes of what was there before: new things and bookings break nothing.
const ACTIONS: [AuditAction; 11] = [
    AuditAction::TenantUpdate,
    AuditAction::TenantSuspend,
    AuditAction::TenantResume,
    AuditAction::NumberUpdate,
    AuditAction::NumberDelete,
    AuditAction::KeyRevoke,
    AuditAction::BridgeRevoke,
    AuditAction::WebhookPause,
    AuditAction::WebhookResume,
    AuditAction::WebhookRecover,
    AuditAction::SecretsRotate,
];

/// A change of the last 24 hours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentChange {
    pub at: Millis,
    pub kind: ChangeKind,
}

/// The kind of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Started {
        node: String,
        version: String,
    },
    Changed {
        actor: Actor,
        action: AuditAction,
        target: String,
    },
}

/// The latest changes, newest first.
pub(super) async fn changes(
    parts: &OverviewSources,
    now: Millis,
) -> Result<Vec<RecentChange>, DbErr> {
    let db = parts.node.store.api_reader();
    let begin = now.plus_ms(-OverviewPeriod::Day.ms());
    let nodes = all_nodes(db).await?.into_iter();
    let started = nodes.map(|node| RecentChange {
        at: node.started_at,
        kind: ChangeKind::Started {
            node: node.name,
            version: node.version,
        },
    });
    // The condition of the index is in the text, so that both databases use it.
    let entries = Entity::find()
        .filter(Expr::cust("actor IN ('operator', 'cli')"))
        .filter(Column::At.gt(begin))
        .filter(Column::Action.is_in(ACTIONS))
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .limit(u64::try_from(CHANGES_MAX).unwrap_or(u64::MAX));
    let entries = entries.all(db).await?.into_iter();
    let changed = entries.map(|entry| RecentChange {
        at: entry.at,
        kind: ChangeKind::Changed {
            actor: entry.actor,
            action: entry.action,
            target: entry.target,
        },
    });
    let mut changes: Vec<RecentChange> = started.chain(changed).collect();
    changes.retain(|change| change.at > begin);
    changes.sort_by_key(|change| std::cmp::Reverse(change.at));
    changes.truncate(CHANGES_MAX);
    Ok(changes)
}
