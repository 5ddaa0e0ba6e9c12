//! A SIP dialog: headers and destination of the requests inside a call (RFC 3261, 12). Pure.

pub mod attempts;
pub mod open_dialogs;

use crate::message::{Headers, Method, NameAddr, SipRequest, Uri, Via};

#[derive(Debug, Clone)]
pub struct Dialog {
    pub call_id: String,
    /// Our address with our tag; the next field is the peer's.
    pub local: String,
    pub remote: String,
    pub local_tag: String,
    /// `None` for peers of RFC 2543.
    remote_tag: Option<String>,
    pub local_seq: u32,
    pub remote_seq: u32,
    /// The peer's Contact: the target of requests.
    pub target: Uri,
    pub routes: Vec<NameAddr>,
    /// Our Contact.
    pub contact: String,
}

impl Dialog {
    /// The dialog that a caller's INVITE begins; `None` without an address for requests to the caller.
    pub fn of_invite(request: &SipRequest, tag: &str, contact: String) -> Option<Self> {
        let headers = &request.headers;
        let target: NameAddr = match headers.first("Contact") {
            Some(named) => named.parse().ok()?,
            // Peers of RFC 2543, without an RFC 3261 branch, get requests at their From address.
            None if !bears_a_branch(headers) => headers.get("From")?.parse().ok()?,
            None => return None,
        };
        let to = headers.get("To")?;
        Some(Self {
            call_id: headers.call_id().to_owned(),
            local: format!("{to};tag={tag}"),
            remote: headers.get("From")?.to_owned(),
            local_tag: tag.to_owned(),
            remote_tag: headers.tag("From"),
            local_seq: 0,
            remote_seq: headers.cseq()?.0,
            target: target.uri,
            routes: routes(headers),
            contact,
        })
    }

    /// The dialog that our INVITE has begun, from a response to it. A peer without a usable Contact gets requests where the INVITE
    /// went.
    pub fn of_response(invite: &SipRequest, response: &Headers, contact: String) -> Option<Self> {
        let contact_of = response.first("Contact");
        let target: Option<NameAddr> = contact_of.and_then(|named| named.parse().ok());
        let mut routes = routes(response);
        routes.reverse();
        Some(Self {
            call_id: invite.headers.call_id().to_owned(),
            local: invite.headers.get("From")?.to_owned(),
            remote: response.get("To")?.to_owned(),
            local_tag: invite.headers.tag("From")?,
            remote_tag: response.tag("To"),
            local_seq: invite.headers.cseq()?.0,
            remote_seq: 0,
            target: target.map_or_else(|| invite.uri.clone(), |target| target.uri),
            routes,
            contact,
        })
    }

    /// The next request inside the dialog, without Via.
    pub fn request(&mut self, method: Method) -> SipRequest {
        self.local_seq += 1;
        self.numbered(method, self.local_seq)
    }

    /// The ACK of the 2xx to our INVITE, with the INVITE's number. An ACK to the trunk carries the INVITE's credentials (RFC
    /// 3261, 13.2.2.4).
    pub fn ack(&self, invite: &SipRequest, is_to_the_trunk: bool) -> SipRequest {
        let number = invite.headers.cseq().map_or(1, |(number, _)| number);
        let mut ack = self.numbered(Method::Ack, number);
        if !is_to_the_trunk {
            return ack;
        }
        for name in ["Authorization", "Proxy-Authorization"] {
            for proof in invite.headers.all(name) {
                ack.headers.push(name, proof);
            }
        }
        ack
    }

    fn numbered(&self, method: Method, number: u32) -> SipRequest {
        let mut routes: Vec<String> = self.routes.iter().map(NameAddr::to_string).collect();
        let mut uri = self.target.clone();
        if let Some(first) = self.routes.first().filter(|first| !first.uri.has("lr")) {
            // A strict router expects itself as Request-URI, and the peer as the last route.
            uri = first.uri.clone();
            routes.remove(0);
            routes.push(format!("<{}>", self.target));
        }
        let mut request = SipRequest::new(method, uri);
        let cseq = format!("{number} {}", request.method.name());
        for route in &routes {
            request.headers.push("Route", route);
        }
        request.headers.push("Max-Forwards", "70");
        request.headers.push("From", &self.local);
        request.headers.push("To", &self.remote);
        request.headers.push("Call-ID", &self.call_id);
        request.headers.push("CSeq", &cseq);
        if !matches!(request.method, Method::Ack | Method::Bye | Method::Cancel) {
            request.headers.push("Contact", &self.contact);
        }
        request
    }

    /// A request or response of the peer may change its target.
    pub fn retarget(&mut self, headers: &Headers) {
        let contact = headers.first("Contact");
        let new = contact.and_then(|contact| contact.parse().ok());
        if let Some(NameAddr { uri, .. }) = new {
            self.target = uri;
        }
    }

    /// Host, port and transport of the next request.
    pub fn next_hop(&self) -> Uri {
        match self.routes.first() {
            Some(route) => route.uri.clone(),
            None => self.target.clone(),
        }
    }

    /// True if a request, found by Call-ID and our tag, is the peer's.
    pub fn is_peers(&self, request: &Headers) -> bool {
        request.tag("From") == self.remote_tag
    }

    /// True if a response to our INVITE belongs to this dialog, not to another fork.
    pub fn is_answered_by(&self, response: &Headers) -> bool {
        response.tag("To") == self.remote_tag
    }

    /// Key of the dialog: Call-ID and our tag.
    pub fn key(&self) -> String {
        key(&self.call_id, &self.local_tag)
    }
}

pub fn key(call_id: &str, tag: &str) -> String {
    format!("{call_id}\n{tag}")
}

/// True if the request has a branch of RFC 3261.
fn bears_a_branch(headers: &Headers) -> bool {
    let via = headers.first("Via");
    let via = via.and_then(|via| via.parse::<Via>().ok());
    via.is_some_and(|via| {
        via.branch()
            .is_some_and(|branch| branch.starts_with("z9hG4bK"))
    })
}

fn routes(headers: &Headers) -> Vec<NameAddr> {
    let routes = headers.list("Record-Route");
    routes
        .iter()
        .filter_map(|route| route.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{SipMessage, parse};

    fn invite(extra: &str) -> SipRequest {
        let text = format!(
            "INVITE sip:+622150001000@10.0.0.1 SIP/2.0\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@b>;tag=f\r\n\
             To: \"Shop\" <sip:c@d>\r\nCall-ID: i\r\nCSeq: 7 INVITE\r\nContact: <sip:a@10.0.0.9:5070>\r\n{extra}\r\n"
        );
        match parse(text.as_bytes()).expect("an INVITE") {
            SipMessage::Request(request) => request,
            SipMessage::Response(_) => panic!("a response"),
        }
    }

    #[test]
    fn requests_follow_the_recorded_route() {
        let plain = invite("");
        let mut dialog = Dialog::of_invite(&plain, "t", "<sip:us>".to_owned()).expect("a dialog");
        let bye = dialog.request(Method::Bye);
        assert_eq!(bye.uri.to_string(), "sip:a@10.0.0.9:5070");
        assert_eq!(bye.headers.get("From"), Some("\"Shop\" <sip:c@d>;tag=t"));
        assert_eq!(bye.headers.get("To"), Some("<sip:a@b>;tag=f"));
        assert_eq!(bye.headers.get("CSeq"), Some("1 BYE"));

        let loose = invite("Record-Route: <sip:p1;lr>, <sip:p2;lr>\r\n");
        let mut dialog = Dialog::of_invite(&loose, "t", "<sip:us>".to_owned()).expect("a dialog");
        let bye = dialog.request(Method::Bye);
        assert_eq!(bye.uri.to_string(), "sip:a@10.0.0.9:5070");
        assert_eq!(bye.headers.list("Route"), ["<sip:p1;lr>", "<sip:p2;lr>"]);

        let strict = invite("Record-Route: <sip:p1>\r\nRecord-Route: <sip:p2;lr>\r\n");
        let mut dialog = Dialog::of_invite(&strict, "t", "<sip:us>".to_owned()).expect("a dialog");
        let bye = dialog.request(Method::Bye);
        assert_eq!(bye.uri.to_string(), "sip:p1");
        assert_eq!(
            bye.headers.list("Route"),
            ["<sip:p2;lr>", "<sip:a@10.0.0.9:5070>"]
        );
    }
}
