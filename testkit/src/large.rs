//! Tables as they are after years of use: statements that are fast on empty tables are tried on these too.
//!
//! With `DIKALA_TEST_TABLES=large` every migrated store of the tests is a copy of one that was filled once in this process. The rows
//! belong to tenants of their own and balance, so `ledger verify` finds nothing in them. Half of the pending deliveries are of two
//! tenants: the first one's webhook is paused, the second one's endpoint is dead. All others wait for a retry in the future.

use std::{env, fmt::Write};

use base64::{Engine, engine::general_purpose::STANDARD};
use dikala_entities::{Secret, SecretPlace, Vault};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection, DbBackend, Statement};

/// The environment variable that makes all stores large.
const VARIABLE: &str = "DIKALA_TEST_TABLES";

const TENANTS: i64 = 10_000;
const CALLS: i64 = 1_000_000;
/// Five events per call.
const EVENTS: i64 = 5 * CALLS;
const PENDING: i64 = 1_000_000;
/// Tenants that share the newest tenth of all calls.
const BIG_TENANTS: i64 = 2;
const CALLS_OF_SMALL: i64 = CALLS / 10 * 9;
const KINDS: [&str; 5] = [
    "call.started",
    "call.answered",
    "function.called",
    "call.transcript",
    "call.ended",
];
/// A dead node.
const NODE: &str = "node_01k00000000000000000000000";
const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
/// The age of the oldest row; no sweep removes it yet.
const OLDEST_DAYS: i64 = 20;
/// The number of tenants that one statement inserts.
const TENANTS_AT_ONCE: i64 = 500;
/// Tables that are filled here, and whose indexes are built afterwards.
const FILLED: &str =
    "'calls', 'ended_calls', 'events', 'deliveries', 'credit_holds', 'credit_transactions'";

/// True if stores should be large.
pub fn wanted() -> bool {
    match env::var(VARIABLE).as_deref() {
        Ok("large") => true,
        Ok(other) if !other.is_empty() => {
            panic!("{VARIABLE} is \"large\" or not set, not {other:?}")
        }
        _ => false,
    }
}

/// The `secrets.key` that opens the secrets of large tables.
pub fn key() -> String {
    STANDARD.encode(std::array::from_fn::<u8, 32, _>(|at| {
        (at as u8).wrapping_mul(37) ^ 0xa5
    }))
}

/// The tenant of this number. Numbers 0 and 1 are the big ones.
pub fn tenant(number: i64) -> String {
    format!("ten_01k{number:023}")
}

/// The webhook of the tenant of this number.
pub fn webhook(number: i64) -> String {
    format!("wh_01k{number:023}")
}

/// Fills a migrated store.
pub(crate) async fn fill(url: &str) {
    let mut options = sea_orm::ConnectOptions::new(url.to_owned());
    options.max_connections(1).sqlx_logging(false);
    let db = Database::connect(options).await.unwrap();
    let sql = Sql {
        backend: db.get_database_backend(),
    };
    let now = now(&db).await;
    run(&db, sql.before()).await;
    let indexes = take_indexes(&db).await;
    for first in (0..TENANTS).step_by(TENANTS_AT_ONCE as usize) {
        for statement in tenants(first, now) {
            run(&db, &statement).await;
        }
    }
    for statement in sql.rows(now) {
        run(&db, &statement).await;
    }
    for index in indexes {
        run(&db, &index).await;
    }
    run(&db, sql.after()).await;
    db.close().await.unwrap();
}

async fn run(db: &DatabaseConnection, sql: &str) {
    let done = db.execute_unprepared(sql).await;
    done.unwrap_or_else(|error| panic!("{error} in {sql}"));
}

async fn now(db: &DatabaseConnection) -> i64 {
    let sql = match db.get_database_backend() {
        DbBackend::Postgres => "SELECT CAST(EXTRACT(EPOCH FROM now()) * 1000 AS BIGINT)",
        _ => "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    };
    let row = db
        .query_one_raw(Statement::from_string(db.get_database_backend(), sql))
        .await
        .unwrap();
    row.unwrap().try_get_by_index(0).unwrap()
}

/// Drops the indexes that are built faster over all rows at once. Returns the statements that build them.
async fn take_indexes(db: &DatabaseConnection) -> Vec<String> {
    let backend = db.get_database_backend();
    let sql = match backend {
        DbBackend::Postgres => format!(
            "SELECT CAST(indexname AS TEXT), indexdef FROM pg_indexes WHERE schemaname = current_schema() AND tablename IN ({FILLED}) \
             AND indexname NOT IN (SELECT conname FROM pg_constraint)"
        ),
        _ => format!(
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL AND tbl_name IN ({FILLED})"
        ),
    };
    let rows = db
        .query_all_raw(Statement::from_string(backend, sql))
        .await
        .unwrap();
    let mut definitions = Vec::new();
    for row in rows {
        let name: String = row.try_get_by_index(0).unwrap();
        run(db, &format!("DROP INDEX {name}")).await;
        definitions.push(row.try_get_by_index(1).unwrap());
    }
    definitions
}

/// Tenants with an account, a number, an agent and a webhook, with their secrets sealed.
fn tenants(first: i64, now: i64) -> [String; 4] {
    let vault = Vault::from_base64(&key()).unwrap();
    let created = now - (OLDEST_DAYS + 1) * DAY_MS;
    let seal = |place, id: &str| vault.seal(place, id, &Secret::new("a-secret-of-large-tables"));
    let [mut tenants, mut webhooks, mut agents, mut numbers] = [
        "INSERT INTO tenants (id, name, plan, function_secret, created_at, updated_at) VALUES ",
        "INSERT INTO webhooks (id, tenant_id, url, events, secret, secret_hint, is_active, failed_in_row, created_at, updated_at, \
         paused_at) VALUES ",
        "INSERT INTO agents (id, tenant_id, name, system_prompt, language, max_call_duration_minutes, tools_enabled, is_active, \
         created_at, updated_at) VALUES ",
        "INSERT INTO phone_numbers (id, tenant_id, did, label, is_active, agent_id, created_at, updated_at) VALUES ",
    ]
    .map(str::to_owned);
    let kinds = serde_json::to_string(&KINDS).unwrap();
    for number in first..first + TENANTS_AT_ONCE {
        let separator = if number == first { "" } else { ", " };
        let (id, hook) = (tenant(number), webhook(number));
        let secret = seal(SecretPlace::FunctionSecret, &id);
        let paused = if number == 0 { "1" } else { "NULL" };
        write!(
            tenants,
            "{separator}('{id}', 'Shop {number}', 'business', '{secret}', {created}, {created})"
        )
        .unwrap();
        let secret = seal(SecretPlace::WebhookSecret, &hook);
        // Nothing listens at the port of the discard service.
        write!(
            webhooks,
            "{separator}('{hook}', '{id}', 'http://127.0.0.1:9/{number}', '{kinds}', '{secret}', 'les', TRUE, 0, {created}, \
             {created}, {paused})"
        )
        .unwrap();
        write!(
            agents,
            "{separator}('agent_01k{number:023}', '{id}', 'Ayu', 'Be brief.', 'id', 10, '[]', TRUE, {created}, {created})"
        )
        .unwrap();
        write!(
            numbers,
            "{separator}('pn_01k{number:023}', '{id}', '+629{number:09}', 'Main', TRUE, 'agent_01k{number:023}', {created}, {created})"
        )
        .unwrap();
    }
    [tenants, webhooks, agents, numbers]
}

/// The SQL in which the two databases differ.
#[derive(Clone, Copy)]
struct Sql {
    backend: DbBackend,
}

impl Sql {
    fn before(self) -> &'static str {
        match self.backend {
            DbBackend::Postgres => {
                "SET synchronous_commit = off; SET maintenance_work_mem = '512MB'"
            }
            _ => {
                "PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000; PRAGMA temp_store = MEMORY"
            }
        }
    }

    fn after(self) -> &'static str {
        match self.backend {
            DbBackend::Postgres => "VACUUM ANALYZE",
            _ => "PRAGMA wal_checkpoint(TRUNCATE); PRAGMA synchronous = FULL",
        }
    }

    /// SQL for the numbers below a count, as `n`.
    fn numbers(self, count: i64) -> String {
        match self.backend {
            DbBackend::Postgres => format!("FROM generate_series(0, {}) AS s(n)", count - 1),
            _ => format!(
                "FROM (WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {}) SELECT n FROM s) AS s",
                count - 1
            ),
        }
    }

    fn padded(self, number: &str, width: usize) -> String {
        match self.backend {
            DbBackend::Postgres => format!("lpad(({number})::text, {width}, '0')"),
            _ => format!("printf('%0{width}d', {number})"),
        }
    }

    fn id(self, prefix: &str, number: &str) -> String {
        format!("'{prefix}_01k' || {}", self.padded(number, 23))
    }

    /// Calls that talked for half a minute each, what they cost, their events, and the deliveries of the newest of these.
    fn rows(self, now: i64) -> Vec<String> {
        let begins = now - OLDEST_DAYS * DAY_MS;
        let mut rows = self.calls(begins).to_vec();
        rows.extend(self.credit(begins));
        rows.extend(self.events(begins));
        rows.push(self.deliveries(begins, now));
        rows
    }

    /// SQL for the number of a call's tenant.
    fn tenant_of(call: &str) -> String {
        let small = TENANTS - BIG_TENANTS;
        format!(
            "(CASE WHEN {call} < {CALLS_OF_SMALL} THEN {BIG_TENANTS} + {call} % {small} ELSE {call} % {BIG_TENANTS} END)"
        )
    }

    /// SQL for the index of a call among its tenant's calls.
    fn place_of(call: &str) -> String {
        let small = TENANTS - BIG_TENANTS;
        format!(
            "(CASE WHEN {call} < {CALLS_OF_SMALL} THEN {call} / {small} ELSE ({call} - {CALLS_OF_SMALL}) / {BIG_TENANTS} END)"
        )
    }

    /// SQL for the start of a call.
    fn at(begins: i64, call: &str) -> String {
        format!("({begins} + {call} * {})", OLDEST_DAYS * DAY_MS / CALLS)
    }

    /// SQL for the kind of an event.
    fn kind(event: &str) -> String {
        let kinds = KINDS.iter().enumerate();
        let cases: String = kinds
            .map(|(number, kind)| format!(" WHEN {number} THEN '{kind}'"))
            .collect();
        format!("CASE {event} % {} {cases} END", KINDS.len())
    }

    fn calls(self, begins: i64) -> [String; 2] {
        let (tenant, at) = (Self::tenant_of("n"), Self::at(begins, "n"));
        let [call, ten, agent, number] = [
            ("call", "n"),
            ("ten", &tenant),
            ("agent", &tenant),
            ("pn", &tenant),
        ]
        .map(|(prefix, number)| self.id(prefix, number));
        let caller = self.padded("n % 7919", 8);
        let did = self.padded(&tenant, 9);
        let calls = self.numbers(CALLS);
        [
            format!(
                "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, agent_id, caller_number, callee_number, \
                 status, started_at, answered_at, ended_at, duration_seconds, talk_time_seconds, hangup_reason, hangup_initiator, \
                 ai_cost_idr, metadata, last_sign_at, owner, epoch) \
                 SELECT {call}, {ten}, 'br_01k00000000000000000000000', 'old-' || n, {number}, {agent}, \
                 '+62812' || {caller}, '+629' || {did}, 'ended', {at}, {at} + 2000, {at} + 32000, 32, 30, 'normal', \
                 'bridge', 0, '{{}}', {at} + 32000, '{NODE}', 1 {calls}"
            ),
            format!(
                "INSERT INTO credit_holds (call_id, tenant_id, owner, epoch, request, held, used, last, created_at, settled_at) \
                 SELECT {call}, {ten}, '{NODE}', 1, 0, 0, 1, FALSE, {at}, {at} + 32000 {calls}"
            ),
        ]
    }

    /// Credit transactions: each tenant has more than its calls cost, at a minute each.
    fn credit(self, begins: i64) -> [String; 3] {
        let granted = 2 * CALLS;
        let (tenant, place, at) = (
            Self::tenant_of("n"),
            Self::place_of("n"),
            Self::at(begins, "n"),
        );
        [
            format!(
                "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, created_at) \
                 SELECT {}, 1, {}, 'purchase:large', 'purchase', {granted}, {granted}, {begins} {}",
                self.id("ten", "n"),
                self.id("txn", "n"),
                self.numbers(TENANTS)
            ),
            format!(
                "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, call_id, created_at) \
                 SELECT {}, {place} + 2, {}, 'call:' || {call}, 'usage', -1, {granted} - {place} - 1, {call}, {at} + 32000 {}",
                self.id("ten", &tenant),
                self.id("txn", &format!("{TENANTS} + n")),
                self.numbers(CALLS),
                call = self.id("call", "n"),
            ),
            format!(
                "INSERT INTO credit_accounts (tenant_id, available, held, used, purchased, adjusted, posted, seq, open_holds, \
                 low_threshold, low_armed, version) SELECT tenant_id, SUM(minutes), 0, {granted} - SUM(minutes), {granted}, 0, \
                 SUM(minutes), COUNT(*), 0, 30, TRUE, COUNT(*) FROM credit_transactions GROUP BY tenant_id"
            ),
        ]
    }

    fn events(self, begins: i64) -> [String; 2] {
        let of_call = KINDS.len();
        let number = format!("(n / {of_call})");
        let (kind, call) = (Self::kind("n"), self.id("call", &number));
        [
            format!(
                "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test) \
                 SELECT {}, {}, {call}, {kind}, {} + n % {of_call}, \
                 '{{\"event\":\"' || {kind} || '\",\"timestamp\":\"2026-01-01T00:00:00.000Z\",\"data\":{{\"callId\":\"' || {call} || '\"}}}}', \
                 {} * {of_call} + n % {of_call} + 1, FALSE {}",
                self.id("evt", "n"),
                self.id("ten", &Self::tenant_of(&number)),
                Self::at(begins, &number),
                Self::place_of(&number),
                self.numbers(EVENTS),
            ),
            "INSERT INTO event_positions (tenant_id, last) SELECT tenant_id, MAX(position) FROM events GROUP BY tenant_id".to_owned(),
        ]
    }

    /// The deliveries of the newest events, each after one failed attempt.
    fn deliveries(self, begins: i64, now: i64) -> String {
        let event = format!("({} + n)", EVENTS - PENDING);
        let call = format!("({event} / {})", KINDS.len());
        let tenant = Self::tenant_of(&call);
        format!(
            "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
             is_test, created_at) SELECT {}, {}, {}, {}, {}, {}, 'pending', 1, \
             CASE WHEN {tenant} < {BIG_TENANTS} THEN {now} - 1000 ELSE {now} + {DAY_MS} + n END, FALSE, {} {}",
            self.id("dlv", "n"),
            self.id("ten", &tenant),
            self.id("wh", &tenant),
            self.id("evt", &event),
            self.id("call", &call),
            Self::kind(&event),
            Self::at(begins, &call),
            self.numbers(PENDING)
        )
    }
}
