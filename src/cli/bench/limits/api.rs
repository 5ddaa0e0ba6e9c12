//! Limit of the API's reads: an actix-web server that only runs the same SQL on the same tables.

use std::net::SocketAddr;

use actix_web::{App, HttpResponse, HttpServer, rt, web};
use dikala_entities::{Store, TenantId};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement, Value};
use serde::{Deserialize, Serialize};

use crate::cli::bench::{Result, failed};

const COLUMNS: &str = "SELECT id, phone_number_id, agent_id, caller_number, callee_number, status, started_at, answered_at, \
    ended_at, duration_seconds, talk_time_seconds, hangup_reason, hangup_initiator, transcript_summary, ai_cost_idr, metadata \
    FROM calls ";

/// Starts the server with one worker per core, as the service has. It stops with the process.
pub async fn serve(url: &str, tenant: TenantId) -> Result<SocketAddr> {
    let store = Store::connect(url).await.map_err(failed)?;
    let data = web::Data::new(BareHandlers {
        store,
        tenant: tenant.to_string(),
    });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(data.clone())
            .route("/api/v1/calls", web::get().to(list))
            .route("/api/v1/calls/{id}", web::get().to(one))
            .route("/api/v1/credits", web::get().to(credits))
    });
    let server = server
        .disable_signals()
        .bind("127.0.0.1:0")
        .map_err(failed)?;
    let address = server.addrs().first().copied();
    rt::spawn(server.run());
    address.ok_or_else(|| failed("the bare server has no address"))
}

struct BareHandlers {
    store: Store,
    tenant: String,
}

#[derive(FromQueryResult, Serialize)]
struct Call {
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
struct Account {
    available: i64,
    held: i64,
    used: i64,
    purchased: i64,
}

#[derive(Deserialize)]
struct Limit {
    limit: i64,
}

impl BareHandlers {
    /// Replaces each `?` by PostgreSQL's numbered placeholder where necessary.
    fn statement<const N: usize>(&self, sql: &str, values: [Value; N]) -> Statement {
        let backend = self.store.reader().get_database_backend();
        let mut parts = sql.split('?');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (place, part) in (1..).zip(parts) {
            match backend {
                DbBackend::Postgres => text.push_str(&format!("${place}")),
                _ => text.push('?'),
            }
            text.push_str(part);
        }
        Statement::from_sql_and_values(backend, text, values)
    }
}

async fn list(bare: web::Data<BareHandlers>, query: web::Query<Limit>) -> HttpResponse {
    let sql =
        format!("{COLUMNS} WHERE tenant_id = ? ORDER BY started_at DESC, id DESC LIMIT ? OFFSET ?");
    let values = [
        bare.tenant.clone().into(),
        (query.limit + 1).into(),
        0_i64.into(),
    ];
    let calls = Call::find_by_statement(bare.statement(&sql, values));
    match calls.all(bare.store.reader()).await {
        Ok(calls) => HttpResponse::Ok().json(calls),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}

async fn one(bare: web::Data<BareHandlers>, id: web::Path<String>) -> HttpResponse {
    let sql = format!("{COLUMNS} WHERE id = ? AND tenant_id = ?");
    let values = [id.into_inner().into(), bare.tenant.clone().into()];
    let call = Call::find_by_statement(bare.statement(&sql, values));
    match call.one(bare.store.reader()).await {
        Ok(Some(call)) => HttpResponse::Ok().json(call),
        Ok(None) => HttpResponse::NotFound().finish(),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}

async fn credits(bare: web::Data<BareHandlers>) -> HttpResponse {
    const SQL: &str =
        "SELECT available, held, used, purchased FROM credit_accounts WHERE tenant_id = ?";
    let account = Account::find_by_statement(bare.statement(SQL, [bare.tenant.clone().into()]));
    match account.one(bare.store.reader()).await {
        Ok(Some(account)) => HttpResponse::Ok().json(account),
        Ok(None) => HttpResponse::NotFound().finish(),
        Err(_) => HttpResponse::InternalServerError().finish(),
    }
}
