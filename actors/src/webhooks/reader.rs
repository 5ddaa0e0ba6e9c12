//! What the dispatcher reads: which webhooks have something due, the webhooks themselves, and their deliveries.

use std::{rc::Rc, sync::atomic::Ordering::Relaxed, time::Duration};

use dikala_entities::{DeliveryId, Millis, TenantId, WebhookId, webhook};
use sea_orm::DbErr;

use super::{
    attempt::Endpoint,
    engine::{Engine, State, WAITING_MAX},
    lane::{FIRST_PAUSE_MS, Item, Lane, Target},
    table::{self, Claim},
};
use crate::circuit::Circuit;

/// The table is looked at this often, whatever is known.
const LOOK_MS: i64 = 1_000;
/// Reads of deliveries at the same time.
const CLAIMS_MAX: usize = 4;
/// A lane with nothing to do for this long is dropped, and its sockets with it.
const LANE_IDLE_MS: i64 = 60_000;
/// How long to wait after the database failed.
const AGAIN: Duration = Duration::from_millis(500);
/// Webhooks read by one query.
const LOAD_BATCH: usize = 500;

impl Engine {
    /// Begins: releases what this node held before, then looks at the table whenever something may be due.
    pub(super) fn start(self: &Rc<Self>) {
        let engine = Rc::clone(self);
        actix_rt::spawn(async move {
            let started_at = engine.now();
            let (store, node) = (&engine.services.store, &engine.services.node);
            while let Err(error) = table::release(store, node, started_at).await {
                tracing::warn!(%error, "held deliveries could not be released; trying again");
                tokio::time::sleep(AGAIN).await;
                if engine.state.borrow().dead {
                    return;
                }
            }
            engine.run().await;
        });
    }

    async fn run(self: &Rc<Self>) {
        while !self.state.borrow().stopping {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "due deliveries could not be read; trying again");
            }
            let now = self.now();
            let next = self.state.borrow_mut().next_due.take();
            let next = next.unwrap_or(Millis::MAX).min(now.plus_ms(LOOK_MS));
            let sleep = self.services.clock.sleep_until(next.max(now.plus_ms(1)));
            tokio::select! {
                () = sleep => {}
                () = self.woken.notified() => {}
            }
        }
    }

    /// Looks at the table once.
    async fn look(self: &Rc<Self>) -> Result<(), DbErr> {
        let now = self.now();
        let due = table::due(&self.services.store, &self.services.node, now).await?;
        let mut deleted = Vec::new();
        {
            let mut state = self.state.borrow_mut();
            state.sweep(now);
            state.count_waiting();
            for due in due {
                match due.tenant {
                    Some(tenant) if due.is_active => {
                        state.expect(due.webhook, tenant, due.at, now);
                    }
                    // Disabled: it stays pending, for when the webhook is enabled again.
                    Some(_) => {}
                    None => deleted.push(due.webhook),
                }
            }
            // What lanes know of their webhooks is never older than one look.
            let known: Vec<WebhookId> = state.lanes.keys().copied().collect();
            state.to_load.extend(known);
            self.gauge_lanes(&state);
        }
        self.load();
        self.pump();
        for webhook in deleted {
            table::close_deleted(&self.services.store, webhook, now).await?;
        }
        Ok(())
    }

    fn gauge_lanes(&self, state: &State) {
        let count = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let open = state.lanes.values().filter(|lane| lane.circuit.is_open());
        self.stats.open_circuits.store(count(open.count()), Relaxed);
        self.stats.waiting.store(count(state.waiting), Relaxed);
    }

    /// A webhook was changed, or deliveries to it: it and what waits for it are read again before anything else goes to it.
    pub(super) fn refresh(self: &Rc<Self>, webhook: WebhookId) {
        {
            let mut state = self.state.borrow_mut();
            let Some(lane) = state.lanes.get_mut(&webhook) else {
                drop(state);
                self.wake();
                return;
            };
            lane.suspect();
            lane.forget();
            state.to_load.insert(webhook);
        }
        self.load();
        self.wake();
    }

    /// Reads the webhooks that were asked for, unless a read is under way: that one goes on by itself.
    pub(super) fn load(self: &Rc<Self>) {
        {
            let mut state = self.state.borrow_mut();
            if state.loading || state.to_load.is_empty() {
                return;
            }
            state.loading = true;
        }
        let engine = Rc::clone(self);
        actix_rt::spawn(async move {
            while let Some(ids) = engine.next_load() {
                match table::webhooks(&engine.services.store, &ids).await {
                    Ok(rows) => engine.loaded(&ids, rows),
                    Err(error) => {
                        tracing::warn!(%error, "webhooks could not be read; trying again");
                        engine.state.borrow_mut().to_load.extend(ids);
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        });
    }

    fn next_load(&self) -> Option<Vec<WebhookId>> {
        let mut state = self.state.borrow_mut();
        let mut ids = Vec::new();
        while !state.dead
            && ids.len() < LOAD_BATCH
            && let Some(id) = state.to_load.pop_first()
        {
            ids.push(id);
        }
        state.loading = !ids.is_empty();
        state.loading.then_some(ids)
    }

    fn loaded(self: &Rc<Self>, ids: &[WebhookId], rows: Vec<webhook::Model>) {
        let now = self.now();
        let mut rows: std::collections::HashMap<WebhookId, webhook::Model> =
            rows.into_iter().map(|row| (row.id, row)).collect();
        let mut state = self.state.borrow_mut();
        for id in ids {
            // Changed again while it was being read: this answer is old.
            if state.to_load.contains(id) {
                continue;
            }
            if let Some(lane) = state.lanes.get_mut(id) {
                let was_ready = matches!(lane.target, Target::Ready(_));
                self.aim(lane, rows.remove(id));
                let ready = matches!(lane.target, Target::Ready(_));
                state.take_turn(*id);
                state.want(*id, now);
                if ready && !was_ready {
                    self.woken.notify_one();
                }
            }
        }
        drop(state);
        self.pump();
    }

    /// Points a lane at what its webhook is now.
    fn aim(&self, lane: &mut Lane, row: Option<webhook::Model>) {
        let Some(row) = row else {
            lane.target = Target::Deleted;
            lane.forget();
            return;
        };
        if !row.is_active || lane.closing {
            lane.target = Target::Disabled;
            lane.circuit = Circuit::new(FIRST_PAUSE_MS);
            lane.forget();
            return;
        }
        let before = lane.endpoint();
        if let Some(before) = &before
            && before.is_current(&row)
        {
            lane.target = Target::Ready(Rc::clone(before));
            return;
        }
        let services = &self.services;
        let (id, connections) = (row.id, self.settings.connections);
        let made = Endpoint::new(
            row,
            &services.vault,
            &services.outbound,
            connections,
            before.as_deref(),
        );
        lane.target = match made {
            Ok(endpoint) => Target::Ready(Rc::new(endpoint)),
            Err(error) => {
                if !matches!(lane.target, Target::Sealed) {
                    tracing::error!(webhook = %id, %error, "a webhook's secret cannot be opened; its deliveries wait");
                }
                lane.forget();
                Target::Sealed
            }
        };
    }

    /// Reads deliveries for the lanes that asked, a few at the same time.
    pub(super) fn claim(self: &Rc<Self>) {
        loop {
            let now = self.now();
            let claim = self
                .state
                .borrow_mut()
                .next_claim(self.settings.lease_ms, now);
            let Some(claim) = claim else {
                return;
            };
            let engine = Rc::clone(self);
            actix_rt::spawn(async move {
                let (store, node) = (&engine.services.store, &engine.services.node);
                let read = table::claim(store, &claim, node, now).await;
                if read.is_err() {
                    tokio::time::sleep(AGAIN).await;
                }
                engine.claimed(&claim, read).await;
            });
        }
    }

    async fn claimed(
        self: &Rc<Self>,
        claim: &Claim,
        read: Result<(Vec<Item>, Vec<DeliveryId>), DbErr>,
    ) {
        let now = self.now();
        let lost = match read {
            Ok((items, lost)) => {
                self.state
                    .borrow_mut()
                    .claimed(claim, items, lost.len(), now);
                lost
            }
            Err(error) => {
                tracing::warn!(%error, "deliveries could not be read; trying again");
                self.state.borrow_mut().claim_failed(claim);
                Vec::new()
            }
        };
        self.pump();
        if !lost.is_empty()
            && let Err(error) = table::close_lost(&self.services.store, &lost, now).await
        {
            tracing::warn!(%error, "deliveries without an event could not be closed");
        }
    }
}

impl State {
    /// A webhook has something due, now or later.
    fn expect(&mut self, webhook: WebhookId, tenant: TenantId, at: Option<Millis>, now: Millis) {
        let Some(at) = at else {
            return;
        };
        if at > now {
            self.due(Some(at));
            return;
        }
        let lane = self.lane(webhook, tenant, now);
        // A lane with enough in memory is not read for: what is due is most likely just that.
        let wanted = lane.has_room() && lane.wanted(now) > 0;
        if wanted && !self.to_claim.contains(&webhook) {
            self.to_claim.push_back(webhook);
        }
    }

    /// Drops lanes that have nothing to do, and gives a turn to those whose rest is over.
    fn sweep(&mut self, now: Millis) {
        self.lanes
            .retain(|_, lane| !lane.is_idle(LANE_IDLE_MS, now));
        let waiting: Vec<WebhookId> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.waiting() > 0 || lane.left_behind().is_some())
            .map(|(webhook, _)| *webhook)
            .collect();
        for webhook in waiting {
            self.take_turn(webhook);
            self.want(webhook, now);
            let looks_at = self.lanes.get(&webhook).and_then(Lane::looks_at);
            self.due(looks_at.filter(|at| *at > now));
        }
    }

    fn next_claim(&mut self, lease_ms: i64, now: Millis) -> Option<Claim> {
        if self.claims >= CLAIMS_MAX || self.stopping || self.waiting >= WAITING_MAX {
            return None;
        }
        while let Some(webhook) = self.to_claim.pop_front() {
            let Some(lane) = self.lanes.get_mut(&webhook) else {
                continue;
            };
            let limit = lane.wanted(now);
            if limit == 0 {
                continue;
            }
            lane.claiming = true;
            self.claims += 1;
            return Some(Claim {
                webhook,
                limit,
                lease_until: now.plus_ms(lease_ms),
                known: lane.known().collect(),
                left_behind: lane.left_behind(),
            });
        }
        None
    }

    fn claimed(&mut self, claim: &Claim, items: Vec<Item>, lost: usize, now: Millis) {
        self.claims = self.claims.saturating_sub(1);
        let Some(lane) = self.lanes.get_mut(&claim.webhook) else {
            return;
        };
        lane.claiming = false;
        let complete = items.len() + lost < claim.limit;
        self.waiting = self.waiting.saturating_add(items.len());
        let newest = items.iter().map(|item| item.dispatch.delivery).max();
        lane.claimed(items, claim.left_behind, complete);
        if let (false, Some(newest)) = (complete, newest) {
            lane.more_in_table(newest);
        }
        if !matches!(lane.target, Target::Ready(_)) {
            lane.forget();
        }
        self.take_turn(claim.webhook);
        self.want(claim.webhook, now);
    }

    fn claim_failed(&mut self, claim: &Claim) {
        self.claims = self.claims.saturating_sub(1);
        if let Some(lane) = self.lanes.get_mut(&claim.webhook) {
            lane.claiming = false;
        }
    }
}
