//! Tests of the context: panics, mailboxes and tasks.

use super::*;

struct Fragile {
    seen: u32,
}

impl Actor for Fragile {
    type Context = MeteredContext<Self>;
}

impl Supervised for Fragile {
    fn restarting(&mut self, _: &mut MeteredContext<Self>) {
        self.seen = 100;
    }
}

metered!(Fragile, "fragile");

#[derive(Message)]
#[rtype(result = "u32")]
struct Touch {
    panic: bool,
}

impl MessageReply for u32 {}

impl Handler<Touch> for Fragile {
    type Result = u32;

    fn handle(&mut self, touch: Touch, _: &mut MeteredContext<Self>) -> u32 {
        assert!(!touch.panic, "on purpose");
        self.seen += 1;
        self.seen
    }
}

/// A type of its own, because actors of one type share a meter.
struct GivenUp;

impl Actor for GivenUp {
    type Context = MeteredContext<Self>;
}

impl Supervised for GivenUp {}

metered!(GivenUp, "given_up");

impl Handler<Touch> for GivenUp {
    type Result = u32;

    fn handle(&mut self, touch: Touch, _: &mut MeteredContext<Self>) -> u32 {
        assert!(!touch.panic, "on purpose");
        0
    }
}

/// A third type, for the same reason.
struct Watched;

impl Actor for Watched {
    type Context = MeteredContext<Self>;
}

impl Supervised for Watched {}

metered!(Watched, "watched");

impl Handler<Touch> for Watched {
    type Result = u32;

    fn handle(&mut self, _: Touch, _: &mut MeteredContext<Self>) -> u32 {
        0
    }
}

#[actix::test]
async fn who_looks_at_an_actor_is_not_part_of_what_he_sees() {
    let arbiter = actix_rt::Arbiter::current();
    let addr = MeteredContext::start(&arbiter, 16, OnPanic::Restart, |_| Watched);
    addr.send(Touch { panic: false }).await.expect("is there");
    let meter = Watched::meter();
    let seen = || {
        let busiest = meter.busiest(1);
        let counted = meter.readings().into_iter().filter(|of| !of.is_look);
        let handled: u64 = counted.map(|of| of.handling.count()).sum();
        (busiest[0].handled, handled, meter.mailbox().highest)
    };
    let before = seen();
    let looks = (0..5).map(|_| addr.send(Ping));
    for answer in futures_util::future::join_all(looks).await {
        answer.expect("is there");
    }
    assert_eq!((before, seen()), ((1, 1, 1), (1, 1, 1)));
    let readings = meter.readings();
    let pings = readings.iter().find(|of| of.message == "Ping");
    assert_eq!(pings.map(|of| of.handling.count()), Some(5));
}

#[actix::test]
async fn an_actor_comes_back_after_a_panic_with_its_address_and_its_queue() {
    let arbiter = actix_rt::Arbiter::current();
    let addr = MeteredContext::start(&arbiter, 16, OnPanic::Restart, |_| Fragile { seen: 0 });
    assert_eq!(addr.send(Touch { panic: false }).await.ok(), Some(1));
    let (broken, queued) = tokio::join!(
        addr.send(Touch { panic: true }),
        addr.send(Touch { panic: false })
    );
    assert!(broken.is_err());
    assert_eq!(queued.ok(), Some(101));
    let meter = Fragile::meter();
    assert!(meter.restarts() >= 1);
    assert!(meter.last_panic().is_some());
    assert_eq!(meter.capacity(), 16);
    let mut instances = meter.busiest(10).into_iter();
    let instance = instances
        .find(|instance| instance.handled == 3)
        .expect("the panic was handled too");
    assert_eq!(instance.recent.len(), 3);
    let readings = meter.readings();
    assert_eq!(
        (
            readings[0].message,
            readings[0].handling.count(),
            readings[0].depth
        ),
        ("Touch", 2, 0)
    );
}

#[actix::test]
async fn an_actor_that_is_given_up_reports_its_death() {
    let (died, death) = oneshot::channel();
    let on_panic = OnPanic::GiveUp(Box::new(move || {
        let _ = died.send(());
    }));
    let arbiter = actix_rt::Arbiter::current();
    let addr = MeteredContext::start(&arbiter, 16, on_panic, |_| GivenUp);
    assert!(addr.send(Touch { panic: true }).await.is_err());
    assert!(death.await.is_ok());
    assert!(addr.send(Touch { panic: false }).await.is_err());
}
