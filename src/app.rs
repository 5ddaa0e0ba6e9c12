//! Start and stop of the whole service. [`App::build`] connects, recovers and binds; [`App::run_until`] serves until it is told
//! to stop, and drains. `main` and the tests make the same two calls.

use std::{
    any::Any,
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use actix::{Arbiter, ArbiterHandle};
use actix_cors::Cors;
use actix_web::{
    App as WebApp, HttpServer,
    dev::{Extensions, Server, ServerHandle},
    middleware::{Condition, from_fn},
    rt,
    web::Data,
};
use dikala_actors::{
    batches::BatchStats,
    bridges::Bridges,
    call::CallParts,
    clock::SharedClock,
    feed::Feed,
    functions::{self, FunctionsHandle},
    journal::{CallJournal, JournalParts},
    ledger::{self, LedgerHandle, LedgerParts},
    outbound::{Guard, Outbound, OutboundError},
    outbox::Audience,
    registry::{CallRegistry, Calls},
    webhooks::{self, WebhooksHandle},
};
use dikala_entities::{Store, StoreError, Vault, store::Reservation, tenant};
use dikala_migration::{SchemaState, migrate, schema_state};
use futures_util::future::{FutureExt, LocalBoxFuture};
use sea_orm::{DbErr, EntityTrait};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    bridge::{self, BridgeParts},
    config::Settings,
    control::{LiveCalls, LiveOutbound},
    maintenance,
    middleware::request_scope,
    operator::{
        self, OperatorParts,
        health::{self, HealthParts},
    },
    routes,
    services::Services,
};

/// Threads that run calls.
const CALL_THREADS: usize = 2;
/// Threads that wait for tenants' functions.
const FUNCTION_THREADS: usize = 2;
/// Threads that serve HTTP; bridges and requests share them.
const HTTP_THREADS: usize = 2;
/// How long a browser remembers what it was allowed, in seconds.
const CORS_MAX_AGE_SECONDS: usize = 3_600;
/// How long a peer may leave what was sent to it unacknowledged.
const UNREAD: Duration = Duration::from_secs(30);
/// How long the operators' listener waits for its own requests, in seconds.
const OPERATOR_SHUTDOWN_SECONDS: u64 = 2;

/// Why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the database answers with a fault: {0}")]
    Database(#[from] DbErr),
    #[error(
        "the database schema has a step {0:?} that this version does not know; install the newer version of dikala that made it"
    )]
    NewerSchema(String),
    #[error("the database schema is not up to date ({0} steps are missing); run `dikala migrate`")]
    OldSchema(usize),
    #[error(
        "cannot listen on {address} ({reason}); is another program using it? Set {key} to another address"
    )]
    Listen {
        address: SocketAddr,
        key: &'static str,
        reason: std::io::Error,
    },
    #[error(
        "there is no database at {0:?}; give the database.url that `serve` has, or run `dikala migrate` to make this one"
    )]
    NoDatabase(PathBuf),
    #[error(
        "secrets.key does not open what is stored in this database; set the key that it was made with (DIKALA_SECRETS__KEY)"
    )]
    WrongKey,
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error("the HTTP server did not start: {0}")]
    Http(std::io::Error),
}

/// Connects to the database and sees to its schema.
pub async fn open_store(settings: &Settings, may_migrate: bool) -> Result<Store, StartError> {
    if let Some(path) = Store::missing_file(&settings.database.url).filter(|_| !may_migrate) {
        return Err(StartError::NoDatabase(path));
    }
    let store = Store::connect(&settings.database.url).await?;
    match schema_state(store.writer()).await? {
        SchemaState::Current => {}
        SchemaState::Newer(step) => return Err(StartError::NewerSchema(step)),
        SchemaState::Behind(_) if may_migrate => migrate(store.writer()).await?,
        SchemaState::Behind(steps) => return Err(StartError::OldSchema(steps)),
    }
    Ok(store)
}

/// Tries the key on a stored secret: with another one nothing could be signed, and each delivery and call of a function would
/// wait for it.
pub async fn try_key(store: &Store, vault: &Vault) -> Result<(), StartError> {
    let any = tenant::Entity::find().one(store.reader()).await?;
    match any.map(|tenant| vault.open(tenant.id, &tenant.function_secret)) {
        Some(Err(_)) => Err(StartError::WrongKey),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// The service, bound to its addresses and ready to serve.
pub struct App {
    public: SocketAddr,
    operator: SocketAddr,
    servers: Vec<ServerHandle>,
    serving: LocalBoxFuture<'static, ()>,
    stopping: watch::Sender<bool>,
    shutdown: Duration,
    engine: Engine,
    sweeping: rt::task::JoinHandle<()>,
    _reserved: Reservation,
}

/// The actors and what they share.
struct Engine {
    store: Store,
    calls: Calls,
    bridges: Arc<Bridges>,
    ledger: LedgerHandle,
    webhooks: WebhooksHandle,
    functions: FunctionsHandle,
    journal: actix::Addr<CallJournal>,
    journal_stats: Arc<BatchStats>,
    registry: actix::Addr<CallRegistry>,
    outbound: Outbound,
    feed: Feed,
    arbiters: Vec<Arbiter>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("public", &self.public)
            .field("operator", &self.operator)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Connects, brings the schema up to date if that is allowed, takes up what an earlier run left, and binds.
    pub async fn build(
        settings: &Settings,
        vault: Vault,
        clock: SharedClock,
    ) -> Result<Self, StartError> {
        let public = listen(settings.http.listen, "http.listen")?;
        let operator = listen(settings.operator.listen, "operator.listen")?;
        let addresses = (
            public.local_addr().map_err(StartError::Http)?,
            operator.local_addr().map_err(StartError::Http)?,
        );
        let reserved = Store::reserve(&settings.database.url)?;
        let store = open_store(settings, settings.database.migrate).await?;
        try_key(&store, &vault).await?;
        let ports = [addresses.0.port(), addresses.1.port()];
        let engine =
            Engine::start(settings, store, vault.clone(), Arc::clone(&clock), ports).await?;
        let (stopping, is_stopping) = watch::channel(false);
        let sweeping = maintenance::run(
            engine.store.clone(),
            Arc::clone(&clock),
            settings.retention.clone(),
        );
        let sweeping = rt::spawn(sweeping);
        let surface = Surface::new(settings, &engine, vault, clock, &is_stopping);
        let public_server = surface
            .clone()
            .serve_public(public, settings)
            .map_err(StartError::Http)?;
        let operator_server = surface.serve_operator(operator).map_err(StartError::Http)?;
        let servers = vec![public_server.handle(), operator_server.handle()];
        let serving = async move {
            let (public, operator) = tokio::join!(public_server, operator_server);
            for result in [public, operator] {
                if let Err(error) = result {
                    tracing::error!(%error, "a listener failed");
                }
            }
        };
        Ok(Self {
            public: addresses.0,
            operator: addresses.1,
            servers,
            serving: serving.boxed_local(),
            stopping,
            shutdown: Duration::from_secs(settings.http.shutdown_seconds),
            engine,
            sweeping,
            _reserved: reserved,
        })
    }

    /// Where the public listener answers.
    pub fn public_addr(&self) -> SocketAddr {
        self.public
    }

    /// Where the operators' listener answers.
    pub fn operator_addr(&self) -> SocketAddr {
        self.operator
    }

    /// Serves until `stop` completes, then drains: no new calls, requests and deliveries under way finish, calls stay in the store.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let serving = rt::spawn(self.serving);
        stop.await;
        tracing::info!("stopping");
        self.sweeping.abort();
        let drain = async {
            self.engine.calls.close();
            self.engine.feed.close();
            let _ = self.stopping.send(true);
            // Side by side: a client that does not let go of its connection keeps no delivery from ending.
            let listeners = async {
                for server in &self.servers {
                    server.stop(true).await;
                }
                let _ = serving.await;
            };
            tokio::join!(listeners, self.engine.webhooks.drain(self.shutdown));
            self.engine.stop().await;
        };
        if tokio::time::timeout(self.shutdown, drain).await.is_err() {
            tracing::warn!("not everything finished in time; the rest goes on at the next start");
        }
    }
}

impl Engine {
    async fn start(
        settings: &Settings,
        store: Store,
        vault: Vault,
        clock: SharedClock,
        own_ports: [u16; 2],
    ) -> Result<Self, StartError> {
        let node: Arc<str> = Arc::from(settings.node.name.as_str());
        let core = Arbiter::new();
        let webhook_arbiter = Arbiter::new();
        let call_arbiters: Vec<Arbiter> = (0..CALL_THREADS).map(|_| Arbiter::new()).collect();
        let function_arbiters: Vec<Arbiter> =
            (0..FUNCTION_THREADS).map(|_| Arbiter::new()).collect();
        // Names are looked up on threads; webhooks, functions and registration have their own, so that names that take long
        // in one of them hold up none of the others.
        let outbound = || Outbound::new(guard(settings, own_ports), settings.extra_ca_file());
        let webhooks = webhooks::start(
            &webhook_arbiter.handle(),
            webhooks::Services {
                store: store.clone(),
                clock: Arc::clone(&clock),
                vault: vault.clone(),
                outbound: outbound()?,
                node: Arc::clone(&node),
            },
            settings.webhooks(),
        );
        let feed = Feed::default();
        let audience = Audience {
            deliver: Some(webhooks.recipient()),
            feed: feed.clone(),
        };
        let ledger = ledger::start(
            &core.handle(),
            &LedgerParts {
                store: store.clone(),
                clock: Arc::clone(&clock),
                node: Arc::clone(&node),
                audience: audience.clone(),
            },
        );
        let journal_stats = Arc::new(BatchStats::default());
        let journal = CallJournal::start(
            &core.handle(),
            JournalParts {
                store: store.clone(),
                clock: Arc::clone(&clock),
                node: Arc::clone(&node),
                audience,
                stats: Arc::clone(&journal_stats),
            },
        );
        let functions = functions::start(
            &handles(&function_arbiters),
            &outbound()?,
            &settings.functions(),
        );
        let bridges = Arc::new(Bridges::new(Arc::clone(&clock)));
        let parts = CallParts {
            store: store.clone(),
            vault,
            clock,
            node,
            rules: settings.rules(),
            ai_cost_idr_per_minute: settings.billing.ai_cost_idr_per_minute,
            concurrency: settings.concurrency(),
            ledger: ledger.clone(),
            journal: journal.clone(),
            functions: functions.clone(),
            bridges: Arc::clone(&bridges),
        };
        let calls = Calls::new(parts, handles(&call_arbiters));
        let (registry, recovered) = CallRegistry::start(&core.handle(), calls.clone()).await?;
        ledger.announce_credits_to(registry.clone().recipient());
        if recovered > 0 {
            tracing::info!(calls = recovered, "took up unfinished calls");
        }
        let arbiters = [
            vec![core, webhook_arbiter],
            call_arbiters,
            function_arbiters,
        ];
        Ok(Self {
            store,
            calls,
            bridges,
            ledger,
            webhooks,
            functions,
            journal,
            journal_stats,
            registry,
            outbound: outbound()?,
            feed,
            arbiters: arbiters.into_iter().flatten().collect(),
        })
    }

    /// After the listeners and the deliveries under way: the rest is in the store.
    async fn stop(self) {
        if let Err(error) = self.bridges.store_signs(&self.store).await {
            tracing::warn!(%error, "the bridges' signs of life were not written");
        }
        for arbiter in &self.arbiters {
            arbiter.stop();
        }
        self.store.close().await;
    }
}

fn handles(arbiters: &[Arbiter]) -> Vec<ArbiterHandle> {
    arbiters.iter().map(Arbiter::handle).collect()
}

fn guard(settings: &Settings, own_ports: [u16; 2]) -> Guard {
    Guard {
        allow_cidrs: settings.allowed_cidrs(),
        allow_http: settings.url_policy().allow_http,
        own_ports: own_ports.to_vec(),
    }
}

/// Browsers of these origins may use the API.
fn cors(origins: &[String]) -> Cors {
    let cors = Cors::default()
        .allow_any_method()
        .allow_any_header()
        .expose_any_header()
        .max_age(CORS_MAX_AGE_SECONDS);
    origins
        .iter()
        .fold(cors, |cors, origin| cors.allowed_origin(origin))
}

fn listen(address: SocketAddr, key: &'static str) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|reason| StartError::Listen {
        address,
        key,
        reason,
    })
}

/// A peer that takes nothing of what is sent to it is cut off: what waits for it, a stream of events for example, is not
/// polled meanwhile and cannot end itself.
fn limit_unread(connection: &dyn Any, _: &mut Extensions) {
    #[cfg(target_os = "linux")]
    if let Some(socket) = connection.downcast_ref::<rt::net::TcpStream>() {
        // Where the system refuses, its own patience of some minutes holds.
        let _ = socket2::SockRef::from(socket).set_tcp_user_timeout(Some(UNREAD));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = connection;
}

/// What the two listeners serve with.
#[derive(Clone)]
struct Surface {
    services: Data<Services>,
    bridge: Data<BridgeParts>,
    health: Data<HealthParts>,
    operator: Data<OperatorParts>,
}

impl Surface {
    fn new(
        settings: &Settings,
        engine: &Engine,
        vault: Vault,
        clock: SharedClock,
        stopping: &watch::Receiver<bool>,
    ) -> Self {
        let outbound = LiveOutbound {
            store: engine.store.clone(),
            vault: vault.clone(),
            clock: Arc::clone(&clock),
            outbound: engine.outbound.clone(),
            functions: engine.functions.clone(),
            webhooks: engine.webhooks.clone(),
        };
        let services = Services::new(
            engine.store.clone(),
            vault,
            Arc::clone(&clock),
            settings.api(),
            Arc::new(LiveCalls(engine.calls.clone())),
            Arc::new(outbound),
            engine.feed.clone(),
        );
        Self {
            services: Data::new(services),
            bridge: Data::new(BridgeParts {
                store: engine.store.clone(),
                clock,
                calls: engine.calls.clone(),
                bridges: Arc::clone(&engine.bridges),
                stopping: stopping.clone(),
            }),
            health: Data::new(HealthParts {
                store: engine.store.clone(),
                journal: engine.journal.clone(),
                registry: engine.registry.clone(),
                ledger: engine.ledger.clone(),
                webhooks: engine.webhooks.clone(),
                stopping: stopping.clone(),
            }),
            operator: Data::new(OperatorParts {
                token: settings.operator.token(),
                store: engine.store.clone(),
                calls: engine.calls.clone(),
                bridges: Arc::clone(&engine.bridges),
                ledger: engine.ledger.clone(),
                journal: Arc::clone(&engine.journal_stats),
                webhooks: engine.webhooks.clone(),
                feed: engine.feed.clone(),
            }),
        }
    }

    fn serve_public(self, socket: TcpListener, settings: &Settings) -> std::io::Result<Server> {
        let origins = settings.http.cors_origins.clone();
        let server = HttpServer::new(move || {
            WebApp::new()
                .app_data(self.services.clone())
                .app_data(self.bridge.clone())
                .app_data(self.health.clone())
                .wrap(Condition::new(!origins.is_empty(), cors(&origins)))
                .wrap(from_fn(request_scope))
                .configure(bridge::configure)
                .configure(health::configure)
                .configure(routes::configure_api)
        });
        Ok(server
            .workers(HTTP_THREADS)
            .on_connect(limit_unread)
            // A little less than everything may take, so that what comes after the listeners has its turn.
            .shutdown_timeout(settings.http.shutdown_seconds.saturating_sub(2).max(1))
            .disable_signals()
            .listen(socket)?
            .run())
    }

    fn serve_operator(self, socket: TcpListener) -> std::io::Result<Server> {
        let server = HttpServer::new(move || {
            WebApp::new()
                .app_data(self.operator.clone())
                .app_data(self.health.clone())
                .wrap(from_fn(operator::require_token))
                .wrap(from_fn(request_scope))
                .configure(operator::configure)
                .configure(health::configure)
        });
        Ok(server
            .workers(1)
            .shutdown_timeout(OPERATOR_SHUTDOWN_SECONDS)
            .disable_signals()
            .listen(socket)?
            .run())
    }
}

/// SIGTERM or Ctrl-C. A second one ends the process at once.
pub async fn wait_for_signal() {
    let mut terminate = signal(SignalKind::terminate()).expect("the runtime takes signals");
    let mut interrupt = signal(SignalKind::interrupt()).expect("the runtime takes signals");
    let next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let mut next = next;
    next().await;
    rt::spawn(async move {
        next().await;
        tracing::warn!("stopping at once");
        std::process::exit(1);
    });
}
