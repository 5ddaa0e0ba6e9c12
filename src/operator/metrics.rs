//! `/metrics` in the OpenMetrics text format, as Prometheus reads it. Everything is counted where it happens and read here at
//! each scrape. Times are whole microseconds, which the names say.

use std::fmt;

use dikala_actors::{
    batches::BatchReading,
    meter::{MessageReading, meters},
    webhooks::stats::StatsReading,
};
use dikala_entities::{CallStatus, DeliveryStatus, Store, call, delivery};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
    registry::Registry,
};
use sea_orm::{ColumnTrait, DbErr, EntityTrait, PaginatorTrait, QueryFilter};

/// One number with its labels.
type Sample = (Vec<(&'static str, String)>, i64);

/// One metric.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    counter: bool,
    samples: Vec<Sample>,
}

/// Everything that is shown at one moment.
#[derive(Debug, Default)]
pub struct Scrape(Vec<Metric>);

impl Scrape {
    /// A value that goes up and down.
    pub fn gauge(&mut self, name: &'static str, help: &'static str, samples: Vec<Sample>) {
        self.0.push(Metric {
            name,
            help,
            counter: false,
            samples,
        });
    }

    /// A value that only goes up; `_total` is added to its name.
    pub fn counter(&mut self, name: &'static str, help: &'static str, samples: Vec<Sample>) {
        self.0.push(Metric {
            name,
            help,
            counter: true,
            samples,
        });
    }

    /// Mailboxes and handlers of every kind of actor.
    pub fn actors(&mut self) {
        let of_actor = |value: fn(&dikala_actors::meter::ActorMeter) -> i64| {
            let read = |meter: &&dikala_actors::meter::ActorMeter| {
                (vec![("actor", meter.name().to_owned())], value(meter))
            };
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

    /// What only the store knows: running calls by state and deliveries that wait.
    pub async fn store(&mut self, store: &Store) -> Result<(), DbErr> {
        let db = store.reader();
        let mut calls = Vec::new();
        for status in [CallStatus::Ringing, CallStatus::Answered] {
            let count = call::Entity::find()
                .filter(call::Column::Status.eq(status))
                .count(db)
                .await?;
            calls.push((vec![("status", status.to_string())], signed(count)));
        }
        self.gauge(
            "dikala_calls_active",
            "Calls that are not over, by state",
            calls,
        );
        let pending = delivery::Entity::find()
            .filter(delivery::Column::Status.eq(DeliveryStatus::Pending))
            .count(db)
            .await?;
        let samples = vec![(Vec::new(), signed(pending))];
        self.gauge(
            "dikala_webhook_backlog",
            "Deliveries that are not finished",
            samples,
        );
        Ok(())
    }

    /// The text.
    pub fn encode(self) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        for metric in &self.0 {
            let kind = if metric.counter {
                MetricType::Counter
            } else {
                MetricType::Gauge
            };
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            for (labels, value) in &metric.samples {
                let labels: Vec<(&str, &str)> =
                    labels.iter().map(|(k, v)| (*k, v.as_str())).collect();
                let mut sample = family.encode_family(&labels)?;
                if metric.counter {
                    sample.encode_counter::<NoLabelSet, _, u64>(&value.unsigned_abs(), None)?;
                } else {
                    sample.encode_gauge(value)?;
                }
            }
        }
        Ok(())
    }
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
