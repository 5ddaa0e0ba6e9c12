//! A backlog slows nothing down: statements read only what they return, however much is pending. The tests count the
//! rows that PostgreSQL reads and ignore the plan's name.

use std::num::NonZeroUsize;

use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde_json::{Map, Value};

use super::*;
use crate::webhooks::{
    scheduler::{Refill, effects::RefillMark},
    store::pending::{due_rows_statement, due_statement},
};

/// So many that reading them once for each delivery of a refill takes seconds.
const BACKLOG: usize = 30_000;
const DUE: usize = 64;
/// Other webhooks with deliveries, so that the statistics distinguish webhooks.
const WEBHOOKS: usize = 20;
/// Maximum rows of deliveries that a statement may read. Independent of [`BACKLOG`].
const READ_MAX: i64 = 2_000;

/// A database in which one webhook has [`BACKLOG`] pending deliveries, and others have a few.
struct Backlog {
    _keep: StoreGuard,
    store: Store,
    now: Millis,
    webhook: WebhookId,
}

/// Due time and number of attempts of a backlog.
#[derive(Clone, Copy, Debug)]
enum Pending {
    /// It failed and is retried in an hour.
    Later,
    /// It was never tried, because its endpoint was down or its node died.
    Due,
}

impl Backlog {
    async fn of(pending: Pending) -> Option<Self> {
        let (keep, store) = dikala_testkit::postgres().await?;
        let now = SystemClock.now();
        let webhook = WebhookId::new(now);
        let (at, attempts) = match pending {
            Pending::Later => (now.plus_ms(3_600_000), 3),
            Pending::Due => (now.plus_ms(-3_600_000), 0),
        };
        let at = at.as_i64();
        let backlog = format!("'{webhook}', {attempts}, {at} + n");
        let fresh = now.plus_ms(-500).as_i64();
        let due = format!("'{webhook}', 0, {fresh} + n");
        let others = format!("'wh_' || lpad((n % {WEBHOOKS})::text, 26, '0'), 0, {at} + n");
        let few = WEBHOOKS * 10;
        for (first, rows, values) in [
            (0, BACKLOG, backlog),
            (BACKLOG, DUE, due),
            (BACKLOG * 2, few, others),
        ] {
            let fill = fill(first, rows, &values, now);
            store
                .writer()
                .execute_unprepared(&fill)
                .await
                .expect("rows");
        }
        let cursor = format!(
            "INSERT INTO webhook_cursors (webhook_id, node, sequence, position) VALUES ('{webhook}', 'a', 0, 0)"
        );
        store
            .writer()
            .execute_unprepared(&cursor)
            .await
            .expect("is owned");
        store
            .writer()
            .execute_unprepared("ANALYZE deliveries")
            .await
            .expect("is known");
        Some(Self {
            _keep: keep,
            store,
            now,
            webhook,
        })
    }

    fn refill(&self) -> Statement {
        let most = NonZeroUsize::new(DUE).expect("a number");
        let refill = Refill {
            webhook: self.webhook,
            tenant: TenantId::new(self.now),
            most: Some(most),
            known: Vec::new(),
            from: LogPlace::default(),
            mark: RefillMark::default(),
        };
        due_rows_statement(DbBackend::Postgres, &refill, most, "a", self.now).expect("a statement")
    }

    async fn reads(&self, sent: &Statement) -> [i64; 2] {
        reads(&self.store, sent).await
    }
}

/// The number of delivery rows that a statement reads, with a custom plan and with a generic one.
pub(super) async fn reads(store: &Store, sent: &Statement) -> [i64; 2] {
    let mut reads = [0; 2];
    for (reads, mode) in reads
        .iter_mut()
        .zip(["force_custom_plan", "force_generic_plan"])
    {
        let txn = store.begin().await.expect("begins");
        let values = sent.values.iter().flat_map(|values| &values.0);
        let values: Vec<String> = values.map(|value| value.to_string()).collect();
        let prepare = format!(
            "SET LOCAL plan_cache_mode = {mode}; PREPARE judged AS {}",
            sent.sql
        );
        txn.execute_unprepared(&prepare).await.expect("is prepared");
        let values = match values.is_empty() {
            true => String::new(),
            false => format!("({})", values.join(", ")),
        };
        let explain = format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE judged{values}");
        let rows = txn
            .query_all_raw(Statement::from_string(DbBackend::Postgres, explain))
            .await
            .expect("is carried out");
        let plan: Value = rows[0].try_get_by_index(0).expect("a plan");
        txn.execute_unprepared("DEALLOCATE judged")
            .await
            .expect("is forgotten");
        txn.rollback().await.expect("is as before");
        *reads = rows_read(&plan);
    }
    reads
}

/// Deliveries, each of a call of its own. `values` are webhook, attempts and due time.
fn fill(first: usize, rows: usize, values: &str, now: Millis) -> String {
    let id = |prefix: &str| format!("'{prefix}_' || lpad((n + {first})::text, 26, '0')");
    format!(
        "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, is_test, created_at, attempts, \
         next_attempt_at) SELECT {}, '{}', webhook, {}, {}, 'call.ended', 'pending', false, 0, attempts, at \
         FROM (SELECT n, {values} FROM generate_series(1, {rows}) n) AS rows(n, webhook, attempts, at)",
        id("dlv"),
        TenantId::new(now),
        id("evt"),
        id("call"),
    )
}

/// The rows that the scans of a plan read.
fn rows_read(plan: &Value) -> i64 {
    match plan {
        Value::Array(nodes) => nodes.iter().map(rows_read).sum(),
        Value::Object(node) => {
            let kind = node.get("Node Type").and_then(Value::as_str);
            let own = match kind.is_some_and(|kind| kind.contains("Scan")) {
                true => {
                    let rows = number(node, "Actual Rows")
                        + number(node, "Rows Removed by Filter")
                        + number(node, "Rows Removed by Index Recheck");
                    rows * number(node, "Actual Loops")
                }
                false => 0,
            };
            own + node.values().map(rows_read).sum::<i64>()
        }
        _ => 0,
    }
}

/// A number in a plan, without the decimals of newer PostgreSQL versions.
fn number(node: &Map<String, Value>, name: &str) -> i64 {
    let number = node.get(name).map(Value::to_string).unwrap_or_default();
    let whole = number.split('.').next().unwrap_or_default();
    whole.parse().unwrap_or_default()
}

#[actix::test]
async fn a_refill_reads_what_it_gives_however_many_retries_wait_for_later() {
    let Some(world) = Backlog::of(Pending::Later).await else {
        return;
    };
    let reads = world.reads(&world.refill()).await;
    assert!(reads.iter().all(|read| *read < READ_MAX), "{reads:?} rows");
}

#[actix::test]
async fn a_refill_reads_what_it_gives_however_much_is_due() {
    let Some(world) = Backlog::of(Pending::Due).await else {
        return;
    };
    let reads = world.reads(&world.refill()).await;
    assert!(reads.iter().all(|read| *read < READ_MAX), "{reads:?} rows");
}

#[actix::test]
async fn looking_for_what_is_due_reads_some_rows_of_each_webhook() {
    let Some(world) = Backlog::of(Pending::Due).await else {
        return;
    };
    let due = due_statement(DbBackend::Postgres);
    let reads = world.reads(&due).await;
    assert!(reads.iter().all(|read| *read < READ_MAX), "{reads:?} rows");
}
