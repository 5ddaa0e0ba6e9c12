//! Writes ended calls straight into the tables: a tenant's history of any size.

use dikala_entities::{AgentId, CallId, Millis, PhoneNumberId, Store, TenantId};
use sea_orm::{ConnectionTrait, DatabaseConnection, DbBackend, DbErr, Statement, Value};

/// Rows per transaction.
const CHUNK: i64 = 100_000;

/// Calls numbered `from` to `to`, one second apart; call 0 began at `first`.
#[derive(Clone, Copy, Debug)]
pub struct HistoricCalls {
    pub tenant: TenantId,
    pub number: PhoneNumberId,
    pub agent: AgentId,
    pub from: i64,
    pub to: i64,
    pub first: Millis,
}

/// The id of the call with this number.
pub fn call_id(n: i64) -> String {
    format!("call_01k9zv3m8r{n:016}")
}

impl HistoricCalls {
    /// Writes the calls.
    pub async fn fill(&self, store: &Store) -> Result<(), DbErr> {
        let backend = store.backend();
        let padded = |width| padded(backend, width);
        let sql = format!(
            "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, agent_id, caller_number, callee_number, \
             status, started_at, answered_at, ended_at, duration_seconds, talk_time_seconds, hangup_reason, hangup_initiator, \
             transcript_summary, ai_cost_idr, metadata, last_sign_at, owner, epoch) \
             SELECT 'call_01k9zv3m8r' || {}, $3, 'br_01k9zv3m8rj2q4w6y8a0c2e4g6', 'CA' || {}, \
             '{}', '{}', '+62812' || {}, '+622150001000', 'ended', \
             $4 + n * 1000, $4 + 4000 + n * 1000, $4 + 94000 + n * 1000, 94, 90, 'normal', 'caller', \
             'The caller asked for the opening hours on Saturday. The agent gave them: 9 to 17.', 450, \
             '{{\"campaign\":\"january\"}}', $4 + 94000 + n * 1000, 'main', 1 FROM ({}) AS numbers",
            padded(16),
            padded(30),
            self.number,
            self.agent,
            padded(8),
            numbers(backend),
        );
        self.write(store, &sql, "calls").await
    }

    /// Writes the parts of the callers' numbers, as maintenance does.
    pub async fn fill_callers(&self, store: &Store) -> Result<(), DbErr> {
        let (number, numbers) = (padded(store.backend(), 8), numbers(store.backend()));
        // Every number has 13 digits.
        let parts = (1..=11).map(|at| format!("substr('62812' || {number}, {at})"));
        for part in parts.chain([format!("'s62812' || {number}")]) {
            let sql = format!(
                "INSERT INTO caller_parts (tenant_id, part, caller_number) SELECT $3, {part}, '+62812' || {number} \
                 FROM ({numbers}) AS numbers WHERE $4 > 0"
            );
            self.write(store, &sql, "caller_parts").await?;
        }
        let position = CallId::first_at(self.first.plus_ms(self.to * 1_000)).to_string();
        let sql = format!("UPDATE caller_index SET position = '{position}'");
        store.writer().execute_unprepared(&sql).await.map(drop)
    }

    /// Writes the calls' credit transactions, two minutes each.
    pub async fn fill_transactions(&self, store: &Store) -> Result<(), DbErr> {
        let backend = store.backend();
        let number = padded(backend, 16);
        let sql = format!(
            "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, call_id, created_at) \
             SELECT $3, 1000 + n, 'txn_01k9zv3m8r' || {number}, 'call_01k9zv3m8r' || {number}, 'usage', -2, 100000000 - 2 * n, \
             'call_01k9zv3m8r' || {number}, $4 + 94000 + n * 1000 FROM ({}) AS numbers",
            numbers(backend),
        );
        self.write(store, &sql, "credit_transactions").await
    }

    /// Writes the calls' statistics as their ends would: per tenant, agent and number, in quarters of an hour.
    pub async fn count(&self, store: &Store) -> Result<(), DbErr> {
        let writer = store.for_schema().await?;
        for (subject, by) in [
            ("''", ""),
            ("agent_id", ", agent_id"),
            ("phone_number_id", ", phone_number_id"),
        ] {
            let sql = format!(
                "INSERT INTO call_stats (tenant_id, subject, slot, calls, answered, ended, dropped, failed, minutes, talk_seconds, \
                 duration_seconds) SELECT tenant_id, {subject}, started_at - started_at % 900000, COUNT(*), COUNT(*), COUNT(*), 0, 0, \
                 2 * COUNT(*), 90 * COUNT(*), 94 * COUNT(*) FROM calls WHERE tenant_id = $1 \
                 GROUP BY tenant_id, started_at - started_at % 900000{by}"
            );
            let values: [Value; 1] = [self.tenant.to_string().into()];
            let statement = Statement::from_sql_and_values(store.backend(), sql, values);
            writer.execute_raw(statement).await?;
        }
        writer.close().await
    }

    async fn write(&self, store: &Store, sql: &str, table: &str) -> Result<(), DbErr> {
        let writer = store.for_schema().await?;
        let mut from = self.from;
        while from < self.to {
            let end = (from + CHUNK).min(self.to);
            self.chunk(&writer, sql, from, end).await?;
            from = end;
        }
        if store.backend() == DbBackend::Postgres {
            // Autovacuum would do this within a minute.
            let sql = format!("VACUUM ANALYZE {table}");
            writer.execute_unprepared(&sql).await?;
        }
        writer.close().await
    }

    async fn chunk(
        &self,
        writer: &DatabaseConnection,
        sql: &str,
        from: i64,
        end: i64,
    ) -> Result<(), DbErr> {
        let values: [Value; 4] = [
            from.into(),
            end.into(),
            self.tenant.to_string().into(),
            self.first.as_i64().into(),
        ];
        let statement = Statement::from_sql_and_values(writer.get_database_backend(), sql, values);
        writer.execute_raw(statement).await.map(drop)
    }
}

/// Selects the numbers from `$1` up to, but not including, `$2`, one per row.
fn numbers(backend: DbBackend) -> &'static str {
    match backend {
        DbBackend::Postgres => {
            "SELECT n FROM generate_series($1::bigint, $2::bigint - 1) AS numbers(n)"
        }
        _ => {
            "WITH RECURSIVE counted(n) AS (VALUES ($1) UNION ALL SELECT n + 1 FROM counted WHERE n + 1 < $2) SELECT n FROM counted"
        }
    }
}

/// SQL that pads `n` with zeros to `width` digits.
fn padded(backend: DbBackend, width: u8) -> String {
    match backend {
        DbBackend::Postgres => format!("lpad(n::text, {width}, '0')"),
        _ => format!("printf('%0{width}d', n)"),
    }
}

#[cfg(test)]
mod tests {
    use dikala_testkit::both;
    use serde_json::json;

    use super::*;
    use crate::{
        http::extract::FormFields,
        operations::calls::{self, CallView, callers::CallerPart, filter::CallFilter},
    };

    const NOW: Millis = Millis::from_i64(1_800_000_000_000);
    /// More calls than are read one after the other, each of another caller.
    const CALLS: i64 = 11_000;

    /// Typed digits, and the numbers that they find.
    type Search<'a> = (&'a str, &'a dyn Fn(&str) -> bool);

    fn filter(typed: &str) -> CallFilter {
        let all = FormFields::from_body(json!({})).expect("a form");
        let part = CallerPart::read(typed).expect("a number");
        CallFilter {
            part: Some(part.expect("enough digits")),
            ..CallFilter::read(&all).expect("filters")
        }
    }

    /// The callers of the newest 25 calls found, and whether all calls were searched.
    async fn found(store: &Store, tenant: TenantId, typed: &str) -> (Vec<String>, bool) {
        let (db, filter) = (store.reader(), filter(typed));
        let (calls, since) = calls::newest::<CallView>(db, tenant, &filter, None, 25)
            .await
            .expect("calls");
        let callers = calls.iter().map(|call| call.caller_number.as_str());
        (callers.map(str::to_owned).collect(), since.is_none())
    }

    /// Digits of few callers are found by the index of callers, however old; those of many among the newest calls.
    #[actix_web::test]
    async fn callers_are_found_by_any_digits() {
        for (_keep, store) in both().await {
            let tenant = TenantId::new(NOW);
            let past = HistoricCalls {
                tenant,
                number: PhoneNumberId::new(NOW),
                agent: AgentId::new(NOW),
                from: 0,
                to: CALLS,
                first: NOW,
            };
            past.fill(&store).await.expect("calls");
            past.fill_callers(&store).await.expect("parts");
            let newest = |holds: &dyn Fn(&str) -> bool| {
                let all = (0..CALLS).rev().map(|n| format!("+62812{n:08}"));
                let found = all.filter(|caller| holds(caller)).take(25);
                found.collect::<Vec<_>>()
            };
            let holds: [Search<'_>; 5] = [
                ("00123", &|caller| caller.contains("00123")),
                ("+62 812 0000-0012", &|caller| caller == "+6281200000012"),
                ("0812-0000-007", &|caller| {
                    caller.starts_with("+628120000007")
                }),
                ("99999", &|_| false),
                ("+99912", &|_| false),
            ];
            for (typed, holds) in holds {
                let wanted = newest(holds);
                assert_eq!(
                    found(&store, tenant, typed).await,
                    (wanted, true),
                    "{typed}"
                );
            }
            assert_eq!(
                found(&store, tenant, "62812").await,
                (newest(&|_| true), false)
            );
            // A caller is known by an extension.
            let sql = format!(
                "UPDATE calls SET caller_number = '1001' WHERE id = '{}'",
                call_id(5)
            );
            let db = store.writer();
            db.execute_unprepared(&sql).await.expect("writes");
            let mut wanted = newest(&|caller| caller.contains("1001"));
            wanted.push("1001".to_owned());
            assert_eq!(found(&store, tenant, "1001").await, (wanted, true));
            // Until the index has all but the newest calls, calls are read one after the other.
            let sql = "UPDATE caller_index SET position = ''";
            db.execute_unprepared(sql).await.expect("writes");
            let old = found(&store, tenant, "+6281200000012").await;
            assert_eq!(old, (Vec::new(), false));
            let other = TenantId::new(NOW);
            assert_eq!(found(&store, other, "00123").await, (Vec::new(), true));
        }
    }
}
