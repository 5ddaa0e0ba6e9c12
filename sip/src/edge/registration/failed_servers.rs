//! Servers of a registrar that failed: the order in which all are tried, and the time until one may be asked. Pure.

use std::{collections::VecDeque, time::Duration};

use tokio::time::Instant;

use crate::{message::Headers, resolution::SipTarget};

/// Time for which a server that failed is tried after the others.
const AVOIDED: Duration = Duration::from_secs(300);
/// The longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);
/// Servers that are remembered.
const SERVERS_MAX: usize = 32;

/// The time for which a refusal asks us to wait, without the comment that may follow it.
pub fn retry_after(headers: &Headers) -> Option<Duration> {
    let written = headers.get("Retry-After")?.trim();
    let digits = written.split(|c: char| !c.is_ascii_digit()).next()?;
    let seconds = digits.parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[derive(Debug)]
struct FailedServer {
    server: SipTarget,
    until: Instant,
    /// It asked us to wait, so it is not tried before.
    must_wait: bool,
}

/// The last failure of each server.
#[derive(Debug, Default)]
pub struct FailedServers(VecDeque<FailedServer>);

impl FailedServers {
    /// Notes that a server failed now. `retry_after`: the time for which it asked us to wait.
    pub fn note(&mut self, server: SipTarget, retry_after: Option<Duration>, now: Instant) {
        self.forget(server);
        self.0.truncate(SERVERS_MAX - 1);
        self.0.push_front(FailedServer {
            server,
            until: now + retry_after.unwrap_or(AVOIDED),
            must_wait: retry_after.is_some(),
        });
    }

    pub fn forget(&mut self, server: SipTarget) {
        self.0.retain(|failed| failed.server != server);
    }

    fn of(&self, server: SipTarget, now: Instant) -> Option<&FailedServer> {
        { self.0.iter() }.find(|failed| failed.server == server && failed.until > now)
    }

    /// These servers, those that failed lately after the others, without those that asked us to wait.
    pub fn order(&self, mut servers: Vec<SipTarget>, now: Instant) -> VecDeque<SipTarget> {
        servers.retain(|server| { self.of(*server, now) }.is_none_or(|failed| !failed.must_wait));
        servers.sort_by_key(|server| self.of(*server, now).is_some());
        servers.into()
    }

    /// The time until one of these servers may be asked.
    pub fn wait(&self, servers: &[SipTarget], now: Instant) -> Duration {
        let wait = |server: &SipTarget| {
            let failed = self.of(*server, now).filter(|failed| failed.must_wait);
            failed.map_or(Duration::ZERO, |failed| failed.until - now)
        };
        servers.iter().map(wait).min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SipTransport;

    fn server(last: u8) -> SipTarget {
        SipTarget {
            transport: SipTransport::Udp,
            address: ([192, 0, 2, last], 5060).into(),
        }
    }

    #[test]
    fn a_server_that_failed_is_tried_last_or_after_the_time_that_it_asked_for() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let mut failed = FailedServers::default();
        failed.note(server(1), None, start);
        failed.note(server(2), Some(seconds(30)), start);
        let all = || (1..=3).map(server).collect::<Vec<_>>();
        for (after, order) in [
            (0, &[3, 1][..]),
            (29, &[3, 1]),
            (30, &[2, 3, 1]),
            (299, &[2, 3, 1]),
            (300, &[1, 2, 3]),
        ] {
            let expected: Vec<_> = order.iter().map(|last| server(*last)).collect();
            let found = failed.order(all(), start + seconds(after));
            assert_eq!(found, expected, "after {after} s");
        }
        let wait = |servers: &[SipTarget], after| failed.wait(servers, start + seconds(after));
        assert_eq!(wait(&[server(2)], 10), seconds(20));
        assert_eq!(wait(&[server(2)], 30), Duration::ZERO);
        assert_eq!(wait(&all(), 0), Duration::ZERO);
        assert_eq!(wait(&[], 0), Duration::ZERO);
        failed.forget(server(1));
        assert_eq!(failed.order(all(), start), [server(1), server(3)]);
    }

    #[test]
    fn only_so_many_servers_are_remembered() {
        let now = Instant::now();
        let mut failed = FailedServers::default();
        for last in 0..100 {
            failed.note(server(last), None, now);
        }
        assert_eq!(failed.0.len(), SERVERS_MAX);
        assert!(failed.of(server(99), now).is_some());
    }

    #[test]
    fn retry_after_is_read_and_limited() {
        for (written, expected) in [
            ("30", Some(30)),
            (" 7 (maintenance);duration=60", Some(7)),
            ("5;duration=60", Some(5)),
            ("0", Some(0)),
            ("86400", Some(300)),
            ("99999999999999999999999", None),
            ("soon", None),
            ("-1", None),
        ] {
            let mut headers = Headers::default();
            headers.push("Retry-After", written);
            let expected = expected.map(Duration::from_secs);
            assert_eq!(retry_after(&headers), expected, "{written}");
        }
        assert_eq!(retry_after(&Headers::default()), None);
    }
}
