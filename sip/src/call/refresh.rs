//! Session refreshes (RFC 4028): when ours are due, how they are answered, and when a refused one is tried again.

use tokio::time::{Duration, Instant};

use super::{
    Call,
    end::Termination,
    requests::{PendingRequest, SUPPORTED_IN_REQUESTS},
    session_timer::{self, Refresher, Timer},
};
use crate::message::{Headers, Method, SipResponse};

/// The pause before a refresh with a longer interval, or by another method.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The refreshes of a call.
#[derive(Debug)]
pub struct SessionRefresh {
    /// A refresh of ours that waits for its response.
    pub pending: Option<PendingRequest>,
    /// When the session timer is due.
    pub due: Option<Instant>,
    /// When the other side gives the session up, unless it is refreshed.
    lasts_until: Option<Instant>,
    /// The interval that the peer demands at least.
    min_seconds: Option<u32>,
}

impl SessionRefresh {
    pub fn new(timer: Option<Timer>) -> Self {
        let mut refresh = Self {
            pending: None,
            due: None,
            lasts_until: None,
            min_seconds: None,
        };
        refresh.renew(timer);
        refresh
    }

    /// The session begins anew.
    pub fn renew(&mut self, timer: Option<Timer>) {
        let now = Instant::now();
        self.due = timer.map(|timer| now + timer.due());
        self.lasts_until = timer.map(|timer| now + timer.lasts());
    }

    /// A refused refresh of ours is due again after this pause, unless the peer refreshes by now.
    fn again_after(&mut self, pause: Duration, timer: Option<Timer>) {
        if timer.is_some_and(|timer| timer.refresher == Refresher::Us) {
            self.due = Some(Instant::now() + pause);
        }
    }
}

impl Call {
    /// `is_open`: an answer of ours waits for its ACK, so no request of ours may follow yet.
    pub(super) fn timer_came(
        &mut self,
        refresh: &mut SessionRefresh,
        is_open: bool,
    ) -> Option<Termination> {
        let timer = self.timer?;
        if timer.refresher == Refresher::Peer {
            return Some(Termination::Gone(408, "the session was not refreshed"));
        }
        refresh.due = Some(Instant::now() + timer.due());
        if refresh.pending.is_some() || is_open {
            return None;
        }
        let method = if self.peer.updates {
            Method::Update
        } else {
            Method::Invite
        };
        let mut request = self.dialog.request(method);
        request.headers.push("Supported", SUPPORTED_IN_REQUESTS);
        timer.ask(refresh.min_seconds, &mut request.headers);
        if request.method == Method::Invite {
            request.headers.push("Content-Type", "application/sdp");
            request.body = self.session.unchanged().into_bytes();
        }
        match self.ask(request) {
            Some(asked) => refresh.pending = Some(asked),
            None => {
                // Its keys may not be sent outside TLS, which says nothing of the caller.
                return Some(Termination::Broken(
                    408,
                    "the peer cannot be reached any more",
                ));
            }
        }
        None
    }

    pub(super) async fn refreshed(
        &mut self,
        answer: Option<SipResponse>,
        refresh: &mut SessionRefresh,
    ) -> Option<Termination> {
        let Some(response) = answer else {
            self.route.forget();
            return Some(Termination::Gone(408, "the peer does not answer any more"));
        };
        if response.status < 200 {
            return None;
        }
        let pending = refresh.pending.take()?;
        match response.status {
            200..300 => {
                self.dialog.retarget(&response.headers);
                self.timer = session_timer::accepted(&response.headers).or(self.timer);
                refresh.renew(self.timer);
                if pending.request.method == Method::Invite {
                    self.acknowledge(pending);
                    match self.session.accept(&response.body) {
                        Ok(terms) => {
                            self.agreed(terms).await;
                        }
                        Err(refused) => {
                            tracing::debug!(words = %refused.words, "the answer to a refresh cannot be used");
                            return Some(Termination::Broken(
                                488,
                                "the peer's answer cannot be used",
                            ));
                        }
                    }
                }
            }
            401 | 407 => refresh.pending = self.prove(&pending, &response),
            408 | 481 => {
                return Some(Termination::Gone(
                    response.status,
                    "the peer knows nothing of the call",
                ));
            }
            405 | 501 if self.peer.updates => {
                self.peer.updates = false;
                refresh.again_after(Duration::ZERO, self.timer);
            }
            422 if self.lengthens(&response.headers, refresh) => {
                refresh.again_after(AT_ONCE, self.timer);
            }
            491 => {
                let pause = wait_after_glare(self.is_callers, rand::random());
                refresh.again_after(pause, self.timer);
            }
            _ => self.refused(&response, refresh),
        }
        None
    }

    /// Agrees to a longer interval. False if the peer demands none.
    fn lengthens(&mut self, headers: &Headers, refresh: &mut SessionRefresh) -> bool {
        let (Some(timer), Some(least)) = (&mut self.timer, session_timer::least(headers)) else {
            return false;
        };
        let is_longer = refresh.min_seconds.is_none_or(|before| least > before);
        refresh.min_seconds = refresh.min_seconds.max(Some(least));
        timer.seconds = timer.seconds.max(least);
        is_longer
    }

    /// The peer cannot refresh the session now. While it lasts, that is tried again.
    fn refused(&self, response: &SipResponse, refresh: &mut SessionRefresh) {
        let asked = session_timer::retry_after(&response.headers);
        if asked.is_none() && response.status < 500 {
            return;
        }
        let now = Instant::now();
        let left = refresh
            .lasts_until
            .map(|until| until.saturating_duration_since(now));
        if let Some(pause) = left.and_then(|left| session_timer::retry_pause(asked, left)) {
            refresh.again_after(pause, self.timer);
        }
    }
}

/// The wait after both sides made a request at once (RFC 3261, 14.1): 2.1 to 4 s for the side that chose the Call-ID, which is
/// the caller, and 0 to 2 s for the other. `random` chooses within the range.
fn wait_after_glare(peer_is_caller: bool, random: u16) -> Duration {
    let (from, steps) = if peer_is_caller {
        (0, 200)
    } else {
        (2_100, 190)
    };
    Duration::from_millis(from + 10 * u64::from(random % (steps + 1)))
}

pub async fn refreshed(pending: &mut Option<PendingRequest>) -> Option<SipResponse> {
    match pending {
        Some(pending) => pending.answers.recv().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_that_called_waits_longer_after_both_asked_at_once() {
        for (peer_is_caller, from, to) in [(true, 0, 2_000), (false, 2_100, 4_000)] {
            let waits = (0..=u16::MAX).map(|random| wait_after_glare(peer_is_caller, random));
            let waits: Vec<_> = waits.map(|wait| wait.as_millis()).collect();
            assert_eq!(waits.iter().min(), Some(&from));
            assert_eq!(waits.iter().max(), Some(&to));
        }
    }

    #[test]
    fn a_refresh_is_not_tried_again_once_the_peer_refreshes() {
        for (refresher, is_earlier) in [(Refresher::Us, true), (Refresher::Peer, false)] {
            let timer = Some(Timer {
                seconds: 90,
                refresher,
                peer_knows: true,
            });
            let mut refresh = SessionRefresh::new(timer);
            let due = refresh.due;
            refresh.again_after(AT_ONCE, timer);
            assert_eq!(refresh.due < due, is_earlier, "{refresher:?}");
        }
    }
}
