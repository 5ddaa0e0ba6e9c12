//! Verifies the ledger: computes every balance again from transactions and holds, and compares.

use dikala_entities::{Store, TenantId, store::Transaction};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, Value};
use serde::Serialize;

/// Maximum of listed differences per rule.
const LISTED_MAX: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub tenants: i64,
    pub transactions: i64,
    pub holds: i64,
    /// One sentence each; empty if the ledger is consistent.
    pub differences: Vec<String>,
}

/// A rule: the sentence for a violation, and the query that finds violations. Each row has `tenant_id` and a `detail`, which
/// must not be NULL: a text with a NULL in it is NULL. `{t}`
/// stands for the tenant condition on the table with alias `t`. Each query reads a table once or by key. A tenant's
/// transactions are joined by their indexed idempotency key: by tenant and call, SQLite would read all of them for every call.
type Rule = (&'static str, &'static str);

/// Rules over accounts and open holds.
const OPEN: &[Rule] = &[
    (
        "an account is negative or does not add up",
        "SELECT a.tenant_id, 'available ' || a.available || ', held ' || a.held || ', used ' || a.used AS detail \
         FROM credit_accounts a WHERE {a} AND (a.available < 0 OR a.held < 0 OR a.used < 0 \
         OR a.available + a.held + a.used <> a.purchased + a.adjusted)",
    ),
    (
        "held minutes differ from the open holds",
        "SELECT a.tenant_id, 'held ' || a.held || ' in ' || a.open_holds || ' holds, found ' || COALESCE(SUM(h.held), 0) \
         || ' in ' || COUNT(h.call_id) AS detail FROM credit_accounts a \
         LEFT JOIN credit_holds h ON h.tenant_id = a.tenant_id AND h.settled_at IS NULL WHERE {a} \
         GROUP BY a.tenant_id, a.held, a.open_holds \
         HAVING a.held <> COALESCE(SUM(h.held), 0) OR a.open_holds <> COUNT(h.call_id)",
    ),
    (
        "a call that is over still holds credit",
        "SELECT h.tenant_id, h.call_id AS detail FROM credit_holds h JOIN calls c ON c.id = h.call_id \
         WHERE {h} AND h.settled_at IS NULL AND c.ended_at IS NOT NULL",
    ),
    (
        "a hold has no call",
        "SELECT h.tenant_id, h.call_id AS detail FROM credit_holds h LEFT JOIN calls c ON c.id = h.call_id \
         WHERE {h} AND h.settled_at IS NULL AND c.id IS NULL",
    ),
];

/// Rules over everything that was ever booked.
const SETTLED: &[Rule] = &[
    (
        "used minutes differ from usage transactions and running calls",
        "SELECT a.tenant_id, 'used ' || a.used AS detail FROM credit_accounts a WHERE {a} AND a.used <> \
         COALESCE((SELECT -SUM(t.minutes) FROM credit_transactions t WHERE t.tenant_id = a.tenant_id AND t.kind = 'usage'), 0) \
         + COALESCE((SELECT SUM(h.used) FROM credit_holds h WHERE h.tenant_id = a.tenant_id AND h.settled_at IS NULL), 0)",
    ),
    (
        "purchased or adjusted minutes differ from the transactions",
        "SELECT a.tenant_id, 'purchased ' || a.purchased || ', adjusted ' || a.adjusted AS detail FROM credit_accounts a WHERE {a} AND ( \
         a.purchased <> COALESCE((SELECT SUM(t.minutes) FROM credit_transactions t WHERE t.tenant_id = a.tenant_id AND t.kind = 'purchase'), 0) \
         OR a.adjusted <> COALESCE((SELECT SUM(t.minutes) FROM credit_transactions t WHERE t.tenant_id = a.tenant_id \
         AND t.kind NOT IN ('purchase', 'usage')), 0))",
    ),
    (
        "transaction numbers have a gap, or the account does not know the last one",
        "SELECT a.tenant_id, 'last number ' || a.seq || ', balance ' || a.posted AS detail FROM credit_accounts a \
         LEFT JOIN credit_transactions t ON t.tenant_id = a.tenant_id WHERE {a} GROUP BY a.tenant_id, a.seq, a.posted \
         HAVING a.seq <> COUNT(t.seq) OR a.seq <> COALESCE(MAX(t.seq), 0) OR COALESCE(MIN(t.seq), 1) <> 1 OR a.posted <> COALESCE(SUM(t.minutes), 0)",
    ),
    (
        "a balance after a transaction is not the running sum",
        "SELECT s.tenant_id, s.id || ' says ' || s.balance_after || ', the sum is ' || s.running AS detail FROM ( \
         SELECT t.tenant_id, t.id, t.balance_after, SUM(t.minutes) OVER (PARTITION BY t.tenant_id ORDER BY t.seq) AS running \
         FROM credit_transactions t WHERE {t}) s WHERE s.balance_after <> s.running",
    ),
    (
        "a call has more than one usage transaction",
        "SELECT t.tenant_id, COALESCE(t.call_id, 'no call') AS detail FROM credit_transactions t WHERE {t} AND t.kind = 'usage' \
         GROUP BY t.tenant_id, t.call_id HAVING COUNT(*) > 1",
    ),
    (
        "a usage transaction differs from its settled hold",
        "SELECT h.tenant_id, h.call_id || ' used ' || h.used AS detail FROM credit_holds h \
         LEFT JOIN credit_transactions t ON t.tenant_id = h.tenant_id AND t.idempotency_key = 'call:' || h.call_id \
         WHERE {h} AND h.settled_at IS NOT NULL AND h.used <> COALESCE(-t.minutes, 0)",
    ),
    (
        "a usage transaction has no settled hold",
        "SELECT t.tenant_id, t.id AS detail FROM credit_transactions t \
         LEFT JOIN credit_holds h ON h.call_id = t.call_id AND h.tenant_id = t.tenant_id \
         WHERE {t} AND t.kind = 'usage' AND (t.idempotency_key <> 'call:' || COALESCE(t.call_id, '') \
         OR (h.call_id IS NULL AND t.created_at >= {swept}) OR (h.call_id IS NOT NULL AND h.settled_at IS NULL))",
    ),
    (
        "a hold that is closed or was refused has minutes",
        "SELECT h.tenant_id, h.call_id || ' held ' || h.held || ', used ' || h.used AS detail FROM credit_holds h \
         WHERE {h} AND ((h.settled_at IS NOT NULL AND h.held <> 0) \
         OR (h.refusal IS NOT NULL AND (h.settled_at IS NULL OR h.used <> 0)))",
    ),
    (
        "a transaction belongs to no account",
        "SELECT t.tenant_id, t.id AS detail FROM credit_transactions t \
         LEFT JOIN credit_accounts a ON a.tenant_id = t.tenant_id WHERE {t} AND a.tenant_id IS NULL",
    ),
    (
        "a hold belongs to no account",
        "SELECT h.tenant_id, h.call_id AS detail FROM credit_holds h \
         LEFT JOIN credit_accounts a ON a.tenant_id = h.tenant_id WHERE {h} AND a.tenant_id IS NULL AND h.refusal IS NULL",
    ),
    (
        "a call was billed more than it talked, or not at all",
        "SELECT c.tenant_id, c.id || ' talked ' || COALESCE(c.talk_time_seconds, 0) || ' s, billed ' || COALESCE(h.used, 0) AS detail FROM calls c \
         LEFT JOIN credit_holds h ON h.call_id = c.id WHERE {c} AND c.ended_at IS NOT NULL AND ( \
         (c.answered_at IS NULL AND COALESCE(h.used, 0) <> 0) OR (c.answered_at IS NOT NULL AND (COALESCE(h.used, 0) < 1 \
         OR (h.used > 1 AND h.used > (COALESCE(c.talk_time_seconds, 0) + 59) / 60))))",
    ),
];

/// Checks all rules in one snapshot, for all tenants or one. It can run beside a server.
pub async fn verify(store: &Store, tenant: Option<TenantId>) -> Result<Report, DbErr> {
    let snapshot = store.begin_snapshot().await?;
    let mut report = Report {
        tenants: count(&snapshot, "credit_accounts", tenant).await?,
        transactions: count(&snapshot, "credit_transactions", tenant).await?,
        holds: count(&snapshot, "credit_holds", tenant).await?,
        differences: Vec::new(),
    };
    let swept = swept_before(&snapshot).await?.to_string();
    for (sentence, sql) in OPEN.iter().chain(SETTLED) {
        let sql = sql.replace("{swept}", &swept);
        let broken = broken(&snapshot, (sentence, &sql), tenant).await?;
        report.differences.extend(broken);
    }
    snapshot.rollback().await?;
    Ok(report)
}

/// Checks accounts and open holds. The cost does not grow with the history. Returns the differences.
pub async fn verify_open(store: &Store) -> Result<Vec<String>, DbErr> {
    let snapshot = store.begin_snapshot().await?;
    let mut differences = Vec::new();
    for rule in OPEN {
        differences.extend(broken(&snapshot, *rule, None).await?);
    }
    snapshot.rollback().await?;
    Ok(differences)
}

/// Returns a sentence for each row that breaks the rule.
async fn broken(
    snapshot: &Transaction,
    (sentence, sql): (&str, &str),
    tenant: Option<TenantId>,
) -> Result<Vec<String>, DbErr> {
    let mut sql = sql.to_owned();
    for alias in ["a", "h", "t", "c"] {
        sql = sql.replace(&format!("{{{alias}}}"), &condition(alias, tenant));
    }
    let sql = format!("{sql} LIMIT {LISTED_MAX}");
    let rows = statement(snapshot.get_database_backend(), sql, tenant);
    let rows = snapshot.query_all_raw(rows).await?;
    let differences = rows.iter().map(|row| {
        let tenant: String = row.try_get("", "tenant_id")?;
        let detail: String = row.try_get("", "detail")?;
        Ok(format!("{tenant}: {sentence}: {detail}"))
    });
    differences.collect()
}

/// Holds settled before this time may have been swept with their calls. Later transactions must have theirs.
async fn swept_before(snapshot: &Transaction) -> Result<i64, DbErr> {
    let sql = "SELECT before FROM swept_holds";
    let row = snapshot
        .query_one_raw(Statement::from_string(snapshot.get_database_backend(), sql))
        .await?;
    row.map_or(Ok(i64::MIN), |row| row.try_get("", "before"))
}

async fn count(
    snapshot: &Transaction,
    table: &str,
    tenant: Option<TenantId>,
) -> Result<i64, DbErr> {
    let sql = format!(
        "SELECT COUNT(*) AS rows FROM {table} x WHERE {}",
        condition("x", tenant)
    );
    let row = snapshot
        .query_one_raw(statement(snapshot.get_database_backend(), sql, tenant))
        .await?;
    row.map_or(Ok(0), |row| row.try_get("", "rows"))
}

fn condition(alias: &str, tenant: Option<TenantId>) -> String {
    tenant.map_or_else(|| "1 = 1".to_owned(), |_| format!("{alias}.tenant_id = $1"))
}

fn statement(backend: DbBackend, sql: String, tenant: Option<TenantId>) -> Statement {
    Statement::from_sql_and_values(backend, sql, tenant.map(Value::from))
}
