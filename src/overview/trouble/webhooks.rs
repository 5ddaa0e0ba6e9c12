//! Webhooks in trouble: those that fail, were disabled or stay paused, and how much waits for them.

use std::collections::{BTreeMap, BTreeSet};

use dikala_entities::{Millis, WebhookId, WebhookState, webhook};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QuerySelect};

use super::{NAMED_MAX, TroubledWebhook, WebhookBacklog, WebhookTrouble};
use crate::{
    operations::webhooks::{backlog::due, health::matching},
    overview::OverviewSources,
};

/// Time for which a disabled webhook is shown, in milliseconds.
const DISABLED_TOLD_MS: i64 = 7 * 24 * 60 * 60 * 1_000;
/// Time after which a paused webhook is shown, in milliseconds: the operator knows before.
const PAUSED_KNOWN_MS: i64 = 60 * 60 * 1_000;

/// Webhooks in trouble, and true if there are more than the listed ones.
pub(super) async fn troubled(
    parts: &OverviewSources,
    now: Millis,
) -> Result<(Vec<TroubledWebhook>, bool), DbErr> {
    let db = parts.node.store.api_reader();
    let most = u64::try_from(NAMED_MAX).unwrap_or(u64::MAX) + 1;
    let of_state = |state| matching(webhook::Entity::find(), Some(state), None).limit(most);
    let failing = of_state(WebhookState::Failing).filter(webhook::Column::PausedAt.is_null());
    let disabled = of_state(WebhookState::Disabled)
        .filter(webhook::Column::DisabledReason.is_not_null())
        .filter(webhook::Column::UpdatedAt.gt(now.plus_ms(-DISABLED_TOLD_MS)));
    let paused = of_state(WebhookState::Paused)
        .filter(webhook::Column::IsActive.eq(true))
        .filter(webhook::Column::PausedAt.lt(now.plus_ms(-PAUSED_KNOWN_MS)));
    let (mut found, mut has_more) = (Vec::new(), false);
    for (trouble, rows) in [
        (WebhookTrouble::Disabled, disabled),
        (WebhookTrouble::Failing, failing),
        (WebhookTrouble::Paused, paused),
    ] {
        let rows = rows.all(db).await?;
        has_more |= rows.len() > NAMED_MAX;
        let rows = rows.into_iter().take(NAMED_MAX);
        found.extend(rows.map(|row| TroubledWebhook::of(&row, trouble)));
    }
    Ok((found, has_more))
}

impl TroubledWebhook {
    fn of(row: &webhook::Model, trouble: WebhookTrouble) -> Self {
        let since = match trouble {
            WebhookTrouble::Failing => row.failing_since,
            WebhookTrouble::Paused => row.paused_at,
            // Nothing changes the row of a disabled webhook but its tenant.
            WebhookTrouble::Disabled => None,
        };
        Self {
            webhook: row.id,
            tenant: row.tenant_id,
            trouble,
            since: since.unwrap_or(row.updated_at),
        }
    }
}

/// The deliveries that wait for these webhooks, and their last answers.
pub(super) async fn backlogs(
    parts: &OverviewSources,
    webhooks: BTreeSet<WebhookId>,
    now: Millis,
) -> Result<BTreeMap<WebhookId, WebhookBacklog>, DbErr> {
    let ids: Vec<WebhookId> = webhooks.into_iter().collect();
    let due = due(parts.node.store.api_reader(), &ids, now).await?;
    let statuses = parts.node.webhooks.statuses(ids).await.unwrap_or_default();
    let backlogs = due.into_iter().map(|(id, (due, _))| {
        let answer = statuses.get(&id).and_then(|status| status.last_answer);
        let last_answer = answer.and_then(|answer| match (answer.error, answer.status) {
            (Some(error), _) => Some(error.as_str().to_owned()),
            (None, status) => status.map(|status| status.to_string()),
        });
        (id, WebhookBacklog { due, last_answer })
    });
    Ok(backlogs.collect())
}
