//! The latest changes that may be the cause of a problem: starts of nodes, and what operators changed.

use dikala_actors::nodes::all as all_nodes;
use dikala_entities::{
    Actor, AuditAction, Millis,
    audit::{Column, Entity, Model},
};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use crate::overview::{OverviewSources, history::OverviewPeriod};

/// Maximum number of changes, and of the newest audit entries that are looked through.
const CHANGES_MAX: usize = 10;
const ENTRIES_MAX: u64 = 200;

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
    let entries = Entity::find()
        .filter(Column::At.gt(begin))
        .order_by_desc(Column::At)
        .order_by_desc(Column::Id)
        .limit(ENTRIES_MAX);
    let entries = entries.all(db).await?.into_iter();
    let changed = entries.filter(is_of_an_operator).map(|entry| RecentChange {
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

/// True for a change by an operator of something that was there before. New things and bookings break nothing.
fn is_of_an_operator(entry: &Model) -> bool {
    let changes = matches!(
        entry.action,
        AuditAction::TenantUpdate
            | AuditAction::TenantSuspend
            | AuditAction::TenantResume
            | AuditAction::NumberUpdate
            | AuditAction::NumberDelete
            | AuditAction::KeyRevoke
            | AuditAction::BridgeRevoke
            | AuditAction::WebhookPause
            | AuditAction::WebhookResume
            | AuditAction::WebhookRecover
            | AuditAction::SecretsRotate
    );
    changes && matches!(entry.actor, Actor::Operator | Actor::Cli)
}
