//! Refused calls: counted by trunk and reason, and logged, a few lines per address.

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
    /// Counts one, and logs it unless the address has used up its lines.
    pub fn note(
        &self,
        trunk: &str,
        (status, reason): (u16, &'static str),
        ip: IpAddr,
        request: &Headers,
        user: Option<&str>,
    ) {
        self.count(trunk, reason);
        if !self.may_log(ip) {
            return;
        }
        let (caller, called) = (number(request, "From"), number(request, "To"));
        let user = user.map(shown);
        tracing::info!(
            trunk,
            address = %ip.to_canonical(),
            caller,
            called,
            user,
            status,
            reason,
            "a call was refused"
        );
    }

    /// Counts and logs a call to a person that failed. `failed`: the status of the trunk at this address, if it refused, and why.
    pub fn note_second_leg(
        &self,
        trunk: &str,
        (status, why): (Option<u16>, &str),
        ip: IpAddr,
        to: &str,
    ) {
        let reason = "second_leg";
        self.count(trunk, reason);
        if self.may_log(ip) {
            let (address, to) = (ip.to_canonical(), shown(to));
            tracing::info!(trunk, %address, to, status, reason, why, "a call to a person failed");
        }
    }

    /// True if the address has not used up its lines.
    fn may_log(&self, ip: IpAddr) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.admits(ip, now)
    }

    /// Counts one that is logged elsewhere.
    pub fn count(&self, trunk: &str, reason: &'static str) {
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
    use super::*;

    #[test]
    fn refusals_are_counted_by_trunk_and_reason() {
        let refusals = Refusals::default();
        let ip = IpAddr::from([192, 0, 2, 1]);
        for _ in 0..1_000 {
            refusals.note("jkt", (503, "lines"), ip, &Headers::default(), None);
        }
        refusals.count("", "address");
        let read = refusals.read();
        let read: Vec<_> = read
            .iter()
            .filter(|one| one.count > 0)
            .map(|one| (one.trunk.as_str(), one.reason, one.count))
            .collect();
        assert_eq!(read, [("", "address", 1), ("jkt", "lines", 1_000)]);
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
