//! Pages of the dashboard, each beside the API call behind it, for a tenant with a long history.

use std::{net::SocketAddr, time::Duration};

use actix_web::http::{
    StatusCode,
    header::{ACCEPT_ENCODING, COOKIE, HeaderName},
};
use awc::{Client, body::BoxBody};
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::{SESSION_SCHEME, Store, TenantId, session};
use sea_orm::{EntityTrait, IntoActiveModel};
use serde_json::json;
use tokio::time::Instant;

use super::ScenarioResult;
use crate::{
    cli::bench::{
        Result, failed,
        figure::{BenchFigure, Durations, Goal},
        ground::{
            BenchEnvironment, Tenants,
            filling::{HistoricCalls, call_id},
            thread::on_thread,
        },
        progress::BenchProgress,
    },
    http::extract::{Id, RequestBody},
    operations::{OperationContext, members},
};

/// Limit of a page's latency, in milliseconds.
const TIME_MAX_MS: f64 = 10.0;
/// The same of a search by a part of a caller's number.
const SEARCH_MAX_MS: f64 = 50.0;
/// Limit of a page's compressed size, in bytes.
const BYTES_MAX: f64 = 30.0 * 1_024.0;
/// Duration of the benchmark's session, in milliseconds.
const SESSION_MS: i64 = 12 * 60 * 60 * 1_000;

/// A page and the API call behind it.
struct Page {
    name: &'static str,
    page: String,
    /// Path below `/api/v1`; empty if the API has no counterpart.
    api: String,
    time_max_ms: f64,
}

/// Measures all pages, one request at a time.
pub async fn times(ground: &BenchEnvironment, progress: &BenchProgress) -> Result<ScenarioResult> {
    let calls = ground.sizes.past;
    let tenants = Tenants {
        count: 1,
        webhooks: None,
    };
    let place = ground.place(tenants).await?;
    let store = Store::connect(&place.setup.database)
        .await
        .map_err(failed)?;
    progress.say(&format!("filling tables with {calls} calls"));
    let past = HistoricCalls {
        tenant: place.tenant,
        number: place.number,
        agent: place.agent,
        from: 0,
        to: calls,
        first: SystemClock.now().plus_ms(-calls * 1_000),
    };
    past.fill(&store).await.map_err(failed)?;
    past.fill_transactions(&store).await.map_err(failed)?;
    past.fill_callers(&store).await.map_err(failed)?;
    past.count(&store).await.map_err(failed)?;
    let session = sign_in(&store, place.tenant).await?;
    store.close().await;
    let server = place.serve()?;
    let mut found = ScenarioResult::default();
    for page in pages(calls, &place.agent.to_string()) {
        let browser = Visitor {
            address: server.http,
            key: place.key.clone(),
            session: session.clone(),
            requests: ground.sizes.visits,
        };
        let (name, goal) = (page.name, Goal::Most(page.time_max_ms));
        let (times, beside, bytes) =
            on_thread(move || async move { browser.look(&page).await }).await?;
        let mut figure = BenchFigure::new(format!("page_{name}"), times.at_ms(50.0), "ms");
        if let Some(beside) = beside {
            figure = figure.beside(beside.at_ms(50.0));
        }
        found.add(figure.reaching(goal).with(&times), progress);
        let bytes = BenchFigure::new(format!("page_{name}_bytes"), bytes as f64, "bytes");
        found.add(bytes.reaching(Goal::Most(BYTES_MAX)), progress);
    }
    Ok(found)
}

fn pages(calls: i64, agent: &str) -> Vec<Page> {
    let call = call_id(calls / 2);
    let caller = format!("%2B62812{:08}", calls / 2);
    let page = |name, page: &str, api: &str| Page {
        name,
        page: format!("/dashboard{page}"),
        api: api.to_owned(),
        time_max_ms: TIME_MAX_MS,
    };
    let search = |name, digits: &str| Page {
        time_max_ms: SEARCH_MAX_MS,
        ..page(name, &format!("/calls?callerNumber={digits}"), "")
    };
    vec![
        page("home", "", "/calls/stats"),
        page("calls", "/calls", "/calls?limit=50"),
        page(
            "calls_of_agent",
            &format!("/calls?agentId={agent}"),
            &format!("/calls?limit=50&agentId={agent}"),
        ),
        page(
            "calls_of_agent_and_caller",
            &format!("/calls?agentId={agent}&callerNumber={caller}"),
            &format!("/calls?limit=50&agentId={agent}&callerNumber={caller}"),
        ),
        page(
            "calls_of_agent_that_failed",
            &format!("/calls?agentId={agent}&status=failed"),
            &format!("/calls?limit=50&agentId={agent}&status=failed"),
        ),
        search("calls_of_part", &(calls / 2 + 1_000).to_string()),
        search("calls_of_many", "0812"),
        page("call", &format!("/calls/{call}"), &format!("/calls/{call}")),
        page("agents", "/agents", "/agents"),
        page(
            "agent",
            &format!("/agents/{agent}"),
            &format!("/agents/{agent}"),
        ),
        page("numbers", "/numbers", "/phone-numbers"),
        page("credits", "/credits", "/credits/transactions"),
        page("webhooks", "/webhooks", "/webhooks"),
        page("keys", "/settings/keys", ""),
        page("members", "/settings/members", ""),
        page("audit", "/audit", ""),
    ]
}

/// Signs an owner in. Returns the session cookie.
async fn sign_in(store: &Store, tenant: TenantId) -> Result<String> {
    let now = SystemClock.now();
    let context = OperationContext::of_command(store, None, "bench");
    let draft = RequestBody::of(json!({"email": "owner@example.com"}));
    let created = members::create(context, Id(tenant), draft).await;
    let user = created.map_err(failed)?.value.user.id;
    let token = SESSION_SCHEME.generate();
    let session = session::Model {
        hash: token.hash(),
        tenant_id: tenant,
        user_id: user,
        by_link: false,
        address: "127.0.0.1".to_owned(),
        agent: "bench".to_owned(),
        note: None,
        created_at: now,
        used_at: now,
        ends_at: now.plus_ms(SESSION_MS),
    };
    session::Entity::insert(session.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .map_err(failed)?;
    Ok(format!("dikala={}", token.expose()))
}

/// Requests pages on one connection.
struct Visitor {
    address: SocketAddr,
    key: String,
    session: String,
    requests: usize,
}

impl Visitor {
    /// Requests the page and the API call alternately. Returns both latencies and the page's compressed size.
    async fn look(&self, page: &Page) -> Result<(Durations, Option<Durations>, usize)> {
        let client = Client::builder().timeout(Duration::from_secs(30)).finish();
        let key = HeaderName::from_static("x-api-key");
        let asked = |header, value: &str, path: &str| {
            client
                .get(format!("http://{}{path}", self.address))
                .insert_header((header, value))
                .insert_header((ACCEPT_ENCODING, "gzip"))
                .no_decompress()
                .send_body(BoxBody::new(()))
        };
        let (mut pages, mut api) = (Durations::default(), Durations::default());
        let mut bytes = 0;
        // The first request opens connections and fills caches; it is not counted.
        for turn in 0..=self.requests {
            let began = Instant::now();
            bytes = whole(asked(COOKIE, &self.session, &page.page)).await?;
            let page_took = began.elapsed();
            if !page.api.is_empty() {
                let began = Instant::now();
                let path = format!("/api/v1{}", page.api);
                whole(asked(key.clone(), &self.key, &path)).await?;
                if turn > 0 {
                    api.record(began.elapsed());
                }
            }
            if turn > 0 {
                pages.record(page_took);
            }
        }
        Ok((pages, (!page.api.is_empty()).then_some(api), bytes))
    }
}

/// Reads the whole answer and returns its size.
async fn whole(request: awc::SendClientRequest) -> Result<usize> {
    let mut answer = request.await.map_err(failed)?;
    let status = answer.status();
    let body = answer.body().limit(1_048_576).await.map_err(failed)?;
    match status {
        StatusCode::OK => Ok(body.len()),
        _ => {
            let answer = String::from_utf8_lossy(&body);
            let start: String = answer.chars().take(300).collect();
            Err(failed(format!(
                "a request was answered with {status}: {start}"
            )))
        }
    }
}
