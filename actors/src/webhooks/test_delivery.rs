//! Test deliveries: a signed sample to one webhook in one attempt, whose result the tenant waits for.

use std::{cell::RefCell, collections::HashMap, rc::Rc};

use dikala_entities::{DeliveryId, EventKind, Millis, TenantId, TraceParent, webhook};
use tokio::sync::oneshot;

use super::{TestError, attempt::Endpoint, courier::Courier, store::pending};
use crate::events::outbox::{Dispatch, NewEvent};

/// Concurrent test deliveries, in all and of one tenant.
const TESTS_MAX: usize = 64;
const TESTS_PER_TENANT_MAX: usize = 4;

/// The test deliveries in progress; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tests(Rc<RefCell<HashMap<TenantId, usize>>>);

/// A test delivery's permit, returned when dropped.
pub(super) struct TestPermit {
    tests: Tests,
    tenant: TenantId,
    courier: Rc<Courier>,
}

impl Tests {
    pub(super) fn are_over(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn seat(
        &self,
        tenant: TenantId,
        courier: &Rc<Courier>,
    ) -> Result<TestPermit, TestError> {
        let mut tests = self.0.borrow_mut();
        let all: usize = tests.values().sum();
        let own = tests.get(&tenant).copied().unwrap_or(0);
        if all >= TESTS_MAX || own >= TESTS_PER_TENANT_MAX || courier.is_stopping() {
            return Err(TestError::Busy);
        }
        tests.insert(tenant, own + 1);
        Ok(TestPermit {
            tests: self.clone(),
            tenant,
            courier: Rc::clone(courier),
        })
    }
}

impl Drop for TestPermit {
    fn drop(&mut self) {
        let mut tests = self.tests.0.borrow_mut();
        if let Some(own) = tests.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                tests.remove(&self.tenant);
            }
        }
        drop(tests);
        self.courier.changed.notify_waiters();
    }
}

/// Sends a signed sample and waits until its only attempt is recorded.
pub(super) async fn send(
    courier: Rc<Courier>,
    tests: Tests,
    webhook: webhook::Model,
    trace: Option<TraceParent>,
) -> Result<DeliveryId, TestError> {
    let seat = tests.seat(webhook.tenant_id, &courier)?;
    let now = courier.now();
    let deps = &courier.deps;
    let (event, dispatch) = sample_delivery(&webhook, trace, now);
    let endpoint = Endpoint::new(webhook, &deps.vault, &deps.outbound, 1, None)?;
    let Dispatch {
        webhook,
        tenant,
        delivery,
        ..
    } = dispatch;
    courier
        .scheduler
        .borrow_mut()
        .reserve(webhook, tenant, delivery, now);
    let inserted = pending::insert_test(&deps.store, &event).await;
    if let Err(error) = inserted {
        courier.scheduler.borrow_mut().release(webhook, delivery);
        return Err(error.into());
    }
    // Spawned, so the attempt is recorded even if the caller goes away.
    let task = actix_rt::spawn(async move {
        let record = courier.make(&endpoint, &dispatch).await;
        let (recorded, waiting) = oneshot::channel();
        courier.record(record, Some(recorded));
        // An error means that the courier was abandoned.
        let recorded = waiting.await;
        drop(seat);
        recorded.is_ok()
    });
    match task.await {
        Ok(true) => Ok(delivery),
        _ => Err(TestError::Busy),
    }
}

/// A sample of the first kind that the webhook subscribed to.
fn sample_delivery(
    webhook: &webhook::Model,
    trace: Option<TraceParent>,
    now: Millis,
) -> (NewEvent, Dispatch) {
    let kind = webhook
        .event_kinds()
        .first()
        .copied()
        .unwrap_or(EventKind::CallEnded);
    let event = NewEvent::sample(kind, webhook.tenant_id, now);
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
        trace,
        place: None,
    };
    (event, dispatch)
}
