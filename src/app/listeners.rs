//! The applications of the two listeners, and their state.

use std::{
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    sync::Arc,
};

use actix::Arbiter;
use actix_cors::Cors;
use actix_web::{
    App as WebApp,
    dev::Server,
    middleware::{Condition, from_fn},
    web::Data,
};
use dikala_actors::traces::Traces;
use dikala_entities::Store;
use dikala_telephony::bridge::WebCall;
use tokio::sync::{Semaphore, mpsc, watch};

use super::actors::ActorSystem;
use crate::{
    api::context::Services,
    bridge::{self, BridgeContext, DraftReader},
    config::Settings,
    console,
    dashboard::{self, DashboardState},
    examples,
    front::{self, ConnectionLimits, ConnectionSlots, ListenerOptions, open_files_max},
    http::{context::HttpContext, meter::HttpMeter, middleware::request_scope},
    mails::MailStats,
    node::Runtime,
    operations::{ChatService, LocalBridge, OperationResources},
    operator::{
        access::{self, OperatorTokens},
        health::{self, HealthChecks},
        metrics::{self, MetricSources},
    },
    operator_api::{self, OperatorContext},
    overview::{self, OverviewSampler},
    routes,
    web::{self, WebContext},
};

/// Threads that serve HTTP; bridges and requests share them.
const HTTP_THREADS: usize = 2;
/// Time for which a browser may cache a CORS preflight, in seconds.
const CORS_MAX_AGE_SECONDS: usize = 3_600;
/// Connections of the operators' listener: in all, and from one address.
const OPERATOR_CONNECTIONS_MAX: usize = 256;
const OPERATOR_CONNECTIONS_PER_ADDRESS_MAX: usize = 128;
/// Longest time for the operators' requests at shutdown, in seconds.
const OPERATOR_SHUTDOWN_SECONDS: u64 = 1;

/// Allows browsers of these origins to use the API.
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

/// The folder of the database, if it is a file.
fn folder(settings: &Settings) -> Option<PathBuf> {
    let file = Store::sqlite_file(&settings.database.url)?;
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    Some(folder.unwrap_or(Path::new(".")).to_owned())
}

/// The progress of the shutdown.
#[derive(Clone, Debug)]
pub(super) struct ShutdownSignals {
    /// True once the service accepts no new calls.
    pub(super) draining: watch::Receiver<bool>,
    /// True once bridges are sent away.
    pub(super) stopping: watch::Receiver<bool>,
}

/// Parts that may not run.
pub(super) struct OptionalParts {
    /// None if no mails are sent.
    pub(super) mails: Option<Arc<MailStats>>,
    /// None if no bridge runs in this process.
    pub(super) telephony: Option<LocalBridge>,
    /// The channel for calls from browsers.
    pub(super) web: Option<mpsc::Sender<WebCall>>,
    /// None if no language model is configured.
    pub(super) chats: Option<Arc<ChatService>>,
}

/// The state of both listeners.
#[derive(Clone)]
pub(super) struct Listeners {
    services: Data<Services>,
    operations: Data<OperationResources>,
    bridge: Data<BridgeContext>,
    web: Data<WebContext>,
    health: Data<HealthChecks>,
    /// The tokens of the operators' listener.
    tokens: Data<OperatorTokens>,
    /// The state of the operators' requests.
    http: Data<HttpContext>,
    process: Data<OperatorContext>,
    console: Data<console::ConsoleState>,
    meter: Data<HttpMeter>,
    traces: Data<Traces>,
    metrics: Data<MetricSources>,
}

/// The context of requests to the operators' listener.
fn operators_http(runtime: &Runtime, settings: &Settings) -> HttpContext {
    HttpContext::new(
        runtime.store.clone(),
        runtime.vault.clone(),
        Arc::clone(&runtime.clock),
        runtime.member.clone(),
        settings.operators_http(),
    )
}

fn bridge_context(
    settings: &Settings,
    runtime: &Runtime,
    stops: &ShutdownSignals,
) -> BridgeContext {
    BridgeContext {
        runtime: runtime.clone(),
        budgets: Arc::default(),
        drafts: DraftReader::new(runtime.store.clone(), settings.api().agents),
        stopping: stops.stopping.clone(),
    }
}

fn web_context(
    settings: &Settings,
    runtime: &Runtime,
    bridge: Option<mpsc::Sender<WebCall>>,
    stops: &ShutdownSignals,
) -> WebContext {
    WebContext {
        runtime: runtime.clone(),
        bridge,
        places: Arc::new(Semaphore::new(settings.web_calls_max())),
        draining: stops.draining.clone(),
    }
}

fn services(settings: &Settings, runtime: &Runtime, parts: &OptionalParts) -> Services {
    let mut services = Services::new(runtime, settings.api());
    services.operations.telephony.clone_from(&parts.telephony);
    services.operations.chats.clone_from(&parts.chats);
    services
}

impl Listeners {
    /// `public` is the address of the public listener.
    pub(super) fn new(
        settings: &Settings,
        actors: &ActorSystem,
        parts: OptionalParts,
        stops: &ShutdownSignals,
        public: SocketAddr,
    ) -> Self {
        let runtime = &actors.runtime;
        let services = services(settings, runtime, &parts);
        let records = parts.telephony.map(|local| local.records);
        let operations = OperationResources {
            base: settings.http.base(public).into(),
            ..services.operations.clone()
        };
        let meter = HttpMeter::default();
        health::begin(&meter);
        let allow_unsafe = settings.database.allow_unsafe;
        let health = HealthChecks::new(runtime.clone(), stops.draining.clone(), allow_unsafe);
        let overview = OverviewSampler::new(overview::OverviewSources {
            node: runtime.clone(),
            loops: actors.loops.clone(),
            http: meter.clone(),
            gate: Arc::clone(&services.http.gate),
            health: health.clone(),
            folder: folder(settings),
        });
        overview.begin();
        let process = Data::new(OperatorContext {
            node: runtime.clone(),
            loops: actors.loops.clone(),
            overview,
            operations: operations.clone(),
            requests: meter.clone(),
            telephony: records.clone(),
            configuration: Arc::clone(&settings.shown),
            started_at: runtime.clock.now(),
            verified: Arc::default(),
        });
        let tokens = Data::new(OperatorTokens {
            full: settings.operator.token(),
            read: settings.operator.read_token(),
        });
        let http = Data::new(operators_http(runtime, settings));
        let console = console::ConsoleState::new(process.clone(), tokens.clone(), http.clone());
        Self {
            operations: Data::new(operations),
            services: Data::new(services),
            process,
            console: Data::new(console),
            bridge: Data::new(bridge_context(settings, runtime, stops)),
            web: Data::new(web_context(settings, runtime, parts.web, stops)),
            health: Data::new(health.clone()),
            metrics: Data::new(MetricSources {
                runtime: runtime.clone(),
                loops: actors.loops.clone(),
                http: meter.clone(),
                health,
                mails: parts.mails,
                telephony: records,
            }),
            meter: Data::new(meter),
            traces: Data::new(runtime.traces.clone()),
            tokens,
            http,
        }
    }

    pub(super) fn serve_public(
        self,
        socket: TcpListener,
        settings: &Settings,
    ) -> std::io::Result<Server> {
        let origins = settings.http.cors_origins.clone();
        let state = DashboardState::new(self.services.clone(), settings, socket.local_addr()?);
        let state = Data::new(state);
        let door = ListenerOptions {
            name: "public",
            workers: HTTP_THREADS,
            places: ConnectionSlots::new(settings.http.bounds().within(open_files_max())),
            // A little less than the whole time, so that the steps after the listeners have their turn.
            shutdown_seconds: settings.http.shutdown_seconds.saturating_sub(2).max(1),
        };
        front::serve(door, socket, move || {
            watch("http", &self.metrics);
            WebApp::new()
                .app_data(self.meter.clone())
                .app_data(self.traces.clone())
                .app_data(self.services.clone())
                .app_data(self.operations.clone())
                .app_data(self.services.http.clone())
                .app_data(self.bridge.clone())
                .app_data(self.web.clone())
                .app_data(self.health.clone())
                .app_data(state.clone())
                .wrap(Condition::new(!origins.is_empty(), cors(&origins)))
                .wrap(from_fn(request_scope))
                .configure(bridge::configure)
                .configure(web::configure)
                .configure(health::configure)
                .configure(dashboard::configure)
                .configure(examples::configure)
                .configure(routes::configure_api)
        })
    }

    pub(super) fn serve_operator(self, socket: TcpListener) -> std::io::Result<Server> {
        let bounds = ConnectionLimits {
            total: OPERATOR_CONNECTIONS_MAX,
            per_address: OPERATOR_CONNECTIONS_PER_ADDRESS_MAX,
            trusted: Vec::new(),
        };
        let door = ListenerOptions {
            name: "operators",
            workers: 1,
            places: ConnectionSlots::new(bounds.within(open_files_max())),
            shutdown_seconds: OPERATOR_SHUTDOWN_SECONDS,
        };
        front::serve(door, socket, move || {
            watch("operators", &self.metrics);
            WebApp::new()
                .app_data(self.meter.clone())
                .app_data(self.traces.clone())
                .app_data(self.metrics.clone())
                .app_data(self.operations.clone())
                .app_data(self.tokens.clone())
                .app_data(self.http.clone())
                .app_data(self.process.clone())
                .app_data(self.console.clone())
                .app_data(self.health.clone())
                .wrap(from_fn(access::let_in))
                .wrap(from_fn(request_scope))
                .configure(metrics::configure)
                .configure(health::configure)
                .configure(operator_api::configure)
                .configure(console::configure)
        })
    }
}

/// Measures the lag of this thread's event loop.
fn watch(kind: &str, metrics: &MetricSources) {
    if let Some(arbiter) = Arbiter::try_current() {
        metrics.loops.add(kind, arbiter);
    }
}
