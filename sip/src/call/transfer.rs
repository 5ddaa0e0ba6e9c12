//! Transfers: by REFER if the peer allows it (RFC 3515), else by a second leg over the same trunk, joined to the first.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Duration, Instant, sleep_until, timeout},
};

use super::{
    Call, CallParties, Control,
    dial::not_taken,
    join::{Parting, ends, join},
    outbound,
    outgoing_leg::{LegDestination, OutgoingLeg},
    requests::PendingRequest,
};
use crate::{
    leg::{Leg, LegEvent},
    message::{Host, Method, SipRequest, SipResponse, Uri},
    settings::TransferMethod,
    transactions::Responder,
    whatsapp::NO_TRANSFER,
};

/// The longest ringing of the person's phone after a REFER.
const ANSWERED: Duration = Duration::from_secs(60);
/// The time in which a peer that has accepted a REFER reports anything. It has to do so at once (RFC 3515, 2.4.4).
const REPORTED: Duration = Duration::from_secs(5);
/// The longest delay of the response to a REFER that was sent before a BYE arrived.
const CROSSING: Duration = Duration::from_millis(200);

/// Announcements that wait to be played.
const ANNOUNCEMENTS: usize = 4;

/// The status that stands for a missing report of a REFER's outcome.
const NO_REPORT: u16 = 408;

/// Statuses of a person who does not want the call (RFC 3261, 21.4.24, 21.6.1, 21.6.2).
const DECLINED: [u16; 3] = [486, 600, 603];

/// A transfer under way.
#[derive(Debug)]
pub enum CallTransfer {
    /// The peer was asked to call the person itself.
    Referred {
        to: String,
        /// `None` once the peer has accepted.
        asked: Option<Box<PendingRequest>>,
        until: Instant,
        /// The peer has reported that it calls the person.
        is_reported: bool,
        /// Nobody waits for the outcome any more, but the peer goes on.
        is_cancelled: bool,
    },
    /// We call the person ourselves. Dropping `_alive` gives up the INVITE.
    Dialling {
        to: String,
        /// The peer may still connect the person, because it accepted a REFER of which it reported no outcome.
        is_referred: bool,
        outcome: oneshot::Receiver<Result<Leg, String>>,
        _alive: oneshot::Sender<()>,
    },
    Joined(JoinedLegs),
}

/// Two joined legs; dropping this parts them.
#[derive(Debug)]
pub struct JoinedLegs {
    task: JoinHandle<Parting>,
    announcements: mpsc::Sender<Vec<i16>>,
    /// Counts in the edge's statistics.
    _counted: Arc<()>,
}

impl Drop for JoinedLegs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub enum TransferStep {
    Referred(Option<SipResponse>),
    Late,
    Dialled(Result<Leg, String>),
    Parted(Parting),
}

pub async fn next(transfer: &mut Option<CallTransfer>) -> TransferStep {
    match transfer {
        None => std::future::pending().await,
        Some(CallTransfer::Referred {
            asked: Some(asked), ..
        }) => TransferStep::Referred(asked.answers.recv().await),
        Some(CallTransfer::Referred { until, .. }) => {
            sleep_until(*until).await;
            TransferStep::Late
        }
        Some(CallTransfer::Dialling { outcome, .. }) => {
            let gone = Err("the second leg is gone".to_owned());
            TransferStep::Dialled(outcome.await.unwrap_or(gone))
        }
        Some(CallTransfer::Joined(joined)) => {
            let why = (&mut joined.task).await;
            TransferStep::Parted(why.unwrap_or(Parting::PersonLeft))
        }
    }
}

impl Call {
    pub(super) async fn begin_transfer(&mut self, to: String) {
        if self.transfer.is_some() {
            return self.not_transferred("a transfer is under way");
        }
        let trunk = &self.caller.trunk;
        if trunk.is_whatsapp() && trunk.transfer_trunk.is_none() {
            return self.not_transferred(NO_TRANSFER);
        }
        let refers = match trunk.transfer {
            _ if trunk.is_whatsapp() || trunk.transfer_trunk.is_some() => false,
            TransferMethod::Auto => self.peer.refers && self.caller.is_trunk_itself,
            TransferMethod::Refer => true,
            TransferMethod::Bridge => false,
        };
        if !refers {
            return self.dial(to, false).await;
        }
        let outbound = self.caller.trunk.outbound.uri.as_ref();
        let target = match outbound.and_then(|uri| uri.parse::<Uri>().ok()) {
            Some(uri) => Uri {
                user: to.clone(),
                ..uri
            },
            None => {
                let peer = &self.dialog.target;
                Uri::sip(&to, peer.host.clone(), peer.port)
            }
        };
        let mut request = self.dialog.request(Method::Refer);
        request.headers.push("Refer-To", &format!("<{target}>"));
        request.headers.push("Referred-By", &self.dialog.contact);
        let asked = self.ask(request);
        let is_asked = asked.is_some();
        let asked = asked.map(Box::new);
        self.transfer = Some(CallTransfer::Referred {
            to,
            asked,
            until: Instant::now() + ANSWERED,
            is_reported: false,
            is_cancelled: false,
        });
        if !is_asked {
            self.refer_failed(None).await;
        }
    }

    /// The peer calls the person. The caller hears ringing meanwhile.
    async fn refer_accepted(&mut self) {
        let Some(CallTransfer::Referred {
            asked,
            until,
            is_reported,
            is_cancelled,
            ..
        }) = &mut self.transfer
        else {
            return;
        };
        *asked = None;
        // A peer that is to do it alone may take its time.
        if !*is_reported && self.caller.trunk.transfer != TransferMethod::Refer {
            *until = Instant::now() + REPORTED;
        }
        if !*is_cancelled {
            self.direct(Control::Ring(true)).await;
        }
    }

    /// The peer has not reported anything in time, or the person has not answered.
    async fn refer_late(&mut self) {
        let Some(CallTransfer::Referred { is_reported, .. }) = self.transfer else {
            return;
        };
        if !is_reported && self.caller.trunk.transfer != TransferMethod::Refer {
            return self.refer_failed(Some(NO_REPORT)).await;
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
    fn proves_refer(&mut self, response: &SipResponse) -> bool {
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
    /// declined, or the transfer is cancelled. `status`: that of the peer; `None` if it cannot be reached.
    async fn refer_failed(&mut self, status: Option<u16>) {
        let Some(CallTransfer::Referred {
            to,
            asked,
            is_cancelled,
            ..
        }) = self.transfer.take()
        else {
            return;
        };
        // It has accepted, and not reported a failure.
        let is_open = asked.is_none() && status == Some(NO_REPORT);
        if is_cancelled {
            return;
        }
        let unreachable = || "the trunk cannot be reached".to_owned();
        let why = status.map_or_else(unreachable, not_taken);
        self.note_refer(&to, status, &why);
        let is_declined = status.is_some_and(|status| DECLINED.contains(&status));
        if is_declined || self.caller.trunk.transfer == TransferMethod::Refer {
            self.direct(Control::Ring(false)).await;
            return self.not_transferred(&why);
        }
        self.dial(to, is_open).await;
    }

    /// Calls the person, over the caller's trunk unless another is named for that. It is done in a task of its own: the caller may
    /// hang up while servers are looked up.
    async fn dial(&mut self, to: String, is_referred: bool) {
        let trunk = match &self.caller.trunk.transfer_trunk {
            None => Some(&self.caller.trunk),
            Some(name) => {
                let mut trunks = self.shared.settings.trunks.iter();
                trunks.find(|trunk| trunk.name == *name)
            }
        };
        let is_named = self.caller.trunk.transfer_trunk.is_some();
        let configured = trunk.and_then(|trunk| outbound::configured(trunk, &to));
        let is_configured = configured.is_some();
        let Some(trunk) = trunk.filter(|_| is_configured || !is_named) else {
            return self.not_transferred("no trunk for calls to persons is set up");
        };
        let (uri, proxy) = configured.unwrap_or_else(|| {
            let remote = self.flow.remote;
            let uri = Uri::sip(&to, Host::Ip(remote.ip()), Some(remote.port()));
            (uri, None)
        });
        // The caller's connection is used if it is that of the configured place.
        let is_of_registrar = trunk.outbound.uri.is_none()
            && (self.shared.registrars).has(&trunk.name, self.flow.remote.ip());
        let destination = LegDestination {
            uri,
            proxy,
            known: (!is_configured || is_of_registrar).then(|| self.flow.clone()),
            is_configured,
            is_limited: is_named,
        };
        let caller = CallParties {
            trunk: trunk.clone(),
            is_trunk_itself: self.caller.is_trunk_itself || is_configured,
            ..self.caller.clone()
        };
        let hears_early = self.media.as_ref().map(|media| media.control.downgrade());
        let plan = OutgoingLeg::new(self.shared.clone(), caller, destination, hears_early);
        let (alive, dead) = oneshot::channel();
        let (done, outcome) = oneshot::channel();
        tokio::spawn(async move {
            // A leg that nothing waits for is dropped, which hangs it up.
            let _ = done.send(plan.dial(dead).await);
        });
        self.transfer = Some(CallTransfer::Dialling {
            to,
            is_referred,
            outcome,
            _alive: alive,
        });
        self.direct(Control::Ring(true)).await;
    }

    /// Cancels the transfer. A peer that has accepted a REFER goes on, because that cannot be cancelled.
    pub(super) async fn cancel_transfer(&mut self) {
        let goes_on = |transfer: &mut CallTransfer| match transfer {
            CallTransfer::Joined(_) => true,
            CallTransfer::Referred {
                asked,
                is_cancelled,
                ..
            } => {
                *is_cancelled = true;
                asked.is_none()
            }
            CallTransfer::Dialling { .. } => false,
        };
        self.transfer.take_if(|transfer| !goes_on(transfer));
        self.direct(Control::Ring(false)).await;
    }

    /// Handles the next step of a transfer. Returns a reason when the call is over with it.
    pub(super) async fn transferred(&mut self, step: TransferStep) -> Option<String> {
        match step {
            TransferStep::Referred(Some(response)) if response.status < 200 => {}
            TransferStep::Referred(Some(response)) if response.status < 300 => {
                self.refer_accepted().await;
            }
            TransferStep::Referred(Some(response)) if self.proves_refer(&response) => {}
            TransferStep::Referred(response) => {
                if response.is_none() {
                    self.route.forget();
                }
                let status = response.map_or(408, |response| response.status);
                self.refer_failed(Some(status)).await;
            }
            TransferStep::Late => self.refer_late().await,
            TransferStep::Dialled(Ok(leg)) => self.join(leg).await,
            TransferStep::Dialled(Err(why)) => {
                self.transfer = None;
                self.direct(Control::Ring(false)).await;
                self.not_transferred(&why);
            }
            TransferStep::Parted(Parting::PersonLeft) => {
                self.notify(LegEvent::Parted);
                return Some("the other side hung up".to_owned());
            }
            TransferStep::Parted(Parting::CallersMediaLost) => {
                self.notify(LegEvent::MediaLost);
                return Some("no media comes any more".to_owned());
            }
        }
        None
    }

    async fn join(&mut self, second: Leg) {
        let Some(CallTransfer::Dialling { to, .. }) = self.transfer.take() else {
            return;
        };
        if self.media.is_none() {
            return self.not_transferred("the call has no media");
        }
        let (theirs, ours) = ends();
        let join_ends = Control::Join(theirs.speech, theirs.events);
        self.direct(join_ends).await;
        let (announcements, announced) = mpsc::channel(ANNOUNCEMENTS);
        self.transfer = Some(CallTransfer::Joined(JoinedLegs {
            task: tokio::spawn(join(ours, second, announced)),
            announcements,
            _counted: self.shared.joined.clone(),
        }));
        self.notify(LegEvent::Joined { to });
    }

    pub(super) fn is_joined(&self) -> bool {
        matches!(self.transfer, Some(CallTransfer::Joined(_)))
    }

    /// Plays samples to both joined legs.
    pub(super) fn announce(&self, samples: Vec<i16>) {
        if let Some(CallTransfer::Joined(joined)) = &self.transfer {
            let _ = joined.announcements.try_send(samples);
        }
    }

    /// The peer hangs up. Many phones do so once they have accepted a REFER, without a NOTIFY.
    pub(super) async fn left(&mut self) {
        let is_taken = match &mut self.transfer {
            Some(CallTransfer::Dialling { is_referred, .. }) => *is_referred,
            Some(CallTransfer::Referred { asked: None, .. }) => true,
            Some(CallTransfer::Referred {
                asked: Some(asked), ..
            }) => {
                let taken = taken(&mut asked.answers);
                timeout(CROSSING, taken).await.unwrap_or_default()
            }
            _ => false,
        };
        if is_taken {
            self.transfer = None;
            self.notify(LegEvent::Transfer(Ok(())));
        }
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
            Some(CallTransfer::Dialling { is_referred, .. }) => is_referred,
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
            is_reported,
            ..
        }) = &mut self.transfer
        else {
            return;
        };
        match status {
            Some(status @ 300..) => self.refer_failed(Some(status)).await,
            // The peer reports nothing more.
            _ if is_terminated(request) && !is_alone => self.refer_failed(Some(NO_REPORT)).await,
            _ => {
                // It has accepted, although its response may be lost.
                *asked = None;
                if !std::mem::replace(is_reported, true) {
                    *until = Instant::now() + ANSWERED;
                }
            }
        }
    }

    /// Counts and logs a REFER that failed.
    fn note_refer(&self, to: &str, status: Option<u16>, why: &str) {
        let (trunk, ip) = (&self.caller.trunk.name, self.flow.remote.ip());
        let refusals = &self.shared.refusals;
        refusals.note_person(trunk, "refer", (status, why), ip, to);
    }

    fn not_transferred(&self, why: &str) {
        self.notify(LegEvent::Transfer(Err(why.to_owned())));
    }
}

/// True if the peer accepts the REFER.
async fn taken(answers: &mut mpsc::Receiver<SipResponse>) -> bool {
    while let Some(response) = answers.recv().await {
        if response.status >= 200 {
            return response.status < 300;
        }
    }
    false
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
    use super::fragment_status;

    #[test]
    fn fragments_tell_how_far_a_transfer_is() {
        assert_eq!(fragment_status(b"SIP/2.0 100 Trying\r\n"), Some(100));
        assert_eq!(fragment_status(b"SIP/2.0 200 OK"), Some(200));
        for strange in [&b""[..], b"200", b"SIP/2.0", b"HTTP/1.1 200 OK", b"\xff"] {
            assert_eq!(fragment_status(strange), None);
        }
    }
}
