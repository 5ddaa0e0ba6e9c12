//! Requests that we send inside a call: sent, authenticated if the trunk demands it (RFC 3261, 22.2), and acknowledged.

use std::{io, net::IpAddr, sync::Arc};

use tokio::sync::mpsc;

use super::{Call, outbound::credentials_within};
use crate::{
    digest::{Authorization, strongest},
    message::{SipRequest, SipResponse},
    settings::Credentials,
    shared::{DialogRoute, Shared, token},
    transport::Flow,
};

/// Supported extensions in our requests. We accept provisional responses that require a PRACK, but send none ourselves.
pub const SUPPORTED_IN_REQUESTS: &str = "timer";

/// A request that waits for its response.
#[derive(Debug)]
pub struct PendingRequest {
    pub request: SipRequest,
    pub answers: mpsc::Receiver<SipResponse>,
    /// The address that the request was sent to.
    peer: IpAddr,
    is_proven: bool,
}

impl Call {
    /// The route of our requests inside the dialog.
    fn route(&self) -> io::Result<DialogRoute> {
        let trunk = self.caller.named_by_trunk();
        self.shared.route_within(trunk, &self.dialog, &self.flow)
    }

    /// Sends a request inside the dialog. The call does not wait for a connection that has to be opened for it.
    pub(super) fn ask(&self, request: SipRequest) -> Option<PendingRequest> {
        let admitted = |route: &DialogRoute| {
            request.body.is_empty() || self.session.admits_keys_over(route.transport())
        };
        let route = match self.route() {
            Ok(route) if admitted(&route) => route,
            Ok(_) => {
                tracing::info!(
                    "a request with keys of a call was not sent, because its peer left TLS"
                );
                return None;
            }
            Err(error) => {
                tracing::debug!(%error, "the peer of a call cannot be reached");
                return None;
            }
        };
        Some(PendingRequest {
            peer: route.address().ip(),
            answers: asked(self.shared.clone(), request.clone(), route),
            request,
            is_proven: false,
        })
    }

    /// Repeats a challenged request once, with credentials. Only the call's own trunk gets them: others could use the response to
    /// guess the password.
    pub(super) fn prove(
        &mut self,
        asked: &PendingRequest,
        response: &SipResponse,
    ) -> Option<PendingRequest> {
        if asked.is_proven || !self.is_of_the_trunk(asked.peer) {
            return None;
        }
        let is_outbound = self.caller.outbound == Some(asked.peer);
        let credentials = credentials_within(&self.caller.trunk, is_outbound)?;
        let number = self.dialog.local_seq + 1;
        let request = proven(&asked.request, response, credentials, number)?;
        self.dialog.local_seq = number;
        Some(PendingRequest {
            is_proven: true,
            ..self.ask(request)?
        })
    }

    /// True if this address may get the trunk's credentials.
    pub(super) fn is_of_the_trunk(&self, ip: IpAddr) -> bool {
        self.caller.outbound == Some(ip) || self.shared.registrars.is_of(&self.caller.trunk, ip)
    }

    /// Acknowledges the 2xx to an INVITE of ours, and every retransmission of it.
    pub(super) fn acknowledge(&self, invited: PendingRequest) {
        let PendingRequest {
            request, answers, ..
        } = invited;
        let Ok(route) = self.route() else {
            return;
        };
        let may_prove = self.is_of_the_trunk(route.address().ip());
        let ack = self.dialog.ack(&request, may_prove);
        let shared = self.shared.clone();
        match route {
            // At once, so that no later BYE overtakes it.
            DialogRoute::Open(flow) => repeat_ack(shared.with_via(ack, &flow), flow, answers),
            route @ DialogRoute::Connection { .. } => {
                tokio::spawn(async move {
                    if let Ok(flow) = shared.open(route).await {
                        repeat_ack(shared.with_via(ack, &flow), flow, answers);
                    }
                });
            }
        }
    }
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

/// Sends a request, at once if its route is open. Returns the responses; none if the route cannot be opened.
fn asked(
    shared: Arc<Shared>,
    request: SipRequest,
    route: DialogRoute,
) -> mpsc::Receiver<SipResponse> {
    if let DialogRoute::Open(flow) = &route {
        return shared.ask(request, flow);
    }
    let (told, answers) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut answers = match shared.open(route).await {
            Ok(flow) => shared.ask(request, &flow),
            Err(error) => return tracing::debug!(%error, "the peer of a call cannot be reached"),
        };
        while let Some(answer) = answers.recv().await {
            if told.send(answer).await.is_err() {
                return;
            }
        }
    });
    answers
}

/// The request with a new CSeq number and the credentials that the response demands. `None` if it demands none, or unsupported
/// ones.
pub fn proven(
    request: &SipRequest,
    response: &SipResponse,
    credentials: &Credentials,
    number: u32,
) -> Option<SipRequest> {
    let (asks, answers) = match response.status {
        401 => ("WWW-Authenticate", "Authorization"),
        407 => ("Proxy-Authenticate", "Proxy-Authorization"),
        _ => return None,
    };
    let challenge = strongest(response.headers.all(asks))?;
    let method = request.method.name();
    let uri = request.uri.to_string();
    let proof = Authorization::to(&challenge, credentials, method, &uri, 1, &token());
    let mut proven = request.clone();
    proven.headers.push(answers, &proof.to_string());
    proven.headers.set("CSeq", &format!("{number} {method}"));
    Some(proven)
}
