//! Export to real receivers: healthy ones, and ones that hang, refuse, ask for patience or do not exist.

use std::{sync::Arc, time::Duration};

use dikala_entities::{CallId, Millis, TraceParent};
use dikala_testkit::{ReceivedRequest, ServerAnswer, TenantServer, eventually};
use tokio::sync::watch;

use super::{exporter::ExportLimits, *};
use crate::{
    outbound::{AllowedHosts, Guard, Outbound, testing::ClosedPort},
    runtime::clock::SystemClock,
};

const PATH: &str = "/v1/traces";
/// Short pauses, and timeouts longer than any successful exchange takes.
const PATIENT: ExportLimits = ExportLimits {
    batch: 4,
    gather: Duration::from_millis(20),
    exchange: Duration::from_secs(60),
    last: Duration::from_secs(60),
    again: Duration::from_millis(50),
    again_max: Duration::from_millis(100),
    try_for: Duration::from_secs(60),
};
/// Short timeouts for tests that wait until a batch is dropped.
const HASTY: ExportLimits = ExportLimits {
    exchange: Duration::from_millis(300),
    last: Duration::from_millis(300),
    try_for: Duration::from_millis(500),
    ..PATIENT
};

struct World {
    traces: Traces,
    finish: watch::Sender<bool>,
    task: actix_rt::task::JoinHandle<()>,
}

impl World {
    fn sending_to(url: &str, limits: ExportLimits) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = Guard {
            allow_hosts: AllowedHosts::All,
            allow_http: true,
            ..Guard::default()
        };
        let config = ExporterConfig {
            uri: url.parse().expect("an address"),
            node: "main".into(),
            outbound: Outbound::new(guard, None).expect("the defaults"),
            clock: Arc::new(SystemClock),
        };
        let (traces, mut exporter) = Traces::start(config, &SystemClock);
        exporter.limits = limits;
        let (finish, finished) = watch::channel(false);
        let task = actix_rt::spawn(exporter.run(finished));
        Self {
            traces,
            finish,
            task,
        }
    }

    fn spans(&self, count: usize) {
        for _ in 0..count {
            let span = self.traces.first(SpanKind::Internal, "one", 7);
            span.expect("it is recorded").end();
        }
    }

    fn outcome(&self, wanted: &str) -> u64 {
        let outcomes = self.traces.stats().expect("there are some").outcomes();
        let found = outcomes.into_iter().find(|(outcome, _)| *outcome == wanted);
        found.expect("an outcome").1
    }

    async fn until(&self, outcome: &str, count: u64) {
        let what = format!("{count} {outcome}: {:?}", self.traces.stats());
        eventually(&what, async || {
            (self.outcome(outcome) == count).then_some(())
        })
        .await;
    }

    async fn finished(self) {
        self.finish.send(true).expect("it runs");
        self.task.await.expect("it ends");
    }
}

fn names(request: &ReceivedRequest) -> usize {
    let one = b"\x2a\x03one";
    request
        .body
        .windows(one.len())
        .filter(|at| at == one)
        .count()
}

#[actix::test]
async fn spans_go_in_batches_and_the_rest_at_the_end() {
    let receiver = TenantServer::start();
    let slow = ExportLimits {
        gather: Duration::from_secs(60),
        ..PATIENT
    };
    let world = World::sending_to(&receiver.url(PATH), slow);
    world.spans(6);
    let came = receiver.wait_for(PATH, 1).await;
    assert_eq!(names(&came[0]), 4);
    assert_eq!(came[0].header("content-type"), "application/x-protobuf");
    let traces = world.traces.clone();
    world.finished().await;
    let came = receiver.received(PATH);
    assert_eq!(came.iter().map(names).collect::<Vec<_>>(), [4, 2]);
    let outcomes = traces.stats().expect("some").outcomes();
    assert_eq!(outcomes[0], ("exported", 6));
}

#[actix::test]
async fn what_is_busy_is_asked_again_when_it_says_and_what_refuses_is_not() {
    let receiver = TenantServer::start();
    let busy = ServerAnswer::Full(503, "retry-after", "1".to_owned(), Vec::new());
    let partial = ServerAnswer::with(200, "", &[0x0a, 0x02, 0x08, 0x01]);
    receiver.answer(
        PATH,
        [
            busy,
            partial,
            ServerAnswer::Status(400),
            ServerAnswer::Status(200),
        ],
    );
    let world = World::sending_to(&receiver.url(PATH), PATIENT);
    world.spans(2);
    let came = receiver.wait_for(PATH, 2).await;
    let waited = came[1].arrived - came[0].arrived;
    assert!(waited >= Duration::from_secs(1), "{waited:?}");
    assert_eq!(came[0].body, came[1].body);
    world.until("exported", 1).await;
    world.until("refused", 1).await;
    world.spans(2);
    world.until("refused", 3).await;
    world.spans(1);
    world.until("exported", 2).await;
    assert_eq!(receiver.received(PATH).len(), 4);
}

#[actix::test]
async fn what_nobody_takes_is_given_up_and_later_spans_are_sent() {
    for answer in [
        ServerAnswer::Hang,
        ServerAnswer::Reset,
        ServerAnswer::DripHead,
    ] {
        let receiver = TenantServer::start();
        receiver.answer(PATH, [answer]);
        let world = World::sending_to(&receiver.url(PATH), HASTY);
        world.spans(3);
        world.until("given_up", 3).await;
        receiver.answer(PATH, [ServerAnswer::Status(200)]);
        // On a busy machine even a good exchange may time out so soon.
        eventually("a later span to be sent", async || {
            world.spans(1);
            (world.outcome("exported") > 0).then_some(())
        })
        .await;
    }
    let deaf = ClosedPort::port();
    let world = World::sending_to(&format!("http://{}{PATH}", deaf.address), HASTY);
    world.spans(1);
    world.until("given_up", 1).await;
    world.spans(1);
    world.finished().await;
}

/// A full queue never blocks: spans without room are counted.
#[actix::test]
async fn a_full_queue_drops_and_holds_nobody_up() {
    let receiver = TenantServer::start();
    receiver.answer(PATH, [ServerAnswer::Hang]);
    let stuck = ExportLimits {
        exchange: Duration::from_secs(600),
        ..PATIENT
    };
    let world = World::sending_to(&receiver.url(PATH), stuck);
    world.spans(PATIENT.batch);
    receiver.wait_for(PATH, 1).await;
    world.spans(QUEUE_MAX);
    assert_eq!(world.outcome("dropped"), 0);
    world.spans(10);
    assert_eq!(world.outcome("dropped"), 10);
}

#[actix::test]
async fn what_is_not_recorded_has_no_span() {
    let call = CallId::new(Millis::from_i64(1));
    let trace = TraceParent::of(1, 2);
    let off = Traces::default();
    assert!(off.begin_call(call).is_none());
    assert!(off.call(call, Some(&trace)).is_none());
    assert!(off.span(SpanKind::Server, "one", Some(&trace)).is_none());
    assert!(off.span(SpanKind::Server, "one", None).is_none());
    let receiver = TenantServer::start();
    let on = World::sending_to(&receiver.url(PATH), PATIENT).traces;
    let unsampled = trace.as_str().replace("-01", "-00");
    let unsampled = TraceParent::parse(&unsampled).expect("valid");
    assert!(on.call(call, Some(&unsampled)).is_none());
    assert!(on.span(SpanKind::Server, "one", Some(&unsampled)).is_none());
    let began = on.begin_call(call).expect("it is recorded");
    let context = on.call(call, Some(&began)).expect("it is recorded");
    assert_eq!(context.traceparent(), began);
    assert!(current().is_none());
    let inside = within(Some(context), async { current().is_some() }).await;
    assert!(inside && current().is_none());
}
