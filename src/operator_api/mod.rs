//! The operators' API: the command line's `tenant`, `key`, `user`, `number`, `credits`, `bridge` and `ledger` over
//! HTTP, and whatever else running the service requires without touching the database.
//!
//! Most routes mount [`operations`](crate::operations); a handler here reads the state of this process.
//! [`operator::access`](crate::operator::access) has checked the access right before.

pub mod actors;
mod context;
pub mod database;
pub mod functions;
pub mod ledger;
pub mod overview;
pub mod requests;
pub mod system;
pub mod webhook_status;

use std::sync::OnceLock;

use actix_web::{
    HttpResponse,
    middleware::from_fn,
    web::{self, ServiceConfig},
};
use dikala_entities::AuditAction;
use serde_json::{Value, json};

pub use self::context::OperatorContext;
use crate::{
    http::{
        again::{again, answer},
        error::Code,
        idempotency::once,
        middleware::{admit_operator, only_reads, receive_body},
        route::{OPERATORS_BASE, RouteLookup},
    },
    openapi::{self, Api, ApiRoute, delete, get, nothing, patch, post},
    operations::{
        audit, bridges,
        calls::{
            all_tenants as calls,
            diagnosis::{SipLadder, ladder},
            hang_up,
        },
        credits, deliveries, keys, members, numbers, tenants,
        webhooks::health as webhooks,
    },
};

const PAGED: &[&str] = &["limit", "offset"];
const TENANT: &[Code] = &[Code::TenantNotFound];
const KEY: &[Code] = &[Code::KeyNotFound];
const USER: &[Code] = &[Code::UserNotFound];
const NEW_USER: &[Code] = &[Code::TenantNotFound, Code::UserExists];
const BOOKED: &[Code] = &[
    Code::TenantNotFound,
    Code::ReferenceConflict,
    Code::InsufficientMinutes,
];
const TRANSACTION: &[Code] = &[Code::TransactionNotFound];
const NUMBER: &[Code] = &[Code::PhoneNumberNotFound];
const NEW_NUMBER: &[Code] = &[Code::PhoneNumberExists];
const BRIDGE: &[Code] = &[Code::BridgeNotFound];
const CALL: &[Code] = &[Code::CallNotFound];
const LADDER: &[Code] = &[Code::CallNotFound, Code::SipMessagesNotFound];
const RUNNING_CALL: &[Code] = &[Code::CallNotFound, Code::CallNotActive];
const WEBHOOK: &[Code] = &[Code::WebhookNotFound];
const DELIVERY: &[Code] = &[Code::DeliveryNotFound];
const RESENT: &[Code] = &[
    Code::DeliveryNotFound,
    Code::WebhookNotFound,
    Code::CallNotActive,
];
const ACTOR: &[Code] = &[Code::ActorNotFound];
const VERIFYING: &[Code] = &[Code::VerificationRunning];

#[rustfmt::skip]
pub const ROUTES: &[ApiRoute] = &[
    get("/tenants", "tenants.list", |r| r.to(answer(tenants::list)), "A page of tenants, oldest first.").query(&["limit", "offset", "q"]).ok::<tenants::TenantList>(),
    post("/tenants", "tenants.create", |r| r.to(again(tenants::create)), "Make a tenant.").takes::<tenants::TenantInput>().ignores(tenants::READ_ONLY).keeps(tenants::KEPT).created::<tenants::TenantView>().leaves(AuditAction::TenantCreate),
    get("/tenants/{id}", "tenants.get", |r| r.to(answer(tenants::show)), "One tenant.").ok::<tenants::TenantView>().fails(TENANT),
    patch("/tenants/{id}", "tenants.update", |r| r.to(again(tenants::update)), "Change a tenant.").patches::<tenants::TenantInput>().ignores(tenants::READ_ONLY).keeps(tenants::KEPT).ok::<tenants::TenantView>().fails(TENANT).leaves(AuditAction::TenantUpdate),
    post("/tenants/{id}/suspend", "tenants.suspend", |r| r.to(again(tenants::suspend)), "Refuse a tenant's requests and calls, and end the sessions of its people.").ok::<tenants::TenantView>().fails(TENANT).leaves(AuditAction::TenantSuspend),
    post("/tenants/{id}/resume", "tenants.resume", |r| r.to(again(tenants::resume)), "Lift a suspension.").ok::<tenants::TenantView>().fails(TENANT).leaves(AuditAction::TenantResume),

    get("/tenants/{id}/keys", "keys.list", |r| r.to(answer(keys::list)), "A page of a tenant's keys, oldest first, those that are revoked too.").query(PAGED).ok::<keys::KeyList>().fails(TENANT),
    post("/tenants/{id}/keys", "keys.create", |r| r.to(again(keys::create)), "Make a key; it is shown in this answer only.").takes::<keys::KeyInput>().created::<keys::NewKey>().fails(TENANT).leaves(AuditAction::KeyCreate),
    get("/keys/{id}", "keys.get", |r| r.to(answer(keys::show)), "One key.").ok::<keys::KeyView>().fails(KEY),
    delete("/keys/{id}", "keys.revoke", |r| r.to(again(keys::delete)), "Revoke a key.").fails(KEY).leaves(AuditAction::KeyRevoke),

    get("/tenants/{id}/users", "users.list", |r| r.to(answer(members::list)), "A page of a tenant's people, oldest first.").query(PAGED).ok::<members::UserList>().fails(TENANT),
    post("/tenants/{id}/users", "users.create", |r| r.to(again(members::create)), "Make somebody, with a link that signs in once within 30 minutes.").takes::<members::MemberDraft>().created::<members::SignInLink>().fails(NEW_USER).leaves(AuditAction::UserCreate),
    get("/users/{id}", "users.get", |r| r.to(answer(members::show)), "Somebody.").ok::<members::UserView>().fails(USER),
    post("/users/{id}/login-link", "users.loginLink", |r| r.to(again(members::link)), "Make somebody another link that signs in once within 30 minutes.").created::<members::SignInLink>().fails(USER).leaves(AuditAction::UserLink),
    delete("/users/{id}", "users.delete", |r| r.to(again(members::delete)), "Remove somebody, with all sessions and links.").fails(USER).leaves(AuditAction::UserRemove),

    get("/tenants/{id}/credits", "credits.get", |r| r.to(answer(credits::show)), "A tenant's minutes.").ok::<credits::Credits>().fails(TENANT),
    get("/tenants/{id}/credits/transactions", "credits.transactions", |r| r.to(answer(credits::transactions)), "A page of the balance's movements, newest first.").query(PAGED).ok::<credits::TransactionList>().fails(TENANT),
    post("/tenants/{id}/credits/transactions", "credits.book", |r| r.to(credits::book), "Book minutes. The same reference with the same content is booked once, and answered 200 from the second time on.").takes::<credits::TransactionInput>().created::<credits::TransactionView>().or_ok().fails(BOOKED).leaves(AuditAction::CreditAdd),
    get("/transactions/{id}", "credits.transaction", |r| r.to(answer(credits::transaction)), "One movement of a balance.").ok::<credits::TransactionView>().fails(TRANSACTION),

    get("/numbers", "numbers.list", |r| r.to(answer(numbers::list)), "A page of phone numbers, oldest first.").query(&["limit", "offset", "tenantId"]).ok::<numbers::NumberList>(),
    post("/numbers", "numbers.create", |r| r.to(again(numbers::create)), "Give a tenant a number.").takes::<numbers::NewNumber>().created::<numbers::NumberView>().fails(NEW_NUMBER).leaves(AuditAction::NumberCreate),
    get("/numbers/{id}", "numbers.get", |r| r.to(answer(numbers::show::<numbers::NumberView>)), "One phone number.").ok::<numbers::NumberView>().fails(NUMBER),
    patch("/numbers/{id}", "numbers.update", |r| r.to(again(numbers::update)), "Change a number, or move it to another tenant.").patches::<numbers::NumberChange>().ignores(numbers::READ_ONLY).keeps(numbers::KEPT).ok::<numbers::NumberView>().fails(NUMBER).leaves(AuditAction::NumberUpdate),
    delete("/numbers/{id}", "numbers.delete", |r| r.to(again(numbers::delete)), "Remove a number; its calls stay.").fails(NUMBER).leaves(AuditAction::NumberDelete),

    get("/bridges", "bridges.list", |r| r.to(answer(bridges::list)), "A page of bridges, oldest first, with whether they are connected and how many calls they hold.").query(PAGED).ok::<bridges::BridgeList>(),
    post("/bridges", "bridges.create", |r| r.to(again(bridges::create)), "Make a bridge; its token is shown in this answer only.").takes::<bridges::BridgeInput>().created::<bridges::CreatedBridge>().leaves(AuditAction::BridgeCreate),
    get("/bridges/{id}", "bridges.get", |r| r.to(answer(bridges::show_valid)), "One bridge; a revoked one is in the list only.").ok::<bridges::BridgeStatus>().fails(BRIDGE),
    delete("/bridges/{id}", "bridges.revoke", |r| r.to(again(bridges::delete)), "Revoke a bridge's token and close its sockets.").fails(BRIDGE).leaves(AuditAction::BridgeRevoke),

    get("/calls", "calls.list", |r| r.to(answer(calls::list)), "A page of calls: those that are not over, then the others, each newest first.").query(&["limit", "offset", "status", "tenantId", "bridgeId", "did", "callerNumber", "from", "to"]).ok::<calls::CallList>(),
    get("/calls/{id}", "calls.get", |r| r.to(answer(calls::show)), "One call with its holds, events, deliveries and owner.").ok::<calls::CallDetail>().fails(CALL),
    get("/calls/{id}/sip", "calls.sip", |r| r.to(answer(ladder)), "The last 200 SIP messages of a call that the bridge of this process held, one of its last 10,000. Numbers are masked; with numbers=full they are not, which leaves an audit entry.").query(&["numbers"]).ok::<SipLadder>().fails(LADDER),
    post("/calls/{id}/hangup", "calls.hangup", |r| r.to(answer(hang_up::<calls::OperatorCall>)), "End a running call.").accepted::<calls::OperatorCall>().fails(RUNNING_CALL).leaves(AuditAction::CallHangup),

    get("/webhooks", "webhooks.list", |r| r.to(answer(webhook_status::list)), "A page of webhooks, oldest first, with what is due of them, their queues here and what they answered last.").query(&["limit", "offset", "state", "tenantId"]).ok::<webhook_status::StandingList>(),
    post("/webhooks/{id}/pause", "webhooks.pause", |r| r.to(again(webhooks::pause)), "Have a webhook's deliveries wait; none is lost.").ok::<webhooks::WebhookView>().fails(WEBHOOK).leaves(AuditAction::WebhookPause),
    post("/webhooks/{id}/resume", "webhooks.resume", |r| r.to(again(webhooks::resume)), "Let a paused webhook's deliveries go on.").ok::<webhooks::WebhookView>().fails(WEBHOOK).leaves(AuditAction::WebhookResume),
    post("/webhooks/{id}/recover", "webhooks.recover", |r| r.to(again(deliveries::recover)), "Send again all that failed in a time, in the background.").takes::<deliveries::Recovery>().accepted::<deliveries::RecoveryCount>().fails(WEBHOOK).leaves(AuditAction::WebhookRecover),
    get("/deliveries", "deliveries.list", |r| r.to(answer(deliveries::list)), "A page of deliveries, newest first.").query(&["limit", "offset", "status", "webhookId"]).ok::<deliveries::DeliveryList>(),
    get("/deliveries/{id}", "deliveries.get", |r| r.to(answer(deliveries::show)), "One delivery with its attempts.").ok::<deliveries::OperatorDeliveryDetail>().fails(DELIVERY),
    post("/deliveries/{id}/resend", "deliveries.resend", |r| r.to(again(deliveries::resend::<deliveries::OperatorDelivery>)), "Send a delivery again now.").accepted::<deliveries::OperatorDelivery>().fails(RESENT).leaves(AuditAction::DeliveryResend),

    get("/overview", "overview.get", |r| r.to(overview::show), "What goes on in this process and what is wrong with it, worst first, with figures of the last ten minutes, or of 24 hours with period=24h.").query(&["period"]).ok::<overview::Overview>(),
    get("/actors", "actors.list", |r| r.to(actors::list), "The types of actor in this process.").ok::<actors::ActorList>(),
    get("/actors/{type}", "actors.get", |r| r.to(actors::show), "One type of actor, with the kinds of message that it takes and what its instances do.").ok::<actors::ActorDetail>().fails(ACTOR),
    get("/nodes", "nodes.list", |r| r.to(system::nodes), "The processes of the service.").ok::<system::NodeList>(),
    get("/ledger", "ledger.get", |r| r.to(ledger::show), "The ledger: open holds, what does not add up, what was written, and the last verification here.").ok::<ledger::LedgerStatus>(),
    post("/ledger/verify", "ledger.verify", |r| r.to(answer(ledger::verify)), "Compute every balance again from its transactions and holds.").may_take::<ledger::VerificationInput>().ok::<ledger::Verification>().fails(VERIFYING),
    get("/database", "database.get", |r| r.to(database::show), "The database: size, pools, and how long commits take.").ok::<database::DatabaseStatus>(),
    get("/functions", "functions.list", |r| r.to(functions::list), "A page of the functions that were called in conversations here lately; first those whose endpoints are left alone.").query(&["limit", "offset", "tenantId", "agentId", "name", "sort"]).ok::<functions::CalledList>(),
    get("/http", "http.list", |r| r.to(requests::list), "A page of the routes that were asked for here.").query(&["limit", "offset", "sort"]).ok::<requests::RouteList>(),
    get("/config", "config.get", |r| r.to(system::config), "The configuration, secrets masked, with where each value came from.").ok::<system::Configuration>(),
    get("/audit", "audit.list", |r| r.to(answer(audit::list)), "A page of what was changed by whom, newest first.").query(&["limit", "offset", "tenantId", "actor", "action", "from", "to"]).ok::<audit::EntryList>(),
];

pub const API: Api = Api {
    base: OPERATORS_BASE,
    routes: ROUTES,
    title: "Dikala operators' API",
    about: "Run the service: tenants, keys, people, numbers, credit, bridges, calls, webhooks. It is on the operators' listener, and \
        takes `operator.token`; `operator.read_token` reads only. Every answer that is not a 2xx has the body `Error`; decide by its \
        `code`. Every POST takes an `Idempotency-Key`. A query parameter without a value was not given.",
    security: ("operatorToken", security),
    always: &[
        Code::MissingOperatorToken,
        Code::InvalidOperatorToken,
        Code::ForeignHost,
        Code::RateLimited,
        Code::InternalError,
        Code::Unavailable,
        Code::ValidationFailed,
    ],
    on_writes: &[Code::ReadOnlyToken],
    limited: false,
    skips_empty: true,
    webhooks: None,
};

fn security() -> Value {
    json!({
        "type": "http", "scheme": "bearer",
        "description": "operator.token, or operator.read_token for what only reads. Without a token configured none is asked for.",
    })
}

/// The API's description as JSON, identical for equal builds.
pub fn description() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        serde_json::to_string_pretty(&openapi::document(&API)).expect("JSON has string keys")
    })
}

/// Mounts the API, and its description at `/operator/openapi.json`. The application needs `Data<OperatorContext>`, a separate
/// `Data<HttpContext>`, and the middleware [`let_in`](crate::operator::access::let_in).
pub fn configure(cfg: &mut ServiceConfig) {
    let described = || async {
        HttpResponse::Ok()
            .content_type("application/json")
            .body(description())
    };
    cfg.app_data(RouteLookup(|pattern, method| API.at(pattern, method)))
        .service(
            API.scope()
                .wrap(from_fn(once))
                .wrap(from_fn(receive_body))
                .wrap(from_fn(admit_operator)),
        )
        .service(
            web::resource("/operator/openapi.json")
                .wrap(from_fn(only_reads))
                .to(described),
        )
        .default_service(web::to(nothing));
}
