//! A running API with two tenants, and a client that checks every answer against the OpenAPI description.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix_web::{
    App, HttpResponse, HttpServer,
    dev::ServerHandle,
    http::{Method, StatusCode, header::HeaderMap},
    middleware::from_fn,
    web::{self, Data},
};
use dikala_actors::{
    calls::messages::{self, CallInput},
    ledger::Credit,
    nodes::Membership,
    outbound::{Guard, Outbound},
    runtime::clock::{Clock, ManualClock},
    traces::Traces,
};
use dikala_entities::{
    AgentId, BridgeId, CallId, DeliveryId, DeliveryStatus, FunctionMethod, HangupInitiator,
    HangupReason, Millis, Store, TransactionType, UrlPolicy, Vault, attempt, credit_account,
    delivery, event, function, webhook,
};
use dikala_protocol::{CommandKind, IncomingCall, VoiceReport};
use dikala_telephony::{
    settings::{EndpointSettings, Prices, TextModelSettings},
    trust::Trust,
    voice::pipeline::TextModel,
};
use dikala_testkit::{
    ReceivedRequest, ServerAnswer, StoreGuard, StoreKind, TenantServer, json_schema, rows,
};
use ipnet::IpNet;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};

use super::seed::TenantSeed;
use crate::{
    api::context::{ApiSettings, Services},
    app::actors::ActorSystem,
    config::{Layers, Settings},
    http::{middleware::request_scope, route::BASE, settings::HttpSettings},
    openapi::ApiRoute,
    operations::ChatService,
    routes::{self, ROUTES, configure_api},
};

const NODE: &str = "api";

/// The tenants' secrets.
pub const FUNCTION_SECRET: &str = "a-secret-of-functions";
pub const WEBHOOK_SECRET: &str = "a-secret-of-webhooks";
/// The tenants' server, the only reachable one: no host name resolves.
const CUSTOMER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// A running API with the actors behind it.
pub struct ApiWorld {
    pub services: Services,
    pub actors: ActorSystem,
    /// The server of every tenant: echoes a function's parameters, and accepts any event.
    pub customer: TenantServer,
    pub clock: ManualClock,
    pub address: std::net::SocketAddr,
    pub ours: TenantSeed,
    pub theirs: TenantSeed,
    /// Ids of the operations that succeeded.
    pub seen: RefCell<BTreeSet<&'static str>>,
    client: awc::Client,
    server: ServerHandle,
    _keep: StoreGuard,
}

impl Drop for ApiWorld {
    fn drop(&mut self) {
        drop(self.server.stop(false));
        for arbiter in &self.actors.arbiters {
            arbiter.stop();
        }
    }
}

/// Starts a world on a store, or returns from the test if the machine does not have that store.
macro_rules! world {
    ($store:expr) => {
        world!($store, $crate::api::tests::world::strict())
    };
    ($store:expr, $settings:expr) => {
        match ApiWorld::with($store, $settings).await {
            Some(world) => world,
            None => return,
        }
    };
}
pub(crate) use world;

/// Chats with a language model that does not answer.
fn chats() -> Arc<ChatService> {
    let llm = EndpointSettings {
        url: "http://127.0.0.1:9".into(),
        api_key: String::new(),
        model: String::new(),
    };
    let prices = Prices::default();
    let trust = Trust::new(None).expect("the web's authorities");
    let model = TextModel::new(&TextModelSettings { llm, prices }, &trust);
    Arc::new(ChatService::new(model, "UTC", 20))
}

/// The settings of most tests.
pub fn strict() -> ApiSettings {
    ApiSettings {
        urls: UrlPolicy { allow_http: false },
        http: HttpSettings {
            unauthenticated_per_minute: 10_000,
            ..HttpSettings::default()
        },
        ..ApiSettings::default()
    }
}

fn operators_settings() -> Settings {
    let name = ("DIKALA_NODE__NAME".to_owned(), NODE.to_owned());
    let layers = Layers::load(None, [name]).expect("the defaults");
    Settings::new(&layers).expect("the defaults")
}

/// Allows the tenants' server without TLS.
fn guard() -> Guard {
    Guard {
        allow_cidrs: vec![IpNet::from(CUSTOMER)],
        allow_http: true,
        ..Guard::default()
    }
}

/// The answers of the tenants' server.
fn answer(request: &ReceivedRequest) -> ServerAnswer {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    match body.get("parameters") {
        Some(parameters) => ServerAnswer::Json(json!({"echo": parameters})),
        None => ServerAnswer::Status(200),
    }
}

fn serve(services: &Services) -> (SocketAddr, ServerHandle) {
    let data = services.clone();
    let server = HttpServer::new(move || {
        App::new()
            .app_data(Data::new(data.clone()))
            .app_data(Data::new(data.operations.clone()))
            .app_data(data.http.clone())
            .wrap(from_fn(request_scope))
            .configure(configure_api)
            .route(
                "/plain",
                web::get().to(|| async { HttpResponse::Unauthorized().body("own") }),
            )
    })
    .workers(2)
    .disable_signals()
    .bind(("127.0.0.1", 0))
    .expect("a port");
    let address = server.addrs()[0];
    let server = server.run();
    let handle = server.handle();
    actix_web::rt::spawn(server);
    (address, handle)
}

#[derive(Debug)]
pub struct ApiReply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl ApiReply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The invalid fields, each as `field code`.
    pub fn fields(&self) -> Vec<String> {
        let json = self.json();
        let fields = json["error"]["fields"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let text = |field: &Value, key: &str| field[key].as_str().unwrap_or_default().to_owned();
        fields
            .iter()
            .map(|f| format!("{} {}", text(f, "field"), text(f, "code")))
            .collect()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("text"))
    }

    pub fn id(&self) -> String {
        self.json()["id"].as_str().expect("an id").to_owned()
    }
}

impl ApiWorld {
    /// `None` if the machine does not have that store; tests use [`world!`].
    pub async fn with(kind: StoreKind, settings: ApiSettings) -> Option<Self> {
        let (keep, store) = kind.open().await?;
        // The TLS settings of outbound clients need a default provider; another test may have set it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let customer = TenantServer::listen(CUSTOMER, 0, answer);
        let clock =
            ManualClock::new(Millis::parse_rfc3339("2026-01-15T03:30:00Z").expect("a time"));
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let actors = ActorSystem::start(
            &operators_settings(),
            store.clone(),
            vault.clone(),
            Arc::new(clock.clone()),
            Membership::outside("main"),
            Traces::default(),
            || Outbound::with_names(guard(), |_| Ok(Vec::new())),
        )
        .await
        .expect("the actors start");
        let mut services = Services::new(&actors.runtime, settings);
        services.operations.chats = Some(chats());
        let (address, server) = serve(&services);
        Some(Self {
            ours: TenantSeed::new(&store, &vault, clock.now()).await,
            theirs: TenantSeed::new(&store, &vault, clock.now()).await,
            services,
            actors,
            customer,
            clock,
            address,
            seen: RefCell::default(),
            client: awc::Client::builder()
                .timeout(Duration::from_secs(20))
                .disable_redirects()
                .finish(),
            server,
            _keep: keep,
        })
    }

    pub fn store(&self) -> &Store {
        &self.services.store
    }

    /// Starts a call of ours that a bridge reports and answers, with credit bought for it.
    pub async fn talk(&self) -> (BridgeId, CallId) {
        let (now, tenant) = (self.clock.now(), self.ours.tenant);
        let account = credit_account::Model::empty(tenant, 0);
        rows::insert(self.store().writer(), account).await;
        let credit = Credit {
            tenant,
            minutes: 10,
            kind: TransactionType::Purchase,
            reference: None,
            description: None,
        };
        self.actors
            .runtime
            .ledger
            .credit(credit, None, |_| None)
            .await
            .expect("is booked");
        let incoming = IncomingCall {
            trace: None,
            bridge_call_id: "live".into(),
            called: self.ours.did.clone().into(),
            caller_number: "+6281298765432".parse().expect("a caller"),
            channel: None,
            draft: None,
            metadata: None,
            at: None,
        };
        let bridge = BridgeId::new(now);
        let call = match self
            .actors
            .runtime
            .calls
            .incoming(bridge, incoming, None)
            .await
        {
            Ok(messages::CallReply::Admitted { call, .. }) => call,
            other => panic!("the call is taken: {other:?}"),
        };
        let answered = CallInput::Answered {
            at: None,
            message_id: "m".into(),
        };
        let told = self
            .actors
            .runtime
            .calls
            .tell(Some(bridge), call, answered)
            .await;
        assert_eq!(told, Ok(messages::CallReply::Done));
        (bridge, call)
    }

    /// Takes the commands that wait for a bridge, in their order.
    pub fn commands(&self, bridge: BridgeId) -> Vec<CommandKind> {
        let commands = self
            .actors
            .runtime
            .bridges
            .take_commands(bridge, usize::MAX);
        commands.into_iter().map(|command| command.kind).collect()
    }

    /// The bridge confirms the requested hang-up.
    pub async fn obey(&self, bridge: BridgeId, call: CallId) {
        let hang_up = CallInput::HangUp {
            at: None,
            reason: HangupReason::Requested,
            initiator: HangupInitiator::Bridge,
            ai_cost_idr: None,
            voice: VoiceReport::default(),
        };
        let told = self
            .actors
            .runtime
            .calls
            .tell(Some(bridge), call, hang_up)
            .await;
        assert_eq!(told, Ok(messages::CallReply::Done));
    }

    /// Stops the dispatcher as at shutdown, so that deliveries and recoveries stay as requested.
    pub async fn nothing_is_sent(&self) {
        self.actors.runtime.webhooks.drain(Duration::ZERO).await;
    }

    /// Points our function and our webhook at the tenants' server.
    pub async fn at_the_customers(&self) {
        let moved = webhook::ActiveModel {
            id: Set(self.ours.webhook),
            url: Set(self.customer.outbound_url("/hook")),
            ..Default::default()
        };
        moved.update(self.store().writer()).await.expect("moves");
        function::Entity::update_many()
            .set(function::ActiveModel {
                endpoint: Set(self.customer.outbound_url("/function")),
                method: Set(FunctionMethod::Post),
                ..Default::default()
            })
            .filter(function::Column::TenantId.eq(self.ours.tenant))
            .exec(self.store().writer())
            .await
            .expect("moves");
    }

    /// Sends a request unchanged.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> ApiReply {
        let mut request = self
            .client
            .request(method.clone(), format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        let mut response = request.send_body(body).await.expect("an answer");
        let text = response.body().limit(10_000_000).await.expect("a body");
        ApiReply {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: String::from_utf8(text.to_vec()).expect("UTF-8"),
        }
    }

    /// Sends JSON with our key.
    pub async fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> ApiReply {
        let key = self.ours.key.as_str();
        let path = format!("{BASE}{path}");
        match body {
            None => {
                self.send(method, &path, &[("x-api-key", key)], Vec::new())
                    .await
            }
            Some(body) => {
                let headers = [("x-api-key", key), ("content-type", "application/json")];
                self.send(method, &path, &headers, body.to_string().into_bytes())
                    .await
            }
        }
    }

    pub async fn get(&self, path: &str) -> ApiReply {
        self.ask(&Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> ApiReply {
        self.ask(&Method::POST, path, Some(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> ApiReply {
        self.ask(&Method::PATCH, path, Some(&body)).await
    }

    pub async fn delete(&self, path: &str) -> ApiReply {
        self.ask(&Method::DELETE, path, None).await
    }

    /// Calls the operation of that id at that path, and checks status and answer against the description.
    pub async fn done(&self, id: &'static str, path: &str, body: Option<Value>) -> ApiReply {
        let route = ROUTES
            .iter()
            .find(|route| route.id == id)
            .expect("an operation");
        let reply = self.ask(route.method, path, body.as_ref()).await;
        assert_eq!(reply.status, route.status, "{id}: {reply:?}");
        if reply.status != 204 {
            assert_described(route, &reply);
        }
        self.seen.borrow_mut().insert(id);
        reply
    }
}

/// The described answer of that status.
pub fn described<'a>(document: &'a Value, base: &str, route: &ApiRoute, status: &str) -> &'a Value {
    let path = format!("{base}{}", route.path);
    let method = route.method.as_str().to_ascii_lowercase();
    let response = &document["paths"][&path][&method]["responses"][status];
    match response["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).expect("a response"),
        None => response,
    }
}

/// Checks the answer against the described schema of its status.
pub fn assert_described(route: &ApiRoute, reply: &ApiReply) {
    let document: Value = serde_json::from_str(routes::description()).expect("JSON");
    let response = described(&document, BASE, route, &reply.status.to_string());
    let mut schema = response["content"]["application/json"]["schema"].clone();
    assert!(
        schema.is_object(),
        "{} is not described for {}",
        reply.status,
        route.id
    );
    schema["components"] = document["components"].clone();
    let json = reply.json();
    let mismatch = json_schema::mismatch(&schema, &json);
    assert_eq!(mismatch, None, "{}: {json}", route.id);
}

/// Writes a delivery of a sample event with one attempt.
pub async fn write_delivery(
    store: &Store,
    webhook: &webhook::Model,
    now: Millis,
    status: DeliveryStatus,
) -> DeliveryId {
    let event = event::Model {
        body: json!({"event": "credits.low", "timestamp": now, "data": {"balanceMinutes": 3, "threshold": 30}}).to_string(),
        ..rows::event(webhook.tenant_id, now)
    };
    static MADE: AtomicUsize = AtomicUsize::new(1);
    let made = MADE.fetch_add(1, Ordering::Relaxed);
    let delivery = delivery::Model {
        // The time of a new id never goes back, that of a delivery's does.
        id: DeliveryId::derived(now, made as u128),
        status,
        attempts: 1,
        next_attempt_at: (status == DeliveryStatus::Pending).then_some(now),
        completed_at: (status != DeliveryStatus::Pending).then_some(now),
        ..rows::delivery(&event, webhook.id)
    };
    let id = delivery.id;
    let attempt = attempt::Model {
        duration_ms: 12,
        status_code: Some(500),
        response: vec![0xff, b'x', 0],
        ..rows::attempt(&delivery)
    };
    rows::insert(store.writer(), event).await;
    rows::insert(store.writer(), delivery).await;
    rows::insert(store.writer(), attempt).await;
    id
}

/// True for a 2xx status, for use in tables of tests.
pub fn is_success(status: u16) -> bool {
    StatusCode::from_u16(status).is_ok_and(|status| status.is_success())
}

/// An id that no agent has.
pub fn nobody() -> AgentId {
    AgentId::new(Millis::from_i64(1))
}
