//! The media of one call, joined: packets in, what is heard out; speech in, a packet every 20 ms out.
//!
//! [`latch`] decides whose packets count, [`receive`] makes frames and keys of them, [`send`] makes packets of speech. Milliseconds
//! come from a clock that never goes back.

mod latch;
mod receive;
mod send;

use std::net::{IpAddr, SocketAddr};

use self::{
    latch::{Latch, Proof},
    receive::Receiver,
    send::Sender,
};
use super::{
    Error,
    activity::NOTICED_MS,
    rtcp::{self, Told},
    rtp::{self, Packet},
    sdp::{Direction, Terms, clock},
    srtp::Session,
};

/// So long without a packet is the end of the media.
const LOST_MS: u64 = 15_000;
const REPORT_MS: u64 = 5_000;

/// Which of the two sockets a packet belongs to; where both share one port, all is [`Channel::Rtp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Rtp,
    Rtcp,
}

/// What a stream tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// 20 ms at [`crate::CALLER_RATE`]; none while the call is held.
    Audio(Vec<i16>),
    VoiceStarted,
    VoiceEnded,
    Key(char),
    /// Everything before this mark is over.
    Played(u64),
    /// What waited is gone; so many milliseconds had been played.
    Flushed {
        played_ms: u64,
    },
    /// No packet came for 15 s.
    MediaLost,
    /// What was being said is silent now, so long after the caller's voice began.
    FellSilent {
        after_ms: u64,
    },
}

/// Where this side's numbers begin, and its names; nobody shall guess them.
#[derive(Debug, Clone, Copy)]
pub struct Seed {
    pub ssrc: u32,
    pub sequence: u16,
    pub timestamp: u32,
    pub cname: u64,
}

impl Seed {
    pub fn new(random: [u8; 18]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, name @ ..] = random;
        Self {
            ssrc: u32::from_be_bytes([a, b, c, d]),
            // Below the middle, so that no packet lost at the start makes SRTP miss a wrap (RFC 3711, section 3.3.1).
            sequence: u16::from_be_bytes([e, f]) & 0x7fff,
            timestamp: u32::from_be_bytes([g, h, i, j]),
            cname: u64::from_be_bytes(name),
        }
    }
}

/// Counted since the call began; `peer_` is what the other side reports of our packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    pub received: u64,
    /// Given up.
    pub lost: u64,
    /// Came after they were given up.
    pub late: u64,
    pub repeated: u64,
    /// Made no sense, or were a stranger's.
    pub invalid: u64,
    pub jitter_ms: u32,
    pub sent: u64,
    pub peer_lost: u32,
    pub peer_jitter_ms: u32,
    pub round_trip_ms: Option<u32>,
}

/// A caller who speaks while something is said, by when the voice began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BargeIn {
    None,
    Heard {
        begun_ms: u64,
    },
    /// The next packet is silent.
    Obeyed {
        begun_ms: u64,
    },
}

/// One call's media.
#[derive(Debug)]
pub struct Stream {
    terms: Terms,
    srtp: Option<Session>,
    latch: Latch,
    receiver: Receiver,
    sender: Sender,
    cname: u64,
    statistics: Statistics,
    /// When the last packet of theirs came, or the call or a change of it began.
    alive_ms: u64,
    lost_told: bool,
    barge_in: BargeIn,
    report_at_ms: u64,
    opened: Vec<u8>,
    report: Vec<u8>,
}

impl Stream {
    /// `signalling` is the address that the call's signalling comes from.
    pub fn new(terms: Terms, signalling: IpAddr, seed: Seed, now_ms: u64) -> Result<Self, Error> {
        Ok(Self {
            srtp: terms.crypto.clone().map(Session::new).transpose()?,
            latch: Latch::new(terms.remote, terms.remote_rtcp, signalling, now_ms),
            receiver: Receiver::new(terms.codec)?,
            sender: Sender::new(terms.codec, &seed, now_ms)?,
            terms,
            cname: seed.cname,
            statistics: Statistics::default(),
            alive_ms: now_ms,
            lost_told: false,
            barge_in: BargeIn::None,
            report_at_ms: now_ms + REPORT_MS,
            opened: Vec::with_capacity(rtp::PACKET_BYTES_MAX),
            report: Vec::new(),
        })
    }

    /// Goes on on other terms; what waits to be said waits on.
    pub fn change(&mut self, terms: Terms, signalling: IpAddr, now_ms: u64) -> Result<(), Error> {
        match (&mut self.srtp, &terms.crypto) {
            (Some(session), Some(crypto)) => session.change(crypto)?,
            (session, crypto) => *session = crypto.clone().map(Session::new).transpose()?,
        }
        if terms.codec != self.terms.codec {
            self.receiver.change(terms.codec)?;
            self.sender.change(terms.codec)?;
        }
        if (terms.remote, terms.remote_rtcp) != (self.terms.remote, self.terms.remote_rtcp) {
            self.latch = Latch::new(terms.remote, terms.remote_rtcp, signalling, now_ms);
        }
        self.latch.signalled_from(signalling);
        if terms.direction != self.terms.direction {
            self.latch.direction_changed(now_ms);
        }
        self.terms = terms;
        self.alive_ms = now_ms;
        self.lost_told = false;
        self.barge_in = BargeIn::None;
        self.receiver.rest(now_ms);
        Ok(())
    }

    /// Takes what came in at one of the sockets.
    pub fn on_packet(
        &mut self,
        packet: &[u8],
        from: SocketAddr,
        channel: Channel,
        now_ms: u64,
        heard: &mut Vec<Heard>,
    ) {
        let mut opened = std::mem::take(&mut self.opened);
        let report = channel == Channel::Rtcp || rtp::is_rtcp(packet);
        let plain = match &mut self.srtp {
            None => Some(packet),
            Some(session) if report => session
                .open_report(packet, &mut opened)
                .then_some(opened.as_slice()),
            Some(session) => session
                .open(packet, &mut opened)
                .then_some(opened.as_slice()),
        };
        let known = plain.is_some_and(|plain| {
            if report {
                self.on_report(plain, from, now_ms)
            } else {
                rtp::read(plain).is_ok_and(|packet| self.on_media(&packet, from, now_ms, heard))
            }
        });
        if !known {
            self.statistics.invalid += 1;
        }
        self.opened = opened;
    }

    fn on_media(
        &mut self,
        packet: &Packet<'_>,
        from: SocketAddr,
        now_ms: u64,
        heard: &mut Vec<Heard>,
    ) -> bool {
        let header = &packet.header;
        let kind = receive::kind(&self.terms, header.payload_type);
        // Some phones and testers send back what they get: they live, but nobody wants to hear himself.
        let is_echo = header.ssrc == self.sender.ssrc();
        if !is_echo && kind.is_none() && !self.receiver.follows(header) {
            return false;
        }
        let proof = if self.srtp.is_some() {
            Proof::Signed
        } else if self.receiver.follows(header) {
            Proof::Follows
        } else {
            Proof::None
        };
        if !self.latch.admits(from, header.sequence, proof, now_ms) {
            return false;
        }
        self.alive_ms = now_ms;
        self.lost_told = false;
        self.statistics.received += 1;
        if is_echo {
            return true;
        }
        let before = heard.len();
        self.receiver
            .take(packet, &self.terms, now_ms, &mut self.statistics, heard);
        self.listen(&heard[before..], now_ms);
        true
    }

    /// Notes when the caller begins to speak into what is said.
    fn listen(&mut self, heard: &[Heard], now_ms: u64) {
        for heard in heard {
            match heard {
                Heard::VoiceStarted if self.sender.playout.speaks() => {
                    let begun_ms = now_ms.saturating_sub(NOTICED_MS);
                    self.barge_in = BargeIn::Heard { begun_ms };
                }
                Heard::VoiceEnded => self.barge_in = BargeIn::None,
                _ => {}
            }
        }
    }

    fn on_report(&mut self, plain: &[u8], from: SocketAddr, now_ms: u64) -> bool {
        if !self.latch.admits_report(from, self.srtp.is_some()) {
            return false;
        }
        let (ours, per_ms) = (self.sender.ssrc(), clock(self.terms.codec) / 1_000);
        let (receiver, statistics) = (&mut self.receiver, &mut self.statistics);
        rtcp::read(plain, |told| match told {
            Told::Sender { ssrc, time } => receiver.sender_reported(ssrc, time, now_ms),
            Told::Block(block) if block.about == ours => {
                statistics.peer_lost = block.lost.max(0).unsigned_abs();
                statistics.peer_jitter_ms = block.jitter / per_ms;
                if block.last_report != 0 {
                    let since = rtcp::middle(rtcp::ntp(now_ms)).wrapping_sub(block.last_report);
                    let there = since.checked_sub(block.delay);
                    statistics.round_trip_ms =
                        there.map(|there| ((u64::from(there) * 1_000) >> 16) as u32);
                }
            }
            Told::Block(_) => {}
            Told::Bye(ssrc) => receiver.left(ssrc),
        })
        .is_ok()
    }

    /// Is called every 20 ms; a late call catches up. Gives each packet that is due to `send`.
    pub fn tick(
        &mut self,
        now_ms: u64,
        heard: &mut Vec<Heard>,
        send: &mut dyn FnMut(Channel, SocketAddr, &[u8]),
    ) {
        let listens = self.terms.direction == Direction::SendRecv;
        let before = heard.len();
        self.receiver
            .tick(&self.terms, now_ms, &mut self.statistics, heard);
        self.listen(&heard[before..], now_ms);
        if listens && !self.lost_told && now_ms.saturating_sub(self.alive_ms) >= LOST_MS {
            self.lost_told = true;
            heard.push(Heard::MediaLost);
        }
        let Self {
            sender,
            srtp,
            latch,
            statistics,
            terms,
            ..
        } = self;
        let silent = terms.held() || latch.media().ip().is_unspecified();
        sender.tick(now_ms, silent, terms, heard, &mut |packet| {
            if srtp
                .as_mut()
                .is_none_or(|session| session.protect(packet).is_ok())
            {
                statistics.sent += 1;
                send(Channel::Rtp, latch.media(), packet);
            }
        });
        if let BargeIn::Obeyed { begun_ms } = self.barge_in {
            self.barge_in = BargeIn::None;
            let after_ms = now_ms.saturating_sub(begun_ms);
            heard.push(Heard::FellSilent { after_ms });
        }
        if now_ms >= self.report_at_ms {
            self.report_at_ms = now_ms + REPORT_MS;
            self.tell(Some(now_ms), send);
        }
    }

    /// Sends a report, or with no time to tell, that this side goes.
    fn tell(&mut self, now_ms: Option<u64>, send: &mut dyn FnMut(Channel, SocketAddr, &[u8])) {
        if self.latch.reports().ip().is_unspecified() {
            return;
        }
        let ssrc = self.sender.ssrc();
        let sent = now_ms.and_then(|now_ms| Some((now_ms, self.sender.sent(now_ms)?)));
        let block = now_ms.and_then(|now_ms| self.receiver.block(now_ms));
        rtcp::report(ssrc, self.cname, sent, block, &mut self.report);
        if now_ms.is_none() {
            rtcp::goodbye(ssrc, &mut self.report);
        }
        let session = self.srtp.as_mut();
        if session.is_none_or(|session| session.protect_report(&mut self.report).is_ok()) {
            let channel = if self.terms.rtcp_mux {
                Channel::Rtp
            } else {
                Channel::Rtcp
            };
            let to = if self.terms.rtcp_mux {
                self.latch.media()
            } else {
                self.latch.reports()
            };
            send(channel, to, &self.report);
        }
    }

    /// Says by RTCP that this side goes, when the call ends.
    pub fn bye(&mut self, send: &mut dyn FnMut(Channel, SocketAddr, &[u8])) {
        self.tell(None, send);
    }

    /// Whether there is room for more speech; false while half a minute of it waits.
    pub fn wants_speech(&self) -> bool {
        self.sender.playout.wants_more()
    }

    /// Takes what is to be said, at [`crate::AGENT_RATE`].
    pub fn say(&mut self, samples: &[i16]) {
        self.sender.playout.say(samples);
    }

    /// Presses a key for the other side, if it takes keys.
    pub fn press(&mut self, key: char) {
        if self.terms.send_events.is_some() {
            self.sender.presses.press(key);
        }
    }

    /// [`Heard::Played`] tells that everything said before is over.
    pub fn mark(&mut self, mark: u64) {
        self.sender.playout.mark(mark);
    }

    /// Falls silent and keeps what waits.
    pub fn pause(&mut self) {
        self.obey();
        self.sender.playout.pause();
    }

    fn obey(&mut self) {
        if let BargeIn::Heard { begun_ms } = self.barge_in
            && self.sender.playout.speaks()
        {
            self.barge_in = BargeIn::Obeyed { begun_ms };
        }
    }

    /// Goes on where it was.
    pub fn go_on(&mut self) {
        self.sender.playout.go_on();
    }

    /// Throws away what waits and tells it; what is said afterwards is played, paused before or not.
    pub fn flush(&mut self, heard: &mut Vec<Heard>) {
        self.obey();
        let played_ms = self
            .sender
            .playout
            .flush(|mark| heard.push(Heard::Played(mark)));
        heard.push(Heard::Flushed { played_ms });
    }

    pub fn statistics(&self) -> Statistics {
        let per_ms = clock(self.terms.codec) / 1_000;
        Statistics {
            jitter_ms: self.receiver.jitter() / per_ms,
            ..self.statistics
        }
    }
}

#[cfg(test)]
mod tests;
