//! Start and stop of the whole service. [`App::build`] connects, recovers and binds; [`App::run_until`] serves until it is told
//! to stop, and drains. `main` and the tests make the same two calls.

pub mod actors;
mod exporting;
mod listeners;
mod opening;

use std::{
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use actix_web::{
    dev::{Server, ServerHandle},
    rt,
};
use dikala_actors::{
    nodes::{self, Membership, NodeIdentity},
    outbound::{Outbound, OutboundError},
    runtime::clock::SharedClock,
};
use dikala_entities::{
    BridgeId, Store, StoreError, Vault,
    store::{Reservation, in_words},
};
use dikala_migration::knows_step;
use dikala_telephony::{
    trust::{Trust, TrustError},
    voice::pipeline::TextModel,
};
use futures_util::future::{FutureExt, LocalBoxFuture, join_all};
use sea_orm::DbErr;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::Instant,
};

pub use self::opening::{KeyTrial, holds_secrets, open_store, prove, vault};
use self::{
    actors::{ActorSystem, guard},
    exporting::SpanExport,
    listeners::{Listeners, OptionalParts, ShutdownSignals},
};
use crate::{
    config::{ConfigError, Settings},
    front::{self, open_files_max},
    mails::{Mailer, Relay, RelayError},
    maintenance,
    node::Runtime,
    operations::{ChatService, LocalBridge},
    telephony::{BuiltInBridge, TelephonyError, warn_of_stand_in, warn_of_trunks},
};

/// Least number of open files: database, listeners, threads and some connections. With fewer the service would start
/// and then answer nobody.
const OPEN_FILES_MIN: u64 = 256;

/// Part of the shutdown time that is reserved for giving up the lease.
const LEAVES_WITHIN: Duration = Duration::from_secs(1);
/// Deliveries under way are given up this long before that, so that other nodes can take them.
const ENDS_AHEAD: Duration = Duration::from_millis(200);

/// The reason why the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the database answered with an error: {words}", words = in_words(.0))]
    Database(#[from] DbErr),
    #[error(
        "the database schema has a step {0:?} that this version does not know; install the newer version of dikala that created it"
    )]
    NewerSchema(String),
    #[error(
        "the database was made by a version from before the first release of dikala, whose schema is not brought up to date: keep it \
         aside, and name an empty database in database.url"
    )]
    UnreleasedSchema,
    #[error(
        "a crash of this PostgreSQL loses acknowledged calls and minutes ({0}): turn these settings on wherever they are off, for the \
         server (ALTER SYSTEM), the database or the role (ALTER DATABASE or ALTER ROLE … SET) or in database.url; if such a loss does \
         not matter, set database.allow_unsafe = true"
    )]
    Unsafe(String),
    #[error(
        "the database schema is now too new for this version: this node released its calls for other nodes; \
         install the newer version here"
    )]
    Outdated,
    #[error("the database schema is not up to date (steps missing: {0}); run `dikala migrate`")]
    OldSchema(usize),
    #[error("cannot listen on {address} ({reason}){}; set {key} to another address", if_in_use(.reason, ", which another program or another setting uses"))]
    Listen {
        address: SocketAddr,
        key: &'static str,
        reason: std::io::Error,
    },
    #[error(
        "there is no database at {0:?}; set the database.url of `serve`, or run `dikala migrate` to create it"
    )]
    NoDatabase(PathBuf),
    #[error(
        "secrets.key does not open the secrets in this database; set the key that sealed them (DIKALA_SECRETS__KEY)"
    )]
    WrongKey,
    #[error(
        "secrets.key is not set, and this database holds secrets that do not open without the key that sealed them; set it \
         (DIKALA_SECRETS__KEY or DIKALA_SECRETS__KEY_FILE)"
    )]
    MissingKey,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Outbound(#[from] OutboundError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(transparent)]
    Mails(#[from] RelayError),
    #[error(
        "this process may have {0} files open, and needs {OPEN_FILES_MIN}; raise the hard limit (`ulimit -Hn`, LimitNOFILE= of \
         systemd, ulimits of a container)"
    )]
    OpenFiles(u64),
    #[error("the HTTP server did not start: {0}")]
    Http(std::io::Error),
    #[error("the telephony bridge did not start: {0}")]
    Telephony(#[from] TelephonyError),
}

/// The service, bound to its addresses and ready to serve.
pub struct App {
    public: SocketAddr,
    operator: SocketAddr,
    /// A second handle of the public listener's socket.
    socket: TcpListener,
    public_server: ServerHandle,
    operator_server: ServerHandle,
    serving: LocalBoxFuture<'static, ()>,
    /// True once no new calls are accepted.
    draining: watch::Sender<bool>,
    /// True once bridges are sent away.
    stopping: watch::Sender<bool>,
    shutdown: Duration,
    actors: ActorSystem,
    sweeping: rt::task::JoinHandle<()>,
    /// None if no mails are sent.
    mailing: Option<rt::task::JoinHandle<()>>,
    /// None if no spans are exported.
    exporting: Option<SpanExport>,
    /// None if no bridge runs in this process.
    telephony: Option<BuiltInBridge>,
    _reserved: Reservation,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("App")
            .field("public", &self.public)
            .field("operator", &self.operator)
            .finish_non_exhaustive()
    }
}

/// The sockets of both listeners, with their addresses.
struct Sockets {
    public: TcpListener,
    operator: TcpListener,
    public_at: SocketAddr,
    operator_at: SocketAddr,
}

impl Sockets {
    fn open(settings: &Settings) -> Result<Self, ServiceStartError> {
        let public = listen(settings.http.listen, "http.listen")?;
        let operator = listen(settings.operator.listen, "operator.listen")?;
        Ok(Self {
            public_at: public.local_addr().map_err(ServiceStartError::Http)?,
            operator_at: operator.local_addr().map_err(ServiceStartError::Http)?,
            public,
            operator,
        })
    }
}

/// Opens the store, registers as a node and starts the actors, which take over what an earlier run left.
async fn begin(
    settings: &Settings,
    vault: Vault,
    clock: &SharedClock,
    sockets: &Sockets,
) -> Result<(ActorSystem, Option<SpanExport>), ServiceStartError> {
    let store = open_store(settings, settings.database.migrate).await?;
    // Nodes use the database's clock, whatever their machines' clocks show.
    if store.lease().is_some() {
        clock.begin_at(nodes::time_of(&store).await?);
    }
    let ports = [sockets.public_at.port(), sockets.operator_at.port()];
    let outbound = || Outbound::new(guard(settings, ports), settings.extra_ca_file());
    let identity = NodeIdentity {
        name: Arc::from(settings.node.name.as_str()),
        address: settings.http.base(sockets.public_at),
        version: env!("CARGO_PKG_VERSION"),
        knows_step: knows_step(),
    };
    let member = Membership::join(&store, identity, Arc::clone(clock)).await?;
    let (traces, exporting) = SpanExport::start(settings, clock)?;
    let clock = Arc::clone(clock);
    let actors =
        ActorSystem::start(settings, store, vault, clock, member, traces, outbound).await?;
    Ok((actors, exporting))
}

impl App {
    /// Connects, migrates the schema if that is allowed, takes over what an earlier run left, and binds.
    pub async fn build(
        settings: &Settings,
        vault: Vault,
        clock: SharedClock,
    ) -> Result<Self, ServiceStartError> {
        enough_files(open_files_max())?;
        let sockets = Sockets::open(settings)?;
        let reserved = Store::reserve(&settings.database.url)?;
        let (actors, exporting) = begin(settings, vault, &clock, &sockets).await?;
        let (stopping, is_stopping) = watch::channel(false);
        let (draining, is_draining) = watch::channel(false);
        let sweeping = rt::spawn(maintenance::run(
            actors.runtime.store.clone(),
            Arc::clone(&clock),
            actors.runtime.member.clone(),
            settings.retention.clone(),
            actors.runtime.ledger.clone(),
        ));
        let base = settings.http.base(sockets.public_at);
        let (mails, mailing) = mailer(settings, &actors.runtime, base)?
            .map(|mailer| {
                let stats = Arc::clone(&mailer.stats);
                (stats, rt::spawn(mailer.run(is_stopping.clone())))
            })
            .unzip();
        let telephony = telephony(settings, &actors.runtime, sockets.public_at).await?;
        let parts = OptionalParts {
            mails,
            telephony: telephony.as_ref().map(|(bridge, id)| LocalBridge {
                id: *id,
                records: bridge.counted(),
            }),
            web: telephony.as_ref().and_then(|(bridge, _)| bridge.web()),
            chats: chats(settings)?,
        };
        let stops = ShutdownSignals {
            draining: is_draining,
            stopping: is_stopping,
        };
        let listeners = Listeners::new(settings, &actors, parts, &stops, sockets.public_at);
        let socket = sockets
            .public
            .try_clone()
            .map_err(ServiceStartError::Http)?;
        let public_server = listeners
            .clone()
            .serve_public(sockets.public, settings)
            .map_err(ServiceStartError::Http)?;
        let operator_server = listeners
            .serve_operator(sockets.operator)
            .map_err(ServiceStartError::Http)?;
        Ok(Self {
            public: sockets.public_at,
            operator: sockets.operator_at,
            socket,
            public_server: public_server.handle(),
            operator_server: operator_server.handle(),
            serving: serve([public_server, operator_server]).boxed_local(),
            draining,
            stopping,
            shutdown: Duration::from_secs(settings.http.shutdown_seconds),
            actors,
            sweeping,
            mailing,
            exporting,
            telephony: telephony.map(|(bridge, _)| bridge),
            _reserved: reserved,
        })
    }

    pub fn store(&self) -> &Store {
        &self.actors.runtime.store
    }

    /// The identity of this node.
    pub fn member(&self) -> &Membership {
        &self.actors.runtime.member
    }

    /// The address of the public listener.
    pub fn public_addr(&self) -> SocketAddr {
        self.public
    }

    /// The address of the operators' listener.
    pub fn operator_addr(&self) -> SocketAddr {
        self.operator
    }

    /// The bridge in this process, if one runs.
    pub fn telephony(&self) -> Option<&BuiltInBridge> {
        self.telephony.as_ref()
    }

    /// Serves until `stop` completes, then drains: accepts no new calls, and lets requests and deliveries under way
    /// finish. Calls stay in the store.
    pub async fn run_until(self, stop: impl Future<Output = ()>) {
        let serving = rt::spawn(self.serving);
        stop.await;
        tracing::info!("stopping");
        self.sweeping.abort();
        let began = Instant::now();
        let ends = began
            + self
                .shutdown
                .saturating_sub(LEAVES_WITHIN)
                .max(self.shutdown / 2);
        let drain = async {
            self.actors.runtime.calls.close();
            self.actors.runtime.feed.close();
            let _ = self.draining.send(true);
            // Callers on the bridge of this process may finish, and the bridge reports that, before bridges are sent
            // away.
            if let Some(telephony) = self.telephony {
                telephony.stop().await;
            }
            front::take_the_last(self.socket).await;
            let _ = self.stopping.send(true);
            // Concurrently, so that a client that keeps its connection open delays no delivery. The operators'
            // listener stops last and shows the progress until then.
            let mailing = async {
                if let Some(mailing) = self.mailing {
                    let _ = mailing.await;
                }
            };
            let deliveries = ends.saturating_duration_since(Instant::now() + ENDS_AHEAD);
            tokio::join!(
                self.public_server.stop(true),
                self.actors.runtime.webhooks.drain(deliveries),
                self.actors.give_back(),
                mailing
            );
            self.operator_server.stop(true).await;
            let _ = serving.await;
            if let Some(exporting) = self.exporting {
                exporting.finish().await;
            }
        };
        if tokio::time::timeout_at(ends, drain).await.is_err() {
            tracing::warn!(
                "requests, deliveries or calls did not finish in time; the next start, or another node, continues them"
            );
        }
        // Even if something did not finish: releases this node's work at once, so that others need not wait for its
        // lease to expire.
        let over = began + self.shutdown;
        if tokio::time::timeout_at(over, self.actors.stop())
            .await
            .is_err()
        {
            tracing::warn!(
                "could not release the lease; other nodes take over this node's work when it expires"
            );
        }
    }
}

/// Runs both listeners and logs their failures.
async fn serve(servers: [Server; 2]) {
    for served in join_all(servers).await {
        if let Err(error) = served {
            tracing::error!(%error, "a listener failed");
        }
    }
}

/// Starts the bridge of this process, if it is enabled. Returns it with its id.
async fn telephony(
    settings: &Settings,
    runtime: &Runtime,
    public: SocketAddr,
) -> Result<Option<(BuiltInBridge, BridgeId)>, TelephonyError> {
    match settings.telephony() {
        Some(bridge) => {
            if settings.has_stand_in() {
                warn_of_stand_in();
            }
            warn_of_trunks(&settings.whatsapp());
            BuiltInBridge::inside(bridge, runtime, public)
                .await
                .map(Some)
        }
        None => Ok(None),
    }
}

fn mailer(
    settings: &Settings,
    runtime: &Runtime,
    base: String,
) -> Result<Option<Mailer>, RelayError> {
    let Some(server) = settings.mail() else {
        return Ok(None);
    };
    let relay = Relay::new(&server, settings.extra_ca_file(), &base)?;
    Ok(Some(Mailer {
        store: runtime.store.clone(),
        clock: Arc::clone(&runtime.clock),
        vault: runtime.vault.clone(),
        relay,
        base,
        stats: Arc::default(),
    }))
}

/// The language model of chats, if it is configured.
fn chats(settings: &Settings) -> Result<Option<Arc<ChatService>>, TrustError> {
    let Some(model) = settings.text_model() else {
        return Ok(None);
    };
    let trust = Trust::new(settings.extra_ca_file())?;
    let model = TextModel::new(&model, &trust);
    let zone = &settings.calls.default_time_zone;
    Ok(Some(Arc::new(ChatService::new(
        model,
        zone,
        settings.chats_per_hour(),
    ))))
}

fn listen(address: SocketAddr, key: &'static str) -> Result<TcpListener, ServiceStartError> {
    TcpListener::bind(address).map_err(|reason| ServiceStartError::Listen {
        address,
        key,
        reason,
    })
}

/// The hint for an address that is in use.
pub fn if_in_use<'a>(reason: &std::io::Error, words: &'a str) -> &'a str {
    match reason.kind() {
        std::io::ErrorKind::AddrInUse => words,
        _ => "",
    }
}

/// Fails if too few files may be open to serve at all.
pub fn enough_files(most: Option<u64>) -> Result<(), ServiceStartError> {
    match most {
        Some(most) if most < OPEN_FILES_MIN => Err(ServiceStartError::OpenFiles(most)),
        _ => Ok(()),
    }
}

/// Waits for SIGTERM or Ctrl-C. Signals count from this call on, not only once it is awaited. A second one ends the
/// process at once.
pub fn wait_for_signal() -> impl Future<Output = ()> {
    let mut terminate = signal(SignalKind::terminate()).expect("the runtime takes signals");
    let mut interrupt = signal(SignalKind::interrupt()).expect("the runtime takes signals");
    let mut next = async move || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    async move {
        next().await;
        rt::spawn(async move {
            next().await;
            tracing::warn!("a second signal came: stopping at once");
            std::process::exit(1);
        });
    }
}
