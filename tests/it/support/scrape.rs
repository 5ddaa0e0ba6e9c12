//! Parses `/metrics`.

use std::collections::{BTreeMap, BTreeSet};

use super::rest::Rest;

/// A metric with its series.
#[derive(Debug, Default)]
pub struct ScrapedMetric {
    pub kind: String,
    pub help: String,
    pub series: Vec<Series>,
}

#[derive(Debug)]
pub struct Series {
    /// Includes the suffix `_bucket`, `_sum` or `_count`, if any.
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// A scrape in Prometheus's text format, by metric name.
#[derive(Debug)]
pub struct Scrape {
    pub metrics: BTreeMap<String, ScrapedMetric>,
    pub text: String,
}

impl Scrape {
    pub async fn of(operator: &str) -> Self {
        let answer = Rest::new(operator).get("/metrics").await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        Self::read(answer.text)
    }

    /// Panics on an invalid line.
    pub fn read(text: String) -> Self {
        let mut metrics: BTreeMap<String, ScrapedMetric> = BTreeMap::new();
        let mut last = String::new();
        for line in text.lines() {
            if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' '))
            {
                name.clone_into(&mut last);
                let known = metrics.entry(last.clone()).or_default();
                assert!(known.help.is_empty(), "{name} is there twice");
                help.clone_into(&mut known.help);
            } else if let Some((name, kind)) =
                line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' '))
            {
                assert_eq!(name, last, "its HELP comes right before");
                kind.clone_into(&mut metrics.get_mut(name).unwrap().kind);
            } else {
                let series = series(line);
                assert!(series.name.starts_with(&last), "{line} under {last}");
                metrics.get_mut(&last).unwrap().series.push(series);
            }
        }
        Self { metrics, text }
    }

    /// The value of the series with these labels; `name` includes a suffix, if any.
    #[track_caller]
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.find(name, labels)
            .unwrap_or_else(|| panic!("no {name} with {labels:?} in\n{}", self.text))
    }

    pub fn find(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let all = self.metrics.values().flat_map(|metric| &metric.series);
        let has = |series: &Series| {
            labels
                .iter()
                .all(|(name, value)| series.labels.get(*name).is_some_and(|known| known == value))
        };
        let mut found = all.filter(|series| series.name == name && has(series));
        found.next().map(|series| series.value)
    }

    /// All series, without values.
    pub fn names(&self) -> BTreeSet<String> {
        let all = self.metrics.values().flat_map(|metric| &metric.series);
        all.map(|series| format!("{}{:?}", series.name, series.labels))
            .collect()
    }
}

fn series(line: &str) -> Series {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let (name, labels) = head.split_once('{').unwrap_or((head, "}"));
    let mut rest = labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
    let mut found = BTreeMap::new();
    while let Some((label, after)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut characters = after.char_indices();
        let end = loop {
            match characters.next() {
                Some((_, '\\')) => value.extend(characters.next().map(|(_, escaped)| escaped)),
                Some((at, '"')) => break at + 1,
                Some((_, other)) => value.push(other),
                None => panic!("{line}"),
            }
        };
        found.insert(label.to_owned(), value);
        rest = after[end..].trim_start_matches(',');
    }
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    Series {
        name: name.to_owned(),
        labels: found,
        value,
    }
}
