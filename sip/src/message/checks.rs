//! Checks of a request's headers, made before it is handled.

use super::{NameAddr, SipRequest, Via};

/// A request with the usual 70 hops passes at most this many.
const VIAS_MAX: usize = 71;
/// Limit for commas and semicolons, which separate elements and parameters: each costs far more than its byte.
const SEPARATORS_MAX: usize = 1_000;

/// Why a request is refused at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestFault {
    pub status: u16,
    pub words: &'static str,
}

fn fault(words: &'static str) -> RequestFault {
    RequestFault { status: 400, words }
}

/// Checks the headers that every request has (RFC 3261, 8.1.1), and returns the topmost Via.
pub fn check(request: &SipRequest) -> Result<Via, RequestFault> {
    let headers = &request.headers;
    if separators(request) > SEPARATORS_MAX {
        return Err(fault("the lists and parameters are too long"));
    }
    for (name, words) in [
        ("From", "From must be there once"),
        ("To", "To must be there once"),
        ("Call-ID", "Call-ID must be there once"),
        ("CSeq", "CSeq must be there once"),
    ] {
        if headers.all(name).count() != 1 {
            return Err(fault(words));
        }
    }
    for name in ["Max-Forwards", "Content-Type", "Event"] {
        if headers.all(name).count() > 1 {
            return Err(fault("a header that stands once is there twice"));
        }
    }
    for name in ["From", "To"] {
        let address = headers.get(name).unwrap_or_default();
        address
            .parse::<NameAddr>()
            .map_err(|()| fault("From or To is no address"))?;
    }
    if headers
        .tag("From")
        .is_some_and(|tag| tag.is_empty() || tag.len() > 256 || tag.contains(char::is_control))
    {
        return Err(fault("From's tag is none"));
    }
    let call_id = headers.call_id();
    if call_id.is_empty() || call_id.len() > 512 || call_id.contains(is_space_or_control) {
        return Err(fault("Call-ID is none"));
    }
    // A NUL is valid in the display name of an address, behind a backslash (RFC 4475, 3.1.1.2), but not here.
    if headers
        .get("User-Agent")
        .is_some_and(|agent| agent.contains('\0'))
    {
        return Err(fault("User-Agent has a NUL"));
    }
    let (_, method) = headers.cseq().ok_or(fault("CSeq has no number"))?;
    if method != request.method.name() {
        return Err(fault("CSeq names another method"));
    }
    if let Some(hops) = headers.get("Max-Forwards") {
        hops.parse::<u8>()
            .map_err(|_| fault("Max-Forwards is no number"))?;
    }
    for contact in headers.list("Contact") {
        if contact != "*" && contact.parse::<NameAddr>().is_err() {
            return Err(fault("Contact is no address"));
        }
    }
    for route in headers.list("Record-Route") {
        if route.parse::<NameAddr>().is_err() {
            return Err(fault("Record-Route is no address"));
        }
    }
    if headers.list("Via").len() > VIAS_MAX {
        return Err(fault("it came over too many hops"));
    }
    let top = headers.first("Via").ok_or(fault("Via is not there"))?;
    top.parse().map_err(|()| fault("Via is none"))
}

fn separators(request: &SipRequest) -> usize {
    let values = request.headers.iter().flat_map(|(_, value)| value.bytes());
    let separators = values.filter(|byte| b",;".contains(byte));
    separators.count() + request.uri.params.len()
}

fn is_space_or_control(letter: char) -> bool {
    letter == ' ' || letter.is_control()
}
