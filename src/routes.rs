//! The whole surface of the tenant's API on one screen: every route with its name, its handler, what it takes and what it gives.
//! The router, the description and the tests are made from this table.

use actix_web::{
    HttpResponse,
    http::{
        Method,
        header::{CONTENT_SECURITY_POLICY, LOCATION},
    },
    middleware::{DefaultHeaders, from_fn},
    web::{self, ServiceConfig},
};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::{
    api::{
        agents, calls, credits, deliveries, erasure, events, function_stats, functions,
        phone_numbers, versions, webhooks,
    },
    error::{ApiError, Code, Missing},
    middleware::{admit, catch_panic, once, only_reads, receive_body},
    openapi::{self, Schemas},
};

/// Where the API is.
pub const BASE: &str = "/api/v1";

const PAGED: &[&str] = &["limit", "offset"];
const AGENT: &[Code] = &[Code::AgentNotFound];
const NUMBER: &[Code] = &[Code::PhoneNumberNotFound];
const CALL: &[Code] = &[Code::CallNotFound];
const RUNNING_CALL: &[Code] = &[Code::CallNotFound, Code::CallNotActive];
const WEBHOOK: &[Code] = &[Code::WebhookNotFound];
const FUNCTION: &[Code] = &[Code::AgentNotFound, Code::FunctionNotFound];
const NEW_FUNCTION: &[Code] = &[Code::AgentNotFound, Code::FunctionExists];
const CHANGED_FUNCTION: &[Code] = &[
    Code::AgentNotFound,
    Code::FunctionNotFound,
    Code::FunctionExists,
];
const DELIVERY: &[Code] = &[Code::DeliveryNotFound];
const RESENT: &[Code] = &[Code::DeliveryNotFound, Code::WebhookNotFound];

/// Every route.
#[rustfmt::skip]
pub const ROUTES: &[Route] = &[
    get("/agents", "agents.list", |r| r.to(agents::list_all), "All agents, oldest first; with limit or offset a page of them.").query(PAGED).ok::<agents::AgentList>(),
    post("/agents", "agents.create", |r| r.to(agents::create), "Create an agent.").takes::<agents::AgentDraft>().created::<agents::Agent>(),
    get("/agents/{id}", "agents.get", |r| r.to(agents::show), "One agent.").ok::<agents::Agent>().fails(AGENT),
    patch("/agents/{id}", "agents.update", |r| r.to(agents::update), "Change an agent.").patches::<agents::AgentDraft>().ok::<agents::Agent>().fails(AGENT),
    delete("/agents/{id}", "agents.delete", |r| r.to(agents::delete), "Delete an agent with its functions; its numbers stay without one.").fails(AGENT),

    get("/agents/{id}/versions", "agents.versions", |r| r.to(versions::list_all), "The versions of an agent that are kept, oldest first.").query(PAGED).ok::<versions::AgentVersionList>().fails(AGENT),
    get("/agents/{id}/versions/{version}", "agents.version", |r| r.to(versions::show), "One version of an agent: what the calls that name it began with.").ok::<versions::AgentVersion>().fails(AGENT),

    post("/agents/{id}/functions", "functions.create", |r| r.to(functions::create), "Give an agent a function.").takes::<functions::FunctionDraft>().created::<functions::Function>().fails(NEW_FUNCTION),
    get("/agents/{id}/functions", "functions.list", |r| r.to(functions::list_all), "All functions of an agent, oldest first; with limit or offset a page of them.").query(PAGED).ok::<functions::FunctionList>().fails(AGENT),
    patch("/agents/{id}/functions/{name}", "functions.update", |r| r.to(functions::update), "Change a function.").patches::<functions::FunctionDraft>().ok::<functions::Function>().fails(CHANGED_FUNCTION),
    delete("/agents/{id}/functions/{name}", "functions.delete", |r| r.to(functions::delete), "Delete a function.").fails(FUNCTION),
    post("/agents/{id}/functions/{name}/test", "functions.test", |r| r.to(functions::test), "Call a function's endpoint as a call would, marked as a test.").may_take::<functions::FunctionTest>().ok::<functions::FunctionOutcome>().fails(FUNCTION),
    get("/agents/{id}/functions/{name}/stats", "functions.stats", |r| r.to(function_stats::show), "How often a function was called, failed, and how long it took.").ok::<function_stats::FunctionStats>().fails(FUNCTION),

    get("/phone-numbers", "phoneNumbers.list", |r| r.to(phone_numbers::list_all), "All phone numbers, oldest first; with limit or offset a page of them.").query(PAGED).ok::<phone_numbers::PhoneNumberList>(),
    get("/phone-numbers/{id}", "phoneNumbers.get", |r| r.to(phone_numbers::show), "One phone number.").ok::<phone_numbers::PhoneNumber>().fails(NUMBER),
    post("/phone-numbers/{id}/assign-agent", "phoneNumbers.assignAgent", |r| r.to(phone_numbers::assign_agent), "Point a number at an agent, or at none.").takes::<phone_numbers::Assignment>().ok::<phone_numbers::PhoneNumber>().fails(NUMBER),

    get("/calls", "calls.list", |r| r.to(calls::list), "A page of calls, newest first.").query(&["limit", "offset", "before", "status", "from", "to", "agentId", "phoneNumberId", "callerNumber"]).ok::<calls::CallList>(),
    get("/calls/{id}", "calls.get", |r| r.to(calls::show), "One call.").ok::<calls::Call>().fails(CALL),
    delete("/calls/{id}", "calls.delete", |r| r.to(erasure::erase), "Erase what was said in a call that is over, its numbers and its metadata; what it cost stays.").fails(RUNNING_CALL),
    get("/calls/{id}/events", "calls.events", |r| r.to(calls::events), "What a call announced, oldest first; with limit or offset a page of it.").query(PAGED).ok::<calls::EventList>().fails(CALL),
    get("/calls/{id}/transcript", "calls.transcript", |r| r.to(calls::transcript), "What was said in a call.").ok::<calls::Transcript>().fails(CALL),
    post("/calls/{id}/hangup", "calls.hangup", |r| r.to(calls::hang_up), "End a running call.").accepted::<calls::Call>().fails(RUNNING_CALL),
    post("/calls/{id}/transfer", "calls.transfer", |r| r.to(calls::transfer), "Connect a running call to a person.").may_take::<calls::Transfer>().accepted::<calls::Call>().fails(RUNNING_CALL),

    get("/credits", "credits.get", |r| r.to(credits::balance), "The balance.").ok::<credits::Balance>(),
    get("/credits/transactions", "credits.transactions", |r| r.to(credits::transactions), "A page of the balance's movements, newest first.").query(PAGED).ok::<credits::TransactionList>(),

    post("/webhooks", "webhooks.create", |r| r.to(webhooks::create), "Register a webhook.").takes::<webhooks::WebhookCreate>().created::<webhooks::Webhook>().fails(&[Code::WebhookLimitReached]),
    get("/webhooks", "webhooks.list", |r| r.to(webhooks::list_all), "All webhooks, oldest first; with limit or offset a page of them.").query(PAGED).ok::<webhooks::WebhookList>(),
    get("/webhooks/{id}", "webhooks.get", |r| r.to(webhooks::show), "One webhook.").ok::<webhooks::Webhook>().fails(WEBHOOK),
    patch("/webhooks/{id}", "webhooks.update", |r| r.to(webhooks::update), "Change a webhook, or enable it again.").patches::<webhooks::WebhookUpdate>().ok::<webhooks::Webhook>().fails(WEBHOOK),
    delete("/webhooks/{id}", "webhooks.delete", |r| r.to(webhooks::delete), "Delete a webhook; nothing more is delivered to it.").fails(WEBHOOK),
    post("/webhooks/{id}/rotate-secret", "webhooks.rotateSecret", |r| r.to(webhooks::rotate_secret), "Replace the secret; the old one signs as well for 24 hours.").takes::<webhooks::SecretRotation>().ok::<webhooks::Webhook>().fails(WEBHOOK),
    post("/webhooks/{id}/test", "webhooks.test", |r| r.to(webhooks::test), "Send a signed sample and wait for what becomes of it.").ok::<deliveries::DeliveryDetail>().fails(WEBHOOK),
    get("/webhooks/{id}/deliveries", "webhooks.deliveries", |r| r.to(deliveries::list), "A page of deliveries, newest first.").query(&["limit", "offset", "status"]).ok::<deliveries::DeliveryList>().fails(WEBHOOK),
    post("/webhooks/{id}/recover", "webhooks.recover", |r| r.to(deliveries::recover), "Send again all that failed in a time, in the background.").takes::<deliveries::Recovery>().accepted::<deliveries::Recovered>().fails(WEBHOOK),

    get("/deliveries/{id}", "deliveries.get", |r| r.to(deliveries::show), "One delivery with its attempts.").ok::<deliveries::DeliveryDetail>().fails(DELIVERY),
    post("/deliveries/{id}/resend", "deliveries.resend", |r| r.to(deliveries::resend), "Send a delivery again now.").accepted::<deliveries::Delivery>().fails(RESENT),

    get("/events/stream", "events.stream", |r| r.to(events::stream), "Follow events live, as server-sent events.").headers(&[events::LAST_EVENT_ID]).streams(),
    post("/events/sample", "events.sample", |r| r.to(events::make_sample), "Make a sample of an event, for those who follow the stream; no webhook gets it.").takes::<events::Sample>().accepted::<events::Event>(),
];

/// Which body a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Required,
    /// May be left out.
    Optional,
    /// A JSON merge patch.
    Patch,
}

/// Puts the schema of a body among the others and gives a reference to it.
type InputSchema = fn(&mut Schemas, Input) -> Value;

/// One route.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: &'static Method,
    /// Below [`BASE`].
    pub path: &'static str,
    /// The operation id.
    pub id: &'static str,
    pub summary: &'static str,
    /// The status of success.
    pub status: u16,
    /// The names of the query parameters.
    pub query: &'static [&'static str],
    /// The names of the headers it reads besides those that every route does.
    pub headers: &'static [&'static str],
    /// Whether it answers with server-sent events, for as long as the client likes.
    pub streams: bool,
    pub(crate) input: Option<(Input, InputSchema)>,
    pub(crate) answer: Option<fn(&mut Schemas) -> Value>,
    /// What it can fail with beyond what every route can.
    pub(crate) errors: &'static [Code],
    handler: fn(actix_web::Route) -> actix_web::Route,
}

type Handler = fn(actix_web::Route) -> actix_web::Route;

const fn get(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route::new(&Method::GET, path, id, handler, summary)
}

const fn post(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route::new(&Method::POST, path, id, handler, summary)
}

const fn patch(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route::new(&Method::PATCH, path, id, handler, summary)
}

const fn delete(
    path: &'static str,
    id: &'static str,
    handler: Handler,
    summary: &'static str,
) -> Route {
    Route::new(&Method::DELETE, path, id, handler, summary)
}

impl Route {
    const fn new(
        method: &'static Method,
        path: &'static str,
        id: &'static str,
        handler: Handler,
        summary: &'static str,
    ) -> Self {
        Self {
            method,
            path,
            id,
            summary,
            status: 204,
            query: &[],
            headers: &[],
            streams: false,
            input: None,
            answer: None,
            errors: &[],
            handler,
        }
    }

    const fn ok<T: ToSchema>(self) -> Self {
        self.answers::<T>(200)
    }

    const fn created<T: ToSchema>(self) -> Self {
        self.answers::<T>(201)
    }

    const fn accepted<T: ToSchema>(self) -> Self {
        self.answers::<T>(202)
    }

    const fn answers<T: ToSchema>(mut self, status: u16) -> Self {
        self.status = status;
        self.answer = Some(Schemas::answer::<T>);
        self
    }

    const fn takes<T: ToSchema>(self) -> Self {
        self.input::<T>(Input::Required)
    }

    const fn may_take<T: ToSchema>(self) -> Self {
        self.input::<T>(Input::Optional)
    }

    const fn patches<T: ToSchema>(self) -> Self {
        self.input::<T>(Input::Patch)
    }

    const fn input<T: ToSchema>(mut self, input: Input) -> Self {
        self.input = Some((input, Schemas::input::<T>));
        self
    }

    const fn query(mut self, parameters: &'static [&'static str]) -> Self {
        self.query = parameters;
        self
    }

    const fn headers(mut self, names: &'static [&'static str]) -> Self {
        self.headers = names;
        self
    }

    const fn streams(mut self) -> Self {
        self.status = 200;
        self.streams = true;
        self
    }

    const fn fails(mut self, errors: &'static [Code]) -> Self {
        self.errors = errors;
        self
    }

    /// The resource that the route belongs to.
    pub fn tag(&self) -> &'static str {
        self.id.split('.').next().unwrap_or_default()
    }

    /// Whether it takes an `Idempotency-Key`.
    pub fn is_post(&self) -> bool {
        *self.method == Method::POST
    }
}

/// What is at a path.
#[derive(Clone, Debug)]
pub enum Found {
    Route(&'static Route),
    /// The path is there and takes these methods, as `Allow` lists them.
    OtherMethods(String),
    Nothing,
}

/// Looks up the pattern that the router matched.
pub fn find(pattern: Option<&str>, method: &Method) -> Found {
    let path = pattern.and_then(|pattern| pattern.strip_prefix(BASE));
    let here: Vec<&'static Route> = ROUTES
        .iter()
        .filter(|route| Some(route.path) == path)
        .collect();
    match here.iter().find(|route| route.method == method) {
        Some(route) => Found::Route(route),
        None if here.is_empty() => Found::Nothing,
        None => {
            let methods: Vec<&str> = here.iter().map(|route| route.method.as_str()).collect();
            Found::OtherMethods(methods.join(", "))
        }
    }
}

/// Mounts the API, its description at `/openapi.json` and `/docs`, and the answer for every other path.
///
/// The application has to hold `Data<Services>` and to be wrapped in [`request_scope`](crate::middleware::request_scope).
pub fn configure_api(cfg: &mut ServiceConfig) {
    let mut scope = web::scope(BASE);
    let mut paths: Vec<&str> = ROUTES.iter().map(|route| route.path).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        let mut resource = web::resource(path).wrap(from_fn(catch_panic));
        for route in ROUTES.iter().filter(|route| route.path == path) {
            resource = resource.route((route.handler)(web::method(route.method.clone())));
        }
        scope = scope.service(resource);
    }
    cfg.service(
        scope
            .default_service(web::to(not_found))
            .wrap(from_fn(once))
            .wrap(from_fn(receive_body))
            .wrap(from_fn(admit)),
    );
    configure_docs(cfg);
    cfg.default_service(web::to(not_found));
}

/// The pages of the description bring their own scripts, and have styles and pictures inside.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn configure_docs(cfg: &mut ServiceConfig) {
    let description = || async {
        HttpResponse::Ok()
            .content_type("application/json")
            .body(openapi::json())
    };
    let lead_to = |place: &'static str| {
        move || async move {
            HttpResponse::TemporaryRedirect()
                .insert_header((LOCATION, place))
                .finish()
        }
    };
    let pages = SwaggerUi::new("/{_:.*}").config(Config::from("/openapi.json"));
    let reads = || from_fn(only_reads);
    cfg.service(web::resource("/openapi.json").wrap(reads()).to(description))
        .service(web::resource("/").wrap(reads()).to(lead_to("/docs")))
        .service(web::resource("/docs").wrap(reads()).to(lead_to("/docs/")))
        .service(
            web::scope("/docs")
                .wrap(DefaultHeaders::new().add((CONTENT_SECURITY_POLICY, DOCS_POLICY)))
                .wrap(reads())
                .service(pages),
        );
}

async fn not_found() -> Result<HttpResponse, ApiError> {
    Err(ApiError::NotFound(Missing::Route))
}
