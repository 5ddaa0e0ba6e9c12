//! Durations of statements by shape: the text without literals and list lengths. Bound values are never examined. The
//! table is bounded and filled as answers arrive.

use std::{
    collections::HashMap,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use super::Store;

/// Limit of shapes; statements beyond it are counted together.
const SHAPES_MAX: usize = 512;
/// Limit of cached texts; the shape of others is computed each time.
const TEXTS_MAX: usize = 4_096;
/// Maximum length kept of a shape.
const SHAPE_BYTES_MAX: usize = 2_000;
/// Stands for statements without room of their own.
const OTHERS: &str = "others";

/// The counts of one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementReading {
    pub shape: Arc<str>,
    /// Number of statements that were answered or failed.
    pub count: u64,
    pub failed: u64,
    /// Total time from sending until the last row, in microseconds, without the wait for a connection.
    pub total_us: u64,
    pub longest_us: u64,
}

#[derive(Debug, Default)]
struct Counts {
    count: AtomicU64,
    failed: AtomicU64,
    total_us: AtomicU64,
    longest_us: AtomicU64,
}

/// The statements of one store since it was opened.
#[derive(Debug, Default)]
pub(super) struct Statements {
    hasher: RandomState,
    known: RwLock<Known>,
    others: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Known {
    /// Keyed by the hash of a text.
    texts: HashMap<u64, Arc<Counts>>,
    shapes: HashMap<Arc<str>, Arc<Counts>>,
}

impl Counts {
    fn reading(&self, shape: &Arc<str>) -> StatementReading {
        StatementReading {
            shape: Arc::clone(shape),
            count: self.count.load(Relaxed),
            failed: self.failed.load(Relaxed),
            total_us: self.total_us.load(Relaxed),
            longest_us: self.longest_us.load(Relaxed),
        }
    }
}

impl Statements {
    /// Counts a statement that ended.
    pub(super) fn ended(&self, text: &str, began: Instant, failed: bool) {
        let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let counts = self.counts(text);
        counts.count.fetch_add(1, Relaxed);
        counts.failed.fetch_add(u64::from(failed), Relaxed);
        counts.total_us.fetch_add(us, Relaxed);
        counts.longest_us.fetch_max(us, Relaxed);
    }

    fn counts(&self, text: &str) -> Arc<Counts> {
        let hash = self.hasher.hash_one(text);
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = known.texts.get(&hash) {
            return Arc::clone(counts);
        }
        drop(known);
        let shape = shape_of(text);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let counts = match known.shapes.get(shape.as_str()) {
            Some(counts) => Arc::clone(counts),
            None if known.shapes.len() < SHAPES_MAX => {
                let counts = Arc::<Counts>::default();
                known.shapes.insert(shape.into(), Arc::clone(&counts));
                counts
            }
            None => Arc::clone(&self.others),
        };
        if known.texts.len() < TEXTS_MAX {
            known.texts.insert(hash, Arc::clone(&counts));
        }
        counts
    }

    fn reading(&self) -> Vec<StatementReading> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let shapes = known.shapes.iter();
        let mut reading: Vec<StatementReading> = shapes
            .map(|(shape, counts)| counts.reading(shape))
            .collect();
        drop(known);
        let others = self.others.reading(&Arc::from(OTHERS));
        reading.extend(Some(others).filter(|others| others.count > 0));
        reading
    }
}

impl Store {
    /// The counts of every shape since the store was opened, in no order.
    pub fn statements(&self) -> Vec<StatementReading> {
        self.signs.statements.reading()
    }
}

/// A statement's text with `?` for each literal or bound value, and `…` for repetitions in a list.
fn shape_of(text: &str) -> String {
    let mut shape = Shape::default();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        if shape.text.len() > SHAPE_BYTES_MAX {
            shape.text.push('…');
            break;
        }
        rest = shape.take(first, rest);
    }
    shape.text
}

#[derive(Default)]
struct Shape {
    text: String,
    /// The positions of open parentheses.
    open: Vec<usize>,
}

impl Shape {
    /// Consumes the next part of a text, which begins with `first`, and returns the rest.
    fn take<'t>(&mut self, first: char, text: &'t str) -> &'t str {
        let after = &text[first.len_utf8()..];
        let in_name = self
            .text
            .ends_with(|last: char| last.is_alphanumeric() || last == '_');
        match first {
            '\'' => {
                self.value();
                after_quoted(after, '\'')
            }
            '"' => {
                let left = after_quoted(after, '"');
                self.text.push_str(&text[..text.len() - left.len()]);
                left
            }
            '$' | '?' => {
                self.value();
                without_digits(after)
            }
            '0'..='9' if !in_name => {
                self.value();
                without_digits(after)
            }
            ',' => {
                self.text.truncate(self.text.trim_end().len());
                self.text.push_str(", ");
                after.trim_start()
            }
            '(' => {
                self.open.push(self.text.len());
                self.text.push('(');
                after.trim_start()
            }
            ')' => {
                self.close();
                after
            }
            blank if blank.is_whitespace() => {
                self.text.push(' ');
                after.trim_start()
            }
            other => {
                self.text.push(other);
                after
            }
        }
    }

    /// Adds a value. The second in a list becomes `…`, and further ones are dropped.
    fn value(&mut self) {
        if self.text.ends_with("…, ") {
            self.text.truncate(self.text.len() - 2);
        } else if self.text.ends_with("?, ") {
            self.text.push('…');
        } else {
            self.text.push('?');
        }
    }

    /// Closes a parenthesis. One equal to the previous in a list becomes `…`.
    fn close(&mut self) {
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        self.text.push(')');
        let Some(begin) = self.open.pop() else {
            return;
        };
        let (before, this) = self.text.split_at(begin);
        if before.ends_with(&format!("{this}, …, ")) {
            self.text.truncate(begin - 2);
        } else if before.ends_with(&format!("{this}, ")) {
            self.text.truncate(begin);
            self.text.push('…');
        }
    }
}

/// The text after a quoted part; a quote inside is doubled.
fn after_quoted(text: &str, quote: char) -> &str {
    let mut rest = text;
    while let Some(end) = rest.find(quote) {
        rest = &rest[end + 1..];
        match rest.strip_prefix(quote) {
            Some(after) => rest = after,
            None => return rest,
        }
    }
    ""
}

fn without_digits(text: &str) -> &str {
    text.trim_start_matches(|next: char| next.is_ascii_digit() || next == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_neither_values_nor_their_number() {
        for (text, shape) in [
            (
                "SELECT a1,\n  \"b\"  FROM t2 WHERE c = $1 AND d = 'it''s' AND e > 1.5",
                "SELECT a1, \"b\" FROM t2 WHERE c = ? AND d = ? AND e > ?",
            ),
            ("SELECT 1 WHERE a IN (?)", "SELECT ? WHERE a IN (?)"),
            ("SELECT 1 WHERE a IN ($1, $2)", "SELECT ? WHERE a IN (?, …)"),
            (
                "SELECT 1 WHERE a IN (?1,?2, ?33 , 'x')",
                "SELECT ? WHERE a IN (?, …)",
            ),
            (
                "INSERT INTO t (a, b) VALUES (?, ?)",
                "INSERT INTO t (a, b) VALUES (?, …)",
            ),
            (
                "INSERT INTO t (a, b) VALUES (?, ?), (?, ?), (?, ?), (?, ?) RETURNING a",
                "INSERT INTO t (a, b) VALUES (?, …), … RETURNING a",
            ),
            ("UPDATE t SET a = 'never closed", "UPDATE t SET a = ?"),
            (") ( 'ü' \"never closed", ") (? \"never closed"),
        ] {
            assert_eq!(shape_of(text), shape);
        }
    }

    #[test]
    fn texts_of_one_shape_are_counted_together_and_the_table_is_bounded() {
        let (statements, began) = (Statements::default(), Instant::now());
        for n in 0..3 {
            statements.ended(&format!("SELECT {n}"), began, n == 0);
        }
        let [one] = &statements.reading()[..] else {
            panic!("{:?}", statements.reading());
        };
        assert_eq!((&*one.shape, one.count, one.failed), ("SELECT ?", 3, 1));
        assert!(one.longest_us <= one.total_us);
        for n in 0..TEXTS_MAX * 2 {
            statements.ended(&format!("SELECT a{n}"), began, false);
        }
        let reading = statements.reading();
        assert_eq!(reading.len(), SHAPES_MAX + 1);
        let all: u64 = reading.iter().map(|of| of.count).sum();
        assert_eq!(all, 3 + TEXTS_MAX as u64 * 2);
        let known = statements.known.read().expect("not poisoned");
        assert_eq!(known.texts.len(), TEXTS_MAX);
    }

    #[test]
    fn a_shape_is_bounded() {
        let columns: Vec<String> = (0..5_000).map(|n| format!("ü{n}")).collect();
        let shape = shape_of(&format!("SELECT {}", columns.join(", ")));
        assert!(shape.len() < SHAPE_BYTES_MAX + 10 && shape.ends_with('…'));
    }
}
