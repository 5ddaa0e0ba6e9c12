//! Sent packets: every 20 ms one, or two of 10 ms, of speech or silence.

use super::{Error, RtpSeed, StreamEvent};
use crate::{
    media::{
        dtmf::KeySender,
        echo::EchoGuard,
        g711::Law,
        g722::G722Encoder,
        opus,
        playout::{Playout, PlayoutRate},
        rtcp::SentTotals,
        rtp::{self, Header},
        sdp::{MediaTerms, clock},
        tones::RingTone,
    },
    settings::Codec,
};

const FRAME_MS: u64 = 20;
/// A tick that is early by at most this is on time.
const EARLY_MS: u64 = 5;
/// Frames that a late tick catches up; older ones are skipped.
const CATCH_UP: u64 = 5;
/// Frames without a ring tone after early media.
const RING_TONE_HOLD: u32 = 50;

#[derive(Debug)]
enum Encoder {
    G711(Law),
    G722(Box<G722Encoder>),
    Opus(Box<opus::Encoder>),
}

impl Encoder {
    fn new(codec: Codec) -> Result<Self, Error> {
        Ok(match codec {
            Codec::Pcma => Self::G711(Law::A),
            Codec::Pcmu => Self::G711(Law::Mu),
            Codec::G722 => Self::G722(Box::default()),
            Codec::Opus => Self::Opus(Box::new(opus::Encoder::new()?)),
        })
    }

    /// Appends the payload of a frame.
    fn encode(&mut self, frame: &[i16], out: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::G711(law) => law.encode(frame, out),
            Self::G722(encoder) => encoder.encode(frame, out),
            Self::Opus(encoder) => encoder.encode(frame, out)?,
        }
        Ok(())
    }
}

fn rate(codec: Codec) -> PlayoutRate {
    match codec {
        Codec::Pcma | Codec::Pcmu => PlayoutRate::Narrow,
        Codec::G722 => PlayoutRate::Wide,
        Codec::Opus => PlayoutRate::Full,
    }
}

#[derive(Debug)]
pub struct MediaSender {
    pub playout: Playout,
    pub presses: KeySender,
    /// Played while no speech is.
    pub ring_tone: Option<RingTone>,
    /// Frames for which the ring tone still waits.
    ring_tone_hold: u32,
    encoder: Encoder,
    ssrc: u32,
    sequence: u16,
    /// Timestamp of the next frame.
    timestamp: u32,
    clock: u32,
    due_ms: u64,
    /// The next packet begins a talk spurt (marker bit).
    begins: bool,
    packets: u32,
    octets: u32,
    frame: Vec<i16>,
    packet: Vec<u8>,
}

impl MediaSender {
    pub fn new(codec: Codec, seed: &RtpSeed, now_ms: u64) -> Result<Self, Error> {
        Ok(Self {
            playout: Playout::new(rate(codec)),
            presses: KeySender::default(),
            ring_tone: None,
            ring_tone_hold: 0,
            encoder: Encoder::new(codec)?,
            ssrc: seed.ssrc,
            sequence: seed.sequence,
            timestamp: seed.timestamp,
            clock: clock(codec),
            due_ms: now_ms,
            begins: true,
            packets: 0,
            octets: 0,
            frame: Vec::with_capacity(opus::FRAME),
            packet: Vec::with_capacity(512),
        })
    }

    pub fn change(&mut self, codec: Codec) -> Result<(), Error> {
        self.encoder = Encoder::new(codec)?;
        self.playout.change(rate(codec));
        self.clock = clock(codec);
        self.begins = true;
        Ok(())
    }

    /// Lets the ring tone wait for a second.
    pub fn hold_ring_tone(&mut self) {
        self.ring_tone_hold = RING_TONE_HOLD;
    }

    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Totals for a report; `None` before the first packet.
    pub fn sent(&self, now_ms: u64) -> Option<SentTotals> {
        let ahead = (self.due_ms as i64 - now_ms as i64) * i64::from(self.clock / 1_000);
        (self.packets > 0).then_some(SentTotals {
            timestamp: self.timestamp.wrapping_sub(ahead as u32),
            packets: self.packets,
            octets: self.octets,
        })
    }

    /// Passes every packet that is due to `send`. While `silent`, speech waits and only time advances.
    pub fn tick(
        &mut self,
        now_ms: u64,
        silent: bool,
        terms: &MediaTerms,
        echo: &mut EchoGuard,
        heard: &mut Vec<StreamEvent>,
        send: &mut dyn FnMut(&mut Vec<u8>),
    ) {
        let behind = (now_ms + EARLY_MS).saturating_sub(self.due_ms) / FRAME_MS;
        if behind > CATCH_UP {
            self.skip(behind - CATCH_UP);
        }
        while self.due_ms <= now_ms + EARLY_MS {
            if silent {
                self.begins = true;
            } else {
                self.send_frame(terms, echo, heard, send);
            }
            self.skip(1);
        }
    }

    fn skip(&mut self, frames: u64) {
        self.due_ms += frames * FRAME_MS;
        let ticks = frames * FRAME_MS * u64::from(self.clock / 1_000);
        self.timestamp = self.timestamp.wrapping_add(ticks as u32);
    }

    fn send_frame(
        &mut self,
        terms: &MediaTerms,
        echo: &mut EchoGuard,
        heard: &mut Vec<StreamEvent>,
        send: &mut dyn FnMut(&mut Vec<u8>),
    ) {
        let passed = |mark| heard.push(StreamEvent::Played(mark));
        let speaks = self.playout.speaks();
        self.playout.frame(&mut self.frame, passed);
        let waits = speaks || self.ring_tone_hold > 0;
        self.ring_tone_hold = self.ring_tone_hold.saturating_sub(1);
        if let Some(tone) = self.ring_tone.as_mut().filter(|_| !waits) {
            tone.add_to(&mut self.frame);
        }
        let events = terms.send_events;
        let pressed =
            events.and_then(|to| Some((to, self.presses.frame(self.timestamp, to.clock)?)));
        // A key replaces the speech of its time.
        if let Some((to, told)) = pressed {
            for _ in 0..told.times {
                self.begin(told.begins, to.payload, told.timestamp);
                self.packet.extend_from_slice(&told.payload);
                self.sent_packet(send);
            }
            return;
        }
        let packets = if terms.has_short_packets { 2 } else { 1 };
        let samples = self.frame.len() / packets;
        let ticks = FRAME_MS as u32 * (self.clock / 1_000) / packets as u32;
        for packet in 0..packets {
            let timestamp = self.timestamp.wrapping_add(packet as u32 * ticks);
            self.begin(self.begins, terms.send_payload, timestamp);
            let frame = &self.frame[packet * samples..(packet + 1) * samples];
            if self.encoder.encode(frame, &mut self.packet).is_err() {
                return;
            }
            self.begins = false;
            self.sent_packet(send);
        }
        // Never later than its return.
        echo.sent(&self.frame, self.due_ms.saturating_sub(EARLY_MS));
    }

    fn begin(&mut self, marker: bool, payload_type: u8, timestamp: u32) {
        let header = Header {
            marker,
            payload_type,
            sequence: self.sequence,
            timestamp,
            ssrc: self.ssrc,
        };
        rtp::begin(&header, &mut self.packet);
    }

    fn sent_packet(&mut self, send: &mut dyn FnMut(&mut Vec<u8>)) {
        self.sequence = self.sequence.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        let octets = self.packet.len() - rtp::HEADER_BYTES;
        self.octets = self.octets.wrapping_add(octets as u32);
        send(&mut self.packet);
    }
}
