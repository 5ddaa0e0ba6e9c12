//! Transfers: by REFER if the peer allows it (`refer`), else by a second leg over the same trunk, joined to the first.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Duration, Instant, sleep_until, timeout},
};

use super::{
    Call, CallParties, Control,
    join::{Parting, ends, join},
    outbound,
    outgoing_leg::{LegDestination, OutgoingLeg},
    requests::PendingRequest,
};
use crate::{
    leg::{Leg, LegEvent},
    message::{Method, SipResponse},
    settings::TransferMethod,
    whatsapp::NO_TRANSFER,
};

/// The longest delay of the response to a REFER that was sent before a BYE arrived.
const CROSSING: Duration = Duration::from_millis(200);

/// Announcements that wait to be played.
const ANNOUNCEMENTS: usize = 4;

/// Why a REFER has failed.
#[derive(Debug, Clone, Copy)]
pub enum ReferFailure {
    /// The peer cannot be reached.
    Unsent,
    /// The peer does not call the person itself, with this status.
    Refused(u16),
    /// The peer has called the person, with this status.
    NotTaken(u16),
    /// The peer does not say what it does.
    Unknown,
}

/// The furthest that the peer of a REFER has reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReferProgress {
    None,
    /// It tries to call the person.
    Trying,
    /// The person's phone rings, or is about to.
    Ringing,
}

/// A REFER of which the peer has reported no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenRefer {
    None,
    /// The peer may report later that the person has answered.
    Sent,
    /// The same, and the peer reports nothing: its BYE may mean that the person has answered.
    Accepted,
}

/// A transfer under way.
#[derive(Debug)]
pub enum CallTransfer {
    /// The peer was asked to call the person itself.
    Referred {
        to: String,
        /// `None` once the peer has accepted.
        asked: Option<Box<PendingRequest>>,
        until: Instant,
        progress: ReferProgress,
        /// Nobody waits for the outcome any more, but the peer goes on.
        is_cancelled: bool,
    },
    /// We call the person ourselves. Dropping `_alive` gives up the INVITE.
    Dialling {
        to: String,
        /// The peer may still connect the person.
        refer: OpenRefer,
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
            asked: Some(asked),
            until,
            ..
        }) => tokio::select! {
            response = asked.answers.recv() => TransferStep::Referred(response),
            () = sleep_until(*until) => TransferStep::Late,
        },
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
            self.note_second_leg(&to, NO_TRANSFER);
            return self.not_transferred(NO_TRANSFER);
        }
        let refers = match trunk.transfer {
            _ if trunk.is_whatsapp() || trunk.transfer_trunk.is_some() => false,
            TransferMethod::Auto => self.peer.refers && self.caller.is_trunk_itself,
            TransferMethod::Refer => true,
            TransferMethod::Bridge => false,
        };
        if !refers {
            return self.dial(to, OpenRefer::None).await;
        }
        let configured = outbound::configured(trunk, &to);
        let source = || outbound::at_source(&to, &self.flow, &self.dialog.target);
        let target = configured.map_or_else(source, |(uri, _)| uri);
        let mut request = self.dialog.request(Method::Refer);
        request.headers.push("Refer-To", &format!("<{target}>"));
        request.headers.push("Referred-By", &self.dialog.contact);
        let asked = self.ask(request);
        let is_asked = asked.is_some();
        let asked = asked.map(Box::new);
        self.transfer = Some(CallTransfer::Referred {
            to,
            asked,
            until: self.reported_until(),
            progress: ReferProgress::None,
            is_cancelled: false,
        });
        match is_asked {
            true => self.direct(Control::Ring(true)).await,
            false => self.refer_failed(ReferFailure::Unsent).await,
        }
    }

    /// Calls the person, over the caller's trunk unless another is named for that. It is done in a task of its own: the caller may
    /// hang up while servers are looked up.
    pub(super) async fn dial(&mut self, to: String, refer: OpenRefer) {
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
        let source = || outbound::at_source(&to, &self.flow, &self.dialog.target);
        let (uri, proxy) = configured.unwrap_or_else(|| (source(), None));
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
            refer,
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
                self.refer_accepted();
            }
            TransferStep::Referred(Some(response)) if self.proves_refer(&response) => {}
            TransferStep::Referred(response) => {
                let failure = match response {
                    Some(response) => ReferFailure::Refused(response.status),
                    None => {
                        self.route.forget();
                        ReferFailure::Unknown
                    }
                };
                self.refer_failed(failure).await;
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
            TransferStep::Parted(Parting::MediaLost) => {
                self.notify(LegEvent::MediaLost);
                return Some("no media comes any more".to_owned());
            }
        }
        None
    }

    fn note_second_leg(&self, to: &str, why: &str) {
        let (trunk, ip) = (&self.caller.trunk.name, self.flow.remote.ip());
        let refusals = &self.shared.refusals;
        refusals.note_person(trunk, "second_leg", (None, why), ip, to);
    }

    async fn join(&mut self, second: Leg) {
        let Some(CallTransfer::Dialling { to, .. }) = self.transfer.take() else {
            return;
        };
        if self.media.is_none() {
            let why = "the call has no media";
            self.note_second_leg(&to, why);
            return self.not_transferred(why);
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
            Some(CallTransfer::Dialling { refer, .. }) => *refer == OpenRefer::Accepted,
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

    pub(super) fn not_transferred(&self, why: &str) {
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
