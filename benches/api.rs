//! Reads of the tenant's API against a bare actix-web handler that runs the same SQL, and against a growing table.
//!
//! `cargo bench -p dikala --bench api -- --calls 1000000`: both servers run in this process, each with two workers and readers
//! of its own on the same SQLite file, and take turns. The client shares the machine with them: its cost is in both figures.
//! Absolute figures belong to the machine; the ratios travel.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use actix_web::{App as WebApp, HttpResponse, HttpServer, rt, web};
use dikala::{
    admin::{keys, tenants},
    app::App,
    config::{Layers, Settings},
    telemetry,
};
use dikala_actors::{
    clock::{Clock, SystemClock},
    ledger::{self, Credit},
};
use dikala_entities::{Plan, Store, TenantId, TransactionType, Vault};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement, Value};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CALLS_DEFAULT: i64 = 1_000_000;
const CALLS_FEW: i64 = 1_000;
/// Rows in one transaction of the filling.
const FILL: i64 = 100_000;
const WORKERS: usize = 2;
/// Connections that always have a request under way: one shows latency, many throughput.
const ONE: usize = 1;
const MANY: usize = 32;
const WARM_UP: Duration = Duration::from_millis(500);
/// The servers take turns this often; each turn is as long as [`TURN`].
const TURNS: usize = 4;
const TURN: Duration = Duration::from_millis(1_500);
const CREDIT: i64 = 1_000;
const RATE_LIMIT: i64 = 1_000_000_000;

fn main() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .expect("nothing installed a provider before");
    let calls = calls().unwrap_or(CALLS_DEFAULT);
    rt::System::new().block_on(bench(calls));
}

fn calls() -> Option<i64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != "--calls");
    arguments.nth(1).map(|n| n.parse().expect("--calls N"))
}

async fn bench(calls: i64) {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite://{}", folder.path().join("bench.db").display());
    let store = Store::connect(&url).await.expect("a store");
    dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
        .await
        .expect("the schema");
    let secret = Vault::generate_key();
    let vault = Vault::from_base64(&secret).expect("a key");
    let (tenant, key) = tenant(&store, &vault).await;
    fill(&store, tenant, 0, CALLS_FEW).await;

    let settings = settings(&url, &secret);
    telemetry::init(&settings.log);
    let app = App::build(&settings, vault, Arc::new(SystemClock))
        .await
        .expect("starts");
    let dikala = app.public_addr();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = rt::spawn(app.run_until(async {
        let _ = stopped.await;
    }));
    let bare = bare(Store::connect(&url).await.expect("a store"), tenant);
    let load = |path: fn(i64) -> String, calls: i64| Load {
        servers: [bare, dikala],
        key: key.clone(),
        calls,
        path,
    };

    println!("{CALLS_FEW} calls in the store");
    let few = load(newest, CALLS_FEW).compare("GET /calls?limit=50").await;
    let began = Instant::now();
    fill(&store, tenant, CALLS_FEW, calls).await;
    println!(
        "{calls} calls in the store, filled in {:?}",
        began.elapsed()
    );
    let grown = load(newest, calls).compare("GET /calls?limit=50").await;
    load(one_call, calls).compare("GET /calls/:id").await;
    load(credits, calls).compare("GET /credits").await;
    println!(
        "GET /calls?limit=50 with {calls} calls: {} of the requests/s with {CALLS_FEW}",
        ratio(grown, few)
    );
    let _ = stop.send(());
    let _ = running.await;
}

fn newest(_: i64) -> String {
    "/calls?limit=50".to_owned()
}

fn one_call(n: i64) -> String {
    format!("/calls/{}", call_id(n))
}

fn credits(_: i64) -> String {
    "/credits".to_owned()
}

fn settings(url: &str, secret: &str) -> Settings {
    let mut layers = Layers::load(None, []).expect("the defaults");
    for (key, value) in [
        ("database.url", url),
        ("secrets.key", secret),
        ("http.listen", "127.0.0.1:0"),
        ("operator.listen", "127.0.0.1:0"),
        ("log.format", "json"),
    ] {
        layers.set_from_command(key, value).expect("a key");
    }
    Settings::new(&layers).expect("settings")
}

/// A tenant that is never over its limit, with some credit, and its key.
async fn tenant(store: &Store, vault: &Vault) -> (TenantId, String) {
    let now = SystemClock.now();
    let changes = tenants::Changes {
        name: Some("Bench".to_owned()),
        plan: Some(Plan::Enterprise),
        rate_limit: Some(RATE_LIMIT),
        ..tenants::Changes::default()
    };
    let tenant = tenants::create(store, vault, changes, now)
        .await
        .expect("a tenant")
        .id;
    let purchase = Credit {
        tenant,
        minutes: CREDIT,
        kind: TransactionType::Purchase,
        reference: None,
        description: None,
    };
    ledger::credit(store, Arc::new(SystemClock), "bench", purchase)
        .await
        .expect("credit");
    let key = keys::create(store, tenant, "bench", now)
        .await
        .expect("a key");
    (tenant, key.key)
}

/// The id that [`fill`] gives to the call of this number.
fn call_id(n: i64) -> String {
    format!("call_01k9zv3m8r{n:016}")
}

/// Calls that are over, with the numbers `from` to `to`, one second apart.
async fn fill(store: &Store, tenant: TenantId, from: i64, to: i64) {
    const SQL: &str = "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, agent_id, \
        caller_number, callee_number, status, started_at, answered_at, ended_at, duration_seconds, talk_time_seconds, \
        hangup_reason, hangup_initiator, transcript_summary, ai_cost_idr, metadata, settings, last_sign_at, owner, epoch) \
        WITH RECURSIVE numbers(n) AS (VALUES (?1) UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?2) \
        SELECT 'call_01k9zv3m8r' || printf('%016d', n), ?3, 'bridge_01k9zv3m8rj2q4w6y8a0c2e4g6', \
        'CA' || printf('%030d', n), 'pn_01k9zv3m8rj2q4w6y8a0c2e4g6', 'agent_01k9zv3m8rj2q4w6y8a0c2e4g6', \
        '+62812' || printf('%08d', n), '+622150001000', 'ended', 1700000000000 + n * 1000, 1700000004000 + n * 1000, \
        1700000094000 + n * 1000, 94, 90, 'normal', 'caller', \
        'The caller asked for the opening hours on Saturday. The agent gave them: 9 to 17.', 450, \
        '{\"campaign\":\"january\"}', '{\"systemPrompt\":\"' || hex(zeroblob(200)) || '\"}', \
        1700000094000 + n * 1000, 'main', 1 FROM numbers";
    let mut from = from;
    while from < to {
        let end = (from + FILL).min(to);
        let values: [Value; 3] = [from.into(), end.into(), tenant.to_string().into()];
        let statement = Statement::from_sql_and_values(DbBackend::Sqlite, SQL, values);
        store.writer().execute_raw(statement).await.expect("filled");
        from = end;
    }
}

/// A server with nothing but the SQL.
fn bare(store: Store, tenant: TenantId) -> SocketAddr {
    let tenant = tenant.to_string();
    let server = HttpServer::new(move || {
        WebApp::new()
            .app_data(web::Data::new((store.clone(), tenant.clone())))
            .route("/api/v1/calls", web::get().to(bare_list))
            .route("/api/v1/calls/{id}", web::get().to(bare_call))
            .route("/api/v1/credits", web::get().to(bare_credits))
    })
    .workers(WORKERS)
    .disable_signals()
    .bind("127.0.0.1:0")
    .expect("a port");
    let address = server.addrs()[0];
    rt::spawn(server.run());
    address
}

type Bare = web::Data<(Store, String)>;

macro_rules! columns {
    () => {
        "SELECT \"calls\".\"id\", \"calls\".\"phone_number_id\", \"calls\".\"agent_id\", \"calls\".\"caller_number\", \
         \"calls\".\"callee_number\", \"calls\".\"status\", \"calls\".\"started_at\", \"calls\".\"answered_at\", \
         \"calls\".\"ended_at\", \"calls\".\"duration_seconds\", \"calls\".\"talk_time_seconds\", \
         \"calls\".\"hangup_reason\", \"calls\".\"hangup_initiator\", \"calls\".\"transcript_summary\", \
         \"calls\".\"ai_cost_idr\", \"calls\".\"metadata\" FROM \"calls\" "
    };
}

#[derive(FromQueryResult, Serialize)]
struct BareCall {
    id: String,
    phone_number_id: String,
    agent_id: Option<String>,
    caller_number: String,
    callee_number: String,
    status: String,
    started_at: i64,
    answered_at: Option<i64>,
    ended_at: Option<i64>,
    duration_seconds: Option<i64>,
    talk_time_seconds: Option<i64>,
    hangup_reason: Option<String>,
    hangup_initiator: Option<String>,
    transcript_summary: Option<String>,
    ai_cost_idr: Option<i64>,
    metadata: String,
}

#[derive(FromQueryResult, Serialize)]
struct BareAccount {
    tenant_id: String,
    available: i64,
    held: i64,
    used: i64,
    purchased: i64,
    adjusted: i64,
    posted: i64,
    seq: i64,
    open_holds: i64,
    low_threshold: i64,
    low_armed: bool,
    version: i64,
}

#[derive(Deserialize)]
struct Limit {
    limit: i64,
}

fn statement<const N: usize>(sql: &str, values: [Value; N]) -> Statement {
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
}

async fn bare_list(data: Bare, query: web::Query<Limit>) -> HttpResponse {
    const SQL: &str = concat!(
        columns!(),
        "WHERE \"calls\".\"tenant_id\" = ? ORDER BY \"calls\".\"started_at\" DESC, \"calls\".\"id\" DESC LIMIT ? OFFSET ?"
    );
    let (store, tenant) = data.get_ref();
    let values = [
        tenant.clone().into(),
        (query.limit + 1).into(),
        0_i64.into(),
    ];
    let calls = BareCall::find_by_statement(statement(SQL, values))
        .all(store.reader())
        .await
        .expect("rows");
    HttpResponse::Ok().json(calls)
}

async fn bare_call(data: Bare, id: web::Path<String>) -> HttpResponse {
    const SQL: &str = concat!(
        columns!(),
        "WHERE \"calls\".\"id\" = ? AND \"calls\".\"tenant_id\" = ? LIMIT ?"
    );
    let (store, tenant) = data.get_ref();
    let values = [id.into_inner().into(), tenant.clone().into(), 1_i64.into()];
    let call = BareCall::find_by_statement(statement(SQL, values))
        .one(store.reader())
        .await
        .expect("a row");
    match call {
        Some(call) => HttpResponse::Ok().json(call),
        None => HttpResponse::NotFound().finish(),
    }
}

async fn bare_credits(data: Bare) -> HttpResponse {
    const SQL: &str = "SELECT \"credit_accounts\".\"tenant_id\", \"credit_accounts\".\"available\", \
        \"credit_accounts\".\"held\", \"credit_accounts\".\"used\", \"credit_accounts\".\"purchased\", \
        \"credit_accounts\".\"adjusted\", \"credit_accounts\".\"posted\", \"credit_accounts\".\"seq\", \
        \"credit_accounts\".\"open_holds\", \"credit_accounts\".\"low_threshold\", \"credit_accounts\".\"low_armed\", \
        \"credit_accounts\".\"version\" FROM \"credit_accounts\" WHERE \"credit_accounts\".\"tenant_id\" = ? LIMIT ?";
    let (store, tenant) = data.get_ref();
    let values = [tenant.clone().into(), 1_i64.into()];
    let account = BareAccount::find_by_statement(statement(SQL, values))
        .one(store.reader())
        .await
        .expect("a row");
    HttpResponse::Ok().json(account)
}

/// What is asked, and of whom.
struct Load {
    /// The bare one, then the service.
    servers: [SocketAddr; 2],
    key: String,
    calls: i64,
    path: fn(i64) -> String,
}

impl Load {
    /// Prints what both do. Returns the service's requests a second.
    async fn compare(&self, route: &str) -> u64 {
        println!("  {route:<20} connections   requests/s    p50 us    p99 us");
        let mut of_many = 0;
        for connections in [ONE, MANY] {
            let mut taken = [Taken::default(), Taken::default()];
            for server in self.servers {
                self.turn(server, connections, WARM_UP).await;
            }
            for _ in 0..TURNS {
                for (server, taken) in self.servers.into_iter().zip(&mut taken) {
                    let turn = self.turn(server, connections, TURN).await;
                    taken.times.extend(turn.times);
                    taken.time += turn.time;
                }
            }
            let [bare, dikala] = &mut taken;
            bare.print("bare actix-web", connections);
            dikala.print("dikala", connections);
            println!(
                "    dikala / bare: {}",
                ratio(dikala.per_second(), bare.per_second())
            );
            of_many = dikala.per_second();
        }
        of_many
    }

    /// Loads one server from a thread that does nothing else.
    async fn turn(&self, server: SocketAddr, connections: usize, time: Duration) -> Taken {
        let (tell, told) = oneshot::channel();
        let (key, calls, path) = (self.key.clone(), self.calls, self.path);
        let client = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let began = Instant::now();
            let until = began + time;
            let times = tokio::task::LocalSet::new().block_on(&runtime, async {
                let clients: Vec<_> = (0..connections)
                    .map(|n| {
                        let first = n as u64 * 7_919 + 1;
                        let target = Numbers { seed: first, calls };
                        tokio::task::spawn_local(client(server, key.clone(), target, path, until))
                    })
                    .collect();
                let mut times = Vec::new();
                for client in clients {
                    times.extend(client.await.expect("it ran"));
                }
                times
            });
            let _ = tell.send(Taken {
                times,
                time: began.elapsed(),
            });
        });
        let taken = told.await.expect("it was measured");
        client.join().expect("it ended");
        taken
    }
}

/// How long requests took, and the time in which they were made.
#[derive(Default)]
struct Taken {
    times: Vec<Duration>,
    time: Duration,
}

impl Taken {
    fn per_second(&self) -> u64 {
        let ms = u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX);
        self.times.len() as u64 * 1_000 / ms.max(1)
    }

    fn print(&mut self, name: &str, connections: usize) {
        self.times.sort_unstable();
        let at = |percent: usize| {
            let time = self.times.get(self.times.len() * percent / 100);
            time.copied().unwrap_or_default().as_micros()
        };
        println!(
            "    {name:<18} {connections:>11}   {:>10}   {:>7}   {:>7}",
            self.per_second(),
            at(50),
            at(99)
        );
    }
}

fn ratio(part: u64, whole: u64) -> String {
    let hundredths = part * 100 / whole.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}

/// Numbers of calls in no order.
struct Numbers {
    seed: u64,
    calls: i64,
}

impl Numbers {
    fn next(&mut self) -> i64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from(self.seed >> 33).unwrap_or_default() % self.calls
    }
}

/// One connection that is kept: a request, its answer, the next request.
async fn client(
    server: SocketAddr,
    key: String,
    mut numbers: Numbers,
    path: fn(i64) -> String,
    until: Instant,
) -> Vec<Duration> {
    let mut socket = TcpStream::connect(server).await.expect("connects");
    socket.set_nodelay(true).expect("is set");
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut times = Vec::new();
    loop {
        let began = Instant::now();
        if began >= until {
            return times;
        }
        let request = format!(
            "GET /api/v1{} HTTP/1.1\r\nhost: bench\r\nx-api-key: {key}\r\n\r\n",
            path(numbers.next())
        );
        socket.write_all(request.as_bytes()).await.expect("written");
        buffer.clear();
        while !is_whole(&buffer) {
            let read = socket.read_buf(&mut buffer).await.expect("read");
            assert_ne!(read, 0, "the server closed the connection");
        }
        assert!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer)
        );
        times.push(began.elapsed());
    }
}

/// Whether all of an answer is here.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|w| w == b"\r\n\r\n") else {
        return false;
    };
    let head = std::str::from_utf8(&answer[..end]).expect("a head of text");
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.parse::<usize>().ok());
    length.is_some_and(|length| answer.len() >= end + 4 + length)
}
