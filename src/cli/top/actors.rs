//! The actors in `dikala top`: a row per type, or per kind of message, in the chosen order.

use std::cmp::Reverse;

use serde::Deserialize;
use serde_json::Number;

use super::overview::thousandths;

/// The listener's answer about actors.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopActors {
    actors: Vec<Actor>,
    #[serde(default)]
    event_loops: Vec<EventLoop>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Actor {
    #[serde(rename = "type")]
    kind: String,
    instances: u64,
    mailbox: u64,
    mailbox_highest: u64,
    /// Missing in answers of older releases.
    errors: Option<u64>,
    lost: u64,
    restarts: u64,
    messages_per_second: Option<Number>,
    #[serde(default)]
    messages: Vec<Message>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    message: String,
    mailbox: u64,
    mailbox_highest: u64,
    /// Missing in answers of older releases.
    errors: Option<u64>,
    lost: u64,
    wait_us: Times,
    handling_us: Times,
}

/// In microseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Times {
    p50: Option<u64>,
    p99: Option<u64>,
}

/// The event loop of a thread.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventLoop {
    name: String,
    lag_us: u64,
}

/// A column of figures.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Count,
    /// In thousandths.
    Rate,
    /// In microseconds.
    Time,
}

const fn column(title: &'static str, kind: Kind) -> Column {
    Column { title, kind }
}

/// The columns, most important first: a narrow terminal shows as many as fit.
pub const COLUMNS: [Column; COLUMNS_COUNT] = [
    column("mailbox", Kind::Count),
    column("per s", Kind::Rate),
    column("wait p99", Kind::Time),
    column("handling p99", Kind::Time),
    column("instances", Kind::Count),
    column("highest", Kind::Count),
    column("errors", Kind::Count),
    column("lost", Kind::Count),
    column("restarts", Kind::Count),
    column("wait p50", Kind::Time),
    column("handling p50", Kind::Time),
];
pub const COLUMNS_COUNT: usize = 11;
/// Index of the initial sort column.
pub const SORTED_AT_FIRST: usize = 2;

/// An actor type or message kind with a figure per column, `None` where a figure is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorRow {
    pub name: String,
    pub figures: [Option<u64>; COLUMNS_COUNT],
}

impl TopActors {
    /// The lag of each thread's event loop, largest first.
    pub fn lateness(&self) -> String {
        let mut loops: Vec<&EventLoop> = self.event_loops.iter().collect();
        loops.sort_by_key(|of| Reverse(of.lag_us));
        let told = loops
            .iter()
            .map(|of| format!("{} {}", of.name, duration(of.lag_us)));
        format!(
            "event loops late by: {}",
            told.collect::<Vec<_>>().join(", ")
        )
    }

    /// True once rates are known: a process starts to measure them when it is first asked.
    pub fn has_rates(&self) -> bool {
        self.actors
            .iter()
            .all(|actor| actor.messages_per_second.is_some())
    }

    /// A row per actor type, or per kind of message.
    pub fn rows(&self, by_message: bool) -> Vec<ActorRow> {
        let rows = self.actors.iter().flat_map(|actor| match by_message {
            false => vec![actor.row()],
            true => actor.messages.iter().map(|one| one.row(actor)).collect(),
        });
        rows.collect()
    }
}

impl Actor {
    /// A type's times are those of its slowest kind of message.
    fn row(&self) -> ActorRow {
        let longest = |of: fn(&Message) -> Option<u64>| self.messages.iter().filter_map(of).max();
        ActorRow {
            name: self.kind.clone(),
            figures: [
                Some(self.mailbox),
                self.messages_per_second.as_ref().and_then(thousandths),
                longest(|of| of.wait_us.p99),
                longest(|of| of.handling_us.p99),
                Some(self.instances),
                Some(self.mailbox_highest),
                self.errors,
                Some(self.lost),
                Some(self.restarts),
                longest(|of| of.wait_us.p50),
                longest(|of| of.handling_us.p50),
            ],
        }
    }
}

impl Message {
    fn row(&self, actor: &Actor) -> ActorRow {
        ActorRow {
            name: format!("{} {}", actor.kind, self.message),
            figures: [
                Some(self.mailbox),
                None,
                self.wait_us.p99,
                self.handling_us.p99,
                None,
                Some(self.mailbox_highest),
                self.errors,
                Some(self.lost),
                None,
                self.wait_us.p50,
                self.handling_us.p50,
            ],
        }
    }
}

/// Sorts by a column, largest first. Missing figures come last; equal figures are sorted by name.
pub fn sort(rows: &mut [ActorRow], column: usize, reversed: bool) {
    rows.sort_by(|one, other| {
        let by_figure = other.figures[column].cmp(&one.figures[column]);
        let by_figure = if reversed {
            by_figure.reverse()
        } else {
            by_figure
        };
        by_figure.then_with(|| one.name.cmp(&other.name))
    });
}

/// Formats a figure.
pub fn written(figure: Option<u64>, column: Column) -> String {
    match (figure, column.kind) {
        (None, _) => "–".to_owned(),
        (Some(us), Kind::Time) => duration(us),
        (Some(count), Kind::Count) => count.to_string(),
        (Some(rate), Kind::Rate) if rate < 100_000 => {
            format!("{}.{}", rate / 1_000, rate % 1_000 / 100)
        }
        (Some(rate), Kind::Rate) => (rate / 1_000).to_string(),
    }
}

/// Formats a time with about three digits: `250 µs`, `1.2 ms`, `14 s`.
pub fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{}.{} ms", us / 1_000, us % 1_000 / 100),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..10_000_000 => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
        _ => format!("{} s", us / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_type_shows_the_longest_times_of_its_messages() {
        let message = |name: &str, p99: u64| {
            json!({"message": name, "mailbox": 1, "mailboxHighest": 4, "handled": 7, "errors": 2, "lost": 0,
                   "waitUs": {"p50": 10, "p99": p99}, "handlingUs": {"p50": null, "p99": null}})
        };
        let messages = [message("Post", 250), message("Credit", 90)];
        let document = json!({
            "actors": [{
                "type": "credit_ledger", "instances": 1, "mailbox": 2, "mailboxHighest": 4, "handled": 14, "errors": 5, "lost": 0,
                "restarts": 3, "messagesPerSecond": 12.5, "messages": messages,
            }],
            "eventLoops": [{"name": "core-0", "lagUs": 1_100}],
        });
        let actors: TopActors = serde_json::from_value(document).expect("as the listener has it");
        let shown = |row: &ActorRow| -> String {
            let cells = row.figures.iter().zip(COLUMNS);
            let cells = cells.map(|(figure, column)| written(*figure, column));
            format!("{}: {}", row.name, cells.collect::<Vec<_>>().join(", "))
        };
        let types: Vec<String> = actors.rows(false).iter().map(shown).collect();
        assert_eq!(
            types,
            ["credit_ledger: 2, 12.5, 250 µs, –, 1, 4, 5, 0, 3, 10 µs, –"]
        );
        let messages: Vec<String> = actors.rows(true).iter().map(shown).collect();
        assert_eq!(
            messages,
            [
                "credit_ledger Post: 1, –, 250 µs, –, –, 4, 2, 0, –, 10 µs, –",
                "credit_ledger Credit: 1, –, 90 µs, –, –, 4, 2, 0, –, 10 µs, –"
            ]
        );
    }

    #[test]
    fn rows_are_sorted_by_figures_and_then_by_name() {
        let row = |name: &str, figure| ActorRow {
            name: name.to_owned(),
            figures: [figure; COLUMNS_COUNT],
        };
        let mut rows = [
            row("b", None),
            row("c", Some(1)),
            row("a", Some(1)),
            row("d", Some(7)),
        ];
        let names = |rows: &[ActorRow]| rows.iter().map(|row| row.name.clone()).collect::<String>();
        sort(&mut rows, 3, false);
        assert_eq!(names(&rows), "dacb");
        sort(&mut rows, 3, true);
        assert_eq!(names(&rows), "bacd");
    }

    #[test]
    fn times_are_short() {
        for (us, text) in [
            (0, "0 µs"),
            (999, "999 µs"),
            (1_250, "1.2 ms"),
            (25_000, "25 ms"),
            (2_590_000, "2.5 s"),
            (61_000_000, "61 s"),
        ] {
            assert_eq!(duration(us), text);
        }
    }
}
