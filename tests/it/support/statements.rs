//! Checks every statement of a test's server against the query plans of its database: none may scan a whole growing
//! table. A world's server logs its statements; they are checked when it stops.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{LazyLock, Mutex, OnceLock},
    thread,
};

use sea_orm::{ConnectionTrait, Database as Connections, DatabaseConnection, DbBackend, Statement};
use serde_json::Value;

use dikala_testkit::StoreKind;

use super::server::Installation;

/// The log level at which a server logs its statements.
pub const LOG_LEVEL: &str = "info,sqlx::query=debug";

/// Tables that grow for as long as the service is used.
pub const GROWING: &[&str] = &[
    "audit",
    "call_stats",
    "calls",
    "ended_calls",
    "credit_holds",
    "credit_transactions",
    "deliveries",
    "delivery_attempts",
    "events",
    "idempotency_keys",
    "invocations",
    "login_links",
    "mails",
    "operator_sign_outs",
    "sessions",
    "sign_in_failures",
    "transcripts",
    "users",
    "webhook_stats",
];
/// Partial indexes on unfinished rows: a scan of one is proportional to the pending work.
const UNFINISHED: &[&str] = &["calls_running", "credit_holds_open", "deliveries_due"];
/// Texts in statements that verify the ledger: they recompute every balance at an operator's request.
pub const VERIFYING: &[&str] = &[" AS detail FROM ", "SELECT COUNT(*) AS rows FROM "];
/// Rows per growing table of the PostgreSQL database for plans; enough for plans to prefer indexes.
const ROWS: u32 = 20_000;

/// A statement from the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoggedStatement(pub String);

/// The distinct statements in a server's log.
pub fn in_log(log: &str) -> BTreeSet<LoggedStatement> {
    log.lines()
        .filter(|line| line.contains("sqlx::query"))
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|line| line["target"] == "sqlx::query")
        .flat_map(|line| {
            // A short statement is logged as its own summary.
            let whole = line["db.statement"].as_str().unwrap_or_default().trim();
            let text = if whole.is_empty() {
                line["summary"].as_str().unwrap_or_default()
            } else {
                whole
            };
            // SQLite's log may hold several statements in one text.
            let each = text.split("; ").map(|one| LoggedStatement(one.to_owned()));
            each.collect::<Vec<_>>()
        })
        .collect()
}

/// Panics if a server's statement scans a growing table. Each statement is checked once per kind of store.
pub fn judge(log: &str, url: &str) {
    static SEEN: LazyLock<Mutex<BTreeSet<(bool, LoggedStatement)>>> = LazyLock::new(Mutex::default);
    let postgres = url.starts_with("postgres");
    let new: Vec<LoggedStatement> = {
        let mut seen = SEEN.lock().unwrap();
        in_log(log)
            .into_iter()
            .filter(|sent| seen.insert((postgres, sent.clone())))
            .collect()
    };
    let bad = scans(url, new);
    assert!(
        bad.is_empty(),
        "statements that read through a whole table:\n{}",
        bad.join("\n")
    );
}

/// The statements that scan a growing table, with their plans.
pub fn scans(url: &str, sent: Vec<LoggedStatement>) -> Vec<String> {
    let sent: Vec<LoggedStatement> = sent.into_iter().filter(|sent| is_judged(&sent.0)).collect();
    if sent.is_empty() {
        return Vec::new();
    }
    let url = if url.starts_with("postgres") {
        populated().to_owned()
    } else {
        url.to_owned()
    };
    // On a separate thread, because this may run in a destructor inside of a runtime.
    let asked = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let db = connect(&url).await;
            let mut bad = Vec::new();
            for (number, sent) in sent.iter().enumerate() {
                let found = match db.get_database_backend() {
                    DbBackend::Postgres => postgres_scans(&db, &sent.0, number).await,
                    _ => sqlite_scans(&db, &sent.0).await,
                };
                bad.extend(
                    found
                        .into_iter()
                        .map(|how| format!("{how}\n    in {}", sent.0)),
                );
            }
            db.close().await.unwrap();
            bad
        })
    });
    asked.join().unwrap()
}

fn is_judged(sql: &str) -> bool {
    let verb = sql.split_whitespace().next().unwrap_or_default();
    ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"].contains(&verb)
        && !VERIFYING.iter().any(|part| sql.contains(part))
        && GROWING.iter().any(|table| sql.contains(table))
}

async fn connect(url: &str) -> DatabaseConnection {
    let mut options = sea_orm::ConnectOptions::new(url.to_owned());
    options.max_connections(1).sqlx_logging(false);
    let db = Connections::connect(options).await.unwrap();
    if db.get_database_backend() == DbBackend::Postgres {
        // Parameters are unknown, as in a generic plan. Other join methods are disabled, because with so few rows
        // they could be cheaper than an existing index.
        db.execute_unprepared(
            "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; \
             SET enable_hashjoin = off; SET enable_mergejoin = off",
        )
        .await
        .unwrap();
    }
    db
}

/// SQLite prints `SCAN table`, `SCAN alias` or `SCAN … USING [COVERING] INDEX …`.
async fn sqlite_scans(db: &DatabaseConnection, sql: &str) -> Vec<String> {
    let explain = Statement::from_string(DbBackend::Sqlite, format!("EXPLAIN QUERY PLAN {sql}"));
    let plan = db
        .query_all_raw(explain)
        .await
        .unwrap_or_else(|error| panic!("{error} in {sql}"));
    let steps = plan
        .iter()
        .map(|row| row.try_get::<String>("", "detail").unwrap());
    steps
        .filter(|step| {
            // The events of a call are few, those of its tenant are not.
            if sql.contains("\"call_id\" =")
                && step.ends_with("INDEX events_position (tenant_id=?)")
            {
                return true;
            }
            let Some(what) = step.strip_prefix("SCAN ") else {
                return false;
            };
            let name = what.split_whitespace().next().unwrap_or_default();
            let finished_too = !UNFINISHED
                .iter()
                .any(|index| what.ends_with(&format!("INDEX {index}")));
            finished_too && table_of(sql, name).is_some()
        })
        .collect()
}

/// The growing table that a name or alias in a statement refers to.
fn table_of(sql: &str, name: &str) -> Option<&'static str> {
    let words: Vec<&str> = sql
        .split(|c: char| c.is_whitespace() || "(),\"".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    let table = |word: &str| GROWING.iter().find(|table| **table == word).copied();
    let aliased = words.windows(4).find_map(|words| {
        let alias = if words[2].eq_ignore_ascii_case("as") {
            words[3]
        } else {
            words[2]
        };
        // After a dot it is a column of that name.
        table(words[1]).filter(|_| words[0] != "." && alias == name)
    });
    table(name).or(aliased)
}

async fn postgres_scans(db: &DatabaseConnection, sql: &str, number: usize) -> Vec<String> {
    let parameters = (1..)
        .take_while(|n| sql.contains(&format!("${n}")))
        .map(|_| "NULL")
        .collect::<Vec<_>>()
        .join(", ");
    let values = if parameters.is_empty() {
        String::new()
    } else {
        format!("({parameters})")
    };
    db.execute_unprepared(&format!("PREPARE s{number} AS {sql}"))
        .await
        .unwrap_or_else(|error| panic!("{error} in {sql}"));
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE s{number}{values}");
    // Unprepared: the answer to EXPLAIN is read as text.
    let rows = db
        .query_all_raw(Statement::from_string(DbBackend::Postgres, explain))
        .await
        .unwrap_or_else(|error| panic!("{error} in {sql}"));
    let plan: Value = rows[0].try_get_by_index(0).unwrap();
    let mut found = Vec::new();
    visit(&plan, &first_columns(db).await, &mut found);
    found
}

/// The first column of each index. A condition on a later column alone means a scan of the whole index.
async fn first_columns(db: &DatabaseConnection) -> HashMap<String, String> {
    let sql = "SELECT CAST(i.relname AS TEXT), CAST(a.attname AS TEXT) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid \
               JOIN pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0] \
               JOIN pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = 'public'";
    let rows = db
        .query_all_raw(Statement::from_string(DbBackend::Postgres, sql))
        .await
        .unwrap();
    rows.iter()
        .map(|row| {
            (
                row.try_get_by_index(0).unwrap(),
                row.try_get_by_index(1).unwrap(),
            )
        })
        .collect()
}

fn visit(node: &Value, first_columns: &HashMap<String, String>, found: &mut Vec<String>) {
    match node {
        Value::Array(items) => items
            .iter()
            .for_each(|item| visit(item, first_columns, found)),
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
            let (kind, table, index) =
                (text("Node Type"), text("Relation Name"), text("Index Name"));
            let bound = first_columns
                .get(index)
                .is_some_and(|column| text("Index Cond").contains(column.as_str()));
            let unbound = !bound && !UNFINISHED.contains(&index);
            let whole = match kind {
                "Seq Scan" => GROWING.contains(&table),
                "Index Scan" | "Index Only Scan" => GROWING.contains(&table) && unbound,
                "Bitmap Index Scan" => unbound,
                _ => false,
            };
            if whole {
                found.push(format!("{kind} {table} {index}"));
            }
            fields
                .values()
                .for_each(|value| visit(value, first_columns, found));
        }
        _ => {}
    }
}

/// The URL of a PostgreSQL database with many rows, for query plans. It lives as long as the tests.
fn populated() -> &'static str {
    static STORE: OnceLock<Installation> = OnceLock::new();
    let installation = STORE.get_or_init(|| {
        let installation = Installation::new(StoreKind::Postgres).expect("PostgreSQL is there");
        let migrated = installation.run(&["migrate"]);
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let url = installation.store.url.clone();
        let filled = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let db = Connections::connect(&url).await.unwrap();
                db.execute_unprepared(&fill()).await.unwrap();
                db.close().await.unwrap();
            });
        });
        filled.join().unwrap();
        installation
    });
    &installation.store.url
}

fn fill() -> String {
    let id = |prefix: &str| format!("'{prefix}_' || lpad(n::text, 26, '0')");
    let (call, event, delivery, user) = (id("call"), id("evt"), id("dlv"), id("user"));
    let tenant = "'ten_' || lpad((n % 50)::text, 26, '0')";
    let webhook = "'wh_' || lpad((n % 100)::text, 26, '0')";
    let rows = format!("FROM generate_series(1, {ROWS}) n");
    [
        format!(
            "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, caller_number, callee_number, status, \
             started_at, ended_at, metadata, last_sign_at, owner, epoch) SELECT {call}, {tenant}, 'br_1', n::text, 'pn_1', '+621', \
             '+622', CASE WHEN n % 1000 = 0 THEN 'ringing' ELSE 'ended' END, n, n, '{{}}', n, 'main', 1 {rows}"
        ),
        format!("INSERT INTO transcripts SELECT {call}, {tenant}, 'summary', '[]', n {rows}"),
        format!(
            "INSERT INTO invocations (call_id, invocation_id, tenant_id, function_name, outcome, duration_ms, created_at, function_id) \
             SELECT {call}, 'i', {tenant}, 'f', '{{}}', 1, n, 'fn_' || (n % 50) {rows}"
        ),
        format!(
            "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test) \
             SELECT {event}, {tenant}, {call}, 'call.ended', n, '{{}}', n, false {rows}"
        ),
        format!(
            "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
             is_test, created_at) SELECT {delivery}, {tenant}, {webhook}, {event}, {call}, 'call.ended', \
             CASE WHEN n % 100 = 0 THEN 'pending' ELSE 'succeeded' END, 1, n, false, n {rows}"
        ),
        format!("INSERT INTO delivery_attempts SELECT {delivery}, 1, {tenant}, n, 1, 200, NULL, '' {rows}"),
        format!(
            "INSERT INTO credit_holds (call_id, tenant_id, owner, epoch, request, held, used, last, created_at, settled_at) \
             SELECT {call}, {tenant}, 'main', 1, 1, 0, 1, false, n, CASE WHEN n % 1000 = 0 THEN NULL ELSE n END {rows}"
        ),
        format!(
            "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, call_id, created_at) \
             SELECT {tenant}, n, 'txn_' || n, 'call:' || n, 'usage', -1, 0, {call}, n {rows}"
        ),
        format!(
            "INSERT INTO idempotency_keys (scope, key, fingerprint, status, body, created_at) \
             SELECT {tenant}, n::text, 'f', 200, '{{}}', n {rows}"
        ),
        format!("INSERT INTO audit SELECT 'aud_' || n, {tenant}, 'cli', 'agent.update', 'agent_1', '', n, NULL, NULL, 'main' {rows}"),
        format!("INSERT INTO call_stats (tenant_id, subject, slot, calls, answered, ended, dropped, failed, minutes, talk_seconds, \
             duration_seconds) SELECT {tenant}, 'agent_' || (n % 7), n, 1, 1, 1, 0, 0, 1, 1, 1 {rows}"),
        format!("INSERT INTO webhook_stats SELECT {webhook}, n, 'delivered', n % 40, 1 {rows}"),
        format!(
            "INSERT INTO users (id, tenant_id, email, name, role, mails_low_credit, mails_disabled_webhooks, created_at, updated_at) \
             SELECT {user}, {tenant}, n || '@example.com', 'Sari', 'owner', true, true, n, n {rows}"
        ),
        format!("INSERT INTO login_links (hash, user_id, created_at, expires_at) SELECT n::text, {user}, n, n {rows}"),
        format!(
            "INSERT INTO sessions (hash, tenant_id, user_id, by_link, address, agent, created_at, used_at, ends_at) \
             SELECT n::text, {tenant}, {user}, false, '', '', n, n, n {rows}"
        ),
        format!(
            "INSERT INTO mails (id, tenant_id, user_id, kind, subject, attempts, next_at, created_at, ends_at) \
             SELECT 'mail_' || n, {tenant}, {user}, 'credits.low', {event}, 1, CASE WHEN n % 100 = 0 THEN n END, n, n {rows}"
        ),
        format!("INSERT INTO sign_in_failures SELECT n::text, '[]', n {rows}"),
        format!("INSERT INTO operator_sign_outs SELECT n::text, n {rows}"),
        "ANALYZE".to_owned(),
        // Autovacuum analyses the partitions only.
        "DELETE FROM pg_statistic WHERE starelid = 'calls'::regclass".to_owned(),
    ]
    .join(";\n")
}
