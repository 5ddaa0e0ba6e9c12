//! The SDP session of a call, over all offers and answers.

use std::net::IpAddr;

use crate::{
    media::{
        sdp::{self, Local, MediaTerms, SdpRefusal},
        srtp::MasterKey,
    },
    settings::{Codec, Srtp},
    shared::Shared,
};

/// This side's state of the session.
#[derive(Debug)]
pub struct SdpSession {
    address: IpAddr,
    port: u16,
    codecs: Vec<Codec>,
    srtp: Srtp,
    key: MasterKey,
    id: u64,
    version: u64,
    username: &'static str,
    /// Our last offer or answer.
    said: String,
}

impl SdpSession {
    pub fn new(shared: &Shared, address: IpAddr, port: u16) -> Self {
        let settings = &shared.settings;
        Self {
            address,
            port,
            codecs: settings.codecs.clone(),
            srtp: settings.srtp,
            key: MasterKey::new(rand::random::<[u8; 30]>()),
            id: rand::random::<u64>() >> 3,
            version: 1,
            username: shared.user_agent.name,
            said: String::new(),
        }
    }

    /// Answers the offer of an INVITE, if it has one.
    pub fn offered(&mut self, body: &[u8]) -> Result<Option<(String, MediaTerms)>, SdpRefusal> {
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
        self.version += 1;
        let (text, terms) = sdp::answer(offer, &self.local())?;
        self.said.clone_from(&text);
        Ok((text, terms))
    }

    /// Offers everything that we support.
    pub fn offer(&mut self) -> String {
        let mut text = sdp::offer(&self.local());
        if !self.said.is_empty() && text != self.said {
            self.version += 1;
            text = sdp::offer(&self.local());
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
            srtp: self.srtp,
            key: self.key.clone(),
            session: self.id,
            version: self.version,
            username: self.username,
        }
    }
}
