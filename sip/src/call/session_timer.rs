//! Session timers (RFC 4028): how long a call may go without a refresh, and which side refreshes. Pure.

use std::time::Duration;

use crate::message::{Headers, split_list};

/// The shortest interval that is accepted, and the one that this side requests.
pub const MIN_SECONDS: u32 = 90;
const WANTED_SECONDS: u32 = 1_800;
const MAX_SECONDS: u32 = 86_400;
/// Pauses before a refused refresh is tried again, unless the peer names one.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Part of the session's time that is left for the answer to its last refresh.
const ANSWERED: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresher {
    Us,
    Peer,
}

/// The negotiated session timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    pub seconds: u32,
    pub refresher: Refresher,
    /// The peer supports session timers itself; otherwise a proxy asked in its place.
    pub peer_knows: bool,
}

/// The requested interval is too small: 422 with Min-SE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSmall;

/// The timer in our response to an INVITE or UPDATE. The peer refreshes, unless it cannot or wants us to.
pub fn answer(request: &Headers) -> Result<Option<Timer>, TooSmall> {
    let peer_knows = request.lists("Supported", "timer") || request.lists("Require", "timer");
    let Some((seconds, refresher)) = expires(request, "uac", "uas") else {
        return Ok(peer_knows.then_some(Timer {
            seconds: WANTED_SECONDS.max(min_of(request)),
            refresher: Refresher::Peer,
            peer_knows,
        }));
    };
    if seconds < MIN_SECONDS {
        return Err(TooSmall);
    }
    Ok(Some(Timer {
        seconds: seconds.max(min_of(request)).min(MAX_SECONDS),
        refresher: match refresher {
            // A peer that does not know timers cannot refresh.
            _ if !peer_knows => Refresher::Us,
            Some(refresher) => refresher,
            None => Refresher::Peer,
        },
        peer_knows,
    }))
}

/// The timer in the 2xx to our own INVITE or UPDATE.
pub fn accepted(response: &Headers) -> Option<Timer> {
    let (seconds, refresher) = expires(response, "uas", "uac")?;
    Some(Timer {
        seconds: seconds.clamp(MIN_SECONDS, MAX_SECONDS),
        refresher: refresher.unwrap_or(Refresher::Us),
        peer_knows: true,
    })
}

/// The interval that a response demands at least.
pub fn least(response: &Headers) -> Option<u32> {
    let seconds: u32 = first_number(response.get("Min-SE")?)?;
    Some(seconds.min(MAX_SECONDS))
}

/// The pause that a response asks for.
pub fn retry_after(response: &Headers) -> Option<Duration> {
    let seconds: u32 = first_number(response.get("Retry-After")?)?;
    Some(Duration::from_secs(u64::from(seconds)))
}

/// The number at the beginning of a value, before parameters and comments.
fn first_number(value: &str) -> Option<u32> {
    let value = value.trim();
    let end = value.find(|letter: char| !letter.is_ascii_digit());
    value[..end.unwrap_or(value.len())].parse().ok()
}

/// The pause before a refused refresh is tried again: that which the peer asks for, within the rest of the session. `None` if no
/// time is left.
pub fn retry_pause(asked: Option<Duration>, left: Duration) -> Option<Duration> {
    let latest = left
        .checked_sub(ANSWERED)
        .filter(|latest| *latest >= PAUSE_MIN)?;
    let pause = asked.unwrap_or((left / 8).min(PAUSE_MAX));
    Some(pause.clamp(PAUSE_MIN, latest))
}

impl Timer {
    /// Time until our refresh, or until the call ends because the peer has not refreshed.
    pub fn due(self) -> Duration {
        match self.refresher {
            Refresher::Us => Duration::from_secs(u64::from(self.seconds / 2)),
            Refresher::Peer => self.lasts(),
        }
    }

    /// Time until the side that does not refresh gives the session up (RFC 4028, 10).
    pub fn lasts(self) -> Duration {
        let seconds = self.seconds - (self.seconds / 3).min(32);
        Duration::from_secs(u64::from(seconds))
    }

    /// Adds the headers of a refresh of ours. `least`: the interval that the peer has demanded, which all later refreshes name
    /// (RFC 4028, 7.3).
    pub fn ask(self, least: Option<u32>, headers: &mut Headers) {
        headers.push("Session-Expires", &self.header(false));
        if let Some(least) = least {
            headers.push("Min-SE", &least.to_string());
        }
    }

    /// The header for our response (`as_server`) or our request.
    pub fn header(self, as_server: bool) -> String {
        let role = match (self.refresher, as_server) {
            (Refresher::Us, true) | (Refresher::Peer, false) => "uas",
            (Refresher::Peer, true) | (Refresher::Us, false) => "uac",
        };
        format!("{};refresher={role}", self.seconds)
    }
}

/// Seconds and refresher of Session-Expires; `peer` and `us` are the names of the roles in it.
fn expires(headers: &Headers, peer: &str, us: &str) -> Option<(u32, Option<Refresher>)> {
    let value = headers.get("Session-Expires")?;
    let value = split_list(value).first().copied()?;
    let mut parts = value.split(';');
    let seconds = parts.next()?.trim().parse().ok()?;
    let refresher = parts
        .filter_map(|part| part.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case("refresher"))
        .and_then(|(_, role)| {
            let role = role.trim();
            if role.eq_ignore_ascii_case(peer) {
                Some(Refresher::Peer)
            } else {
                role.eq_ignore_ascii_case(us).then_some(Refresher::Us)
            }
        });
    Some((seconds, refresher))
}

fn min_of(request: &Headers) -> u32 {
    request
        .get("Min-SE")
        .and_then(|value| value.split(';').next()?.trim().parse().ok())
        .unwrap_or(MIN_SECONDS)
        .clamp(MIN_SECONDS, MAX_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(of: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::default();
        for (name, value) in of {
            headers.push(name, value);
        }
        headers
    }

    #[test]
    fn intervals_and_refreshers_are_answered_as_the_rfc_has_it() {
        let timer = |seconds, refresher, peer_knows| {
            Ok(Some(Timer {
                seconds,
                refresher,
                peer_knows,
            }))
        };
        let knows = ("Supported", "100rel, timer");
        let table: &[(&[(&str, &str)], _)] = &[
            (&[], Ok(None)),
            (&[knows], timer(1800, Refresher::Peer, true)),
            (
                &[knows, ("x", "600;refresher=uac")],
                timer(600, Refresher::Peer, true),
            ),
            (
                &[knows, ("x", "600; refresher = uas")],
                timer(600, Refresher::Us, true),
            ),
            (&[knows, ("x", "600")], timer(600, Refresher::Peer, true)),
            (
                &[("x", "600;refresher=uac")],
                timer(600, Refresher::Us, false),
            ),
            (
                &[knows, ("x", "100"), ("Min-SE", "300")],
                timer(300, Refresher::Peer, true),
            ),
            (&[knows, ("x", "89")], Err(TooSmall)),
            (&[knows, ("x", "soon")], timer(1800, Refresher::Peer, true)),
            (
                &[knows, ("x", "4000000000")],
                timer(86_400, Refresher::Peer, true),
            ),
        ];
        for (given, expected) in table {
            assert_eq!(answer(&headers(given)), *expected, "{given:?}");
        }
    }

    #[test]
    fn a_refused_refresh_is_tried_again_within_the_session() {
        let seconds = Duration::from_secs;
        for (asked, left, pause) in [
            (Some(10), 100, Some(10)),
            (Some(0), 100, Some(1)),
            // Not after the session.
            (Some(600), 100, Some(98)),
            (None, 872, Some(30)),
            (None, 80, Some(10)),
            (None, 4, Some(1)),
            (None, 3, Some(1)),
            (None, 2, None),
            (Some(10), 2, None),
            (Some(10), 0, None),
        ] {
            let paused = retry_pause(asked.map(seconds), seconds(left));
            assert_eq!(paused, pause.map(seconds), "{asked:?} of {left}");
        }
        for (value, expected) in [
            ("120", Some(120)),
            ("18000;duration=3600", Some(18_000)),
            ("120 (I'm in a meeting)", Some(120)),
            ("soon", None),
            ("949302838503028349304023988", None),
        ] {
            let retry = retry_after(&headers(&[("Retry-After", value)]));
            assert_eq!(retry, expected.map(seconds), "{value}");
        }
    }

    #[test]
    fn a_refresh_names_the_interval_that_the_peer_has_demanded() {
        let refused = headers(&[("Min-SE", "300;x=y")]);
        let timer = Timer {
            seconds: 300,
            refresher: Refresher::Us,
            peer_knows: true,
        };
        for (least, expected) in [(least(&refused), Some("300")), (None, None)] {
            let mut asked = Headers::default();
            timer.ask(least, &mut asked);
            assert_eq!(asked.get("Min-SE"), expected);
            assert_eq!(asked.get("Session-Expires"), Some("300;refresher=uac"));
        }
    }

    #[test]
    fn the_refresher_goes_at_half_time_and_the_other_gives_up_before_the_end() {
        let timer = |refresher| Timer {
            seconds: 90,
            refresher,
            peer_knows: true,
        };
        assert_eq!(timer(Refresher::Us).due(), Duration::from_secs(45));
        assert_eq!(timer(Refresher::Peer).due(), Duration::from_secs(60));
        assert_eq!(timer(Refresher::Us).header(true), "90;refresher=uas");
        assert_eq!(timer(Refresher::Us).header(false), "90;refresher=uac");
        let response = headers(&[("Session-Expires", "120;refresher=uas")]);
        assert_eq!(
            accepted(&response).map(|timer| timer.refresher),
            Some(Refresher::Peer)
        );
    }
}
