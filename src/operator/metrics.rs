//! `/metrics` in the OpenMetrics text format, as Prometheus reads it. Everything is counted where it happens and read here at
//! each scrape; of the store, only what is not finished, up to a bound. Times are whole microseconds, which the names say.

use std::fmt;

use dikala_actors::{
    runtime::{
        group_commit::BatchReading,
        metrics::{ActorMeter, MessageReading, meters},
    },
    webhooks::stats::StatsReading,
};
use dikala_entities::{CallStatus, Store};
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use sea_orm::{ConnectionTrait, DbErr, QueryResult, Statement};

/// A scrape counts no further in the store: it comes every few seconds, and must cost the same whatever waits there.
const COUNTED_MAX: u32 = 10_000;

/// Names with values.
type Labels = Vec<(&'static str, String)>;

/// One number with its labels.
type Sample = (Labels, i64);

/// Everything that is shown at one moment.
#[derive(Debug, Default)]
pub struct Scrape(Registry);

impl Scrape {
    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, samples: Vec<Sample>) {
        let family = Family::<Labels, Gauge>::default();
        for (labels, value) in samples {
            family.get_or_create_owned(&labels).set(value);
        }
        self.0.register(name, help, family);
    }

    /// A value that only goes up; `_total` is added to its name.
    pub fn counter(&mut self, name: &'static str, help: &'static str, samples: Vec<Sample>) {
        let family = Family::<Labels, Counter>::default();
        for (labels, value) in samples {
            family
                .get_or_create_owned(&labels)
                .inc_by(value.unsigned_abs());
        }
        self.0.register(name, help, family);
    }

    /// Mailboxes and handlers of every kind of actor.
    pub fn actors(&mut self) {
        let of_actor = |value: fn(&ActorMeter) -> i64| {
            let read =
                |meter: &&ActorMeter| (vec![("actor", meter.name().to_owned())], value(meter));
            meters().iter().map(read).collect()
        };
        self.gauge(
            "dikala_actors_running",
            "Actors running now",
            of_actor(|m| m.running()),
        );
        let restarts = of_actor(|m| signed(m.restarts()));
        self.counter(
            "dikala_actor_restarts",
            "Actors brought back after a panic",
            restarts,
        );
        self.gauge(
            "dikala_actor_mailbox_depth",
            "Messages in mailboxes now",
            messages(|m| m.depth),
        );
        self.gauge(
            "dikala_actor_mailbox_depth_highest",
            "The most messages there ever were",
            messages(|m| m.depth_max),
        );
        self.counter(
            "dikala_actor_messages_handled",
            "Messages that a handler took",
            messages(|m| signed(m.handled)),
        );
        self.counter(
            "dikala_actor_messages_lost",
            "Messages that nobody handled",
            messages(|m| signed(m.lost)),
        );
        self.counter(
            "dikala_actor_wait_microseconds",
            "From sending to handling, summed",
            messages(|m| signed(m.wait_us)),
        );
        self.gauge(
            "dikala_actor_wait_microseconds_highest",
            "The longest wait",
            messages(|m| signed(m.wait_us_max)),
        );
        self.counter(
            "dikala_actor_handling_microseconds",
            "In handlers, summed",
            messages(|m| signed(m.handling_us)),
        );
        self.gauge(
            "dikala_actor_handling_microseconds_highest",
            "The longest handling",
            messages(|m| signed(m.handling_us_max)),
        );
    }

    /// The batches of a group commit.
    pub fn batches(&mut self, readings: &[(&'static str, BatchReading)]) {
        let of = |value: fn(&BatchReading) -> u64| {
            let read = |(writer, reading): &(&'static str, BatchReading)| {
                (
                    vec![("writer", (*writer).to_owned())],
                    signed(value(reading)),
                )
            };
            readings.iter().map(read).collect()
        };
        self.counter(
            "dikala_batches",
            "Transactions of a group commit",
            of(|r| r.batches),
        );
        self.counter(
            "dikala_batch_items",
            "Items written by a group commit",
            of(|r| r.items),
        );
        self.gauge(
            "dikala_batch_items_largest",
            "Items in the largest batch",
            of(|r| r.largest),
        );
        self.counter(
            "dikala_batch_microseconds",
            "Time spent in batches, summed",
            of(|r| r.busy_us),
        );
    }

    /// Deliveries in memory, and what became of attempts.
    pub fn webhooks(&mut self, stats: &StatsReading) {
        let one = |value: i64| vec![(Vec::new(), value)];
        let by = |values: [(&str, u64); 5]| {
            values
                .map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], signed(count)))
                .to_vec()
        };
        self.gauge(
            "dikala_webhook_lanes",
            "Endpoints with a queue in memory",
            one(stats.lanes),
        );
        self.gauge(
            "dikala_webhook_circuits_open",
            "Endpoints that are only probed",
            one(stats.open_circuits),
        );
        self.gauge(
            "dikala_webhook_waiting",
            "Deliveries in memory whose attempt has not begun",
            one(stats.waiting),
        );
        self.gauge(
            "dikala_webhook_in_flight",
            "Attempts under way",
            one(stats.in_flight),
        );
        self.gauge(
            "dikala_webhook_unrecorded",
            "Attempts that are not in the table yet",
            one(stats.unrecorded),
        );
        let outcomes = [
            ("succeeded", stats.succeeded),
            ("retried", stats.retried),
            ("failed", stats.failed),
            ("own_fault", stats.own_faults),
            ("left_in_table", stats.left_in_table),
        ];
        self.counter(
            "dikala_webhook_attempts",
            "Attempts by what became of the delivery",
            by(outcomes),
        );
        let disabled = vec![(Vec::new(), signed(stats.disabled))];
        self.counter(
            "dikala_webhooks_disabled",
            "Webhooks disabled for failing",
            disabled,
        );
    }

    /// What became of mails.
    pub fn mails(&mut self, outcomes: &[(&'static str, u64)]) {
        let of = |(outcome, count): &(&str, u64)| {
            (vec![("outcome", (*outcome).to_owned())], signed(*count))
        };
        self.counter(
            "dikala_mails",
            "Tries to send a mail by what came of them",
            outcomes.iter().map(of).collect(),
        );
    }

    /// What only the store knows: running calls by state and deliveries that wait. Both are read from indexes that hold only
    /// those, and no further than [`COUNTED_MAX`]. The orders are those indexes' own, which makes both databases walk them.
    pub async fn store(&mut self, store: &Store) -> Result<(), DbErr> {
        let found = counted(
            store,
            "SELECT status, COUNT(*) AS found FROM (SELECT status FROM calls WHERE status IN ('ringing', 'answered') \
             ORDER BY owner, id LIMIT",
            ") AS counted GROUP BY status",
        );
        let mut calls = std::collections::BTreeMap::new();
        for row in found.await? {
            calls.insert(
                row.try_get::<String>("", "status")?,
                row.try_get("", "found")?,
            );
        }
        let calls = [CallStatus::Ringing, CallStatus::Answered].map(|status| {
            let status = status.to_string();
            let count = calls.get(&status).copied().unwrap_or(0);
            (vec![("status", status)], count)
        });
        self.gauge(
            "dikala_calls_active",
            "Calls that are not over, by state; 10000 are counted at most",
            calls.to_vec(),
        );
        let found = counted(
            store,
            "SELECT COUNT(*) AS found FROM (SELECT 1 FROM deliveries WHERE status = 'pending' \
             ORDER BY webhook_id, next_attempt_at, id LIMIT",
            ") AS counted",
        );
        let found = found.await?;
        let pending = found
            .first()
            .map_or(Ok(0), |row| row.try_get("", "found"))?;
        self.gauge(
            "dikala_webhook_backlog",
            "Deliveries that are not finished; 10000 are counted at most",
            vec![(Vec::new(), pending)],
        );
        Ok(())
    }

    /// The text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0)?;
        Ok(text)
    }
}

/// Counts in a statement that stops at [`COUNTED_MAX`] rows; what is between its two parts is that number.
async fn counted(store: &Store, before: &str, after: &str) -> Result<Vec<QueryResult>, DbErr> {
    let sql = format!("{before} {COUNTED_MAX}{after}");
    let statement = Statement::from_string(store.backend(), sql);
    store.reader().query_all_raw(statement).await
}

fn messages(value: fn(&MessageReading) -> i64) -> Vec<Sample> {
    meters()
        .iter()
        .flat_map(|meter| {
            let readings = meter.readings();
            readings.into_iter().map(|reading| {
                let labels = vec![
                    ("actor", meter.name().to_owned()),
                    ("message", reading.message.to_owned()),
                ];
                (labels, value(&reading))
            })
        })
        .collect()
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
