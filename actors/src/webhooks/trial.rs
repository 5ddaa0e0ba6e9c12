//! Test deliveries, and the end of the work.

use std::{rc::Rc, time::Duration};

use dikala_entities::{DeliveryId, EventKind, Millis, TenantId, webhook};
use tokio::sync::oneshot;

use super::{
    TestError,
    attempt::Endpoint,
    engine::{Engine, done},
    retry::Verdict,
    sample::sample,
    table,
};
use crate::outbox::{Dispatch, NewEvent};

/// Test deliveries at the same time, in all and of one tenant.
const TESTS_MAX: usize = 64;
const TESTS_PER_TENANT_MAX: usize = 4;

/// Gives a test's place back.
struct Place(Rc<Engine>, TenantId);

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.0.state.borrow_mut();
        if let Some(tests) = state.tests.get_mut(&self.1) {
            *tests -= 1;
            if *tests == 0 {
                state.tests.remove(&self.1);
            }
        }
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl Engine {
    /// Sends a signed sample and waits until its only attempt stands in the table.
    pub(super) async fn test(
        self: &Rc<Self>,
        webhook: webhook::Model,
    ) -> Result<DeliveryId, TestError> {
        let place = self.test_place(webhook.tenant_id)?;
        let now = self.now();
        let services = &self.services;
        let (event, dispatch) = sample_delivery(&webhook, now);
        let endpoint = Endpoint::new(webhook, &services.vault, &services.outbound, 1, None)?;
        let delivery = dispatch.delivery;
        self.state
            .borrow_mut()
            .lane(dispatch.webhook, dispatch.tenant, now)
            .reserve(delivery);
        let lease_until = now.plus_ms(self.settings.lease_ms);
        let node = &services.node;
        let inserted =
            table::insert_test(&services.store, &event, &dispatch, node, now, lease_until).await;
        if let Err(error) = inserted {
            self.forget_test(&dispatch);
            return Err(error.into());
        }
        let engine = Rc::clone(self);
        // A task of its own: the attempt is recorded although the one who asked went away.
        let task = actix_rt::spawn(async move {
            let _place = place;
            engine.attempt_test(&endpoint, &dispatch).await;
        });
        task.await.map_err(|_| TestError::Busy)?;
        Ok(delivery)
    }

    fn test_place(self: &Rc<Self>, tenant: TenantId) -> Result<Place, TestError> {
        let mut state = self.state.borrow_mut();
        let all: usize = state.tests.values().sum();
        let own = state.tests.get(&tenant).copied().unwrap_or(0);
        if all >= TESTS_MAX || own >= TESTS_PER_TENANT_MAX || state.stopping {
            return Err(TestError::Busy);
        }
        state.tests.insert(tenant, own + 1);
        Ok(Place(Rc::clone(self), tenant))
    }

    fn forget_test(&self, dispatch: &Dispatch) {
        let mut state = self.state.borrow_mut();
        if let Some(lane) = state.lanes.get_mut(&dispatch.webhook) {
            lane.recorded(dispatch.delivery);
        }
    }

    async fn attempt_test(self: &Rc<Self>, endpoint: &Endpoint, dispatch: &Dispatch) {
        let started_at = self.now();
        let attempted = endpoint
            .attempt(
                dispatch,
                started_at,
                self.services.clock.on_the_wall(started_at),
                self.settings.timeout,
            )
            .await;
        let now = self.now();
        let verdict = match self.verdict(dispatch, &attempted, now) {
            Verdict::Delivered => Verdict::Delivered,
            _ => Verdict::GivenUp,
        };
        let (recorded, waiting) = oneshot::channel();
        self.finish(done(dispatch, attempted, verdict, now), Some(recorded));
        // An error means that the engine was given up; the row tells.
        let _ = waiting.await;
    }

    /// Begins nothing more, waits for what is under way, and gives back what was not begun.
    pub(super) async fn drain(self: &Rc<Self>, limit: Duration) {
        self.state.borrow_mut().stopping = true;
        self.woken.notify_one();
        let ended = tokio::time::timeout(limit, self.idle()).await;
        if ended.is_err() {
            let state = self.state.borrow();
            tracing::warn!(
                in_flight = state.in_flight,
                unrecorded = state.unrecorded,
                "deliveries under way were given up; they are made again after the next start"
            );
        }
        self.abandon();
        let services = &self.services;
        let all = Millis::MAX;
        if let Err(error) = table::release(&services.store, &services.node, all).await {
            tracing::warn!(%error, "held deliveries could not be released; they are free when their lease ends");
        }
    }

    async fn idle(&self) {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state.borrow();
                if state.in_flight == 0 && state.unrecorded == 0 && state.tests.is_empty() {
                    return;
                }
            }
            changed.await;
        }
    }
}

/// A sample of the first kind that the webhook subscribed to.
fn sample_delivery(webhook: &webhook::Model, now: Millis) -> (NewEvent, Dispatch) {
    let kind = webhook
        .event_kinds()
        .first()
        .copied()
        .unwrap_or(EventKind::CallEnded);
    let event = sample(kind, webhook.tenant_id, now);
    let dispatch = Dispatch {
        delivery: DeliveryId::new(now),
        webhook: webhook.id,
        tenant: webhook.tenant_id,
        event: event.id,
        kind,
        call: None,
        body: event.body.clone(),
        attempts: 0,
        is_test: true,
    };
    (event, dispatch)
}
