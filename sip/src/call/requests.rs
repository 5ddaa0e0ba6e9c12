//! Requests that we send inside a call: sent, authenticated if the trunk demands it (RFC 3261, 22.2), and acknowledged.

use std::{
    io,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use futures_util::{FutureExt, future::BoxFuture};
use tokio::{sync::mpsc, task::JoinHandle};

use super::{Call, CallParties, outbound::credentials_within};
use crate::{
    digest::answers::ChallengeAnswers,
    message::{SipRequest, SipResponse},
    shared::{Shared, token},
    transport::Flow,
};

/// Supported extensions in our requests. We accept provisional responses that require a PRACK, but send none ourselves.
pub const SUPPORTED_IN_REQUESTS: &str = "timer";

/// A request that waits for its response.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: SipRequest,
    pub answers: mpsc::Receiver<SipResponse>,
    /// The address that the request was sent to, once its route is found.
    peer: Arc<OnceLock<IpAddr>>,
    /// Its credentials.
    proofs: ChallengeAnswers,
}

impl Call {
    /// The route of our requests inside the dialog.
    fn route(&self) -> BoxFuture<'static, io::Result<Flow>> {
        let (shared, caller) = (&self.shared, &self.caller);
        self.route.find(shared, caller, &self.dialog, &self.flow)
    }

    /// Sends a request inside the dialog. The call does not wait for its route.
    pub(super) fn ask(&self, request: SipRequest) -> Option<PendingRequest> {
        let keys = (!request.body.is_empty()).then(|| self.session.srtp());
        let (shared, peer) = (self.shared.clone(), Arc::<OnceLock<_>>::default());
        let (sent, reached) = (request.clone(), peer.clone());
        let send = move |flow: Flow| {
            if keys.is_some_and(|srtp| !srtp.admits(flow.transport)) {
                tracing::info!(
                    "a request with keys of a call was not sent, because its peer left TLS"
                );
                return None;
            }
            let _ = reached.set(flow.remote.ip());
            Some(shared.ask(sent, &flow))
        };
        let answers = match once_routed(self.route(), send) {
            Ok(answers) => answers?,
            Err(sent) => forwarded(sent),
        };
        Some(PendingRequest {
            peer,
            answers,
            request,
            proofs: ChallengeAnswers::default(),
        })
    }

    /// Repeats a challenged request with credentials, once for each challenger. Only the call's own trunk gets them: others could
    /// use the response to guess the password.
    pub(super) fn prove(
        &mut self,
        asked: &PendingRequest,
        response: &SipResponse,
    ) -> Option<PendingRequest> {
        let peer = *asked.peer.get()?;
        if !is_of_the_trunk(&self.shared, &self.caller, peer) {
            return None;
        }
        let is_outbound = self.caller.outbound == Some(peer);
        let credentials = credentials_within(&self.caller.trunk, is_outbound)?;
        let number = self.dialog.local_seq + 1;
        let mut proofs = asked.proofs.clone();
        let next = (number, &*token());
        let request = proofs.repeat(&asked.request, response, credentials, next)?;
        self.dialog.local_seq = number;
        Some(PendingRequest {
            proofs,
            ..self.ask(request)?
        })
    }

    /// Acknowledges the 2xx to an INVITE of ours, and every retransmission of it. If the route is known, it is sent at once, so that
    /// no later BYE overtakes it.
    pub(super) fn acknowledge(&self, invited: PendingRequest) {
        let PendingRequest {
            request, answers, ..
        } = invited;
        let (shared, caller, dialog) = (
            self.shared.clone(),
            self.caller.clone(),
            self.dialog.clone(),
        );
        let send = move |flow: Flow| {
            let may_prove = is_of_the_trunk(&shared, &caller, flow.remote.ip());
            let ack = dialog.ack(&request, may_prove);
            repeat_ack(shared.with_via(ack, &flow), flow, answers);
            Some(())
        };
        // Without a route nothing is sent, and the peer ends the call.
        drop(once_routed(self.route(), send));
    }
}

/// True if this address may get the credentials of the call's trunk.
fn is_of_the_trunk(shared: &Shared, caller: &CallParties, ip: IpAddr) -> bool {
    caller.outbound == Some(ip) || shared.registrars.is_of(&caller.trunk, ip)
}

/// The result of sending over a route, or the task that sends once the route is found; `None` without a route.
pub type Routed<T> = Result<Option<T>, JoinHandle<Option<T>>>;

/// Sends over a route: at once if it is ready, else in a task of its own.
pub fn once_routed<T: Send + 'static>(
    mut route: BoxFuture<'static, io::Result<Flow>>,
    send: impl FnOnce(Flow) -> Option<T> + Send + 'static,
) -> Routed<T> {
    let reached = |found: io::Result<Flow>| {
        let told =
            |error: &io::Error| tracing::debug!(%error, "the peer of a call cannot be reached");
        found.inspect_err(told).ok()
    };
    match (&mut route).now_or_never() {
        Some(found) => Ok(reached(found).and_then(send)),
        None => Err(tokio::spawn(
            async move { reached(route.await).and_then(send) },
        )),
    }
}

/// The responses to a request that is sent by a task; none if it is not sent. The task ends with the receiver.
fn forwarded(sent: JoinHandle<Option<mpsc::Receiver<SipResponse>>>) -> mpsc::Receiver<SipResponse> {
    let (told, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        let forward = async {
            let Ok(Some(mut answers)) = sent.await else {
                return;
            };
            while let Some(answer) = answers.recv().await {
                let _ = told.send(answer).await;
            }
        };
        tokio::select! {
            () = forward => {}
            () = told.closed() => {}
        }
    });
    answers
}

/// Sends an ACK, and again for each retransmission of the 2xx.
fn repeat_ack(ack: SipRequest, flow: Flow, mut answers: mpsc::Receiver<SipResponse>) {
    let bytes = ack.to_bytes();
    flow.send(&bytes);
    tokio::spawn(async move {
        while answers.recv().await.is_some() {
            flow.send(&bytes);
        }
    });
}
