//! Refusals and failures of calls and registrations: counted by trunk and reason, and logged, a few lines per address.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::{
    limits::rate_limit::{RateLimit, RateLimiter},
    message::{Headers, NameAddr},
    numbers::masked,
    statistics::RefusalCount,
};

/// Log lines of one address: three, then one in ten seconds. Of all: fifty, then ten a second.
const LINES_OF_ONE: RateLimit = RateLimit::one_in(10_000, 3);
const LINES_OF_ALL: RateLimit = RateLimit::one_in(100, 50);

#[derive(Debug)]
pub struct Refusals {
    begun: Instant,
    counts: Mutex<BTreeMap<(String, &'static str), u64>>,
    lines: Mutex<RateLimiter>,
}

impl Default for Refusals {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            // Counters of strangers exist from the start, so that the first increase is visible.
            counts: Mutex::new(
                ["address", "blocked", "malformed", "password"]
                    .map(|reason| ((String::new(), reason), 0))
                    .into(),
            ),
            lines: Mutex::new(RateLimiter::new(LINES_OF_ONE, LINES_OF_ALL)),
        }
    }
}

impl Refusals {
    /// Counts a refused INVITE that would have begun a call, and logs it unless the address has used up its lines.
    pub fn note(
        &self,
        trunk: &str,
        (status, reason): (u16, &'static str),
        ip: IpAddr,
        request: &Headers,
        user: Option<&str>,
    ) {
        self.log(ip, |address| {
            let (caller, called) = (number(request, "From"), number(request, "To"));
            let user = user.map(shown);
            tracing::info!(trunk, %address, caller, called, user, status, reason, "a call was refused");
        });
        self.count(trunk, reason);
    }

    /// Counts and logs a refused INVITE that would have changed a call.
    pub fn note_change(&self, trunk: &str, status: u16, ip: IpAddr, request: &Headers) {
        let reason = "change";
        self.log(ip, |address| {
            let (from, to) = (number(request, "From"), number(request, "To"));
            tracing::info!(trunk, %address, from, to, status, reason, "a change of a call was refused");
        });
        self.count(trunk, reason);
    }

    /// Counts and logs a call to a person that failed: a REFER or a second leg, which is the reason. `failed`: the status of the
    /// trunk at this address, if it refused, and why.
    pub fn note_person(
        &self,
        trunk: &str,
        reason: &'static str,
        (status, why): (Option<u16>, &str),
        ip: IpAddr,
        to: &str,
    ) {
        self.log(ip, |address| {
            let to = shown(to);
            tracing::info!(trunk, %address, to, status, reason, why, "a call to a person failed");
        });
        self.count(trunk, reason);
    }

    /// Counts and logs a registration that failed, at the server with this address. `again_in_seconds`: the pause before the next
    /// try.
    pub fn note_registration(
        &self,
        trunk: &str,
        (status, why): (Option<u16>, &str),
        ip: IpAddr,
        again_in_seconds: u64,
    ) {
        let reason = "registration";
        self.log(ip, |address| {
            tracing::info!(trunk, %address, status, reason, why, again_in_seconds, "not registered");
        });
        self.count(trunk, reason);
    }

    /// Logs unless the address has used up its lines.
    fn log(&self, ip: IpAddr, write: impl FnOnce(IpAddr)) {
        if self.may_log(ip) {
            write(ip.to_canonical());
        }
    }

    /// True if the address has not used up its lines.
    fn may_log(&self, ip: IpAddr) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.admits(ip, now)
    }

    fn count(&self, trunk: &str, reason: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry((trunk.to_owned(), reason)).or_default() += 1;
    }

    pub fn read(&self) -> Vec<RefusalCount> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |((trunk, reason), count): (&(String, &'static str), &u64)| RefusalCount {
            trunk: trunk.clone(),
            reason,
            count: *count,
        };
        counts.iter().map(of).collect()
    }
}

/// The part of a peer's text that may be shown.
fn shown(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    masked(&text).chars().take(64).collect()
}

fn number(request: &Headers, name: &str) -> Option<String> {
    let address: NameAddr = request.get(name)?.parse().ok()?;
    Some(shown(&address.uri.user))
}

#[cfg(test)]
mod tests {
    use std::{
        fmt::Debug,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::Relaxed},
        },
    };

    use tracing::{Event, Level, Metadata, Subscriber, field::Field, span};

    use super::*;

    /// Counts the lines at `info`, and those that it must not find.
    #[derive(Clone, Default)]
    struct LineCounter {
        lines: Arc<AtomicUsize>,
        louder: Arc<AtomicUsize>,
        whole_numbers: Arc<AtomicUsize>,
    }

    impl Subscriber for LineCounter {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let count = match *event.metadata().level() {
                Level::INFO => &self.lines,
                _ => &self.louder,
            };
            count.fetch_add(1, Relaxed);
            let whole = &self.whole_numbers;
            event.record(&mut |_: &Field, value: &dyn Debug| {
                let is_whole = format!("{value:?}").contains("81234567890");
                whole.fetch_add(usize::from(is_whole), Relaxed);
            });
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    #[test]
    fn each_failure_is_one_line_at_info_and_a_few_per_address() {
        let counter = LineCounter::default();
        let refusals = Refusals::default();
        let mut headers = Headers::default();
        headers.push("From", "<sip:+6281234567890@b>");
        tracing::subscriber::with_default(counter.clone(), || {
            for last in 1..=8 {
                let ip = IpAddr::from([192, 0, 2, last]);
                refusals.note("a", (488, "media"), ip, &headers, Some("+6281234567890"));
                refusals.note_change("a", 488, ip, &headers);
                refusals.note_person("a", "refer", (Some(405), "no"), ip, "+6281234567890");
                let ip = IpAddr::from([192, 0, 3, last]);
                for _ in 0..10 {
                    refusals.note_registration("a", (None, "silent"), ip, 2);
                }
            }
        });
        // Eight addresses with three lines each, and eight with ten, of which three are written.
        let counts = [&counter.lines, &counter.louder, &counter.whole_numbers];
        assert_eq!(counts.map(|count| count.load(Relaxed)), [48, 0, 0]);
        let read = refusals.read();
        let read = read.iter().filter(|one| one.trunk == "a");
        let read: Vec<_> = read.map(|one| (one.reason, one.count)).collect();
        let expected = [
            ("change", 8),
            ("media", 8),
            ("refer", 8),
            ("registration", 80),
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn refusals_are_counted_by_trunk_and_reason() {
        let refusals = Refusals::default();
        let ip = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..1_000 {
            refusals.note("jkt", (503, "lines"), ip, &Headers::default(), None);
        }
        refusals.note_change("", 488, ip, &Headers::default());
        let read = refusals.read();
        let read: Vec<_> = read
            .iter()
            .filter(|one| one.count > 0)
            .map(|one| (one.trunk.as_str(), one.reason, one.count))
            .collect();
        assert_eq!(read, [("", "change", 1), ("jkt", "lines", 1_000)]);
    }

    #[test]
    fn numbers_in_the_log_are_masked() {
        let shown = shown("+6281234567890\r\n");
        assert!(
            !shown.contains("81234567890") && !shown.contains('\n'),
            "{shown}"
        );
    }
}
