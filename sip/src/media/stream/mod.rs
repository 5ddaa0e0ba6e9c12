//! The media of one call: packets in, audio and keys out; speech in, a packet every 20 ms out.
//!
//! [`latch`] admits packets, [`arrival`] removes their jitter, [`receive`] makes frames and keys, [`send`] packets of speech.

mod arrival;
mod latch;
mod quality;
mod receive;
mod seed;
mod send;

use std::net::{IpAddr, SocketAddr};

use self::{
    latch::{Latch, PacketProof},
    receive::MediaReceiver,
    send::MediaSender,
};
pub use self::{quality::StreamStatistics, seed::RtpSeed};
use super::{
    Error,
    activity::NOTICED_MS,
    echo::EchoGuard,
    rtcp::{self, RtcpItem},
    rtp::{self, Packet},
    sdp::{MediaDirection, MediaTerms, clock},
    srtp::SrtpSession,
};
use crate::quality::JitterSamples;

/// Time without a packet or report after which the media counts as lost.
const LOST_MS: u64 = 15_000;
/// Ticks without a first packet, one second, after which the other side is graded as not heard.
const UNHEARD_TICKS: u32 = 50;
const REPORT_MS: u64 = 5_000;

/// The socket of a packet; if RTCP shares the port, everything is [`Channel::Rtp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Rtp,
    Rtcp,
}

/// An output of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    /// 20 ms at [`crate::leg::CALLER_RATE`]; none while the call is held.
    Audio(Vec<i16>),
    /// The same, but an agent hears silence in its place, because it is or may be what we have sent.
    Hidden(Vec<i16>),
    /// Hidden samples from before that were the caller's after all. Only an agent hears them.
    Released(Vec<i16>),
    VoiceStarted,
    VoiceEnded,
    Key(char),
    /// Everything before this mark was played or flushed.
    Played(u64),
    /// The queue was flushed, after this much speech since the start.
    Flushed {
        total_played_ms: u64,
    },
    /// Neither a packet nor a report came for 15 s.
    MediaLost,
    /// Playback fell silent for a barge-in, this long after the caller's voice began.
    FellSilent {
        after_ms: u64,
    },
}

/// A caller who speaks during playback, with the time when the voice began.
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

#[derive(Debug)]
pub struct MediaStream {
    terms: MediaTerms,
    srtp: Option<SrtpSession>,
    latch: Latch,
    receiver: MediaReceiver,
    sender: MediaSender,
    cname: u64,
    statistics: StreamStatistics,
    /// The jitter in the other side's reports.
    peer_jitter: JitterSamples,
    /// When the other side's last packet or report came, or the call or its last change began.
    alive_ms: u64,
    lost_reported: bool,
    is_answered: bool,
    /// Ticks in which the first packet was due.
    unheard_ticks: u32,
    barge_in: BargeIn,
    report_at_ms: u64,
    opened: Vec<u8>,
    report: Vec<u8>,
}

impl MediaStream {
    /// `signalling`: source address of the call's signalling.
    pub fn new(
        terms: MediaTerms,
        signalling: IpAddr,
        seed: RtpSeed,
        now_ms: u64,
    ) -> Result<Self, Error> {
        let (media, reports) = (terms.remote, terms.remote_rtcp);
        let is_due = terms.direction.receives();
        Ok(Self {
            srtp: terms.crypto.clone().map(SrtpSession::new).transpose()?,
            latch: Latch::new(media, reports, signalling, is_due, now_ms),
            receiver: MediaReceiver::new(terms.codec)?,
            sender: MediaSender::new(terms.codec, &seed, now_ms)?,
            terms,
            cname: seed.cname,
            statistics: StreamStatistics::default(),
            peer_jitter: JitterSamples::default(),
            alive_ms: now_ms,
            lost_reported: false,
            is_answered: false,
            unheard_ticks: 0,
            barge_in: BargeIn::None,
            report_at_ms: now_ms + REPORT_MS,
            opened: Vec::with_capacity(rtp::PACKET_BYTES_MAX),
            report: Vec::new(),
        })
    }

    /// The call was answered: from now on the other side's media is due.
    pub fn answered(&mut self) {
        self.is_answered = true;
    }

    /// Changes to new terms; queued speech is kept.
    pub fn change(
        &mut self,
        terms: MediaTerms,
        signalling: IpAddr,
        now_ms: u64,
    ) -> Result<(), Error> {
        match (&mut self.srtp, &terms.crypto) {
            (Some(session), Some(crypto)) => session.change(crypto)?,
            (session, crypto) => *session = crypto.clone().map(SrtpSession::new).transpose()?,
        }
        if terms.codec != self.terms.codec {
            self.receiver.change(terms.codec)?;
            self.sender.change(terms.codec)?;
        }
        self.latch.signalled_from(signalling);
        if (terms.remote, terms.remote_rtcp) != (self.terms.remote, self.terms.remote_rtcp) {
            let (media, reports) = (terms.remote, terms.remote_rtcp);
            self.latch.named(media, reports, now_ms);
            self.receiver.echo = EchoGuard::default();
        }
        if terms.direction != self.terms.direction {
            let is_due = terms.direction.receives();
            self.latch.direction_changed(is_due, now_ms);
        }
        if terms.held() {
            self.receiver.forget_voice();
        }
        self.terms = terms;
        self.sign_of_life(now_ms);
        self.barge_in = BargeIn::None;
        self.receiver.rest(now_ms);
        Ok(())
    }

    /// Handles a packet from one of the sockets.
    pub fn on_packet(
        &mut self,
        packet: &[u8],
        from: SocketAddr,
        channel: Channel,
        now_ms: u64,
        heard: &mut Vec<StreamEvent>,
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
        heard: &mut Vec<StreamEvent>,
    ) -> bool {
        let header = &packet.header;
        let kind = receive::kind(&self.terms, header.payload_type);
        // Some phones and testers echo what they receive. An echo proves that the phone lives, and is not heard.
        let is_echo = header.ssrc == self.sender.ssrc();
        if !is_echo && kind.is_none() && !self.receiver.follows(header) {
            return false;
        }
        let proof = if self.srtp.is_some() {
            PacketProof::Signed
        } else if self.receiver.follows(header) {
            PacketProof::Follows
        } else {
            PacketProof::None
        };
        if !self.latch.admits(from, header.sequence, proof, now_ms) {
            return false;
        }
        self.sign_of_life(now_ms);
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

    /// Records a barge-in that begins.
    fn listen(&mut self, heard: &[StreamEvent], now_ms: u64) {
        for heard in heard {
            match heard {
                StreamEvent::VoiceStarted if self.sender.playout.speaks() => {
                    let begun_ms = now_ms.saturating_sub(NOTICED_MS);
                    self.barge_in = BargeIn::Heard { begun_ms };
                }
                StreamEvent::VoiceEnded => self.barge_in = BargeIn::None,
                _ => {}
            }
        }
    }

    fn on_report(&mut self, plain: &[u8], from: SocketAddr, now_ms: u64) -> bool {
        let proof = if self.srtp.is_some() {
            PacketProof::Signed
        } else if rtcp::sender(plain).is_some_and(|ssrc| self.receiver.is_from(ssrc)) {
            PacketProof::Follows
        } else {
            PacketProof::None
        };
        if !self.latch.admits_report(from, proof) {
            return false;
        }
        let (ours, per_ms) = (self.sender.ssrc(), clock(self.terms.codec) / 1_000);
        let (receiver, statistics) = (&mut self.receiver, &mut self.statistics);
        let peer_jitter = &mut self.peer_jitter;
        let read = rtcp::read(plain, |told| match told {
            RtcpItem::Sender { ssrc, time } => receiver.sender_reported(ssrc, time, now_ms),
            RtcpItem::Block(block) if block.about == ours => {
                statistics.peer_lost = block.lost.max(0).unsigned_abs();
                statistics.peer_jitter_ms = block.jitter / per_ms;
                peer_jitter.add(statistics.peer_jitter_ms);
                if block.last_report != 0 {
                    let since = rtcp::middle(rtcp::ntp(now_ms)).wrapping_sub(block.last_report);
                    let there = since.checked_sub(block.delay);
                    statistics.round_trip_ms =
                        there.map(|there| ((u64::from(there) * 1_000) >> 16) as u32);
                }
            }
            RtcpItem::Block(_) => {}
            RtcpItem::Bye(ssrc) => receiver.left(ssrc),
        });
        // Gateways that suppress silence send no media while the caller listens.
        if read.is_ok() {
            self.sign_of_life(now_ms);
        }
        read.is_ok()
    }

    fn sign_of_life(&mut self, now_ms: u64) {
        self.alive_ms = now_ms;
        self.lost_reported = false;
    }

    /// To be called every 20 ms; a late call catches up. Passes each packet that is due to `send`.
    pub fn tick(
        &mut self,
        now_ms: u64,
        heard: &mut Vec<StreamEvent>,
        send: &mut dyn FnMut(Channel, SocketAddr, &[u8]),
    ) {
        let listens = self.terms.direction == MediaDirection::SendRecv;
        let before = heard.len();
        self.receiver
            .tick(&self.terms, now_ms, &mut self.statistics, heard);
        self.listen(&heard[before..], now_ms);
        if listens && !self.lost_reported && now_ms.saturating_sub(self.alive_ms) >= LOST_MS {
            self.lost_reported = true;
            heard.push(StreamEvent::MediaLost);
        }
        if listens && self.is_answered && self.statistics.received == 0 {
            self.unheard_ticks = self.unheard_ticks.saturating_add(1);
        }
        let Self {
            sender,
            receiver,
            srtp,
            latch,
            statistics,
            terms,
            ..
        } = self;
        let silent = terms.held() || latch.media().ip().is_unspecified();
        sender.tick(
            now_ms,
            silent,
            terms,
            &mut receiver.echo,
            heard,
            &mut |packet| {
                if srtp
                    .as_mut()
                    .is_none_or(|session| session.protect(packet).is_ok())
                {
                    statistics.sent += 1;
                    send(Channel::Rtp, latch.media(), packet);
                }
            },
        );
        if let BargeIn::Obeyed { begun_ms } = self.barge_in {
            self.barge_in = BargeIn::None;
            let after_ms = now_ms.saturating_sub(begun_ms);
            heard.push(StreamEvent::FellSilent { after_ms });
        }
        if now_ms >= self.report_at_ms {
            self.report_at_ms = now_ms + REPORT_MS;
            self.send_report(Some(now_ms), send);
        }
    }

    /// Sends a report, or a BYE if there is no time.
    fn send_report(
        &mut self,
        now_ms: Option<u64>,
        send: &mut dyn FnMut(Channel, SocketAddr, &[u8]),
    ) {
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

    /// Sends an RTCP BYE at the end of the call.
    pub fn bye(&mut self, send: &mut dyn FnMut(Channel, SocketAddr, &[u8])) {
        self.send_report(None, send);
    }

    /// False while half a minute of speech is queued.
    pub fn wants_speech(&self) -> bool {
        self.sender.playout.wants_more()
    }

    /// Queues speech at [`crate::leg::SPEECH_RATE`].
    pub fn say(&mut self, samples: &[i16]) {
        self.sender.playout.say(samples);
    }

    /// Queues audio of a joined call.
    pub fn say_live(&mut self, samples: &[i16]) {
        self.sender.playout.say_live(samples);
    }

    /// Queues early media of a leg that is called. The ring tone waits until about 1 s after it, so that no tone sounds in its gaps.
    pub fn say_early(&mut self, samples: &[i16]) {
        self.sender.hold_ring_tone();
        self.say_live(samples);
    }

    /// Begins or ends the ring tone, which sounds whenever no speech is played.
    pub fn ring(&mut self, rings: bool) {
        match rings {
            true => drop(self.sender.ring_tone.get_or_insert_default()),
            false => self.sender.ring_tone = None,
        }
    }

    /// Sends a DTMF key, if the other side accepts keys.
    pub fn press(&mut self, key: char) {
        if self.terms.send_events.is_some() {
            self.sender.presses.press(key);
        }
    }

    /// Sets a mark, reported as [`StreamEvent::Played`] once everything before it is over.
    pub fn mark(&mut self, mark: u64) {
        self.sender.playout.mark(mark);
    }

    /// Pauses playback and keeps queued speech.
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

    /// Continues playback after a pause.
    pub fn go_on(&mut self) {
        self.sender.playout.go_on();
    }

    /// Flushes queued speech, reports it, and ends a pause.
    pub fn flush(&mut self, heard: &mut Vec<StreamEvent>) {
        self.obey();
        let total_played_ms = self
            .sender
            .playout
            .flush(|mark| heard.push(StreamEvent::Played(mark)));
        heard.push(StreamEvent::Flushed { total_played_ms });
    }

    pub fn statistics(&self) -> StreamStatistics {
        let per_ms = clock(self.terms.codec) / 1_000;
        StreamStatistics {
            jitter_ms: self.receiver.jitter() / per_ms,
            concealed_ms: self.receiver.concealed_ms,
            ..self.statistics
        }
    }
}

#[cfg(test)]
mod tests;
