//! A REFER: the peer is asked to call the person itself, and reports the outcome (RFC 3515).

use tokio::time::{Duration, Instant};

use super::{
    Call, Control,
    dial::not_taken,
    transfer::{CallTransfer, OpenRefer, ReferFailure, ReferProgress},
};
use crate::{
    leg::LegEvent,
    message::{SipRequest, SipResponse},
    settings::TransferMethod,
    transactions::Responder,
};

/// The longest ringing of the person's phone after a REFER.
const ANSWERED: Duration = Duration::from_secs(60);
/// The time in which a peer answers a REFER, and then reports anything. It has to do so at once (RFC 3515, 2.4.4).
const REPORTED: Duration = Duration::from_secs(5);
/// The status that is noted for a missing answer or report.
const NO_REPORT: u16 = 408;

/// Statuses of a person who does not want the call (RFC 3261, 21.4.24, 21.6.1, 21.6.2).
const DECLINED: [u16; 3] = [486, 600, 603];

impl Call {
    /// When the next sign of a REFER is due. A peer that is to transfer alone may take its time.
    pub(super) fn reported_until(&self) -> Instant {
        let is_alone = self.caller.trunk.transfer == TransferMethod::Refer;
        Instant::now() + if is_alone { ANSWERED } else { REPORTED }
    }

    /// The peer calls the person.
    pub(super) fn refer_accepted(&mut self) {
        let until_reported = self.reported_until();
        if let Some(CallTransfer::Referred {
            asked,
            until,
            progress,
            ..
        }) = &mut self.transfer
        {
            *asked = None;
            if *progress == ReferProgress::None {
                *until = until_reported;
            }
        }
    }

    /// The peer has not reported a ringing phone in time, or the person has not answered.
    pub(super) async fn refer_late(&mut self) {
        let Some(CallTransfer::Referred { progress, .. }) = self.transfer else {
            return;
        };
        if may_be_lost(progress, self.caller.trunk.transfer) {
            return self.refer_failed(ReferFailure::Unknown).await;
        }
        let late = self.transfer.take();
        if let Some(CallTransfer::Referred {
            to,
            is_cancelled: false,
            ..
        }) = late
        {
            let why = "nobody answered in time";
            self.note_refer(&to, None, why);
            self.direct(Control::Ring(false)).await;
            self.not_transferred(why);
        }
    }

    /// Repeats a challenged REFER once, with credentials, if the peer may get them.
    pub(super) fn proves_refer(&mut self, response: &SipResponse) -> bool {
        if !matches!(response.status, 401 | 407) {
            return false;
        }
        let mut transfer = self.transfer.take();
        let mut is_proven = false;
        if let Some(CallTransfer::Referred { asked, .. }) = &mut transfer {
            let again = asked.as_ref().and_then(|asked| self.prove(asked, response));
            is_proven = again.is_some();
            *asked = again.map(Box::new).or(asked.take());
        }
        self.transfer = transfer;
        is_proven
    }

    /// The peer does not do what it was asked for, so we call the person; unless the trunk wants REFER alone, the person has
    /// declined, or the transfer is cancelled.
    pub(super) async fn refer_failed(&mut self, failure: ReferFailure) {
        let Some(CallTransfer::Referred {
            to,
            asked,
            progress,
            is_cancelled,
            ..
        }) = self.transfer.take()
        else {
            return;
        };
        if is_cancelled {
            return;
        }
        let status = match failure {
            ReferFailure::Unsent => None,
            ReferFailure::Refused(status) | ReferFailure::NotTaken(status) => Some(status),
            ReferFailure::Unknown => Some(NO_REPORT),
        };
        let unreachable = || "the trunk cannot be reached".to_owned();
        let why = status.map_or_else(unreachable, not_taken);
        self.note_refer(&to, status, &why);
        let refer = match (failure, asked) {
            (ReferFailure::Unknown, None) if progress == ReferProgress::None => OpenRefer::Accepted,
            (ReferFailure::Unknown, _) => OpenRefer::Sent,
            _ => OpenRefer::None,
        };
        let is_declined =
            matches!(failure, ReferFailure::NotTaken(status) if DECLINED.contains(&status));
        if is_declined || self.caller.trunk.transfer == TransferMethod::Refer {
            self.direct(Control::Ring(false)).await;
            return self.not_transferred(&why);
        }
        self.dial(to, refer).await;
    }

    /// Handles a NOTIFY with the progress of a REFER.
    pub(super) async fn notified(&mut self, request: &SipRequest, reply: &Responder) {
        let event = request.headers.get("Event").unwrap_or_default();
        let about_refer = event
            .split(';')
            .next()
            .is_some_and(|name| name.trim() == "refer");
        let is_referred = match self.transfer {
            Some(CallTransfer::Referred { .. }) => true,
            Some(CallTransfer::Dialling { refer, .. }) => refer != OpenRefer::None,
            _ => false,
        };
        if !about_refer || !is_referred {
            reply.refuse(481, "Subscription Does Not Exist");
            return;
        }
        reply.send(&self.dressed(reply.response(200, "OK")));
        let status = fragment_status(&request.body);
        if matches!(status, Some(200..300)) {
            self.transfer = None;
            self.notify(LegEvent::Transfer(Ok(())));
            return;
        }
        let is_alone = self.caller.trunk.transfer == TransferMethod::Refer;
        let Some(CallTransfer::Referred {
            asked,
            until,
            progress,
            ..
        }) = &mut self.transfer
        else {
            return;
        };
        match status {
            Some(status @ 300..) => self.refer_failed(ReferFailure::NotTaken(status)).await,
            // The peer reports nothing more.
            _ if is_terminated(request) && !is_alone => {
                self.refer_failed(ReferFailure::Unknown).await;
            }
            _ => {
                // It has accepted, although its response may be lost.
                *asked = None;
                if *progress == ReferProgress::None {
                    *until = Instant::now() + ANSWERED;
                }
                let reported = match status {
                    Some(101..) => ReferProgress::Ringing,
                    _ => ReferProgress::Trying,
                };
                *progress = reported.max(*progress);
            }
        }
    }

    /// Counts and logs a REFER that failed.
    fn note_refer(&self, to: &str, status: Option<u16>, why: &str) {
        let (trunk, ip) = (&self.caller.trunk.name, self.flow.remote.ip());
        let refusals = &self.shared.refusals;
        refusals.note_person(trunk, "refer", (status, why), ip, to);
    }
}

/// True if a REFER without an outcome counts as failed: no phone rings, and we may call the person ourselves.
fn may_be_lost(progress: ReferProgress, method: TransferMethod) -> bool {
    progress < ReferProgress::Ringing && method != TransferMethod::Refer
}

fn is_terminated(notify: &SipRequest) -> bool {
    let state = notify.headers.get("Subscription-State").unwrap_or_default();
    let state = state.split(';').next().unwrap_or_default().trim();
    state.eq_ignore_ascii_case("terminated")
}

/// The status in a `message/sipfrag`.
fn fragment_status(body: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(body).ok()?;
    let mut words = text.lines().next()?.split_whitespace();
    words
        .next()
        .filter(|version| version.eq_ignore_ascii_case("SIP/2.0"))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{ReferProgress, TransferMethod, fragment_status, may_be_lost};

    #[test]
    fn a_person_whose_phone_has_rung_is_not_called_again() {
        use ReferProgress::{None, Ringing, Trying};
        let expected = [(None, true), (Trying, true), (Ringing, false)];
        for (progress, lost) in expected {
            assert_eq!(
                may_be_lost(progress, TransferMethod::Auto),
                lost,
                "{progress:?}"
            );
            assert!(
                !may_be_lost(progress, TransferMethod::Refer),
                "{progress:?}"
            );
        }
    }

    #[test]
    fn fragments_tell_how_far_a_transfer_is() {
        assert_eq!(fragment_status(b"SIP/2.0 100 Trying\r\n"), Some(100));
        assert_eq!(fragment_status(b"SIP/2.0 200 OK"), Some(200));
        for strange in [&b""[..], b"200", b"SIP/2.0", b"HTTP/1.1 200 OK", b"\xff"] {
            assert_eq!(fragment_status(strange), None);
        }
    }
}
