//! The tenants' whole API on one screen: every route with its name, handler, parameters and answers. The router, the
//! OpenAPI description and the tests are made from this table.

use std::sync::OnceLock;

use actix_web::{
    Error, HttpResponse,
    body::BoxBody,
    dev::{ServiceRequest, ServiceResponse},
    http::header::{CONTENT_SECURITY_POLICY, LOCATION},
    middleware::{DefaultHeaders, Next, from_fn},
    web::{self, ServiceConfig},
};
use dikala_entities::AuditAction;
use serde_json::{Value, json};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::{
    api::{self, call_stats, deliveries, events, function_stats, lists, webhook_stats},
    http::{
        again::{again, answer},
        error::Code,
        idempotency::once,
        middleware::{admit, only_reads, receive_body},
        route::{BASE, RouteLookup},
    },
    openapi::{self, Api, ApiRoute, delete, get, nothing, patch, post},
    operations::{
        self, agents, calls, chats, credits, functions, numbers, voices, web_calls, webhooks,
        widgets,
    },
    pages::packed,
};

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
const NEW_CHAT: &[Code] = &[Code::AgentNotFound, Code::NoTextModel];
const CHAT: &[Code] = &[
    Code::ChatNotFound,
    Code::ChatAnswering,
    Code::ChatFull,
    Code::NoTextModel,
];
const DELIVERY: &[Code] = &[Code::DeliveryNotFound];
const WIDGET: &[Code] = &[Code::WidgetNotFound];
const RESENT: &[Code] = &[
    Code::DeliveryNotFound,
    Code::WebhookNotFound,
    Code::CallNotActive,
];

#[rustfmt::skip]
pub const ROUTES: &[ApiRoute] = &[
    get("/agents", "agents.list", |r| r.to(lists::agents), "All agents, oldest first; with limit or offset a page of them.").query(PAGED).ok::<agents::AgentList>(),
    post("/agents", "agents.create", |r| r.to(again(agents::create)), "Create an agent.").takes::<agents::AgentInput>().ignores(agents::READ_ONLY).created::<agents::AgentView>().leaves(AuditAction::AgentCreate),
    get("/agents/{id}", "agents.get", |r| r.to(answer(agents::show)), "One agent.").ok::<agents::AgentView>().fails(AGENT),
    patch("/agents/{id}", "agents.update", |r| r.to(again(agents::update)), "Change an agent.").patches::<agents::AgentInput>().ignores(agents::READ_ONLY).ok::<agents::AgentView>().fails(AGENT).leaves(AuditAction::AgentUpdate),
    delete("/agents/{id}", "agents.delete", |r| r.to(again(agents::delete)), "Delete an agent with its functions and widgets; its numbers stay without one.").fails(AGENT).leaves(AuditAction::AgentDelete),

    get("/agents/{id}/versions", "agents.versions", |r| r.to(lists::versions), "The versions of an agent that are kept, oldest first.").query(PAGED).ok::<lists::AgentVersionList>().fails(AGENT),
    get("/agents/{id}/versions/{version}", "agents.version", |r| r.to(answer(agents::version)), "One version of an agent: what the calls that name it began with.").ok::<agents::AgentVersion>().fails(AGENT),

    post("/agents/{id}/web-calls", "agents.webCall", |r| r.to(again(web_calls::create)), "Make a token for one call from a browser, good for 60 s.").may_take::<web_calls::WebCallInput>().created::<web_calls::WebCallToken>().fails(AGENT),

    post("/agents/{id}/chats", "chats.create", |r| r.to(again(chats::create)), "Begin a conversation in writing with an agent, to try it.").may_take::<chats::ChatInput>().created::<chats::ChatView>().fails(NEW_CHAT).leaves(AuditAction::ChatCreate),
    post("/chats/{id}/messages", "chats.send", |r| r.to(api::chats::send), "Write to an agent; its answer is streamed, as server-sent events.").takes::<chats::ChatMessage>().fails(CHAT).streams(&api::chats::STREAMED),

    post("/agents/{id}/functions", "functions.create", |r| r.to(again(functions::create)), "Give an agent a function.").takes::<functions::FunctionDraft>().ignores(functions::READ_ONLY).created::<functions::Function>().fails(NEW_FUNCTION).leaves(AuditAction::FunctionCreate),
    get("/agents/{id}/functions", "functions.list", |r| r.to(lists::functions), "All functions of an agent, oldest first; with limit or offset a page of them.").query(PAGED).ok::<lists::FunctionList>().fails(AGENT),
    patch("/agents/{id}/functions/{name}", "functions.update", |r| r.to(again(functions::update)), "Change a function.").patches::<functions::FunctionDraft>().ignores(functions::READ_ONLY).ok::<functions::Function>().fails(CHANGED_FUNCTION).leaves(AuditAction::FunctionUpdate),
    delete("/agents/{id}/functions/{name}", "functions.delete", |r| r.to(again(functions::delete)), "Delete a function.").fails(FUNCTION).leaves(AuditAction::FunctionDelete),
    post("/agents/{id}/functions/{name}/test", "functions.test", |r| r.to(answer(functions::test)), "Call a function's endpoint as a call would, marked as a test.").may_take::<functions::FunctionTest>().ok::<functions::FunctionOutcome>().fails(FUNCTION),
    get("/agents/{id}/functions/{name}/stats", "functions.stats", |r| r.to(answer(function_stats::show)), "How often a function was called, failed, and how long it took.").ok::<function_stats::FunctionStats>().fails(FUNCTION),

    get("/voices", "voices.list", |r| r.to(answer(voices::list)), "All providers of voices that are built in, and whether agents can name them.").ok::<voices::VoiceList>(),

    get("/phone-numbers", "phoneNumbers.list", |r| r.to(lists::phone_numbers), "All phone numbers, oldest first; with limit or offset a page of them.").query(PAGED).ok::<lists::PhoneNumberList>(),
    get("/phone-numbers/{id}", "phoneNumbers.get", |r| r.to(answer(numbers::show::<numbers::PhoneNumberView>)), "One phone number.").ok::<numbers::PhoneNumberView>().fails(NUMBER),
    post("/phone-numbers/{id}/assign-agent", "phoneNumbers.assignAgent", |r| r.to(again(numbers::assign_agent)), "Point a number at an agent, or at none.").takes::<numbers::Assignment>().ok::<numbers::PhoneNumberView>().fails(NUMBER).leaves(AuditAction::NumberAssign),

    get("/calls", "calls.list", |r| r.to(answer(calls::list)), "A page of calls, newest first.").query(&["limit", "offset", "before", "status", "from", "to", "agentId", "phoneNumberId", "callerNumber", "channel", "q"]).ok::<calls::CallList>(),
    get("/calls/stats", "calls.stats", |r| r.to(answer(call_stats::show)), "How many calls there were, how they ended and how long was talked, by hour or day.").query(&["interval", "timeZone", "from", "to", "agentId", "phoneNumberId"]).ok::<call_stats::CallStats>(),
    get("/calls/{id}", "calls.get", |r| r.to(answer(calls::show::<calls::CallView>)), "One call.").ok::<calls::CallView>().fails(CALL),
    delete("/calls/{id}", "calls.delete", |r| r.to(again(calls::erase)), "Erase what was said in a call that is over, its numbers and its metadata; what it cost stays.").fails(RUNNING_CALL).leaves(AuditAction::CallErase),
    get("/calls/{id}/events", "calls.events", |r| r.to(lists::events), "What a call announced, oldest first; with limit or offset a page of it.").query(PAGED).ok::<lists::EventList>().fails(CALL),
    get("/calls/{id}/transcript", "calls.transcript", |r| r.to(answer(calls::transcript)), "What was said in a call.").ok::<calls::TranscriptView>().fails(CALL),
    post("/calls/{id}/hangup", "calls.hangup", |r| r.to(answer(calls::hang_up::<calls::CallView>)), "End a running call.").accepted::<calls::CallView>().fails(RUNNING_CALL).leaves(AuditAction::CallHangup),
    post("/calls/{id}/transfer", "calls.transfer", |r| r.to(answer(calls::transfer)), "Connect a running call to a person.").may_take::<calls::TransferInput>().accepted::<calls::CallView>().fails(RUNNING_CALL).leaves(AuditAction::CallTransfer),

    get("/credits", "credits.get", |r| r.to(answer(credits::balance)), "The balance.").ok::<credits::BalanceView>(),
    get("/credits/transactions", "credits.transactions", |r| r.to(answer(credits::own_transactions)), "A page of the balance's movements, newest first.").query(PAGED).ok::<credits::TransactionList>(),

    post("/webhooks", "webhooks.create", |r| r.to(again(webhooks::create)), "Register a webhook.").takes::<webhooks::WebhookCreate>().ignores(webhooks::READ_ONLY).created::<webhooks::Webhook>().fails(&[Code::WebhookLimitReached]).leaves(AuditAction::WebhookCreate),
    get("/webhooks", "webhooks.list", |r| r.to(lists::webhooks), "All webhooks, oldest first; with limit or offset a page of them.").query(PAGED).ok::<lists::WebhookList>(),
    get("/webhooks/{id}", "webhooks.get", |r| r.to(answer(webhooks::show)), "One webhook.").ok::<webhooks::Webhook>().fails(WEBHOOK),
    patch("/webhooks/{id}", "webhooks.update", |r| r.to(again(webhooks::update)), "Change a webhook, or enable it again.").patches::<webhooks::WebhookUpdate>().ignores(webhooks::READ_ONLY_OF_UPDATES).ok::<webhooks::Webhook>().fails(WEBHOOK).leaves(AuditAction::WebhookUpdate),
    delete("/webhooks/{id}", "webhooks.delete", |r| r.to(again(webhooks::delete)), "Delete a webhook; nothing more is delivered to it.").fails(WEBHOOK).leaves(AuditAction::WebhookDelete),
    post("/webhooks/{id}/rotate-secret", "webhooks.rotateSecret", |r| r.to(again(webhooks::rotate_secret)), "Replace the secret; the old one signs as well for 24 hours.").takes::<webhooks::SecretRotation>().ok::<webhooks::Webhook>().fails(WEBHOOK).leaves(AuditAction::WebhookRotateSecret),
    post("/webhooks/{id}/test", "webhooks.test", |r| r.to(answer(deliveries::test)), "Send a signed sample and wait for what becomes of it.").ok::<deliveries::DeliveryDetail>().fails(WEBHOOK),
    get("/webhooks/{id}/deliveries", "webhooks.deliveries", |r| r.to(answer(deliveries::list)), "A page of deliveries, newest first.").query(&["limit", "offset", "status"]).ok::<deliveries::DeliveryList>().fails(WEBHOOK),
    post("/webhooks/{id}/recover", "webhooks.recover", |r| r.to(again(operations::deliveries::recover)), "Send again all that failed in a time, in the background.").takes::<operations::deliveries::Recovery>().accepted::<operations::deliveries::RecoveryCount>().fails(WEBHOOK).leaves(AuditAction::WebhookRecover),
    get("/webhooks/{id}/stats", "webhooks.stats", |r| r.to(answer(webhook_stats::show)), "What became of attempts to deliver in the last 24 hours, by hour, and how long they took.").ok::<webhook_stats::WebhookStats>().fails(WEBHOOK),

    post("/widgets", "widgets.create", |r| r.to(again(widgets::create)), "Create a button for websites that calls an agent.").takes::<widgets::WidgetInput>().ignores(widgets::READ_ONLY).created::<widgets::Widget>().fails(&[Code::WidgetLimitReached]).leaves(AuditAction::WidgetCreate),
    get("/widgets", "widgets.list", |r| r.to(lists::widgets), "All widgets, oldest first; with limit or offset a page of them.").query(PAGED).ok::<lists::WidgetList>(),
    get("/widgets/{id}", "widgets.get", |r| r.to(answer(widgets::show)), "One widget.").ok::<widgets::Widget>().fails(WIDGET),
    patch("/widgets/{id}", "widgets.update", |r| r.to(again(widgets::update)), "Change a widget.").patches::<widgets::WidgetInput>().ignores(widgets::READ_ONLY).ok::<widgets::Widget>().fails(WIDGET).leaves(AuditAction::WidgetUpdate),
    delete("/widgets/{id}", "widgets.delete", |r| r.to(again(widgets::delete)), "Delete a widget; its button vanishes.").fails(WIDGET).leaves(AuditAction::WidgetDelete),

    get("/deliveries/{id}", "deliveries.get", |r| r.to(answer(deliveries::show)), "One delivery with its attempts.").ok::<deliveries::DeliveryDetail>().fails(DELIVERY),
    post("/deliveries/{id}/resend", "deliveries.resend", |r| r.to(again(operations::deliveries::resend::<deliveries::DeliveryView>)), "Send a delivery again now.").accepted::<deliveries::DeliveryView>().fails(RESENT).leaves(AuditAction::DeliveryResend),

    get("/events/stream", "events.stream", |r| r.to(events::stream), "Follow events live, as server-sent events.").headers(&[events::LAST_EVENT_ID]).streams(&events::STREAMED),
    post("/events/sample", "events.sample", |r| r.to(again(events::make_sample)), "Make a sample of an event, for those who follow the stream; no webhook gets it.").takes::<events::SampleInput>().accepted::<events::EventView>(),
];

pub const API: Api = Api {
    base: BASE,
    routes: ROUTES,
    title: "Dikala voice-agent API",
    about: "Manage AI voice agents, read calls and credit, receive events, define functions. Every answer that is \
        not a 2xx has the body `Error`; decide by its `code`. Requests are limited per minute: see the headers \
        `X-RateLimit-*`. Every POST takes an `Idempotency-Key`.",
    security: ("apiKey", security),
    always: &[
        Code::MissingApiKey,
        Code::InvalidApiKey,
        Code::RevokedApiKey,
        Code::TenantSuspended,
        Code::RateLimited,
        Code::InternalError,
        Code::Unavailable,
        Code::ValidationFailed,
    ],
    on_writes: &[],
    limited: true,
    skips_empty: false,
    webhooks: Some(openapi::webhooks),
};

fn security() -> Value {
    json!({
        "type": "apiKey", "in": "header", "name": "x-api-key",
        "description": "A key of the tenant: `dkl_` and 36 letters and digits.",
    })
}

/// The OpenAPI description as text, made once per process.
pub fn description() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        serde_json::to_string_pretty(&openapi::document(&API)).expect("JSON has string keys")
    })
}

/// Mounts the API, its description at `/openapi.json` and `/docs`, and the 404 for every other path.
///
/// The application must hold `Data<Services>` and its `Data<HttpContext>`, and must be wrapped in
/// [`request_scope`](crate::http::middleware::request_scope).
pub fn configure_api(cfg: &mut ServiceConfig) {
    cfg.app_data(RouteLookup(|pattern, method| API.at(pattern, method)));
    cfg.service(
        API.scope()
            .wrap(from_fn(once))
            .wrap(from_fn(receive_body))
            .wrap(from_fn(admit)),
    );
    configure_docs(cfg);
    cfg.default_service(web::to(nothing));
}

/// The documentation pages load their own scripts and use inline styles and `data:` pictures.
const DOCS_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
                           font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves the pages' files, which are stored compressed in the program.
async fn unpacked(
    request: ServiceRequest,
    next: Next<BoxBody>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    next.call(request).await.map(packed::stored)
}

fn configure_docs(cfg: &mut ServiceConfig) {
    let described = || async {
        HttpResponse::Ok()
            .content_type("application/json")
            .body(description())
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
    cfg.service(web::resource("/openapi.json").wrap(reads()).to(described))
        .service(web::resource("/").wrap(reads()).to(lead_to("/docs")))
        .service(web::resource("/docs").wrap(reads()).to(lead_to("/docs/")))
        .service(
            web::scope("/docs")
                .wrap(from_fn(unpacked))
                .wrap(DefaultHeaders::new().add((CONTENT_SECURITY_POLICY, DOCS_POLICY)))
                .wrap(reads())
                .service(pages),
        );
}
