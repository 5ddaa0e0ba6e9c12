//! Counts requests by route and status, and measures the time until the answer's head. Never by path: paths are
//! unbounded.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use actix_web::http::{Method, StatusCode};
use dikala_actors::runtime::{
    histogram::{ANSWER_US, Distribution, Histogram},
    last_minute::{LastMinute, MinuteCounts},
};

/// The route of an unknown path.
pub const NO_ROUTE: &str = "none";

/// The counters of this process; all clones share them.
#[derive(Clone, Debug, Default)]
pub struct HttpMeter(Arc<RwLock<BTreeMap<Operation, Arc<OperationCounters>>>>);

/// A method and the pattern of a route.
type Operation = (&'static str, String);

#[derive(Debug)]
struct OperationCounters {
    statuses: RwLock<BTreeMap<u16, Arc<AtomicU64>>>,
    last_minute: LastMinute,
    times: Histogram,
}

/// The counters of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationStats {
    pub method: &'static str,
    pub route: String,
    pub statuses: Vec<(u16, u64)>,
    /// 5xx answers count as failed.
    pub last_minute: MinuteCounts,
    /// In microseconds.
    pub times: Distribution,
}

impl OperationCounters {
    /// The counter of answers with that status.
    fn of(&self, status: StatusCode) -> Arc<AtomicU64> {
        let known = {
            let statuses = self.statuses.read().unwrap_or_else(PoisonError::into_inner);
            statuses.get(&status.as_u16()).cloned()
        };
        known.unwrap_or_else(|| {
            let mut statuses = self
                .statuses
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            Arc::clone(statuses.entry(status.as_u16()).or_default())
        })
    }
}

impl HttpMeter {
    /// Counts an answered request that began then.
    pub fn answered(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        began: Instant,
    ) {
        let counts = self.counts((name_of(method), route.unwrap_or(NO_ROUTE)));
        counts.times.observe_since(began);
        let failed = status.is_server_error();
        counts.last_minute.count(failed, Instant::now());
        counts.of(status).fetch_add(1, Relaxed);
    }

    /// Shows a counter before its first request: Prometheus sees an increase only from an existing value.
    pub fn begin(&self, method: &Method, route: &str, status: StatusCode) {
        self.counts((name_of(method), route)).of(status);
    }

    fn counts(&self, (method, route): (&'static str, &str)) -> Arc<OperationCounters> {
        let operation = (method, route.to_owned());
        let known = {
            let operations = self.0.read().unwrap_or_else(PoisonError::into_inner);
            operations.get(&operation).cloned()
        };
        known.unwrap_or_else(|| {
            let mut operations = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let new = || {
                Arc::new(OperationCounters {
                    statuses: RwLock::default(),
                    last_minute: LastMinute::new(Instant::now()),
                    times: Histogram::new(ANSWER_US),
                })
            };
            Arc::clone(operations.entry(operation).or_insert_with(new))
        })
    }

    /// The current counters.
    pub fn reading(&self) -> Vec<OperationStats> {
        let now = Instant::now();
        let operations = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let reading = operations.iter().map(|((method, route), counts)| {
            let statuses = counts
                .statuses
                .read()
                .unwrap_or_else(PoisonError::into_inner);
            OperationStats {
                method,
                route: route.clone(),
                statuses: statuses
                    .iter()
                    .map(|(status, count)| (*status, count.load(Relaxed)))
                    .collect(),
                last_minute: counts.last_minute.reading(now),
                times: counts.times.reading(),
            }
        });
        reading.collect()
    }
}

/// Clients can invent methods, so unknown ones share a name.
pub(super) fn name_of(method: &Method) -> &'static str {
    const KNOWN: [Method; 7] = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    const NAMES: [&str; KNOWN.len()] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    let known = KNOWN.iter().position(|known| known == method);
    known.map_or("other", |known| NAMES[known])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_asked_for_the_labels_are_few() {
        let meter = HttpMeter::default();
        let began = Instant::now();
        for n in 0..50 {
            let method = Method::from_bytes(format!("M{n}").as_bytes()).expect("a token");
            meter.answered(&method, None, StatusCode::NOT_FOUND, began);
            meter.answered(&Method::GET, Some("/calls/{id}"), StatusCode::OK, began);
        }
        let seen: Vec<_> = meter
            .reading()
            .into_iter()
            .map(|of| (of.method, of.route, of.statuses, of.last_minute.all))
            .collect();
        let expected = [
            ("GET", "/calls/{id}".to_owned(), vec![(200, 50)], 50),
            ("other", "none".to_owned(), vec![(404, 50)], 50),
        ];
        assert_eq!(seen, expected);
    }
}
