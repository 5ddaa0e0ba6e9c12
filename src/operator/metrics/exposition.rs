//! Writes metrics in Prometheus' text format and in OpenMetrics. Pure. Numbers are whole; times are counted in
//! microseconds and written in seconds.

use std::fmt::Write;

use dikala_actors::runtime::histogram::Distribution;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricFormat {
    Prometheus,
    OpenMetrics,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    Gauge,
    /// Only goes up; its name ends in `_total`.
    Counter,
    Histogram,
    /// Always 1, for its labels; its name ends in `_info`.
    Info,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricUnit {
    /// A number or bytes.
    Whole,
    /// Microseconds, written as seconds.
    Seconds,
    /// Millionths, written with decimals.
    Millionths,
}

/// A metric: one name, with a series for each combination of its labels.
#[derive(Clone, Debug)]
pub struct MetricFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: MetricKind,
    pub unit: MetricUnit,
    pub labels: &'static [&'static str],
    series: Vec<(Vec<String>, Value)>,
}

#[derive(Clone, Debug)]
enum Value {
    Number(i64),
    Distribution(Distribution),
}

impl MetricFamily {
    /// A metric without series.
    pub fn new(
        (kind, unit): (MetricKind, MetricUnit),
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self {
            name,
            help,
            kind,
            unit,
            labels,
            series: Vec::new(),
        }
    }

    /// Adds a number with its label values.
    pub fn number(&mut self, labels: &[&str], value: i64) {
        self.add(labels, Value::Number(value));
    }

    /// Adds a distribution with its label values.
    pub fn distribution(&mut self, labels: &[&str], value: Distribution) {
        self.add(labels, Value::Distribution(value));
    }

    fn add(&mut self, labels: &[&str], value: Value) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.series.push((labels, value));
    }

    fn write(&self, text: &mut String, format: MetricFormat) {
        let (name, kind) = match (format, self.kind) {
            (_, MetricKind::Gauge) | (MetricFormat::Prometheus, MetricKind::Info) => {
                (self.name, "gauge")
            }
            (_, MetricKind::Histogram) => (self.name, "histogram"),
            (MetricFormat::Prometheus, MetricKind::Counter) => (self.name, "counter"),
            (MetricFormat::OpenMetrics, MetricKind::Counter) => {
                (without(self.name, "_total"), "counter")
            }
            (MetricFormat::OpenMetrics, MetricKind::Info) => (without(self.name, "_info"), "info"),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {}", escaped(self.help));
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if format == MetricFormat::OpenMetrics && self.unit == MetricUnit::Seconds {
            let _ = writeln!(text, "# UNIT {name} seconds");
        }
        for (labels, value) in &self.series {
            match value {
                Value::Number(number) => {
                    let number = self.shown(i128::from(*number));
                    self.line(text, "", labels, None, &number);
                }
                Value::Distribution(distribution) => {
                    self.write_distribution(text, labels, distribution);
                }
            }
        }
    }

    fn write_distribution(&self, text: &mut String, labels: &[String], of: &Distribution) {
        let mut count = 0;
        for (class, in_class) in of.counts.iter().enumerate() {
            count += in_class;
            let bound = match of.bounds.get(class) {
                Some(bound) => with_point(self.shown(i128::from(*bound))),
                None => "+Inf".to_owned(),
            };
            self.line(text, "_bucket", labels, Some(&bound), &count.to_string());
        }
        let sum = self.shown(i128::from(of.sum));
        self.line(text, "_sum", labels, None, &sum);
        self.line(text, "_count", labels, None, &count.to_string());
    }

    fn line(
        &self,
        text: &mut String,
        suffix: &str,
        labels: &[String],
        le: Option<&str>,
        value: &str,
    ) {
        let own = self
            .labels
            .iter()
            .copied()
            .zip(labels.iter().map(String::as_str));
        let all: Vec<String> = own
            .chain(le.map(|bound| ("le", bound)))
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = match &*all.join(",") {
            "" => String::new(),
            all => format!("{{{all}}}"),
        };
        let _ = writeln!(text, "{}{suffix}{labels} {value}", self.name);
    }

    fn shown(&self, value: i128) -> String {
        match self.unit {
            MetricUnit::Whole => value.to_string(),
            MetricUnit::Seconds | MetricUnit::Millionths => decimal(value),
        }
    }
}

/// Writes all metrics.
pub fn encode(metrics: &[MetricFamily], format: MetricFormat) -> String {
    let mut text = String::new();
    for metric in metrics {
        metric.write(&mut text, format);
    }
    if format == MetricFormat::OpenMetrics {
        text.push_str("# EOF\n");
    }
    text
}

impl MetricFormat {
    /// The format that a header `Accept` asks for; Prometheus' text by default.
    pub fn wanted(accept: &str) -> Self {
        let weight = |of: &[&str]| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let kind = parts.next()?.to_ascii_lowercase();
                let weight = parts.find_map(|part| part.strip_prefix("q="));
                of.contains(&&*kind)
                    .then(|| permille(weight.unwrap_or("1")))
            });
            ranges.max().unwrap_or(0)
        };
        let (open, plain) = (
            weight(&["application/openmetrics-text"]),
            weight(&["text/plain", "text/*", "*/*"]),
        );
        if open > plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A weight in thousandths: `0.5` → 500. An invalid weight is 0.
fn permille(weight: &str) -> u32 {
    let (whole, part) = weight.split_once('.').unwrap_or((weight, ""));
    let part = format!("{:0<3}", part.get(..part.len().min(3)).unwrap_or_default());
    match (whole.parse::<u32>(), part.parse::<u32>()) {
        (Ok(whole), Ok(part)) => (whole.min(1) * 1_000 + part).min(1_000),
        _ => 0,
    }
}

/// Millionths with decimals: 1500000 → `1.5`.
fn decimal(value: i128) -> String {
    let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    let text = format!("{sign}{}.{:06}", value / 1_000_000, value % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Both formats compare bounds as text and require floats.
fn with_point(number: String) -> String {
    if number.contains('.') {
        number
    } else {
        format!("{number}.0")
    }
}

fn without<'a>(name: &'a str, suffix: &str) -> &'a str {
    name.strip_suffix(suffix).unwrap_or(name)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use dikala_actors::runtime::histogram::Histogram;

    use super::*;

    #[test]
    fn both_formats_say_the_same_in_their_own_way() {
        let mut counter = MetricFamily::new(
            (MetricKind::Counter, MetricUnit::Seconds),
            "cpu_seconds_total",
            &[],
            "Work",
        );
        counter.number(&[], 1_500_000);
        let times = Histogram::new(&[5_000, 1_000_000]);
        for us in [4_000, 6_000, 3_000_000] {
            times.observe(us);
        }
        let mut histogram = MetricFamily::new(
            (MetricKind::Histogram, MetricUnit::Seconds),
            "wait_seconds",
            &["of"],
            "A\nwait",
        );
        histogram.distribution(&["a\"b\\"], times.reading());
        let mut info = MetricFamily::new(
            (MetricKind::Info, MetricUnit::Whole),
            "build_info",
            &["version"],
            "It",
        );
        info.number(&["1.0"], 1);
        let metrics = [counter, histogram, info];
        let series = r#"wait_seconds_bucket{of="a\"b\\",le="0.005"} 1
wait_seconds_bucket{of="a\"b\\",le="1.0"} 2
wait_seconds_bucket{of="a\"b\\",le="+Inf"} 3
wait_seconds_sum{of="a\"b\\"} 3.01
wait_seconds_count{of="a\"b\\"} 3
"#;
        let prometheus = format!(
            "# HELP cpu_seconds_total Work\n# TYPE cpu_seconds_total counter\ncpu_seconds_total 1.5\n\
             # HELP wait_seconds A\\nwait\n# TYPE wait_seconds histogram\n{series}\
             # HELP build_info It\n# TYPE build_info gauge\nbuild_info{{version=\"1.0\"}} 1\n"
        );
        assert_eq!(encode(&metrics, MetricFormat::Prometheus), prometheus);
        let open = format!(
            "# HELP cpu_seconds Work\n# TYPE cpu_seconds counter\n# UNIT cpu_seconds seconds\ncpu_seconds_total 1.5\n\
             # HELP wait_seconds A\\nwait\n# TYPE wait_seconds histogram\n# UNIT wait_seconds seconds\n{series}\
             # HELP build It\n# TYPE build info\nbuild_info{{version=\"1.0\"}} 1\n# EOF\n"
        );
        assert_eq!(encode(&metrics, MetricFormat::OpenMetrics), open);
    }

    #[test]
    fn times_are_seconds_to_the_microsecond() {
        for (us, shown) in [
            (0, "0"),
            (1, "0.000001"),
            (1_000_000, "1"),
            (-2_500_000, "-2.5"),
        ] {
            assert_eq!(decimal(us), shown);
        }
    }

    #[test]
    fn who_prefers_openmetrics_gets_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, wanted) in [
            ("", MetricFormat::Prometheus),
            ("*/*", MetricFormat::Prometheus),
            ("text/html, application/xhtml+xml", MetricFormat::Prometheus),
            ("text/plain", MetricFormat::Prometheus),
            (
                "text/plain, application/openmetrics-text",
                MetricFormat::Prometheus,
            ),
            (
                "text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0",
                MetricFormat::OpenMetrics,
            ),
            ("application/openmetrics-text;q=0", MetricFormat::Prometheus),
            (
                "application/openmetrics-text;q=nan",
                MetricFormat::Prometheus,
            ),
            (
                "application/openmetrics-text;q=0.0019",
                MetricFormat::OpenMetrics,
            ),
            (prometheus, MetricFormat::OpenMetrics),
        ] {
            assert_eq!(MetricFormat::wanted(accept), wanted, "{accept}");
        }
    }
}
