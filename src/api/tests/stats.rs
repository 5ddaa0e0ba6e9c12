//! Statistics over HTTP: counters of ended calls and of recorded attempts.

use dikala_actors::{calls::messages, runtime::clock::Clock};
use dikala_entities::{
    AgentId, BridgeId, EventKind, Millis, OutboundUrl, PhoneNumberId, UrlPolicy, call_stat,
    phone_number, webhook, webhook_stat,
};
use dikala_protocol::IncomingCall;
use dikala_testkit::eventually;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, ConnectionTrait, EntityTrait};
use serde_json::{Value, json};

use super::prelude::*;

async fn stats(world: &ApiWorld, query: &str) -> Value {
    let path = format!("/calls/stats?{query}");
    world.done("calls.stats", &path, None).await.json()
}

fn figures(
    calls: i64,
    answered: i64,
    outcomes: [i64; 3],
    minutes: i64,
    talk: i64,
    whole: i64,
) -> Value {
    let [ended, dropped, failed] = outcomes;
    json!({
        "calls": calls, "answered": answered, "ended": ended, "dropped": dropped, "failed": failed, "minutes": minutes,
        "talkTimeSeconds": talk, "durationSeconds": whole, "turnLatencyMs": null, "stalls": 0, "interruptions": 0,
    })
}

/// A call to our number.
async fn ring(world: &ApiWorld, name: &str) -> messages::CallReply {
    let incoming = IncomingCall {
        trace: None,
        bridge_call_id: name.into(),
        called: world.ours.did.clone().into(),
        caller_number: "+6281298765432".parse().expect("a caller"),
        channel: None,
        draft: None,
        metadata: None,
        at: None,
    };
    let bridge = BridgeId::new(world.clock.now());
    let reply = world
        .actors
        .runtime
        .calls
        .incoming(bridge, incoming, None)
        .await;
    reply.expect("an answer")
}

/// The rows of both tables.
async fn counted(world: &ApiWorld) -> Vec<String> {
    let db = world.store().reader();
    let calls = call_stat::Entity::find().all(db).await.expect("reads");
    let attempts = webhook_stat::Entity::find().all(db).await.expect("reads");
    let calls = calls.iter().map(|row| format!("{row:?}"));
    let mut rows: Vec<String> = calls.collect();
    rows.extend(attempts.iter().map(|row| format!("{row:?}")));
    rows.sort();
    rows
}

/// Counts the existing calls and attempts anew.
const COUNT_AGAIN: &[&str] = &[
    "DELETE FROM call_stats",
    "DELETE FROM webhook_stats",
    // Each call counts for its tenant, its agent and its number, with every minute that began.
    "INSERT INTO call_stats (tenant_id, subject, slot, calls, answered, ended, dropped, failed, minutes, talk_seconds, \
     duration_seconds) WITH counted AS (SELECT tenant_id, agent_id, phone_number_id, started_at - started_at % 900000 AS slot, \
     COUNT(*) AS calls, SUM(CASE WHEN answered_at IS NULL THEN 0 ELSE 1 END) AS answered, \
     SUM(CASE status WHEN 'ended' THEN 1 ELSE 0 END) AS ended, SUM(CASE status WHEN 'dropped' THEN 1 ELSE 0 END) AS dropped, \
     SUM(CASE status WHEN 'failed' THEN 1 ELSE 0 END) AS failed, SUM(CASE WHEN answered_at IS NULL THEN 0 \
     WHEN COALESCE(talk_time_seconds, 0) <= 60 THEN 1 ELSE (talk_time_seconds + 59) / 60 END) AS minutes, \
     SUM(COALESCE(talk_time_seconds, 0)) AS talk_seconds, SUM(COALESCE(duration_seconds, 0)) AS duration_seconds \
     FROM calls WHERE status IN ('ended', 'dropped', 'failed') GROUP BY 1, 2, 3, 4) \
     SELECT c.tenant_id, CASE s.one WHEN 1 THEN '' WHEN 2 THEN c.agent_id ELSE c.phone_number_id END, c.slot, SUM(c.calls), \
     SUM(c.answered), SUM(c.ended), SUM(c.dropped), SUM(c.failed), SUM(c.minutes), SUM(c.talk_seconds), SUM(c.duration_seconds) \
     FROM counted c CROSS JOIN (SELECT 1 AS one UNION ALL SELECT 2 UNION ALL SELECT 3) AS s \
     WHERE s.one <> 2 OR c.agent_id IS NOT NULL GROUP BY 1, 2, 3",
    // Durations are rounded up to their first four binary digits.
    "INSERT INTO webhook_stats (webhook_id, hour, outcome, up_to_ms, attempts) SELECT d.webhook_id, \
     a.started_at - a.started_at % 3600000, CASE WHEN d.status = 'succeeded' AND a.number = d.attempts THEN 'delivered' \
     WHEN d.status = 'failed' AND a.number = d.attempts THEN 'given_up' ELSE 'failed' END, \
     CASE WHEN a.duration_ms < 16 THEN a.duration_ms WHEN a.duration_ms < 32 THEN (a.duration_ms / 2 + 1) * 2 - 1 \
     WHEN a.duration_ms < 64 THEN (a.duration_ms / 4 + 1) * 4 - 1 WHEN a.duration_ms < 128 THEN (a.duration_ms / 8 + 1) * 8 - 1 \
     WHEN a.duration_ms < 256 THEN (a.duration_ms / 16 + 1) * 16 - 1 \
     WHEN a.duration_ms < 512 THEN (a.duration_ms / 32 + 1) * 32 - 1 \
     WHEN a.duration_ms < 1024 THEN (a.duration_ms / 64 + 1) * 64 - 1 \
     WHEN a.duration_ms < 2048 THEN (a.duration_ms / 128 + 1) * 128 - 1 \
     WHEN a.duration_ms < 4096 THEN (a.duration_ms / 256 + 1) * 256 - 1 \
     WHEN a.duration_ms < 8192 THEN (a.duration_ms / 512 + 1) * 512 - 1 \
     ELSE (a.duration_ms / 1024 + 1) * 1024 - 1 END, COUNT(*) \
     FROM delivery_attempts a JOIN deliveries d ON d.id = a.delivery_id WHERE NOT d.is_test GROUP BY 1, 2, 3, 4",
];

async fn count_again(world: &ApiWorld) {
    let db = world.store().for_schema().await.expect("a connection");
    for statement in COUNT_AGAIN {
        db.execute_unprepared(statement).await.expect("counts");
    }
    db.close().await.expect("closes");
}

#[rstest]
#[actix_web::test]
async fn a_call_counts_once_when_it_is_over(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    // The two calls of the initial rows.
    count_again(&world).await;
    let before = figures(1, 1, [1, 0, 0], 1, 30, 34);
    assert_eq!(stats(&world, "").await["total"], before);
    let (bridge, call) = world.talk().await;
    assert_eq!(stats(&world, "").await["total"], before, "it is not over");
    world.clock.advance_ms(10_000);
    world.obey(bridge, call).await;
    world.obey(bridge, call).await;
    assert_eq!(
        stats(&world, "").await["total"],
        figures(2, 2, [2, 0, 0], 2, 40, 44)
    );
    let no_agent = phone_number::ActiveModel {
        id: Set(world.ours.number),
        agent_id: Set(None),
        ..Default::default()
    };
    no_agent
        .update(world.store().writer())
        .await
        .expect("is changed");
    assert!(matches!(
        ring(&world, "refused").await,
        messages::CallReply::Refused { .. }
    ));
    let all = figures(3, 2, [2, 0, 1], 2, 40, 44);
    let of_agent = format!("agentId={}", world.ours.agent);
    let of_number = format!("phoneNumberId={}", world.ours.number);
    assert_eq!(stats(&world, "").await["total"], all);
    assert_eq!(stats(&world, &of_number).await["total"], all);
    let answered = figures(2, 2, [2, 0, 0], 2, 40, 44);
    assert_eq!(stats(&world, &of_agent).await["total"], answered);

    let rows = counted(&world).await;
    assert!(rows.len() > 4, "{rows:?}");
    count_again(&world).await;
    assert_eq!(
        counted(&world).await,
        rows,
        "counted as they ended and counted afterwards"
    );

    world
        .done("calls.delete", &format!("/calls/{call}"), None)
        .await;
    assert_eq!(counted(&world).await, rows, "what is erased still counts");
    for nobody in [
        format!("agentId={}", AgentId::new(Millis::MIN)),
        format!("phoneNumberId={}", PhoneNumberId::new(Millis::MIN)),
        format!("agentId={}", world.theirs.agent),
    ] {
        assert_eq!(stats(&world, &nobody).await["total"]["calls"], 0);
    }
}

#[rstest]
#[actix_web::test]
async fn figures_are_told_for_each_hour_or_day(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    count_again(&world).await;
    // It is 2026-01-15, 10:30 in Jakarta, and the call began a minute ago.
    let days = stats(&world, "timeZone=Asia/Jakarta").await;
    let intervals = days["intervals"].as_array().expect("intervals");
    assert_eq!(intervals.len(), 30);
    assert_eq!(days["from"], "2025-12-16T17:00:00.000Z");
    assert_eq!(
        (&days["to"], &days["timeZone"], &days["interval"]),
        (
            &json!("2026-01-15T17:00:00.000Z"),
            &json!("Asia/Jakarta"),
            &json!("day")
        )
    );
    assert_eq!(intervals[29]["start"], "2026-01-14T17:00:00.000Z");
    assert_eq!(
        (&intervals[29]["calls"], &intervals[28]["calls"]),
        (&json!(1), &json!(0))
    );
    let hours = stats(&world, "interval=hour").await;
    let intervals = hours["intervals"].as_array().expect("intervals");
    assert_eq!((intervals.len(), &hours["total"]["calls"]), (24, &json!(1)));
    assert_eq!(
        (&intervals[23]["start"], &intervals[23]["calls"]),
        (&json!("2026-01-15T03:00:00.000Z"), &json!(1))
    );
    // Widened to whole hours; the second ends at the requested time.
    let exact = stats(
        &world,
        "interval=hour&from=2026-01-15T03:29:59Z&to=2026-01-15T04:00:00Z",
    )
    .await;
    assert_eq!(
        (&exact["from"], &exact["to"], &exact["total"]["calls"]),
        (
            &json!("2026-01-15T03:00:00.000Z"),
            &json!("2026-01-15T04:00:00.000Z"),
            &json!(1)
        )
    );
    let day = stats(&world, "timeZone=%2B07:00&from=2026-01-14&to=2026-01-15").await;
    assert_eq!(
        (&day["from"], &day["to"], &day["total"]["calls"]),
        (
            &json!("2026-01-13T17:00:00.000Z"),
            &json!("2026-01-14T17:00:00.000Z"),
            &json!(0)
        )
    );
}

#[rstest]
#[actix_web::test]
async fn what_cannot_be_counted_is_refused(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let both = format!(
        "agentId={}&phoneNumberId={}",
        world.ours.agent, world.ours.number
    );
    for (query, fields) in [
        (
            "interval=week&timeZone=Mars&agentId=x",
            &[
                "interval not_allowed",
                "timeZone invalid_format",
                "agentId invalid_format",
            ][..],
        ),
        ("from=2026-01-01&to=2026-01-01", &["to too_small"]),
        ("from=2026-01-01&to=2026-04-04", &["to too_large"]),
        (
            "interval=hour&from=2026-01-01&to=2026-02-02",
            &["to too_large"],
        ),
        ("by=agent", &["by unknown_field"]),
        (&both, &["phoneNumberId not_allowed"]),
    ] {
        let reply = world.get(&format!("/calls/stats?{query}")).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, fields.iter().map(|&f| f.to_owned()).collect()),
            "{query}"
        );
    }
    let most = stats(&world, "interval=day&from=2026-01-01&to=2026-04-03").await;
    assert_eq!(most["intervals"].as_array().map(Vec::len), Some(92));
    let most = stats(&world, "interval=hour&from=2026-01-01&to=2026-02-01").await;
    assert_eq!(most["intervals"].as_array().map(Vec::len), Some(31 * 24));
}

#[rstest]
#[actix_web::test]
async fn attempts_are_counted_by_hour_and_outcome(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.at_the_customers().await;
    count_again(&world).await;
    let hook = world.ours.webhook;
    let path = format!("/webhooks/{hook}/stats");
    let shown = async || world.done("webhooks.stats", &path, None).await.json();
    let seeded = shown().await;
    assert_eq!(
        (&seeded["from"], &seeded["to"]),
        (
            &json!("2026-01-14T04:00:00.000Z"),
            &json!("2026-01-15T03:30:00.000Z")
        )
    );
    let figures = |attempts, succeeded, failed, given_up| json!({"attempts": attempts, "succeeded": succeeded, "failed": failed, "givenUp": given_up});
    let without_times = |mut shown: Value| {
        let times = shown.as_object_mut().expect("figures").remove("latencyMs");
        assert!(times.is_some_and(|times| times["max"].is_i64()));
        shown
    };
    assert_eq!(without_times(seeded["total"].clone()), figures(1, 0, 1, 1));

    let subscribe = |url: OutboundUrl| webhook::ActiveModel {
        id: Set(hook),
        url: Set(url),
        events: Set(json!(EventKind::OF_WEBHOOKS).to_string()),
        ..Default::default()
    };
    let there = subscribe(world.customer.outbound_url("/hook"));
    there
        .update(world.store().writer())
        .await
        .expect("subscribes");
    let (bridge, call) = world.talk().await;
    eventually("two attempts more", async || {
        (shown().await["total"]["succeeded"] == 2).then_some(())
    })
    .await;
    let nowhere = OutboundUrl::parse("http://127.0.0.2:1/hook", UrlPolicy { allow_http: true });
    let gone = subscribe(nowhere.expect("an address"));
    gone.update(world.store().writer()).await.expect("moves");
    world.actors.runtime.webhooks.refresh(hook);
    world.obey(bridge, call).await;
    let total = eventually("a failed attempt", async || {
        let total = shown().await["total"].clone();
        (total["failed"] == 2).then_some(total)
    })
    .await;
    assert_eq!(without_times(total), figures(4, 2, 2, 1));
    world
        .done("webhooks.test", &format!("/webhooks/{hook}/test"), None)
        .await;
    let all = shown().await;
    assert_eq!(
        without_times(all["total"].clone()),
        figures(4, 2, 2, 1),
        "tests do not count"
    );
    let hours = all["hours"].as_array().expect("hours");
    assert_eq!(hours.len(), 24);
    assert_eq!(
        (&hours[23]["start"], &hours[23]["attempts"]),
        (&json!("2026-01-15T03:00:00.000Z"), &json!(4))
    );
    assert_eq!(
        (&hours[22]["attempts"], &hours[22]["latencyMs"]["p50"]),
        (&json!(0), &Value::Null)
    );

    let rows = counted(&world).await;
    count_again(&world).await;
    assert_eq!(counted(&world).await, rows);
    world.clock.advance_ms(24 * 60 * 60 * 1_000);
    // Failed deliveries are retried at once, and fail today.
    assert_eq!(shown().await["total"]["succeeded"], 0, "yesterday");
    let theirs = world
        .get(&format!("/webhooks/{}/stats", world.theirs.webhook))
        .await;
    assert_eq!(theirs.code(), "webhook_not_found");
}
