//! A batch of a sweep reads what it removes, however much is left from before. The test counts the rows that PostgreSQL
//! reads.

use serde_json::Value;

use super::*;
use crate::maintenance::calls::{HOLDS, OVER};

/// Rows of each table.
const ROWS: i64 = 20_000;
/// Rows before the cursor.
const PASSED: i64 = ROWS - 1_000;
/// Maximum rows that a statement may read. Independent of [`ROWS`].
const READ_MAX: i64 = 4_000;

/// Calls with their holds, events and deliveries.
fn fill() -> String {
    let id = |prefix: &str| format!("'{prefix}_' || lpad(n::text, 26, '0')");
    let (call, event, delivery) = (id("call"), id("evt"), id("dlv"));
    let rows = format!("FROM generate_series(1, {ROWS}) n");
    [
        format!(
            "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, caller_number, callee_number, status, \
             started_at, ended_at, metadata, last_sign_at, owner, epoch) SELECT {call}, 'ten_1', 'br_1', n::text, 'pn_1', '+621', \
             '+622', 'ended', n, n, '{{}}', n, 'main', 1 {rows}"
        ),
        // The last calls are gone.
        format!("DELETE FROM calls WHERE started_at > {ROWS} - 300"),
        format!(
            "INSERT INTO credit_holds (call_id, tenant_id, owner, epoch, request, held, used, last, created_at, settled_at) \
             SELECT {call}, 'ten_1', 'main', 1, 1, 0, 1, false, n, n {rows}"
        ),
        format!(
            "INSERT INTO events (id, tenant_id, call_id, kind, occurred_at, body, position, is_test) \
             SELECT {event}, 'ten_1', {call}, 'call.ended', n, '{{}}', n, false {rows}"
        ),
        format!(
            "INSERT INTO deliveries (id, tenant_id, webhook_id, event_id, call_id, kind, status, attempts, next_attempt_at, \
             is_test, created_at) SELECT {delivery}, 'ten_1', 'wh_1', {event}, {call}, 'call.ended', \
             CASE WHEN n < {PASSED} THEN 'pending' ELSE 'failed' END, 1, n, false, n {rows}"
        ),
        "ANALYZE".to_owned(),
    ]
    .join(";\n")
}

/// The rows that the scans of a plan read.
fn rows_read(plan: &Value) -> i64 {
    match plan {
        Value::Array(nodes) => nodes.iter().map(rows_read).sum(),
        Value::Object(node) => {
            // Newer PostgreSQL versions write decimals.
            let number = |name| -> i64 {
                let number = node.get(name).map(Value::to_string).unwrap_or_default();
                let whole = number.split('.').next().unwrap_or_default();
                whole.parse().unwrap_or_default()
            };
            let kind = node.get("Node Type").and_then(Value::as_str);
            let is_scan = kind.is_some_and(|kind| kind.contains("Scan"));
            let rows = number("Actual Rows") + number("Rows Removed by Filter");
            let own = if is_scan {
                rows * number("Actual Loops")
            } else {
                0
            };
            own + node.values().map(rows_read).sum::<i64>()
        }
        _ => 0,
    }
}

#[actix_web::test]
async fn a_batch_of_a_sweep_reads_what_it_removes() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let webhook = WebhookId::new(NOW);
    put_webhook(&store, webhook, true).await;
    let fill = fill().replace("'wh_1'", &format!("'{webhook}'"));
    store.writer().execute_unprepared(&fill).await.unwrap();
    let events = SweptEvents::Calls.find();
    let all = [(OVER, "call"), (HOLDS, "call"), (&*events, "evt")];
    for (find, prefix) in all {
        let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {find}")
            .replace("$1", &format!("'{prefix}_1'"))
            .replace("$2", &format!("'{prefix}_{PASSED:0>26}'"))
            .replace("$3", &NOW.as_i64().to_string());
        let explain = Statement::from_string(store.backend(), explain);
        let rows = store.reader().query_all_raw(explain).await.unwrap();
        let plan: Value = rows[0].try_get_by_index(0).unwrap();
        let read = rows_read(&plan);
        assert!((1..READ_MAX).contains(&read), "{read} rows for {find}");
    }
}
