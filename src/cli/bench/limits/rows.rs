//! Limit of whole calls: a bare loop writes the same rows that the service wrote for them.
//!
//! Rows are read from the service's database and bound to multi-row statements before the clock starts. Each of a
//! call's four messages is one transaction, as in the service.
//!
//! Batches have the service's mean size, but are never small: a sequential loop waits for every statement of a
//! batch.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use dikala_entities::{
    CallId, CallStatus, EventKind, Millis, Store, TenantId, call, credit_account, credit_hold,
    credit_transaction, event, transcript,
};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, DatabaseConnection, DbBackend, DbErr,
    EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QuerySelect, QueryTrait, Statement,
    TransactionTrait, Value,
};

use super::connection;
use crate::cli::bench::{
    Result, bridge::LifecycleStep, failed, figure::per_second, ground::BenchEnvironment,
};

/// Ids bound to one statement when rows are read.
const CHUNK: usize = 500;
/// The largest batch: SQLite binds at most 32,766 values, and a call has 27.
const BATCH_MAX: usize = 1_000;
/// More than all calls of a tenant use.
const MINUTES: i64 = 1_000_000_000;

/// The rows of ended calls.
#[derive(Debug)]
pub struct Rows {
    calls: Vec<call::Model>,
    holds: HashMap<CallId, credit_hold::Model>,
    transactions: HashMap<CallId, credit_transaction::Model>,
    transcripts: HashMap<CallId, transcript::Model>,
    events: HashMap<(CallId, EventKind), event::Model>,
}

/// Per message kind: the number of calls that the loop wrote, and the time it took.
#[derive(Clone, Debug)]
pub struct WriteRates([(u64, Duration); 4]);

impl WriteRates {
    /// Whole calls per second.
    pub fn whole(&self) -> f64 {
        let each = self.0.iter();
        let seconds: f64 = each
            .map(|(calls, time)| 1.0 / per_second(*calls, *time))
            .sum();
        1.0 / seconds
    }

    /// Messages of one kind per second.
    pub fn of(&self, step: LifecycleStep) -> f64 {
        let (calls, time) = self.0[step as usize];
        per_second(calls, time)
    }
}

impl Rows {
    /// Reads the rows of at most `most` ended calls.
    pub async fn read(url: &str, most: u64) -> Result<Self> {
        let store = Store::connect(url).await.map_err(failed)?;
        let rows = Self::read_from(&store, most).await.map_err(failed)?;
        store.close().await;
        Ok(rows)
    }

    async fn read_from(store: &Store, most: u64) -> std::result::Result<Self, DbErr> {
        let db = store.reader();
        let calls = call::Entity::find()
            .filter(call::Column::Status.eq(CallStatus::Ended))
            .order_by_desc(call::Column::Id)
            .limit(most)
            .all(db)
            .await?;
        let mut rows = Self {
            calls,
            holds: HashMap::new(),
            transactions: HashMap::new(),
            transcripts: HashMap::new(),
            events: HashMap::new(),
        };
        let ids: Vec<CallId> = rows.calls.iter().map(|call| call.id).collect();
        for ids in ids.chunks(CHUNK) {
            let of = || ids.iter().copied();
            let holds = credit_hold::Entity::find().filter(credit_hold::Column::CallId.is_in(of()));
            let holds = holds.all(db).await?;
            rows.holds
                .extend(holds.into_iter().map(|row| (row.call_id, row)));
            let keys: Vec<String> = ids.iter().map(|id| format!("call:{id}")).collect();
            let usage = credit_transaction::Entity::find()
                .filter(credit_transaction::Column::IdempotencyKey.is_in(keys))
                .filter(credit_transaction::Column::TenantId.is_in(rows.tenants()));
            let usage = usage.all(db).await?;
            rows.transactions.extend(
                usage
                    .into_iter()
                    .filter_map(|row| Some((row.call_id?, row))),
            );
            let said = transcript::Entity::find().filter(transcript::Column::CallId.is_in(of()));
            let said = said.all(db).await?;
            rows.transcripts
                .extend(said.into_iter().map(|row| (row.call_id, row)));
            let events = event::Entity::find().filter(event::Column::CallId.is_in(of()));
            let events = events.all(db).await?;
            let events = events
                .into_iter()
                .filter_map(|row| Some(((row.call_id?, row.kind), row)));
            rows.events.extend(events);
        }
        // Keeps only complete calls: a call may lack rows if its server was killed.
        let Self {
            calls,
            holds,
            transactions,
            transcripts,
            events,
        } = &mut rows;
        calls.retain(|call| {
            let id = &call.id;
            let has = |kind| events.contains_key(&(*id, kind));
            let told = has(EventKind::CallStarted)
                && has(EventKind::CallAnswered)
                && has(EventKind::CallEnded);
            told && holds.contains_key(id)
                && transactions.contains_key(id)
                && (!has(EventKind::CallTranscript) || transcripts.contains_key(id))
        });
        Ok(rows)
    }

    fn tenants(&self) -> Vec<TenantId> {
        let tenants: BTreeMap<TenantId, ()> =
            self.calls.iter().map(|call| (call.tenant_id, ())).collect();
        tenants.into_keys().collect()
    }

    /// Writes the rows into a new database, `batch` calls per transaction.
    pub async fn write(&self, ground: &BenchEnvironment, batch: usize) -> Result<WriteRates> {
        if self.calls.is_empty() {
            return Err(failed(
                "no call is complete, so that nothing can be compared",
            ));
        }
        let (_, url) = ground.database().await?;
        let store = connection(&url).await.map_err(failed)?;
        let written = self
            .write_to(&store, batch, ground.sizes.load)
            .await
            .map_err(failed)?;
        store.close().await.map_err(failed)?;
        Ok(written)
    }

    async fn write_to(
        &self,
        store: &DatabaseConnection,
        batch: usize,
        most: Duration,
    ) -> std::result::Result<WriteRates, DbErr> {
        let backend = store.get_database_backend();
        let accounts = self.tenants().into_iter().map(|tenant| {
            let mut account = credit_account::Model::empty(tenant, 30);
            (account.available, account.purchased) = (MINUTES, MINUTES);
            account.into_active_model()
        });
        for account in accounts {
            account.insert(store).await?;
        }
        let batch = batch.clamp(1, BATCH_MAX).min(self.calls.len());
        // Batches of equal size share one statement, which is prepared once.
        let mut batches: Vec<&[call::Model]> = self.calls.chunks_exact(batch).collect();
        let mut written = [(0, Duration::ZERO); 4];
        for step in [
            LifecycleStep::Ring,
            LifecycleStep::Answer,
            LifecycleStep::Transcript,
            LifecycleStep::HangUp,
        ] {
            let bound = batches.iter().map(|calls| self.bind(backend, step, calls));
            let bound: Vec<Vec<Statement>> = bound.collect();
            let mut done = 0;
            let began = Instant::now();
            for statements in bound {
                let txn = store.begin().await?;
                for statement in statements {
                    txn.execute_raw(statement).await?;
                }
                txn.commit().await?;
                done += 1;
                if began.elapsed() > most {
                    break;
                }
            }
            written[step as usize] = ((done * batch) as u64, began.elapsed());
            // Calls that did not ring cannot be answered.
            batches.truncate(done);
        }
        Ok(WriteRates(written))
    }

    /// The statements that write one message of each call.
    fn bind(
        &self,
        backend: DbBackend,
        step: LifecycleStep,
        calls: &[call::Model],
    ) -> Vec<Statement> {
        let mut statements = Vec::new();
        match step {
            LifecycleStep::Ring => {
                statements.push(accounts(backend, calls, "available = available - n, held = held + n, open_holds = open_holds + n, version = version + 1"));
                let rows = calls
                    .iter()
                    .map(|call| self.hold_at_ring(call).into_active_model());
                statements.push(credit_hold::Entity::insert_many(rows).build(backend));
                let rows = calls.iter().map(|call| at_ring(call).into_active_model());
                statements.push(call::Entity::insert_many(rows).build(backend));
            }
            LifecycleStep::Answer => {
                let rows = calls.iter().map(|call| {
                    vec![
                        text(call.id),
                        text("answered"),
                        moment(call.answered_at),
                        text("1"),
                        moment(call.answered_at),
                    ]
                });
                let names = ["status", "answered_at", "answer_message_id", "last_sign_at"];
                statements.push(update(backend, "calls", "id", &names, rows));
            }
            LifecycleStep::Transcript => {
                let rows = calls
                    .iter()
                    .filter_map(|call| self.transcripts.get(&call.id));
                let rows: Vec<_> = rows.map(|row| row.clone().into_active_model()).collect();
                if rows.is_empty() {
                    return statements;
                }
                statements.push(transcript::Entity::insert_many(rows).build(backend));
                let rows = calls.iter().map(|call| {
                    vec![
                        text(call.id),
                        Value::String(call.transcript_summary.clone()),
                    ]
                });
                statements.push(update(
                    backend,
                    "calls",
                    "id",
                    &["transcript_summary"],
                    rows,
                ));
            }
            LifecycleStep::HangUp => self.bind_end(backend, calls, &mut statements),
        }
        let kind = match step {
            LifecycleStep::Ring => EventKind::CallStarted,
            LifecycleStep::Answer => EventKind::CallAnswered,
            LifecycleStep::Transcript => EventKind::CallTranscript,
            LifecycleStep::HangUp => EventKind::CallEnded,
        };
        let events = calls
            .iter()
            .filter_map(|call| self.events.get(&(call.id, kind)));
        let events: Vec<_> = events.map(|row| row.clone().into_active_model()).collect();
        if !events.is_empty() {
            statements.push(event::Entity::insert_many(events).build(backend));
        }
        statements
    }

    fn bind_end(&self, backend: DbBackend, calls: &[call::Model], statements: &mut Vec<Statement>) {
        statements.push(accounts(backend, calls, "held = held - n, used = used + n, open_holds = open_holds - n, posted = posted - n, seq = seq + n, version = version + 1"));
        let rows = calls
            .iter()
            .map(|call| self.transactions[&call.id].clone().into_active_model());
        statements.push(credit_transaction::Entity::insert_many(rows).build(backend));
        let rows = calls.iter().map(|call| {
            let hold = &self.holds[&call.id];
            vec![
                text(call.id),
                number(Some(hold.held)),
                number(Some(hold.used)),
                moment(hold.settled_at),
            ]
        });
        statements.push(update(
            backend,
            "credit_holds",
            "call_id",
            &["held", "used", "settled_at"],
            rows,
        ));
        let rows = calls.iter().map(|call| {
            vec![
                text(call.id),
                text("ended"),
                moment(call.ended_at),
                number(call.duration_seconds),
                number(call.talk_time_seconds),
                Value::String(call.hangup_reason.map(|word| word.to_string())),
                Value::String(call.hangup_initiator.map(|word| word.to_string())),
                number(call.ai_cost_idr),
                moment(Some(call.last_sign_at)),
            ]
        });
        let names = [
            "status",
            "ended_at",
            "duration_seconds",
            "talk_time_seconds",
            "hangup_reason",
            "hangup_initiator",
            "ai_cost_idr",
            "last_sign_at",
        ];
        statements.push(update(backend, "calls", "id", &names, rows));
    }

    /// The hold while the call rings.
    fn hold_at_ring(&self, call: &call::Model) -> credit_hold::Model {
        credit_hold::Model {
            held: 1,
            used: 0,
            settled_at: None,
            ..self.holds[&call.id].clone()
        }
    }
}

/// The call while it rings.
fn at_ring(call: &call::Model) -> call::Model {
    call::Model {
        status: CallStatus::Ringing,
        answered_at: None,
        ended_at: None,
        duration_seconds: None,
        talk_time_seconds: None,
        hangup_reason: None,
        hangup_initiator: None,
        transcript_summary: None,
        ai_cost_idr: None,
        answer_message_id: None,
        last_sign_at: call.started_at,
        ..call.clone()
    }
}

/// Updates each account by its number of calls in the batch; `n` in `assignments` is that number.
fn accounts(backend: DbBackend, calls: &[call::Model], assignments: &str) -> Statement {
    let mut counts: BTreeMap<TenantId, i64> = BTreeMap::new();
    for call in calls {
        *counts.entry(call.tenant_id).or_default() += 1;
    }
    let rows: Vec<Vec<Value>> = counts
        .into_iter()
        .map(|(tenant, count)| vec![text(tenant), number(Some(count))])
        .collect();
    let assignments = assignments.replace(" n", " changed.column2");
    changed(backend, "credit_accounts", "tenant_id", &assignments, rows)
}

/// Sets columns of many rows, each to its own values. The first value of a row is its key.
fn update(
    backend: DbBackend,
    table: &str,
    key: &str,
    columns: &[&str],
    rows: impl Iterator<Item = Vec<Value>>,
) -> Statement {
    let assignments: Vec<String> = columns
        .iter()
        .zip(2..)
        .map(|(name, n)| format!("{name} = changed.column{n}"))
        .collect();
    changed(backend, table, key, &assignments.join(", "), rows.collect())
}

/// Both databases name the columns of `VALUES` alike.
fn changed(
    backend: DbBackend,
    table: &str,
    key: &str,
    assignments: &str,
    rows: Vec<Vec<Value>>,
) -> Statement {
    let mut bound = 0;
    let mut place = || {
        bound += 1;
        match backend {
            DbBackend::Postgres => format!("${bound}"),
            _ => "?".to_owned(),
        }
    };
    let tuples: Vec<String> = rows
        .iter()
        .map(|row| {
            let places: Vec<String> = row.iter().map(|_| place()).collect();
            format!("({})", places.join(", "))
        })
        .collect();
    let sql = format!(
        "UPDATE {table} SET {assignments} FROM (VALUES {}) AS changed WHERE {table}.{key} = changed.column1",
        tuples.join(", ")
    );
    Statement::from_sql_and_values(backend, sql, rows.into_iter().flatten())
}

fn text(value: impl ToString) -> Value {
    Value::String(Some(value.to_string()))
}

fn number(value: Option<i64>) -> Value {
    Value::BigInt(value)
}

fn moment(value: Option<Millis>) -> Value {
    Value::BigInt(value.map(Millis::as_i64))
}
