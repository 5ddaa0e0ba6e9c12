//! The cost of a request or periodic task does not grow with the stored data.

use crate::support::{prelude::*, statements, tenant::text};

/// Tests the check itself: it finds bad statements and accepts good ones.
#[rstest]
#[actix_web::test]
async fn a_statement_that_reads_a_whole_table_is_found(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let url = world.server.installation.store.url.as_str();
    let found = |sql: &str| {
        let sql = match store {
            Sqlite => sql.replace('$', "?"),
            Postgres => sql.to_owned(),
        };
        statements::scans(url, vec![statements::LoggedStatement(sql)])
    };
    for whole in [
        "SELECT id FROM calls WHERE owner = $1 AND started_at < $2",
        "SELECT COUNT(*) FROM deliveries WHERE status = $1",
        "SELECT d.id FROM deliveries AS d WHERE d.call_id = $1",
        "DELETE FROM events WHERE occurred_at < $1",
        "UPDATE credit_holds SET held = 0 WHERE tenant_id = $1",
        "SELECT COUNT(*) FROM transcripts",
    ] {
        assert!(!found(whole).is_empty(), "{whole}");
    }
    for fine in [
        "SELECT id FROM calls WHERE outcome IS NULL AND owner = $1 AND started_at < $2",
        "SELECT id FROM calls WHERE id = $1",
        "SELECT COUNT(*) FROM (SELECT 1 FROM deliveries WHERE status = 'pending' LIMIT 10) AS counted",
        "DELETE FROM events WHERE id IN ($1, $2)",
    ] {
        assert_eq!(found(fine), [""; 0], "{fine}");
    }
}

/// Sends every kind of request, lets every periodic task run, and restarts. Statements are judged when the server
/// stops, as in every test.
#[rstest]
#[actix_web::test]
async fn no_statement_reads_through_a_table_that_grows(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new()
        .set("retention.sweep_seconds", 1)
        .set("retention.calls_days", 30)
        .set("retention.transcripts_days", 7)
        .set("retention.audit_days", 400)
        .set("mail.url", "smtp://127.0.0.1:9")
        .set("mail.from", "dikala@example.com");
    let mut world = world!(store, setup);
    let api = &world.tenant.api;
    let bridge = world.tenant.bridge(Socket).await;
    let endpoint = world.receiver.url("/function");
    world
        .tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    let call = bridge.talk(&world.tenant.did).await;
    let invocation = json!({"callId": call, "name": "find_order", "parameters": {"orderId": "7"}, "invocationId": "i1"});
    bridge.ask("call.function", invocation).await;
    let words = json!({"callId": call, "summary": "About an order.", "turns": []});
    bridge.ok("call.transcript", words).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;

    let webhooks = api.get("/webhooks").await.expect(200);
    let webhook = text(&webhooks["webhooks"][0], "id");
    let deliveries = format!("/webhooks/{webhook}/deliveries");
    let delivery = eventually("a delivery", async || {
        let page = api.get(&deliveries).await.expect(200);
        page["deliveries"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    for path in [
        "/calls?offset=5000&limit=1",
        "/calls?status=ended",
        "/calls?status=ended&from=2026-01-01&to=2100-01-01",
        "/calls/stats",
        &format!(
            "/calls/stats?interval=hour&timeZone=Asia/Jakarta&agentId={}",
            world.tenant.agent
        ),
        &format!("/webhooks/{webhook}/stats"),
        "/credits",
        "/credits/transactions?offset=70",
        &format!("/calls/{call}/events"),
        &format!("/calls/{call}/transcript"),
        &format!("{deliveries}?status=succeeded"),
        &format!("{deliveries}?status=failed&offset=9"),
        &format!("/deliveries/{delivery}"),
        &format!("/agents/{}/functions/find_order/stats", world.tenant.agent),
    ] {
        api.get(path).await.expect(200);
    }
    let since = json!({"since": "2026-01-01T00:00:00Z"});
    api.post(&format!("/webhooks/{webhook}/recover"), since)
        .await
        .expect(202);
    api.post(&format!("/deliveries/{delivery}/resend"), json!({}))
        .await
        .expect(202);
    api.delete(&format!("/calls/{call}")).await.expect(204);
    // An active call, which the next start takes over.
    bridge.talk(&world.tenant.did).await;
    world.server.terminate().await;
    world.server.restart();
    // Each periodic task, by a part of its statement; the slowest runs twice a minute.
    for task in [
        "\"owner\" = ",
        "FROM events e WHERE e.id <",
        "AND e.id > $2 AND e.call_id IS NOT NULL AND (SELECT 1",
        "FROM calls c WHERE c.id <",
        "FROM credit_holds h WHERE h.call_id <",
        "FROM transcripts t WHERE",
        "FROM delivery_attempts WHERE started_at <",
        "FROM webhook_stats WHERE hour <",
        "FROM audit WHERE at <",
        "FROM idempotency_keys WHERE created_at <=",
        "FROM login_links WHERE expires_at <=",
        "FROM sessions WHERE ends_at <=",
        "FROM sign_in_failures WHERE ends_at <=",
        "FROM mails WHERE ends_at <=",
        "FROM operator_sign_outs WHERE ends_at <=",
        "FROM \"mails\" WHERE \"mails\".\"next_at\" <=",
        "FROM credit_holds h JOIN calls c ON",
        "epoch = calls.epoch + 1 FROM",
        "FROM w LEFT JOIN webhooks",
        "FROM hangup_requests r LEFT JOIN calls",
    ] {
        eventually(&format!("a statement with {task}"), async || {
            let sent = statements::in_log(&world.server.log());
            sent.iter().any(|sent| sent.0.contains(task)).then_some(())
        })
        .await;
    }
}
