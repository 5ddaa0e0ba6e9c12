//! A running API with two tenants, and a client that checks every answer against the description.

use std::{cell::RefCell, collections::BTreeSet, net::Ipv4Addr, sync::Arc, time::Duration};

use actix_web::{
    App, HttpResponse, HttpServer,
    http::{Method, StatusCode, header::HeaderMap},
    middleware::from_fn,
    web::{self, Data},
};
use dikala_actors::{
    clock::{Clock, ManualClock},
    feed::Feed,
    functions::CircuitState,
    outbound::Blocked,
};
use dikala_entities::{
    AgentId, CallId, CallStatus, DeliveryId, DeliveryStatus, EventId, EventKind, Millis,
    OutboundUrl, PhoneNumber, Store, TenantId, UrlPolicy, Vault, WebhookId, attempt, call,
    delivery, event, function, webhook,
};
use futures_util::future::{BoxFuture, FutureExt, ready};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ConnectionTrait, Database, EntityTrait, IntoActiveModel,
};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::seed::Seed;
use crate::{
    middleware::request_scope,
    openapi,
    routes::{self, BASE, ROUTES, configure_api},
    services::{ApiSettings, CallControl, ControlError, OutboundControl, Services},
};

/// A running API.
pub struct World {
    pub services: Services,
    pub clock: ManualClock,
    pub address: std::net::SocketAddr,
    pub ours: Seed,
    pub theirs: Seed,
    /// The operations that were carried out with success.
    pub seen: RefCell<BTreeSet<&'static str>>,
    client: awc::Client,
    server: actix_web::dev::ServerHandle,
    _folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.server.stop(false));
    }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The wrong fields as `field code`.
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

impl World {
    pub async fn start() -> Self {
        Self::with(ApiSettings {
            urls: UrlPolicy { allow_http: false },
            body_timeout: Duration::from_millis(400),
            unauthenticated_per_minute: 10_000,
            ..ApiSettings::default()
        })
        .await
    }

    pub async fn with(settings: ApiSettings) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(&folder).await;
        let clock =
            ManualClock::new(Millis::parse_rfc3339("2026-01-15T03:30:00Z").expect("a time"));
        let outbound = Arc::new(DirectOutbound {
            store: store.clone(),
            clock: clock.clone(),
        });
        let services = Services::new(
            store.clone(),
            Vault::from_base64(&Vault::generate_key()).expect("a key"),
            Arc::new(clock.clone()),
            settings,
            Arc::new(RowCalls {
                store: store.clone(),
                clock: clock.clone(),
            }),
            outbound,
            Feed::default(),
        );
        let data = services.clone();
        let server = HttpServer::new(move || {
            App::new()
                .app_data(Data::new(data.clone()))
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
        Self {
            ours: Seed::new(&store, clock.now()).await,
            theirs: Seed::new(&store, clock.now()).await,
            services,
            clock,
            address,
            seen: RefCell::default(),
            client: awc::Client::builder()
                .timeout(Duration::from_secs(20))
                .disable_redirects()
                .finish(),
            server: handle,
            _folder: folder,
        }
    }

    pub fn store(&self) -> &Store {
        &self.services.store
    }

    /// Sends a request as it is.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Reply {
        let mut request = self
            .client
            .request(method.clone(), format!("http://{}{path}", self.address));
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        let mut response = request.send_body(body).await.expect("an answer");
        let text = response.body().limit(10_000_000).await.expect("a body");
        Reply {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: String::from_utf8(text.to_vec()).expect("UTF-8"),
        }
    }

    /// Sends JSON with our key.
    pub async fn ask(&self, method: &Method, path: &str, body: Option<&Value>) -> Reply {
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

    pub async fn get(&self, path: &str) -> Reply {
        self.ask(&Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.ask(&Method::POST, path, Some(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.ask(&Method::PATCH, path, Some(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.ask(&Method::DELETE, path, None).await
    }

    /// Carries out the operation of that id at that path; its status and its answer have to be as described.
    pub async fn done(&self, id: &'static str, path: &str, body: Option<Value>) -> Reply {
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

/// What the description says of an answer of that status.
pub fn described<'a>(document: &'a Value, route: &routes::Route, status: &str) -> &'a Value {
    let path = format!("{BASE}{}", route.path);
    let method = route.method.as_str().to_ascii_lowercase();
    let response = &document["paths"][&path][&method]["responses"][status];
    match response["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).expect("a response"),
        None => response,
    }
}

/// The answer fits the schema that the description gives for its status.
pub fn assert_described(route: &routes::Route, reply: &Reply) {
    let document: Value = serde_json::from_str(openapi::json()).expect("JSON");
    let response = described(&document, route, &reply.status.to_string());
    let mut schema = response["content"]["application/json"]["schema"].clone();
    assert!(
        schema.is_object(),
        "{} is not described for {}",
        reply.status,
        route.id
    );
    schema["components"] = document["components"].clone();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let json = reply.json();
    let errors: Vec<String> = validator
        .iter_errors(&json)
        .map(|e| format!("{} at {}", e, e.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{}: {errors:?} in {json}", route.id);
}

async fn open(folder: &TempDir) -> Store {
    let url = match std::env::var("DIKALA_TEST_POSTGRES_URL") {
        Err(_) => format!("sqlite://{}/dikala.db", folder.path().display()),
        Ok(server) => {
            let name = format!(
                "t_{}",
                EventId::new(dikala_actors::clock::SystemClock.now())
            );
            let admin = Database::connect(&server).await.expect("a server");
            admin
                .execute_unprepared(&format!("CREATE DATABASE {name}"))
                .await
                .expect("a database");
            admin.close().await.expect("closes");
            let (base, _) = server.rsplit_once('/').expect("a database in the URL");
            format!("{base}/{name}")
        }
    };
    let store = Store::connect(&url).await.expect("a store");
    dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
        .await
        .expect("migrates");
    store
}

/// Carries commands out at once in the rows, as a bridge would that obeys in no time.
#[derive(Debug)]
struct RowCalls {
    store: Store,
    clock: ManualClock,
}

impl RowCalls {
    async fn change(
        &self,
        tenant: TenantId,
        id: CallId,
        change: impl FnOnce(&mut call::ActiveModel),
    ) -> Result<(), ControlError> {
        let row = call::Entity::find_by_id(id)
            .one(self.store.reader())
            .await
            .map_err(|_| ControlError::Unavailable)?;
        let row = row
            .filter(|row| row.tenant_id == tenant)
            .ok_or(ControlError::NotFound)?;
        if row.status.is_final() {
            return Err(ControlError::NotActive);
        }
        let mut row = row.into_active_model();
        change(&mut row);
        row.update(self.store.writer())
            .await
            .map(drop)
            .map_err(|_| ControlError::Unavailable)
    }
}

impl CallControl for RowCalls {
    fn hang_up(&self, tenant: TenantId, call: CallId) -> BoxFuture<'_, Result<(), ControlError>> {
        self.change(tenant, call, |row| {
            row.status = Set(CallStatus::Ended);
            row.ended_at = Set(Some(self.clock.now()));
            row.hangup_reason = Set(Some(dikala_entities::HangupReason::Requested));
        })
        .boxed()
    }

    fn transfer(
        &self,
        tenant: TenantId,
        call: CallId,
        to: PhoneNumber,
    ) -> BoxFuture<'_, Result<(), ControlError>> {
        self.change(tenant, call, move |row| {
            row.pending = Set(Some(json!([{"to": to}]).to_string()))
        })
        .boxed()
    }
}

/// Delivers to nobody: knows private addresses, and writes down what a delivery would leave.
#[derive(Debug)]
struct DirectOutbound {
    store: Store,
    clock: ManualClock,
}

impl OutboundControl for DirectOutbound {
    fn check_url(&self, _: TenantId, url: &OutboundUrl) -> BoxFuture<'_, Result<(), Blocked>> {
        let private = match url.to_url().host() {
            Some(url::Host::Ipv4(ip)) => {
                ip.is_private() || ip.is_loopback() || ip == Ipv4Addr::UNSPECIFIED
            }
            Some(url::Host::Domain(name)) => name == "localhost",
            _ => true,
        };
        let verdict = if private {
            Err(Blocked::NotPublic)
        } else {
            Ok(())
        };
        ready(verdict).boxed()
    }

    fn circuit(&self, _: &function::Model) -> CircuitState {
        CircuitState::Closed
    }

    fn test_function(
        &self,
        _: function::Model,
        parameters: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, ControlError>> {
        ready(Ok(json!({"status": "ok", "result": {"echo": parameters}}))).boxed()
    }

    fn test_webhook(
        &self,
        webhook: webhook::Model,
    ) -> BoxFuture<'_, Result<DeliveryId, ControlError>> {
        async move {
            let id = write_delivery(
                &self.store,
                &webhook,
                self.clock.now(),
                DeliveryStatus::Succeeded,
            )
            .await;
            Ok(id)
        }
        .boxed()
    }

    fn refresh(&self, _: WebhookId) {}

    fn wake(&self) {}
}

/// A delivery of a sample event with one attempt.
pub async fn write_delivery(
    store: &Store,
    webhook: &webhook::Model,
    now: Millis,
    status: DeliveryStatus,
) -> DeliveryId {
    let (event_id, id) = (EventId::new(now), DeliveryId::new(now));
    let event = event::Model {
        id: event_id,
        tenant_id: webhook.tenant_id,
        call_id: None,
        kind: EventKind::CreditsLow,
        occurred_at: now,
        body: json!({"event": "credits.low", "timestamp": now, "data": {"balanceMinutes": 3, "threshold": 30}}).to_string(),
        position: None,
        is_test: false,
    };
    let delivery = delivery::Model {
        id,
        tenant_id: webhook.tenant_id,
        webhook_id: webhook.id,
        event_id,
        call_id: None,
        kind: EventKind::CreditsLow,
        status,
        attempts: 1,
        next_attempt_at: (status == DeliveryStatus::Pending).then_some(now),
        lease_owner: None,
        lease_until: Millis::MIN,
        is_test: false,
        created_at: now,
        completed_at: (status != DeliveryStatus::Pending).then_some(now),
    };
    let attempt = attempt::Model {
        delivery_id: id,
        number: 1,
        tenant_id: webhook.tenant_id,
        started_at: now,
        duration_ms: 12,
        status_code: Some(500),
        error_kind: None,
        response: vec![0xff, b'x', 0],
    };
    event::Entity::insert(event.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .expect("an event");
    delivery::Entity::insert(delivery.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .expect("a delivery");
    attempt::Entity::insert(attempt.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .expect("an attempt");
    id
}

/// What a status is called in tables of tests.
pub fn is_success(status: u16) -> bool {
    StatusCode::from_u16(status).is_ok_and(|status| status.is_success())
}

/// An agent's id that nobody has.
pub fn nobody() -> AgentId {
    AgentId::new(Millis::from_i64(1))
}
