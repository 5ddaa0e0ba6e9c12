//! Requests that we send inside a call: sent, authenticated if the trunk demands it (RFC 3261, 22.2), and acknowledged.

use std::{io, net::IpAddr};

use tokio::sync::mpsc;

use super::{Call, outbound::credentials_within};
use crate::{
    digest::{Authorization, strongest},
    message::{SipRequest, SipResponse},
    settings::Credentials,
    shared::token,
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
    async fn way(&self) -> io::Result<Flow> {
        let trunk = self.caller.named_by_trunk();
        self.shared
            .flow_within(trunk, &self.dialog, &self.flow)
            .await
    }

    /// Sends a request inside the dialog.
    pub(super) async fn ask(&self, request: SipRequest) -> Option<PendingRequest> {
        match self.way().await {
            Ok(flow) => Some(PendingRequest {
                answers: self.shared.ask(request.clone(), &flow),
                request,
                peer: flow.remote.ip(),
                is_proven: false,
            }),
            Err(error) => {
                tracing::debug!(%error, "the peer of a call cannot be reached");
                None
            }
        }
    }

    /// Repeats a challenged request once, with credentials. Only the call's own trunk gets them: others could use the response to
    /// guess the password.
    pub(super) async fn prove(
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
            ..self.ask(request).await?
        })
    }

    /// True if this address may get the trunk's credentials.
    pub(super) fn is_of_the_trunk(&self, ip: IpAddr) -> bool {
        self.caller.outbound == Some(ip) || self.shared.registrars.is_of(&self.caller.trunk, ip)
    }

    /// Acknowledges the 2xx to an INVITE of ours, and every retransmission of it.
    pub(super) async fn acknowledge(&self, invited: PendingRequest) {
        let PendingRequest {
            request,
            mut answers,
            ..
        } = invited;
        let Ok(flow) = self.way().await else {
            return;
        };
        let ack = self
            .dialog
            .ack(&request, self.is_of_the_trunk(flow.remote.ip()));
        let ack = self.shared.with_via(ack, &flow);
        let bytes = ack.to_bytes();
        flow.send(&bytes);
        tokio::spawn(async move {
            while answers.recv().await.is_some() {
                flow.send(&bytes);
            }
        });
    }
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
