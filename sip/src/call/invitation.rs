//! The INVITE of a second leg over all its tries: with credentials, a longer session timer, or another address. Pure.

use super::requests::proven;
use crate::{
    message::{NameAddr, SipRequest, SipResponse, Uri},
    numbers::{Number, e164},
    settings::Credentials,
};

/// The longest session interval that a peer may demand: a day.
const SESSION_SECONDS_MAX: u32 = 86_400;

/// An INVITE without Via, and which further tries it has had: each kind at most once for one address.
#[derive(Debug)]
pub struct Invitation {
    invite: SipRequest,
    number: u32,
    is_proven: bool,
    is_longer: bool,
    is_redirected: bool,
}

impl Invitation {
    pub fn new(invite: SipRequest) -> Self {
        Self {
            invite,
            number: 1,
            is_proven: false,
            is_longer: false,
            is_redirected: false,
        }
    }

    /// The next try after a demand for credentials.
    pub fn prove(&mut self, response: &SipResponse, ours: &Credentials) -> Option<SipRequest> {
        if std::mem::replace(&mut self.is_proven, true) {
            return None;
        }
        self.number += 1;
        proven(&self.invite, response, ours, self.number)
    }

    /// The next try after a demand for a longer session interval (RFC 4028, 7.3); `None` if we asked for no session timer.
    pub fn lengthen(&mut self, response: &SipResponse) -> Option<SipRequest> {
        self.invite.headers.get("Session-Expires")?;
        let least: u32 = response.headers.get("Min-SE")?.trim().parse().ok()?;
        if least > SESSION_SECONDS_MAX || std::mem::replace(&mut self.is_longer, true) {
            return None;
        }
        let headers = &mut self.invite.headers;
        headers.set("Session-Expires", &format!("{least};refresher=uas"));
        headers.set("Min-SE", &least.to_string());
        Some(self.next())
    }

    /// The address of a redirection. It must name the dialled number: another one has not passed the rules for transfers.
    pub fn redirection(&self, response: &SipResponse, prefix: Option<&str>) -> Option<Uri> {
        let contact: NameAddr = response.headers.first("Contact")?.parse().ok()?;
        let dialled = &self.invite.uri.user;
        let leads = matches!(contact.uri.scheme.as_str(), "sip" | "sips");
        let number = e164(&contact.uri.user, prefix);
        let is_same = matches!(number, Number::E164(_)) && number == e164(dialled, prefix);
        (leads && is_same && !self.is_redirected).then(|| Uri {
            user: dialled.clone(),
            headers: None,
            ..contact.uri
        })
    }

    /// The next try after a redirection.
    pub fn redirect(&mut self, to: Uri) -> SipRequest {
        self.is_redirected = true;
        self.invite.uri = to;
        self.next()
    }

    /// The same again, for another server.
    pub fn next(&mut self) -> SipRequest {
        self.is_proven = false;
        self.number += 1;
        let cseq = format!("{} INVITE", self.number);
        self.invite.headers.set("CSeq", &cseq);
        self.invite.clone()
    }
}
