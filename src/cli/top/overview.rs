//! The overview in `dikala top`: problems, and figures beside their limits.

use dikala_entities::Millis;
use serde::Deserialize;
use serde_json::Number;

/// The listener's answer about the overview.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopOverview {
    pub node: String,
    pub version: String,
    pub at: Millis,
    pub started_at: Millis,
    pub problems: Vec<TopProblem>,
    pub figures: Vec<TopFigure>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopProblem {
    pub severity: String,
    pub summary: String,
    /// The remedy.
    pub action: String,
    /// The affected tenant, if it is only one.
    pub tenant_id: Option<String>,
    /// An id, or the name of an actor or thread.
    pub target: Option<String>,
    /// Missing in answers of older releases.
    #[serde(default)]
    pub snoozed_until: Option<Millis>,
}

/// A figure with its history.
#[derive(Clone, Debug, Deserialize)]
pub struct TopFigure {
    pub label: String,
    unit: String,
    value: Option<Number>,
    limit: Option<Number>,
    #[serde(default)]
    history: Vec<Option<Number>>,
}

impl TopProblem {
    pub fn is_critical(&self) -> bool {
        self.severity == "critical" && self.snoozed_until.is_none()
    }

    /// The problem, its target and tenant unless the summary names them, the action, and until when it is snoozed.
    pub fn sentence(&self) -> String {
        let concerned = [self.target.as_deref(), self.tenant_id.as_deref()];
        let concerned = concerned.into_iter().flatten();
        let concerned: Vec<&str> = concerned.filter(|id| !self.summary.contains(*id)).collect();
        let concerned = match concerned.as_slice() {
            [] => String::new(),
            named => format!(" ({})", named.join(", ")),
        };
        let snoozed = self.snoozed_until;
        let snoozed = snoozed.map_or_else(String::new, |until| format!(" Snoozed until {until}."));
        format!("{}{concerned} {}{snoozed}", self.summary, self.action)
    }
}

impl TopOverview {
    /// The process's uptime: `3 d 4 h`, `12 min`.
    pub fn uptime(&self) -> String {
        let seconds = self.at.whole_seconds_since(self.started_at);
        let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
        match (days, hours, minutes) {
            (0, 0, 0) => format!("{seconds} s"),
            (0, 0, _) => format!("{minutes} min"),
            (0, _, _) => format!("{hours} h {} min", minutes % 60),
            _ => format!("{days} d {} h", hours % 24),
        }
    }
}

impl TopFigure {
    /// The value, such as `12.5 ms`.
    pub fn value(&self) -> String {
        self.written(self.value.as_ref())
            .unwrap_or_else(|| "–".to_owned())
    }

    /// The limit, such as `of 100 ms`; empty if there is none.
    pub fn limit(&self) -> String {
        let limit = self.written(self.limit.as_ref());
        limit.map_or_else(String::new, |limit| format!("of {limit}"))
    }

    fn written(&self, number: Option<&Number>) -> Option<String> {
        let number = number?;
        Some(match self.unit.as_str() {
            "percent" => format!("{number} %"),
            "per second" => format!("{number} /s"),
            "calls" | "items" => number.to_string(),
            unit => format!("{number} {unit}"),
        })
    }

    /// The history in thousandths, oldest first.
    pub fn history(&self) -> Vec<Option<u64>> {
        let history = self.history.iter();
        let line = history.map(|step| step.as_ref().and_then(thousandths));
        line.collect()
    }
}

/// Parses a number into thousandths; `None` if it is negative or not finite.
pub fn thousandths(number: &Number) -> Option<u64> {
    let text = number.to_string();
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let rest: String = rest.chars().chain("000".chars()).take(3).collect();
    let whole: u64 = whole.parse().ok()?;
    whole.checked_mul(1_000)?.checked_add(rest.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let read = |value: Value| thousandths(&from_value(value).expect("a number"));
        for (number, expected) in [
            (json!(0), Some(0)),
            (json!(12), Some(12_000)),
            (json!(0.5), Some(500)),
            (json!(12.345), Some(12_345)),
            (json!(-1), None),
            (json!(-0.5), None),
            (json!(1e300), None),
            (json!(u64::MAX), None),
        ] {
            assert_eq!(read(number.clone()), expected, "{number}");
        }
    }

    #[test]
    fn figures_have_their_units_and_limits() {
        let figure = |unit: &str, value: Value, limit: Value| -> [String; 2] {
            let document =
                json!({"name": "n", "label": "N", "unit": unit, "value": value, "limit": limit});
            let figure: TopFigure = from_value(document).expect("a figure");
            [figure.value(), figure.limit()]
        };
        assert_eq!(
            figure("ms", json!(2.5), json!(100)),
            ["2.5 ms", "of 100 ms"]
        );
        assert_eq!(figure("percent", json!(99.9), Value::Null), ["99.9 %", ""]);
        assert_eq!(figure("calls", json!(12), json!(40)), ["12", "of 40"]);
        assert_eq!(figure("per second", Value::Null, Value::Null), ["–", ""]);
    }

    #[test]
    fn a_problem_names_what_it_concerns_once() {
        let sentence = |summary: &str| {
            let document = json!({
                "severity": "warning", "code": "webhook_failing", "summary": summary, "action": "Look at it.",
                "tenantId": "ten_1", "target": "wh_1"
            });
            let problem: TopProblem = from_value(document).expect("a problem");
            problem.sentence()
        };
        assert_eq!(
            sentence("A webhook fails."),
            "A webhook fails. (wh_1, ten_1) Look at it."
        );
        assert_eq!(
            sentence("The webhook wh_1 fails."),
            "The webhook wh_1 fails. (ten_1) Look at it."
        );
        assert_eq!(
            sentence("wh_1 of ten_1 fails."),
            "wh_1 of ten_1 fails. Look at it."
        );
        let snoozed = json!({
            "severity": "critical", "code": "x", "summary": "It fails.", "action": "Look.", "tenantId": null, "target": null,
            "snoozedUntil": "2026-01-15T03:30:00.000Z"
        });
        let snoozed: TopProblem = from_value(snoozed).expect("a problem");
        assert_eq!(
            snoozed.sentence(),
            "It fails. Look. Snoozed until 2026-01-15T03:30:00.000Z."
        );
        assert!(!snoozed.is_critical());
    }

    #[test]
    fn the_time_since_the_start_is_told_shortly() {
        let started_at = Millis::from_i64(1_768_447_800_000);
        for (seconds, told) in [
            (5, "5 s"),
            (125, "2 min"),
            (3_600 * 5 + 61, "5 h 1 min"),
            (86_400 * 3 + 3_600 * 4, "3 d 4 h"),
        ] {
            let overview = TopOverview {
                node: "main".to_owned(),
                version: "0.1.0".to_owned(),
                at: started_at.plus_seconds(seconds),
                started_at,
                problems: Vec::new(),
                figures: Vec::new(),
            };
            assert_eq!(overview.uptime(), told);
        }
    }
}
