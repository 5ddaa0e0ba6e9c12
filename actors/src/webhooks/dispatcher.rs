//! The actor in front of the courier. It only passes messages on.
//!
//! After a panic it restarts with a new courier, which finds its own cursors and everything after them. Deliveries in flight may then
//! be sent twice.

use std::{collections::HashMap, rc::Rc, sync::Arc, time::Duration};

use actix::{Actor, Handler, Message, MessageResult, ResponseFuture, Supervised};
use dikala_entities::{DeliveryId, TraceParent, WebhookId, webhook};

use super::{
    TestError, WebhookDeps, WebhooksConfig,
    courier::Courier,
    drain::drain,
    poller, recovery,
    resend::{self, ResendOutcome},
    search,
    stats::Stats,
    test_delivery::{self, Tests},
    webhook_status::WebhookStatus,
};
use crate::{events::outbox::Deliver, metered, runtime::context::MeteredContext};

/// A delivery in the table may have become due.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Wake;

/// A webhook was changed or deleted.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Refresh {
    pub(super) webhook: WebhookId,
}

/// Sends a sample now.
#[derive(Message)]
#[rtype(result = "Result<DeliveryId, TestError>")]
pub(super) struct Test {
    pub(super) webhook: Box<webhook::Model>,
    pub(super) trace: Option<TraceParent>,
}

/// Sends a delivery again now.
#[derive(Message)]
#[rtype(result = "Result<ResendOutcome, TestError>")]
pub(super) struct Again {
    pub(super) webhook: WebhookId,
    pub(super) delivery: DeliveryId,
    /// The number of attempts at the time of the request.
    pub(super) attempts: i64,
    pub(super) trace: Option<TraceParent>,
}

/// Asks for the status of these webhooks.
#[derive(Message)]
#[rtype(result = "HashMap<WebhookId, WebhookStatus>")]
pub(super) struct Look {
    pub(super) webhooks: Vec<WebhookId>,
}

/// Finishes what is in flight and begins nothing more.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Drain {
    pub(super) limit: Duration,
}

/// Other nodes own the deliveries that this node had.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct BeginAnew;

/// Delivers committed deliveries to their endpoints, and repeats those that are due.
#[derive(Debug)]
pub struct WebhookDispatcher {
    deps: WebhookDeps,
    config: WebhooksConfig,
    stats: Arc<Stats>,
    courier: Rc<Courier>,
    tests: Tests,
}

metered!(WebhookDispatcher, "webhook_dispatcher");

impl WebhookDispatcher {
    pub(super) fn new(deps: WebhookDeps, config: WebhooksConfig, stats: Arc<Stats>) -> Self {
        let courier = Courier::new(deps.clone(), &config, Arc::clone(&stats));
        Self {
            deps,
            config,
            stats,
            courier,
            tests: Tests::default(),
        }
    }

    /// Drops all state; the tables have it.
    fn forget_everything(&mut self) {
        self.courier.abandon();
        *self = Self::new(
            self.deps.clone(),
            self.config.clone(),
            Arc::clone(&self.stats),
        );
    }
}

impl Actor for WebhookDispatcher {
    type Context = MeteredContext<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        actix_rt::spawn(poller::run(Rc::clone(&self.courier)));
        actix_rt::spawn(Rc::clone(&self.courier).hear_changes());
        actix_rt::spawn(recovery::run(Rc::clone(&self.courier)));
        actix_rt::spawn(search::run(Rc::clone(&self.courier)));
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.courier.abandon();
    }
}

impl Supervised for WebhookDispatcher {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.forget_everything();
    }
}

impl Handler<BeginAnew> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, _: BeginAnew, ctx: &mut Self::Context) {
        self.forget_everything();
        self.started(ctx);
    }
}

impl Handler<Deliver> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, Deliver(dispatches): Deliver, _: &mut Self::Context) {
        self.courier.deliver(dispatches);
    }
}

impl Handler<Wake> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, _: Wake, _: &mut Self::Context) {
        self.courier.wake();
        self.courier.tell_others();
    }
}

impl Handler<Refresh> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, refresh: Refresh, _: &mut Self::Context) {
        self.courier.refresh(refresh.webhook);
        self.courier.tell_others();
    }
}

impl Handler<Test> for WebhookDispatcher {
    type Result = ResponseFuture<Result<DeliveryId, TestError>>;

    fn handle(&mut self, test: Test, _: &mut Self::Context) -> Self::Result {
        let (courier, tests) = (Rc::clone(&self.courier), self.tests.clone());
        Box::pin(test_delivery::send(
            courier,
            tests,
            *test.webhook,
            test.trace,
        ))
    }
}

impl Handler<Again> for WebhookDispatcher {
    type Result = ResponseFuture<Result<ResendOutcome, TestError>>;

    fn handle(&mut self, again: Again, _: &mut Self::Context) -> Self::Result {
        let (courier, tests) = (Rc::clone(&self.courier), self.tests.clone());
        let which = (again.webhook, again.delivery, again.attempts);
        Box::pin(resend::send(courier, tests, which, again.trace))
    }
}

impl Handler<Look> for WebhookDispatcher {
    type Result = MessageResult<Look>;

    fn handle(&mut self, look: Look, _: &mut Self::Context) -> Self::Result {
        MessageResult(self.courier.statuses(&look.webhooks))
    }
}

impl Handler<Drain> for WebhookDispatcher {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, message: Drain, _: &mut Self::Context) -> Self::Result {
        let (courier, tests) = (Rc::clone(&self.courier), self.tests.clone());
        Box::pin(drain(courier, tests, message.limit))
    }
}

/// Panics, for tests.
#[cfg(test)]
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Break;

#[cfg(test)]
impl Handler<Break> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, _: Break, _: &mut Self::Context) {
        panic!("on purpose");
    }
}
