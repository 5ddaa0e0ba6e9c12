//! The INVITEs of a second leg: what all tries have in common, and which further tries it has had. Pure.

use super::{CallParties, outbound, requests::SUPPORTED_IN_REQUESTS};
use crate::{
    dialog,
    digest::answers::ChallengeAnswers,
    message::{Host, Method, NameAddr, SipRequest, SipResponse, Uri},
    numbers::{Number, e164},
    settings::Credentials,
    shared::ALLOW,
};

/// The longest session interval that a peer may demand: a day.
const SESSION_SECONDS_MAX: u32 = 86_400;
/// The session interval that is asked for.
const SESSION_SECONDS: u32 = 1_800;

/// A call to a person over all its tries: with credentials for each challenger, a longer session timer, or at another address.
#[derive(Debug)]
pub struct Invitation {
    /// The Request-URI.
    uri: Uri,
    to: Uri,
    call_id: String,
    tag: String,
    number: u32,
    /// The session interval that the other side demands at least.
    min_seconds: Option<u32>,
    /// The credentials at this address.
    proofs: ChallengeAnswers,
    is_redirected: bool,
    /// The last INVITE, without Via.
    last: Option<SipRequest>,
}

/// The parts of an INVITE that depend on its route.
#[derive(Debug)]
pub struct InviteParts {
    /// Our Contact, and host and port in it.
    pub contact: String,
    pub own: (Host, u16),
    /// The Route header.
    pub route: Option<String>,
    pub offer: String,
}

impl Invitation {
    pub fn new(uri: Uri, call_id: String, tag: String) -> Self {
        Self {
            to: uri.clone(),
            uri,
            call_id,
            tag,
            number: 0,
            min_seconds: None,
            proofs: ChallengeAnswers::default(),
            is_redirected: false,
            last: None,
        }
    }

    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Key of the dialog.
    pub fn key(&self) -> String {
        dialog::key(&self.call_id, &self.tag)
    }

    /// The next INVITE, without Via.
    pub fn next(&mut self, caller: &CallParties, parts: InviteParts) -> SipRequest {
        self.proofs = ChallengeAnswers::default();
        self.number += 1;
        let CallParties { trunk, number, .. } = caller;
        let did = caller.did();
        let from = outbound::from(trunk, did, number, parts.own);
        let mut invite = SipRequest::new(Method::Invite, self.uri.clone());
        let headers = &mut invite.headers;
        if let Some(route) = &parts.route {
            headers.push("Route", route);
        }
        for (name, value) in [
            ("Max-Forwards", "70".to_owned()),
            ("From", format!("<{from}>;tag={}", self.tag)),
            ("To", format!("<{}>", self.to)),
            ("Call-ID", self.call_id.clone()),
            ("CSeq", format!("{} INVITE", self.number)),
            ("Contact", parts.contact),
            ("Allow", ALLOW.to_owned()),
            ("Content-Type", "application/sdp".to_owned()),
        ] {
            headers.push(name, &value);
        }
        if trunk.has_session_timer() {
            // The peer refreshes, if it supports session timers.
            let seconds = self.min_seconds.unwrap_or(SESSION_SECONDS);
            headers.push("Supported", SUPPORTED_IN_REQUESTS);
            headers.push("Session-Expires", &format!("{seconds};refresher=uas"));
        }
        if let Some(least) = self.min_seconds {
            headers.push("Min-SE", &least.to_string());
        }
        outbound::identify(&mut invite, &from, did);
        invite.body = parts.offer.into_bytes();
        self.last = Some(invite.clone());
        invite
    }

    /// The last INVITE with the credentials that its responses demand; `None` if it had them, or they cannot be given.
    pub fn prove(
        &mut self,
        response: &SipResponse,
        ours: &Credentials,
        cnonce: &str,
    ) -> Option<SipRequest> {
        let next = (self.number + 1, cnonce);
        let last = self.last.as_ref()?;
        let again = self.proofs.repeat(last, response, ours, next)?;
        self.number += 1;
        Some(again)
    }

    /// Agrees to a demand for a longer session interval (RFC 4028, 7.3). False if we asked for no session timer, or it is
    /// demanded again.
    pub fn lengthen(&mut self, response: &SipResponse) -> bool {
        let asked = self.last.as_ref();
        let is_timed = asked.is_some_and(|last| last.headers.get("Session-Expires").is_some());
        let least = response.headers.get("Min-SE");
        let least: Option<u32> = least.and_then(|least| least.trim().parse().ok());
        let least = least.filter(|least| *least <= SESSION_SECONDS_MAX);
        if !is_timed || least.is_none() || self.min_seconds.is_some() {
            return false;
        }
        self.min_seconds = least;
        true
    }

    /// The address of a redirection. It must name the dialled number: another one has not passed the rules for transfers.
    pub fn redirection(&self, response: &SipResponse, prefix: Option<&str>) -> Option<Uri> {
        let contact: NameAddr = response.headers.first("Contact")?.parse().ok()?;
        let dialled = &self.uri.user;
        let leads = matches!(contact.uri.scheme.as_str(), "sip" | "sips");
        let number = e164(&contact.uri.user, prefix);
        let is_same = matches!(number, Number::E164(_)) && number == e164(dialled, prefix);
        (leads && is_same && !self.is_redirected).then(|| Uri {
            user: dialled.clone(),
            headers: None,
            ..contact.uri
        })
    }

    /// Follows a redirection.
    pub fn redirect(&mut self, to: Uri) {
        self.is_redirected = true;
        self.uri = to;
    }
}
