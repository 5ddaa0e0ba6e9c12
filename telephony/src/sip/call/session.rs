//! What both sides of a call agree on about its media, over all offers and answers.

use std::net::IpAddr;

use crate::{
    media::{
        sdp::{self, Local, Refused, Terms},
        srtp::Key,
    },
    settings::{Codec, Sip, Srtp},
};

/// Our side of it.
#[derive(Debug)]
pub struct Session {
    address: IpAddr,
    port: u16,
    codecs: Vec<Codec>,
    srtp: Srtp,
    key: Key,
    id: u64,
    version: u64,
    /// What we said last.
    said: String,
}

impl Session {
    pub fn new(settings: &Sip, address: IpAddr, port: u16) -> Self {
        Self {
            address,
            port,
            codecs: settings.codecs.clone(),
            srtp: settings.srtp,
            key: Key::new(rand::random::<[u8; 30]>()),
            id: rand::random::<u64>() >> 3,
            version: 1,
            said: String::new(),
        }
    }

    /// Answers the offer of an INVITE, if it has one.
    pub fn offered(&mut self, body: &[u8]) -> Result<Option<(String, Terms)>, Refused> {
        if body.is_empty() {
            return Ok(None);
        }
        self.answer(body).map(Some)
    }

    /// Answers an offer. Nothing changes where that fails.
    pub fn answer(&mut self, offer: &[u8]) -> Result<(String, Terms), Refused> {
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

    /// Offers all that we speak.
    pub fn offer(&mut self) -> String {
        let mut text = sdp::offer(&self.local());
        if !self.said.is_empty() && text != self.said {
            self.version += 1;
            text = sdp::offer(&self.local());
        }
        self.said.clone_from(&text);
        text
    }

    /// What we said last, as an offer that changes nothing.
    pub fn unchanged(&mut self) -> String {
        if self.said.is_empty() {
            return self.offer();
        }
        self.said.clone()
    }

    /// Takes the answer to what we said last.
    pub fn accept(&self, answer: &[u8]) -> Result<Terms, Refused> {
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
        }
    }
}
