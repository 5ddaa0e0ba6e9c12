//! Stateless responses: refusals that keep no transaction, built from the request itself.

use crate::{
    call::reason,
    message::{BrokenMessage, Headers, SipResponse, Via},
    shared::RETRY_AFTER_SECONDS,
    transport::Flow,
};

/// A response without a transaction.
pub struct StatelessResponse {
    status: u16,
    phrase: &'static str,
    headers: Vec<(&'static str, String)>,
}

/// A response without a reason text.
pub fn answer(status: u16, phrase: &'static str) -> StatelessResponse {
    StatelessResponse {
        status,
        phrase,
        headers: Vec::new(),
    }
}

/// A refusal with its reason in words; a 503 also says when to try again.
pub fn refused(status: u16, phrase: &'static str, words: &str) -> StatelessResponse {
    let refused = answer(status, phrase).with("Reason", reason(status, words));
    if status == 503 {
        return refused.with("Retry-After", RETRY_AFTER_SECONDS.to_string());
    }
    refused
}

pub fn no_transaction() -> StatelessResponse {
    refused(
        481,
        "Call/Transaction Does Not Exist",
        "there is no such call here",
    )
}

impl StatelessResponse {
    #[must_use]
    pub fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    pub fn status(&self) -> u16 {
        self.status
    }

    /// Sends the response in the name of `server`. Its tag is derived from the request, so that a retransmission gets the same one.
    pub fn send(&self, request: &Headers, flow: &Flow, server: &str) {
        let tag = format!("s{:x}", fnv(request.call_id()));
        let mut response = SipResponse::to(request, self.status, self.phrase, &tag);
        for (name, value) in &self.headers {
            response.headers.push(name, value);
        }
        response.headers.push("Server", server);
        flow.send(&response.to_bytes());
    }
}

/// FNV-1a: the tag has to be reproducible, not secret.
fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Answers a broken request, if its headers are known.
pub fn answer_broken(broken: &BrokenMessage, flow: &Flow, server: &str) {
    let Some(headers) = &broken.request else {
        return;
    };
    // An ACK is never answered, and without Via there is no way back.
    let is_ack = headers
        .get("CSeq")
        .is_some_and(|cseq| cseq.trim_end().ends_with("ACK"));
    let Some(top) = headers.first("Via").filter(|_| !is_ack) else {
        return;
    };
    let via = top.parse::<Via>();
    let mut headers = headers.clone();
    let mut back = flow.clone();
    if let Ok(mut via) = via {
        via.came_from(flow.remote);
        headers.set_top_via(&via.to_string());
        back = flow.towards(via.back(flow.remote));
    }
    let phrase = match broken.status {
        416 => "Unsupported URI Scheme",
        505 => "Version Not Supported",
        _ => "Bad Request",
    };
    refused(broken.status, phrase, broken.words).send(&headers, &back, server);
}
