//! The second leg of a transfer: the servers that are tried, and the outcome.

use std::net::{IpAddr, Ipv4Addr};

use futures_util::future::BoxFuture;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Duration, Instant, timeout},
};

use super::{
    AnswerSdp, Call, Control, ORDERS, Peer,
    attempt::Attempt,
    invitation::Invitation,
    no_leg::NoLeg,
    outbound,
    outgoing_leg::{OutgoingLeg, RedirectingServer, is_ours},
    route::DialogRoute,
    session_timer,
};
use crate::{
    leg::Leg, message::SipResponse, settings::Srtp, shared::token, statistics::count,
    transport::Flow, whatsapp::MediaRules,
};

/// The longest ringing of the person's phone.
const RINGS: Duration = Duration::from_secs(60);
/// With another server left, one that gives no sign of life is waited for this long: over UDP the INVITE was sent four times.
const NEXT_SERVER_AFTER: Duration = Duration::from_secs(4);
/// The longest look-up of further servers while one is connected.
const OTHERS_FOUND: Duration = Duration::from_millis(500);
const GONE: &str = "the caller is gone";
/// Why nobody is called without TLS if `srtp` is `required`.
const NEEDS_TLS: &str = "encrypted media is required, and the trunk is not called over TLS; set transport=tls in its address";

/// The outcome of waiting for a response.
enum PersonStep {
    Response(SipResponse),
    Silence,
    /// No response yet, and another server may be quicker.
    Late,
    /// We give the call up.
    GivenUp(NoLeg),
}

impl OutgoingLeg {
    /// Calls the person. Returns the established leg, or why there is none. The call is given up when `alive` is closed. Boxed,
    /// because the second leg may be transferred in turn.
    pub fn dial(self, alive: oneshot::Receiver<()>) -> BoxFuture<'static, Result<Leg, String>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let trunk = self.caller.trunk.name.clone();
            let to = self.to.uri.user.clone();
            let persons = &shared.counters.persons;
            let mut plan = self;
            match plan.run(alive).await {
                Ok(leg) => {
                    count(&persons.answered, 1);
                    Ok(leg)
                }
                Err(none) => {
                    count((none.counted)(persons), 1);
                    let failed = (none.status, none.why.as_str());
                    let ip = plan.tried.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
                    // A caller who hangs up is no fault of the trunk.
                    if none.why != GONE {
                        let refusals = &shared.refusals;
                        refusals.note_person(&trunk, "second_leg", failed, ip, &to);
                    }
                    Err(none.why)
                }
            }
        })
    }

    async fn run(&mut self, alive: oneshot::Receiver<()>) -> Result<Leg, NoLeg> {
        if self.to.is_limited {
            let line = self.shared.lines.begin_second_leg(&self.caller.trunk);
            self.line = Some(line.map_err(|(_, words)| words)?);
        }
        let (attempt, response) = self.answered(alive).await?;
        let dialog = attempt.dialog(&response);
        let dialog = dialog.ok_or("the other side's answer names no way to it")?;
        let terms = attempt.terms(&response);
        let Attempt {
            flow,
            session,
            mut early,
            inbox,
            registration,
            invite,
            answers,
            ..
        } = attempt;
        let route = DialogRoute::default();
        let way = self.acknowledge(&route, &dialog, &flow, (invite, answers));
        let terms = match terms {
            Ok(terms) => terms,
            Err(refused) => {
                self.let_go(dialog, way);
                return Err(refused.words.into());
            }
        };
        let timer = match self.caller.trunk.has_session_timer() {
            true => session_timer::accepted(&response.headers),
            false => None,
        };
        early.drop_received();
        let (orders, ordered) = mpsc::channel(ORDERS);
        let mut call = Call {
            shared: self.shared.clone(),
            caller: self.caller.clone(),
            flow,
            dialog,
            route,
            session,
            sockets: early.sockets,
            terms: None,
            taking: AnswerSdp::Agreed,
            media: early.media,
            timer,
            peer: Peer::of(&response.headers),
            inbox,
            orders: ordered,
            speech: early.spoken,
            events: early.events,
            transfer: None,
            begun: Instant::now(),
            registration,
            line: self.line.take(),
            is_callers: false,
        };
        if !call.agreed(terms).await {
            self.let_go(call.dialog.clone(), way);
            return Err("the media cannot be started".into());
        }
        call.direct(Control::Begin).await;
        tokio::spawn(call.run_established(None));
        Ok(Leg {
            orders,
            speech: early.speech,
            events: early.received,
        })
    }

    /// Sends INVITEs until a phone answers, or no response allows another try.
    async fn answered(
        &mut self,
        mut alive: oneshot::Receiver<()>,
    ) -> Result<(Attempt, SipResponse), NoLeg> {
        let call_id = format!("{}@{}", token(), self.shared.user_agent.name);
        let mut invitation = Invitation::new(self.to.uri.clone(), call_id, token());
        let first = self.first(&mut invitation);
        let mut attempt = while_alive(&mut alive, first).await?;
        let until = Instant::now() + RINGS;
        loop {
            let response = match self.next(&mut attempt, &mut alive, until).await {
                PersonStep::Response(response) => response,
                PersonStep::Silence => {
                    let silent = "the trunk does not answer".into();
                    let next = self.elsewhere(attempt, &mut invitation, silent);
                    attempt = while_alive(&mut alive, next).await?;
                    continue;
                }
                PersonStep::Late => {
                    let left = self.targets.clone();
                    let next = self.flow(Some(attempt.flow.clone()));
                    let next = async {
                        tokio::select! {
                            biased;
                            response = attempt.answers.recv() => Ok(Err(response)),
                            // Without another server this one may still answer.
                            flow = next => Ok(Ok(flow.ok())),
                        }
                    };
                    match while_alive(&mut alive, next).await? {
                        Ok(Some(flow)) => {
                            self.leave(attempt);
                            attempt = self.call_at(flow, &mut invitation)?;
                            continue;
                        }
                        Ok(None) => continue,
                        // The next server is still to be tried.
                        Err(response) => {
                            self.targets = left;
                            match response {
                                Some(response) => response,
                                None => continue,
                            }
                        }
                    }
                }
                PersonStep::GivenUp(why) => {
                    attempt.early.end();
                    self.give_up(attempt).await;
                    return Err(why);
                }
            };
            match response.status {
                ..200 => attempt.rings(&self.shared, &response).await,
                200..300 => return Ok((attempt, response)),
                300.. => {
                    let next = self.again(attempt, &mut invitation, &response);
                    attempt = while_alive(&mut alive, next).await?;
                }
            }
        }
    }

    async fn next(
        &self,
        attempt: &mut Attempt,
        alive: &mut oneshot::Receiver<()>,
        until: Instant,
    ) -> PersonStep {
        let is_late = !attempt.has_rung && !self.targets.is_empty();
        let late = is_late.then_some(attempt.sent_at + NEXT_SERVER_AFTER);
        loop {
            let why = tokio::select! {
                response = attempt.answers.recv() => {
                    return response.map_or(PersonStep::Silence, PersonStep::Response);
                }
                Some(message) = attempt.inbox.recv() => {
                    match self.hangs_up_early(&attempt.contact, message) {
                        true => NoLeg::refused(None, "the other side hung up"),
                        false => continue,
                    }
                }
                () = attempt.early.pass() => continue,
                _ = &mut *alive => NoLeg::cancelled(GONE),
                () = tokio::time::sleep_until(late.unwrap_or(until)), if is_late => {
                    return PersonStep::Late;
                }
                () = tokio::time::sleep_until(until) => {
                    NoLeg::cancelled("nobody answered in time")
                }
            };
            return PersonStep::GivenUp(why);
        }
    }

    /// Calls the person at the first server.
    async fn first(&mut self, invitation: &mut Invitation) -> Result<Attempt, NoLeg> {
        let known = self.to.known.as_ref();
        let connected = known.filter(|known| known.is_reliable() && known.is_open());
        let place = self.to.proxy.as_ref().unwrap_or(&self.to.uri);
        let found = self.shared.targets(place, known);
        let flow = match connected {
            Some(connected) => {
                // The others are for its failure, and not worth a wait.
                let found = timeout(OTHERS_FOUND, found).await;
                self.targets = found.ok().and_then(Result::ok).unwrap_or_default();
                // A carrier that has connected to us is found by its other port.
                let remote = (connected.transport, connected.remote.ip());
                self.targets
                    .retain(|target| (target.transport, target.address.ip()) != remote);
                connected.clone()
            }
            None => {
                self.targets = found.await.map_err(|error| unreachable(&error))?;
                self.flow(known.cloned()).await?
            }
        };
        if !self.srtp().admits(flow.transport) {
            return Err(NEEDS_TLS.into());
        }
        self.call_at(flow, invitation)
    }

    /// Sends the INVITE to this server. One that the operator configured gets the trunk's credentials, and so does a registrar of
    /// the trunk. A server that a redirection named gets them only if it sent the redirection itself.
    fn call_at(&mut self, flow: Flow, invitation: &mut Invitation) -> Result<Attempt, NoLeg> {
        let ip = flow.remote.ip();
        self.tried = Some(ip);
        let is_ours = is_ours(
            ip,
            self.to.is_configured,
            self.caller.outbound,
            self.redirected_by,
        );
        let trunk = &self.caller.trunk;
        let may_know = is_ours || self.shared.registrars.is_of(trunk, ip);
        self.credentials = outbound::credentials(trunk).filter(|_| may_know).cloned();
        self.caller.outbound = (self.to.is_configured && is_ours).then_some(ip);
        self.begin(flow, invitation)
    }

    fn srtp(&self) -> Srtp {
        MediaRules::of(&self.shared.settings, &self.caller.trunk).srtp
    }

    /// The route to the next server that can be reached.
    async fn flow(&mut self, known: Option<Flow>) -> Result<Flow, NoLeg> {
        let srtp = self.srtp();
        let found = self.targets.len();
        self.targets.retain(|target| srtp.admits(target.transport));
        if found > 0 && self.targets.is_empty() {
            return Err(NEEDS_TLS.into());
        }
        let (targets, host) = (&mut self.targets, &self.host);
        let flow = self.shared.flow_among(targets, host, known.as_ref()).await;
        flow.map_err(|error| unreachable(&error))
    }

    /// Calls the person at the next server (RFC 3263, 4.3). `otherwise`: the reason without one.
    async fn elsewhere(
        &mut self,
        before: Attempt,
        invitation: &mut Invitation,
        otherwise: NoLeg,
    ) -> Result<Attempt, NoLeg> {
        let Ok(flow) = self.flow(Some(before.flow.clone())).await else {
            return Err(otherwise);
        };
        // Its registration has the same key.
        drop(before);
        self.call_at(flow, invitation)
    }

    /// Another try after a refusal.
    async fn again(
        &mut self,
        mut attempt: Attempt,
        invitation: &mut Invitation,
        refusal: &SipResponse,
    ) -> Result<Attempt, NoLeg> {
        let status = refusal.status;
        let not_taken = || NoLeg::refused(Some(status), not_taken(status));
        match refusal.status {
            401 | 407 => {
                let ours = self.credentials.as_ref();
                let again = ours.and_then(|ours| invitation.prove(refusal, ours, &token()));
                let why = "the trunk asks for other credentials";
                let why = || NoLeg::refused(Some(status), why);
                attempt.send(&self.shared, again.ok_or_else(why)?);
                Ok(attempt)
            }
            422 if invitation.lengthen(refusal) => {
                self.repeat(&mut attempt, invitation);
                Ok(attempt)
            }
            503 => self.elsewhere(attempt, invitation, not_taken()).await,
            300..=399 => self.redirected(attempt, invitation, refusal).await,
            _ => Err(not_taken()),
        }
    }

    /// Follows a redirection to another address of the same number. Only a trunk is followed, to public addresses and its own, and
    /// other addresses get no credentials.
    async fn redirected(
        &mut self,
        mut attempt: Attempt,
        invitation: &mut Invitation,
        refusal: &SipResponse,
    ) -> Result<Attempt, NoLeg> {
        let status = refusal.status;
        let not_taken = || NoLeg::refused(Some(status), not_taken(status));
        let trunk = self.caller.named_by_trunk().ok_or_else(not_taken)?;
        let to = invitation.redirection(refusal, trunk.prefix.as_deref());
        let to = to.ok_or_else(not_taken)?;
        invitation.redirect(to.clone());
        if self.to.proxy.is_some() {
            self.repeat(&mut attempt, invitation);
            return Ok(attempt);
        }
        let before = attempt.flow.clone();
        self.targets = self.shared.targets_named(trunk, &to, &before).await;
        self.host = to.host;
        self.redirected_by = Some(RedirectingServer {
            ip: before.remote.ip(),
            is_ours: self.credentials.is_some(),
        });
        let flow = self.flow(Some(before)).await?;
        drop(attempt);
        self.call_at(flow, invitation)
    }
}

/// Stops when the call is given up.
async fn while_alive<T>(
    alive: &mut oneshot::Receiver<()>,
    step: impl Future<Output = Result<T, NoLeg>>,
) -> Result<T, NoLeg> {
    tokio::select! {
        biased;
        _ = alive => Err(NoLeg::cancelled(GONE)),
        done = step => done,
    }
}

fn unreachable(error: &std::io::Error) -> NoLeg {
    tracing::debug!(%error, "the trunk of a call cannot be reached");
    "the trunk cannot be reached".into()
}

/// The reason why a person is not reached, in words.
pub fn not_taken(status: u16) -> String {
    format!("the other side did not take the call (status {status})")
}
