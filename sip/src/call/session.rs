//! The SDP session of a call, over all offers and answers.

use std::net::IpAddr;

use crate::{
    media::{
        sdp::{self, Local, MediaTerms, OFFERED_SUITE, SdpRefusal},
        srtp::{MasterKey, Suite},
    },
    settings::{AnswerOrder, Codec, SipTransport, Srtp, Trunk},
    shared::Shared,
    transport::Flow,
    whatsapp::MediaRules,
};

/// This side's state of the session.
#[derive(Debug)]
pub struct SdpSession {
    address: IpAddr,
    port: u16,
    codecs: Vec<Codec>,
    answer_order: AnswerOrder,
    srtp: Srtp,
    /// The transport of the signalling, which carries the keys.
    transport: SipTransport,
    key: MasterKey,
    /// The suite in which our key encrypts; `None` while the media is in clear.
    in_use: Option<Suite>,
    id: u64,
    version: u64,
    username: &'static str,
    /// Our last offer or answer.
    said: String,
}

impl SdpSession {
    /// Decides about the transports of an offer of ours, which has our keys.
    pub fn srtp(&self) -> Srtp {
        self.srtp
    }

    /// `flow`: the route of the signalling.
    pub fn new(shared: &Shared, trunk: &Trunk, flow: &Flow, address: IpAddr, port: u16) -> Self {
        let rules = MediaRules::of(&shared.settings, trunk);
        Self {
            address,
            port,
            codecs: rules.codecs,
            answer_order: rules.answer_order,
            srtp: rules.srtp,
            transport: flow.transport,
            key: new_key(),
            in_use: None,
            id: rand::random::<u64>() >> 3,
            version: 1,
            username: shared.user_agent.name,
            said: String::new(),
        }
    }

    /// The peer continues over this transport.
    pub fn carried_by(&mut self, transport: SipTransport) {
        self.transport = transport;
    }

    /// Answers the offer of an INVITE, if it has one.
    ///
    /// Errors: the offer cannot be fulfilled, or neither an answer nor an offer of ours may be sent.
    pub fn offered(&mut self, body: &[u8]) -> Result<Option<(String, MediaTerms)>, SdpRefusal> {
        if !self.srtp.admits(self.transport) {
            return Err(sdp::needs_tls());
        }
        if body.is_empty() {
            return Ok(None);
        }
        self.answer(body).map(Some)
    }

    /// Answers an offer. A failure changes nothing.
    pub fn answer(&mut self, offer: &[u8]) -> Result<(String, MediaTerms), SdpRefusal> {
        let (text, terms) = sdp::answer(offer, &self.local())?;
        if text == self.said || self.said.is_empty() {
            self.said.clone_from(&text);
            return Ok((text, terms));
        }
        // A suite has counters of its own, which begin again. With the old key they would repeat (RFC 3711, 9.1).
        if terms.crypto.as_ref().map(|crypto| crypto.suite) != self.in_use {
            self.key = new_key();
        }
        self.version += 1;
        let (text, terms) = sdp::answer(offer, &self.local())?;
        self.said.clone_from(&text);
        Ok((text, terms))
    }

    /// Media runs on these terms from now on. With keys that came over TLS it stays encrypted.
    pub fn agreed(&mut self, terms: &MediaTerms) {
        self.in_use = terms.crypto.as_ref().map(|crypto| crypto.suite);
    }

    /// Offers everything that we support.
    pub fn offer(&mut self) -> String {
        if self.in_use.is_some_and(|suite| suite != OFFERED_SUITE) {
            self.key = new_key();
        }
        let mut text = shaped(&sdp::offer(&self.local()), &self.said);
        if !self.said.is_empty() && text != self.said {
            self.version += 1;
            text = shaped(&sdp::offer(&self.local()), &self.said);
        }
        self.said.clone_from(&text);
        text
    }

    /// Our last offer or answer again, as an offer that changes nothing.
    pub fn unchanged(&mut self) -> String {
        if self.said.is_empty() {
            return self.offer();
        }
        self.said.clone()
    }

    /// Reads the answer to our last offer.
    pub fn accept(&self, answer: &[u8]) -> Result<MediaTerms, SdpRefusal> {
        sdp::accept(answer, &self.said, &self.local())
    }

    fn local(&self) -> Local<'_> {
        Local {
            address: self.address,
            port: self.port,
            codecs: &self.codecs,
            answer_order: self.answer_order,
            // Without TLS the keys are no secret, and a transfer to a party in clear must work.
            srtp: match (self.in_use, self.transport) {
                (Some(_), SipTransport::Tls) => Srtp::Required,
                _ => self.srtp,
            },
            key: self.key.clone(),
            session: self.id,
            version: self.version,
            username: self.username,
        }
    }
}

fn new_key() -> MasterKey {
    MasterKey::new(rand::random::<[u8; 30]>())
}

/// Our offer with as many streams as our last description, in its order, because streams cannot be removed (RFC 3264, 8). Streams
/// that were refused stay refused.
fn shaped(offer: &str, said: &str) -> String {
    let Some(at) = offer.find("m=audio ").filter(|_| !said.is_empty()) else {
        return offer.to_owned();
    };
    let (mut text, audio) = (offer[..at].to_owned(), &offer[at..]);
    for line in said.lines().filter(|line| line.starts_with("m=")) {
        match line.split(' ').nth(1) {
            Some("0") => text.extend([line, "\r\n"]),
            _ => text.push_str(audio),
        }
    }
    text
}

#[cfg(test)]
mod tests;
