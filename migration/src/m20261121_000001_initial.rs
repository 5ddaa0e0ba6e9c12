//! The schema of version 1.
//!
//! Conventions: ids and enumerations are text, instants are BIGINT milliseconds since the Unix epoch, JSON is text,
//! booleans are booleans. No row refers to another tenant's rows.

#![expect(
    elided_lifetimes_in_paths,
    reason = "the trait's own signatures leave the lifetime out"
)]

use sea_orm_migration::{prelude::*, schema::*};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in [
            tenant(),
            api_key(),
            bridge(),
            agent(),
            function(),
            phone_number(),
            call(),
            transcript(),
            invocation(),
            event(),
            webhook(),
            delivery(),
            attempt(),
            credit_account(),
            credit_hold(),
            credit_transaction(),
            idempotency(),
        ] {
            manager.create_table(table).await?;
        }
        let db = manager.get_connection();
        for index in INDEXES {
            db.execute_unprepared(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in TABLES {
            manager
                .drop_table(Table::drop().table(*table).take())
                .await?;
        }
        Ok(())
    }
}

/// Referencing tables before referenced ones.
pub(super) const TABLES: &[&str] = &[
    "idempotency_keys",
    "credit_transactions",
    "credit_holds",
    "credit_accounts",
    "delivery_attempts",
    "deliveries",
    "webhooks",
    "events",
    "invocations",
    "transcripts",
    "calls",
    "phone_numbers",
    "functions",
    "agents",
    "bridges",
    "api_keys",
    "tenants",
];

/// In SQL, because sea-query cannot write `WHERE` for both databases. Each runs unchanged on both.
const INDEXES: &[&str] = &[
    "CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash)",
    "CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id)",
    "CREATE UNIQUE INDEX bridges_hash ON bridges (hash)",
    "CREATE INDEX agents_tenant ON agents (tenant_id, id)",
    "CREATE UNIQUE INDEX functions_name ON functions (agent_id, name)",
    "CREATE UNIQUE INDEX phone_numbers_did ON phone_numbers (did)",
    "CREATE INDEX phone_numbers_tenant ON phone_numbers (tenant_id, id)",
    "CREATE INDEX phone_numbers_agent ON phone_numbers (agent_id)",
    "CREATE UNIQUE INDEX calls_bridge_call ON calls (bridge_id, bridge_call_id)",
    "CREATE INDEX calls_tenant ON calls (tenant_id, started_at DESC, id DESC)",
    "CREATE INDEX calls_tenant_status ON calls (tenant_id, status, started_at DESC, id DESC)",
    "CREATE INDEX calls_running ON calls (owner, id) WHERE status IN ('ringing', 'answered')",
    "CREATE INDEX events_tenant ON events (tenant_id, id)",
    "CREATE INDEX events_call ON events (call_id, id) WHERE call_id IS NOT NULL",
    "CREATE INDEX webhooks_tenant ON webhooks (tenant_id, id)",
    "CREATE INDEX deliveries_due ON deliveries (webhook_id, next_attempt_at, id) WHERE status = 'pending'",
    "CREATE INDEX deliveries_webhook ON deliveries (webhook_id, id DESC)",
    "CREATE INDEX deliveries_webhook_status ON deliveries (webhook_id, status, id DESC)",
    "CREATE INDEX deliveries_event ON deliveries (event_id)",
    "CREATE INDEX delivery_attempts_age ON delivery_attempts (started_at)",
    "CREATE INDEX credit_holds_open ON credit_holds (tenant_id, call_id) WHERE settled_at IS NULL",
    "CREATE UNIQUE INDEX credit_transactions_id ON credit_transactions (id)",
    "CREATE UNIQUE INDEX credit_transactions_key ON credit_transactions (tenant_id, idempotency_key)",
    "CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at)",
];

fn tenant() -> TableCreateStatement {
    Table::create()
        .table("tenants")
        .col(text("id").primary_key())
        .col(text("name"))
        .col(text("plan"))
        .col(big_integer_null("rate_limit"))
        .col(big_integer_null("max_concurrent_calls"))
        .col(text("function_secret"))
        .col(big_integer_null("suspended_at"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .take()
}

fn api_key() -> TableCreateStatement {
    Table::create()
        .table("api_keys")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("name"))
        .col(text("prefix"))
        .col(text("hash"))
        .col(big_integer("created_at"))
        .col(big_integer_null("last_used_at"))
        .col(big_integer_null("revoked_at"))
        .take()
}

fn bridge() -> TableCreateStatement {
    Table::create()
        .table("bridges")
        .col(text("id").primary_key())
        .col(text("name"))
        .col(text("hash"))
        .col(big_integer("created_at"))
        .col(big_integer_null("last_seen_at"))
        .col(big_integer_null("revoked_at"))
        .take()
}

fn agent() -> TableCreateStatement {
    Table::create()
        .table("agents")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("name"))
        .col(text("system_prompt"))
        .col(text_null("voice_id"))
        .col(text_null("greeting_text"))
        .col(text("language"))
        .col(big_integer("max_call_duration_minutes"))
        .col(text_null("escalation_number"))
        .col(text("tools_enabled"))
        .col(boolean("is_active"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .take()
}

fn function() -> TableCreateStatement {
    Table::create()
        .table("functions")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("agent_id"))
        .col(text("name"))
        .col(text("description"))
        .col(text("endpoint"))
        .col(text("method"))
        .col(text("parameters"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("functions", "agent_id")
                .to("agents", "id")
                .on_delete(ForeignKeyAction::Cascade),
        )
        .take()
}

fn phone_number() -> TableCreateStatement {
    Table::create()
        .table("phone_numbers")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("did"))
        .col(text("label"))
        .col(boolean("is_active"))
        .col(text_null("agent_id"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .foreign_key(
            ForeignKey::create()
                .from("phone_numbers", "agent_id")
                .to("agents", "id")
                .on_delete(ForeignKeyAction::SetNull),
        )
        .take()
}

fn call() -> TableCreateStatement {
    Table::create()
        .table("calls")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("bridge_id"))
        .col(text("bridge_call_id"))
        .col(text("phone_number_id"))
        .col(text_null("agent_id"))
        .col(text("caller_number"))
        .col(text("callee_number"))
        .col(text("status"))
        .col(big_integer("started_at"))
        .col(big_integer_null("answered_at"))
        .col(big_integer_null("ended_at"))
        .col(big_integer_null("duration_seconds"))
        .col(big_integer_null("talk_time_seconds"))
        .col(text_null("hangup_reason"))
        .col(text_null("hangup_initiator"))
        .col(text_null("transcript_summary"))
        .col(big_integer_null("ai_cost_idr"))
        .col(text("metadata"))
        .col(text_null("settings"))
        .col(text_null("pending"))
        .col(text_null("answer_message_id"))
        .col(text_null("failure_detail"))
        .col(big_integer("last_sign_at"))
        .col(text("owner"))
        .col(big_integer("epoch"))
        .take()
}

fn transcript() -> TableCreateStatement {
    Table::create()
        .table("transcripts")
        .col(text("call_id").primary_key())
        .col(text("tenant_id"))
        .col(text("summary"))
        .col(text("turns"))
        .col(big_integer("created_at"))
        .take()
}

fn invocation() -> TableCreateStatement {
    Table::create()
        .table("invocations")
        .col(text("call_id"))
        .col(text("invocation_id"))
        .col(text("tenant_id"))
        .col(text("function_name"))
        .col(text("outcome"))
        .col(big_integer("duration_ms"))
        .col(big_integer("created_at"))
        .primary_key(Index::create().col("call_id").col("invocation_id"))
        .take()
}

fn event() -> TableCreateStatement {
    Table::create()
        .table("events")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text_null("call_id"))
        .col(text("kind"))
        .col(big_integer("occurred_at"))
        .col(text("body"))
        .take()
}

fn webhook() -> TableCreateStatement {
    Table::create()
        .table("webhooks")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("url"))
        .col(text("events"))
        .col(text("secret"))
        .col(text("secret_hint"))
        .col(text_null("previous_secret"))
        .col(big_integer_null("previous_secret_until"))
        .col(boolean("is_active"))
        .col(text_null("disabled_reason"))
        .col(big_integer("failed_in_row"))
        .col(big_integer_null("failing_since"))
        .col(big_integer("created_at"))
        .col(big_integer("updated_at"))
        .take()
}

fn delivery() -> TableCreateStatement {
    Table::create()
        .table("deliveries")
        .col(text("id").primary_key())
        .col(text("tenant_id"))
        .col(text("webhook_id"))
        .col(text("event_id"))
        .col(text_null("call_id"))
        .col(text("kind"))
        .col(text("status"))
        .col(big_integer("attempts"))
        .col(big_integer_null("next_attempt_at"))
        .col(text_null("lease_owner"))
        .col(big_integer("lease_until"))
        .col(boolean("is_test"))
        .col(big_integer("created_at"))
        .col(big_integer_null("completed_at"))
        .take()
}

fn attempt() -> TableCreateStatement {
    Table::create()
        .table("delivery_attempts")
        .col(text("delivery_id"))
        .col(big_integer("number"))
        .col(text("tenant_id"))
        .col(big_integer("started_at"))
        .col(big_integer("duration_ms"))
        .col(big_integer_null("status_code"))
        .col(text_null("error_kind"))
        .col(binary("response"))
        .primary_key(Index::create().col("delivery_id").col("number"))
        .take()
}

fn credit_account() -> TableCreateStatement {
    Table::create()
        .table("credit_accounts")
        .col(text("tenant_id").primary_key())
        .col(big_integer("available"))
        .col(big_integer("held"))
        .col(big_integer("used"))
        .col(big_integer("purchased"))
        .col(big_integer("adjusted"))
        .col(big_integer("posted"))
        .col(big_integer("seq"))
        .col(big_integer("open_holds"))
        .col(big_integer("low_threshold"))
        .col(boolean("low_armed"))
        .col(big_integer("version"))
        .check(Expr::cust("available >= 0"))
        .check(Expr::cust("held >= 0"))
        .check(Expr::cust("used >= 0"))
        .check(Expr::cust("open_holds >= 0"))
        .check(Expr::cust("available + held + used = purchased + adjusted"))
        .take()
}

fn credit_hold() -> TableCreateStatement {
    Table::create()
        .table("credit_holds")
        .col(text("call_id").primary_key())
        .col(text("tenant_id"))
        .col(text("owner"))
        .col(big_integer("epoch"))
        .col(big_integer("request"))
        .col(big_integer("held"))
        .col(big_integer("used"))
        .col(boolean("last"))
        .col(text_null("refusal"))
        .col(big_integer("created_at"))
        .col(big_integer_null("settled_at"))
        .check(Expr::cust("held >= 0"))
        .check(Expr::cust("used >= 0"))
        .take()
}

fn credit_transaction() -> TableCreateStatement {
    Table::create()
        .table("credit_transactions")
        .col(text("tenant_id"))
        .col(big_integer("seq"))
        .col(text("id"))
        .col(text("idempotency_key"))
        .col(text("kind"))
        .col(big_integer("minutes"))
        .col(big_integer("balance_after"))
        .col(text_null("call_id"))
        .col(text_null("description"))
        .col(text_null("reference"))
        .col(big_integer("created_at"))
        .primary_key(Index::create().col("tenant_id").col("seq"))
        .take()
}

fn idempotency() -> TableCreateStatement {
    Table::create()
        .table("idempotency_keys")
        .col(text("tenant_id"))
        .col(text("key"))
        .col(text("fingerprint"))
        .col(big_integer_null("status"))
        .col(text_null("body"))
        .col(text_null("location"))
        .col(big_integer("created_at"))
        .primary_key(Index::create().col("tenant_id").col("key"))
        .take()
}
