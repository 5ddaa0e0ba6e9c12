//! Throughput of durable deliveries end to end, and the cost of a hanging endpoint for others.
//!
//! `cargo bench -p dikala-actors --bench webhooks`; with `DIKALA_BENCH_DATABASE_URL=postgres://…` on an empty PostgreSQL
//! database, else on a SQLite file of its own. Absolute figures belong to the machine; the two ratios travel.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use actix_rt::{Arbiter, System};
use awc::http::{Method, header::HeaderMap};
use bytes::Bytes;
use dikala_actors::{
    events::{
        outbox::{self, Deliver, Dispatch, NewEvent},
        payload::SampleCall,
    },
    nodes::Membership,
    outbound::{Guard, Head, Outbound, exchange},
    runtime::clock::{Clock, SystemClock},
    traces::Traces,
    webhooks::{self, WebhookDeps, WebhooksConfig, WebhooksHandle},
};
use dikala_entities::{
    EventKind, OutboundUrl, Secret, Store, TenantId, UrlPolicy, Vault, WebhookId,
    webhook::{self, NewWebhook},
};
use sea_orm::{EntityTrait, IntoActiveModel};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const NODE: &str = "bench";
/// Three webhooks share them evenly.
const DELIVERIES: usize = 30_000;
/// Events in one commit, as the journal gathers them under load.
const COMMIT: usize = 64;
/// Many webhooks: one alone is held to its concurrency.
const MANY: Receivers = Receivers {
    tenants: 32,
    webhooks: 1,
};
const ONE_TENANT: Receivers = Receivers {
    tenants: 1,
    webhooks: 3,
};
const BARE_CONCURRENCY: usize = 256;
const HANGING: usize = 800;
const PACE: Duration = Duration::from_millis(50);
/// 50 s: three times the duration of one attempt, so that it covers several waves of timeouts, and leaves ten events
/// above the p99.
const PACED_EVENTS: usize = 1_000;

/// Tenants, and the webhooks of each, all subscribed to the event.
#[derive(Clone, Copy, Debug)]
struct Receivers {
    tenants: usize,
    webhooks: usize,
}

type Arrivals = Arc<Mutex<HashMap<String, Instant>>>;

struct World {
    store: Store,
    vault: Vault,
    handle: WebhooksHandle,
    arrivals: Arrivals,
    receiver: SocketAddr,
    hanging: SocketAddr,
}

fn main() {
    let arrivals = Arrivals::default();
    let receiver = serve(Some(Arc::clone(&arrivals)));
    let hanging = serve(None);
    System::new().block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        let url = std::env::var("DIKALA_BENCH_DATABASE_URL")
            .unwrap_or_else(|_| format!("sqlite://{}", folder.path().join("bench.db").display()));
        let store = Store::connect(&url).await.expect("a store");
        dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
            .await
            .expect("the schema");
        println!("store: {:?}", store.backend());
        let world = World::start(store, arrivals, receiver, hanging);
        let bare = bare(receiver).await;
        println!("bare client: {bare} posts/s");
        for receivers in [MANY, ONE_TENANT] {
            println!("{receivers:?}");
            let live = world.live(receivers).await;
            println!(
                "live deliveries: {live}/s, {} % of the bare client",
                live * 100 / bare
            );
            let backlog = world.backlog(receivers).await;
            println!(
                "a backlog of another node: {backlog}/s, {} % of the live ones",
                backlog * 100 / live.max(1)
            );
        }
        world.isolation().await;
        world.handle.drain(Duration::from_millis(100)).await;
    });
}

fn outbound() -> Outbound {
    let guard = Guard {
        allow_cidrs: vec!["127.0.0.0/8".parse().expect("a range")],
        allow_http: true,
        ..Guard::default()
    };
    Outbound::new(guard, None).expect("outbound")
}

impl World {
    fn start(store: Store, arrivals: Arrivals, receiver: SocketAddr, hanging: SocketAddr) -> Self {
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let deps = WebhookDeps {
            store: store.clone(),
            clock: Arc::new(SystemClock),
            vault: vault.clone(),
            outbound: outbound(),
            node: Membership::outside(NODE),
            traces: Traces::default(),
        };
        let handle = webhooks::start(&Arbiter::new().handle(), deps, WebhooksConfig::default());
        Self {
            store,
            vault,
            handle,
            arrivals,
            receiver,
            hanging,
        }
    }

    async fn webhook(&self, tenant: TenantId, address: SocketAddr) {
        let now = SystemClock.now();
        let id = WebhookId::new(now);
        let url = format!("http://{address}/{id}");
        let new = NewWebhook {
            id,
            tenant,
            url: OutboundUrl::parse(&url, UrlPolicy { allow_http: true }).expect("an address"),
            events: &[EventKind::CallEnded],
            secret: &Secret::new("a-secret-of-a-webhook"),
        };
        let row = webhook::Model::new(new, &self.vault, now);
        let inserted = webhook::Entity::insert(row.into_active_model());
        inserted
            .exec_without_returning(self.store.writer())
            .await
            .expect("inserted");
    }

    /// Commits events with their deliveries.
    async fn commit(&self, events: &[NewEvent], node: &str) -> Vec<Dispatch> {
        let txn = self.store.begin().await.expect("a transaction");
        let announced = outbox::write(&txn, events, node, SystemClock.now())
            .await
            .expect("written");
        txn.commit().await.expect("committed");
        announced.dispatches
    }

    /// Commits events and announces them. Returns the deliveries.
    async fn announce(&self, events: &[NewEvent]) -> Vec<String> {
        let dispatches = self.commit(events, NODE).await;
        let ids = dispatches.iter().map(|d| d.delivery.to_string()).collect();
        let _ = self.handle.recipient().try_send(Deliver(dispatches));
        ids
    }

    /// Events in batches, so many that there are [`DELIVERIES`].
    async fn batches(&self, receivers: Receivers) -> Vec<Vec<NewEvent>> {
        let tenants: Vec<TenantId> = (0..receivers.tenants)
            .map(|_| TenantId::new(SystemClock.now()))
            .collect();
        for tenant in &tenants {
            for _ in 0..receivers.webhooks {
                self.webhook(*tenant, self.receiver).await;
            }
        }
        let events: Vec<NewEvent> = (0..DELIVERIES / receivers.webhooks)
            .map(|n| event(tenants[n % tenants.len()]))
            .collect();
        events.chunks(COMMIT).map(<[_]>::to_vec).collect()
    }

    /// Deliveries per second: from the first commit to the last record.
    async fn live(&self, receivers: Receivers) -> u64 {
        let batches = self.batches(receivers).await;
        let before = self.handle.stats();
        let began = Instant::now();
        for events in batches {
            self.announce(&events).await;
        }
        self.delivered(before.succeeded).await;
        let stats = self.handle.stats();
        println!(
            "({} of {DELIVERIES} went through the table, {} retried)",
            stats.left_in_table - before.left_in_table,
            stats.retried - before.retried
        );
        per_second(DELIVERIES, began.elapsed())
    }

    /// Deliveries per second taken over from another node: from the first commit to the last record.
    async fn backlog(&self, receivers: Receivers) -> u64 {
        let before = self.handle.stats();
        let batches = self.batches(receivers).await;
        let began = Instant::now();
        for events in batches {
            self.commit(&events, "another").await;
        }
        self.handle.wake();
        self.delivered(before.succeeded).await;
        per_second(DELIVERIES, began.elapsed())
    }

    async fn delivered(&self, before: u64) {
        let target = before + DELIVERIES as u64;
        loop {
            let stats = self.handle.stats();
            if stats.succeeded >= target && stats.unrecorded == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Times from commit to arrival for a healthy tenant, alone and beside a tenant whose endpoint hangs.
    async fn isolation(&self) {
        let healthy = TenantId::new(SystemClock.now());
        self.webhook(healthy, self.receiver).await;
        let alone = self.paced(healthy).await;
        println!("alone: {}", shown(&alone));
        let bad = TenantId::new(SystemClock.now());
        for _ in 0..20 {
            self.webhook(bad, self.hanging).await;
        }
        let events: Vec<NewEvent> = (0..HANGING / 20).map(|_| event(bad)).collect();
        self.announce(&events).await;
        let beside = self.paced(healthy).await;
        println!("beside {HANGING} hanging deliveries: {}", shown(&beside));
        let ratio = p(&beside, 99).as_micros() * 100 / p(&alone, 99).as_micros().max(1);
        println!("p99 beside / p99 alone: {ratio} %");
    }

    async fn paced(&self, tenant: TenantId) -> Vec<Duration> {
        let mut sent = Vec::new();
        for _ in 0..PACED_EVENTS {
            let committed = self.announce(&[event(tenant)]).await;
            sent.push((committed, Instant::now()));
            tokio::time::sleep(PACE).await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let arrivals = self.arrivals.lock().expect("no panics");
        let mut times: Vec<Duration> = sent
            .iter()
            .flat_map(|(ids, at)| ids.iter().map(move |id| (id, at)))
            .map(|(id, at)| {
                arrivals
                    .get(id)
                    .map_or(Duration::MAX, |came| came.saturating_duration_since(*at))
            })
            .collect();
        times.sort_unstable();
        times
    }
}

fn event(tenant: TenantId) -> NewEvent {
    let now = SystemClock.now();
    let call = SampleCall::new(now);
    let data = call.payload(EventKind::CallEnded);
    NewEvent::new(tenant, Some(call.id), now, now, &data)
}

/// The same bodies to the same receiver by the same HTTP client, without a store, a signature or a queue.
async fn bare(receiver: SocketAddr) -> u64 {
    let client = outbound().client(None, BARE_CONCURRENCY);
    let body = Bytes::from(
        event(TenantId::new(SystemClock.now()))
            .body
            .as_bytes()
            .to_vec(),
    );
    let began = Instant::now();
    let workers: Vec<_> = (0..BARE_CONCURRENCY)
        .map(|_| {
            let (client, body) = (client.clone(), body.clone());
            actix_rt::spawn(async move {
                for _ in 0..DELIVERIES / BARE_CONCURRENCY {
                    let head = Head {
                        method: Method::POST,
                        uri: format!("http://{receiver}/").parse().expect("an address"),
                        headers: HeaderMap::new(),
                    };
                    let limit = Duration::from_secs(15);
                    exchange(&client, head, body.clone(), 1024, limit)
                        .await
                        .expect("an answer");
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("it ran");
    }
    per_second(
        DELIVERIES / BARE_CONCURRENCY * BARE_CONCURRENCY,
        began.elapsed(),
    )
}

fn per_second(count: usize, took: Duration) -> u64 {
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
    count as u64 * 1_000 / ms
}

fn p(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

fn shown(sorted: &[Duration]) -> String {
    format!(
        "p50 {:?}, p99 {:?}, max {:?}",
        p(sorted, 50),
        p(sorted, 99),
        p(sorted, 100)
    )
}

/// A receiver on a thread of its own; without `arrivals` it reads and never answers.
fn serve(arrivals: Option<Arrivals>) -> SocketAddr {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let _ = tell.send(listener.local_addr().expect("an address"));
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(connection(socket, arrivals.clone()));
            }
        });
    });
    told.recv().expect("the receiver listens")
}

async fn connection(mut socket: TcpStream, arrivals: Option<Arrivals>) {
    let mut buffer = Vec::with_capacity(4096);
    loop {
        while let Some(request) = complete(&buffer) {
            if let Some(arrivals) = &arrivals {
                if let Some(id) = header(&buffer[..request], "x-service-delivery") {
                    arrivals
                        .lock()
                        .expect("no panics")
                        .insert(id, Instant::now());
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                if socket.write_all(answer).await.is_err() {
                    return;
                }
            }
            buffer.drain(..request);
        }
        match socket.read_buf(&mut buffer).await {
            Ok(n) if n > 0 => {}
            _ => return,
        }
    }
}

/// The length of the first request, once it has arrived completely.
fn complete(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let body: usize = header(&buffer[..head], "content-length")?.parse().ok()?;
    (buffer.len() >= head + body).then_some(head + body)
}

fn header(request: &[u8], name: &str) -> Option<String> {
    let text = String::from_utf8_lossy(request);
    text.lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(": "))
        .find(|(header, _)| header.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.to_owned())
}
