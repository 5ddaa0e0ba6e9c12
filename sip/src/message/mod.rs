//! SIP messages: parsed leniently enough to answer 400 to broken ones, written as in RFC 3261.

mod checks;
mod headers;
mod multipart;
mod parse;
mod uri;
mod via;

#[cfg(test)]
mod tests;

pub use self::{
    checks::check,
    headers::{Headers, long_name},
    multipart::take_sdp,
    parse::{
        BrokenMessage, HEAD_BYTES_MAX, MESSAGE_BYTES_MAX, body_length, head_end, lacks_length,
        parse,
    },
    uri::{Host, NameAddr, Uri, split_list},
    via::Via,
};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Method {
    Invite,
    Ack,
    Bye,
    Cancel,
    Options,
    Update,
    Prack,
    Refer,
    Notify,
    Info,
    Register,
    Other(String),
}

impl Method {
    pub fn of(name: &str) -> Self {
        match name {
            "INVITE" => Self::Invite,
            "ACK" => Self::Ack,
            "BYE" => Self::Bye,
            "CANCEL" => Self::Cancel,
            "OPTIONS" => Self::Options,
            "UPDATE" => Self::Update,
            "PRACK" => Self::Prack,
            "REFER" => Self::Refer,
            "NOTIFY" => Self::Notify,
            "INFO" => Self::Info,
            "REGISTER" => Self::Register,
            other => Self::Other(other.to_owned()),
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Options => "OPTIONS",
            Self::Update => "UPDATE",
            Self::Prack => "PRACK",
            Self::Refer => "REFER",
            Self::Notify => "NOTIFY",
            Self::Info => "INFO",
            Self::Register => "REGISTER",
            Self::Other(name) => name,
        }
    }

    /// True for methods that SIP knows but that are not served here: 405 rather than 501.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Other(name) => matches!(name.as_str(), "MESSAGE" | "SUBSCRIBE" | "PUBLISH"),
            _ => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SipMessage {
    Request(SipRequest),
    Response(SipResponse),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SipRequest {
    pub method: Method,
    pub uri: Uri,
    pub headers: Headers,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SipResponse {
    pub status: u16,
    pub reason: String,
    pub headers: Headers,
    pub body: Vec<u8>,
}

impl SipRequest {
    pub fn new(method: Method, uri: Uri) -> Self {
        Self {
            method,
            uri,
            headers: Headers::default(),
            body: Vec::new(),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let head = format!("{} {} SIP/2.0\r\n", self.method.name(), self.uri);
        written(head, &self.headers, &self.body)
    }
}

impl SipResponse {
    /// A response to a request with these headers: it copies Via, From, To, Call-ID, CSeq and Record-Route. `tag` is added to a
    /// To without one.
    pub fn to(request: &Headers, status: u16, reason: &str, tag: &str) -> Self {
        let mut headers = Headers::default();
        for name in ["Via", "Record-Route", "From", "To", "Call-ID", "CSeq"] {
            if name == "Record-Route" && !(101..300).contains(&status) {
                continue;
            }
            for value in request.all(name) {
                headers.push(name, value);
            }
        }
        if status != 100 && headers.tag("To").is_none() {
            let to = headers.get("To").unwrap_or_default();
            headers.set("To", &format!("{to};tag={tag}"));
        }
        Self {
            status,
            reason: reason.to_owned(),
            headers,
            body: Vec::new(),
        }
    }

    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push(name, value);
        self
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let head = format!("SIP/2.0 {} {}\r\n", self.status, self.reason);
        written(head, &self.headers, &self.body)
    }
}

fn written(mut head: String, headers: &Headers, body: &[u8]) -> Vec<u8> {
    for (name, value) in headers.iter() {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
