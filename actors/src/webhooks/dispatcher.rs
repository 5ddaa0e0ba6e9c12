//! The actor in front of the engine: messages in, nothing decided.
//!
//! After a panic it comes back with a new engine, which reads everything from the table again; what the old one had in
//! flight may be sent twice.

use std::{rc::Rc, sync::Arc, time::Duration};

use actix::{Actor, Handler, Message, ResponseFuture, Supervised};
use dikala_entities::{DeliveryId, WebhookId, webhook};

use super::{Services, TestError, WebhooksConfig, engine::Engine, stats::Stats};
use crate::{meter::MeteredContext, metered, outbox::Deliver};

/// Something may have become due in the table.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Wake;

/// A webhook was changed or deleted.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Refresh {
    pub(super) webhook: WebhookId,
}

/// Send a sample now.
#[derive(Message)]
#[rtype(result = "Result<DeliveryId, TestError>")]
pub(super) struct Test {
    pub(super) webhook: Box<webhook::Model>,
}

/// Finish what is in flight and take nothing more.
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Drain {
    pub(super) limit: Duration,
}

/// Are you there?
#[derive(Message)]
#[rtype(result = "()")]
pub(super) struct Ping;

/// Hands committed deliveries to their endpoints, and those that are due again.
#[derive(Debug)]
pub struct WebhookDispatcher {
    services: Services,
    config: WebhooksConfig,
    stats: Arc<Stats>,
    engine: Rc<Engine>,
}

metered!(WebhookDispatcher, "webhook_dispatcher");

impl WebhookDispatcher {
    pub(super) fn new(services: Services, config: WebhooksConfig, stats: Arc<Stats>) -> Self {
        let engine = Engine::new(services.clone(), &config, Arc::clone(&stats));
        Self {
            services,
            config,
            stats,
            engine,
        }
    }
}

impl Actor for WebhookDispatcher {
    type Context = MeteredContext<Self>;

    fn started(&mut self, _: &mut Self::Context) {
        self.engine.start();
        self.engine.recover();
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.engine.abandon();
    }
}

impl Supervised for WebhookDispatcher {
    fn restarting(&mut self, _: &mut Self::Context) {
        self.engine.abandon();
        self.engine = Engine::new(self.services.clone(), &self.config, Arc::clone(&self.stats));
    }
}

impl Handler<Deliver> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, Deliver(dispatches): Deliver, _: &mut Self::Context) {
        self.engine.deliver(dispatches);
    }
}

impl Handler<Wake> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, _: Wake, _: &mut Self::Context) {
        self.engine.wake();
    }
}

impl Handler<Refresh> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, refresh: Refresh, _: &mut Self::Context) {
        self.engine.refresh(refresh.webhook);
    }
}

impl Handler<Test> for WebhookDispatcher {
    type Result = ResponseFuture<Result<DeliveryId, TestError>>;

    fn handle(&mut self, test: Test, _: &mut Self::Context) -> Self::Result {
        let engine = Rc::clone(&self.engine);
        Box::pin(async move { engine.test(*test.webhook).await })
    }
}

impl Handler<Drain> for WebhookDispatcher {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, drain: Drain, _: &mut Self::Context) -> Self::Result {
        let engine = Rc::clone(&self.engine);
        Box::pin(async move { engine.drain(drain.limit).await })
    }
}

impl Handler<Ping> for WebhookDispatcher {
    type Result = ();

    fn handle(&mut self, _: Ping, _: &mut Self::Context) {}
}

/// Panic, please.
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
