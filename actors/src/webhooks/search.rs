//! Searches for events that no node delivers: the node ended, lost track of them, or the process that announced them
//! delivers nothing.

use std::{collections::HashMap, rc::Rc, time::Duration};

use dikala_entities::{Millis, TenantId, WebhookId};
use sea_orm::DbErr;

use super::{
    courier::{AGAIN, Courier},
    store::cursors,
};

/// Minimum pause between two searches.
const PAUSE: Duration = Duration::from_millis(500);
/// After a search, the pause is so many times as long as it took.
const REST: u32 = 20;
/// A search looks again at what was announced this long before the previous one began: commits may take seconds.
const AGAIN_MS: i64 = 60_000;
/// Interval of the search for own cursors without a queue.
const OWNED_EVERY_MS: i64 = 10_000;

/// Searches while the courier works.
pub(super) async fn run(courier: Rc<Courier>) {
    let mut search = Search::default();
    while !courier.is_stopping() {
        let began = courier.now();
        let result = match courier.may_act() {
            true => search.look(&courier, began).await,
            false => Ok(()),
        };
        match result {
            Ok(()) => {
                let took = u64::try_from(courier.now().since(began)).unwrap_or(0);
                tokio::time::sleep(PAUSE.max(Duration::from_millis(took) * REST)).await;
            }
            Err(error) => {
                tracing::warn!(%error, "could not search for events that no node delivers; trying again");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

#[derive(Debug, Default)]
struct Search {
    /// The begin of the last search. The first one looks at all tenants.
    last: Option<Millis>,
    /// The number of nodes at that time.
    nodes: usize,
    owned_at: Option<Millis>,
}

impl Search {
    async fn look(&mut self, courier: &Rc<Courier>, now: Millis) -> Result<(), DbErr> {
        let store = &courier.deps.store;
        courier.found(&cursors::free(store).await?);
        let is_time = |at: Millis| now.since(at) >= OWNED_EVERY_MS;
        if courier.deps.node.has_lease() && self.owned_at.is_none_or(is_time) {
            courier.found(&cursors::owned(store, &courier.node).await?);
            self.owned_at = Some(now);
        }
        // A node may have announced something long before it ended.
        let nodes = courier.deps.node.nodes();
        let last = self.last.filter(|_| self.nodes == nodes);
        let since = last.map_or(Millis::from_i64(0), |last| last.plus_ms(-AGAIN_MS));
        let mut after = None;
        loop {
            let tenants = cursors::announced(store, &courier.node, since, after).await?;
            after = tenants.last().map(|(tenant, _)| *tenant);
            let is_last = tenants.len() < cursors::TENANTS_MAX;
            self.find(courier, tenants).await?;
            if is_last {
                break;
            }
        }
        (self.last, self.nodes) = (Some(now), nodes);
        Ok(())
    }

    /// Has the webhooks looked at that are behind.
    async fn find(
        &self,
        courier: &Rc<Courier>,
        tenants: Vec<cursors::TenantSequences>,
    ) -> Result<(), DbErr> {
        let mut unknown: HashMap<WebhookId, TenantId> = HashMap::new();
        for (tenant, sequences) in tenants {
            let webhooks = sequences.into_keys();
            let scheduler = courier.scheduler.borrow();
            let new = webhooks.filter(|webhook| !scheduler.has(*webhook));
            unknown.extend(new.map(|webhook| (webhook, tenant)));
        }
        let ids: Vec<WebhookId> = unknown.keys().copied().collect();
        if ids.is_empty() {
            return Ok(());
        }
        let behind = cursors::behind(&courier.deps.store, courier.names(), &ids).await?;
        let behind = behind.into_iter();
        let behind: Vec<(WebhookId, TenantId)> = behind
            .filter_map(|webhook| Some((webhook, *unknown.get(&webhook)?)))
            .collect();
        courier.found(&behind);
        Ok(())
    }
}
