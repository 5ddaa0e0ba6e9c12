//! Counts of ended calls and delivery attempts, so that the cost of statistics does not depend on their number.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, sea_orm::DbBackend};

use super::run;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const CALL_STATS: &str = "CREATE TABLE call_stats (tenant_id TEXT NOT NULL, subject TEXT NOT NULL, slot BIGINT NOT NULL, \
    calls BIGINT NOT NULL, answered BIGINT NOT NULL, ended BIGINT NOT NULL, dropped BIGINT NOT NULL, failed BIGINT NOT NULL, \
    minutes BIGINT NOT NULL, talk_seconds BIGINT NOT NULL, duration_seconds BIGINT NOT NULL, \
    PRIMARY KEY (tenant_id, subject, slot))";
const WEBHOOK_STATS: &str = "CREATE TABLE webhook_stats (webhook_id TEXT NOT NULL, hour BIGINT NOT NULL, outcome TEXT NOT NULL, \
    up_to_ms BIGINT NOT NULL, attempts BIGINT NOT NULL, PRIMARY KEY (webhook_id, hour, outcome, up_to_ms))";

/// Each runs unchanged on both databases.
const FILL: &[&str] = &[
    // Each call counts for its tenant, its agent and its number. Its cost follows from its talk time: every minute
    // that began.
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
    "CREATE INDEX webhook_stats_hour ON webhook_stats (hour)",
];

const DOWN: &[&str] = &["DROP TABLE webhook_stats", "DROP TABLE call_stats"];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Read by key ranges: SQLite stores the rows in key order, and on PostgreSQL an updated row fits in its
        // page.
        let as_kept = match manager.get_database_backend() {
            DbBackend::Postgres => " WITH (fillfactor = 50)",
            _ => " WITHOUT ROWID",
        };
        for table in [CALL_STATS, WEBHOOK_STATS] {
            run(manager, &[&format!("{table}{as_kept}")]).await?;
        }
        run(manager, FILL).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        run(manager, DOWN).await
    }
}
