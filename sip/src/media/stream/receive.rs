//! Received packets, put in order and turned into frames of 20 ms, keys and voice activity.
//!
//! Frames come as packets come, not by the clock. Some phones send nothing during silence or a key. Silence is filled in then,
//! because the program has to hear that the caller stopped speaking.

use super::{Error, StreamEvent, StreamStatistics, arrival::ArrivalClock};
use crate::{
    media::{
        activity::VoiceChange,
        caller_voice::CallerVoice,
        conceal::Concealer,
        dtmf::KeyReceiver,
        dtmf_tones::ToneDetector,
        echo::EchoGuard,
        fir::Resampler,
        g711::Law,
        g722::G722Decoder,
        jitter_buffer::{JitterBuffer, OrderedItem, PushOutcome},
        opus,
        rtcp::{Block, Reception},
        rtp::{Header, Packet},
        sdp::{MediaTerms, clock},
    },
    quality::JitterSamples,
    settings::Codec,
};

/// 20 ms of samples.
const FRAME: usize = 320;
/// Time without audio after which silence is filled in.
const PATIENCE_MS: u64 = 100;
const FRAME_MS: u64 = 20;
const FILL_MAX: u64 = 5;
/// The longest concealment of one loss.
const CONCEAL_MAX_MS: u64 = 60;
/// The silence between two packets that the key detector hears; enough to end a key.
const SILENCE_MAX_MS: u64 = 60;
/// A new source replaces the old one only after the old one was silent for this long.
const SUCCESSION_MS: u64 = 60;
/// The largest step of sequence numbers within one stream.
const NEAR: u16 = 100;
const COMFORT_NOISE: u8 = 13;

/// The content of a payload type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadKind {
    G711(Law),
    G722,
    Opus,
    Key,
    ComfortNoise,
}

/// The content of a payload type in this call. A G.711 phone may use the other law under its static number.
pub fn kind(terms: &MediaTerms, payload_type: u8) -> Option<PayloadKind> {
    let narrow = matches!(terms.codec, Codec::Pcma | Codec::Pcmu);
    match payload_type {
        of if of == terms.receive_payload || of == terms.send_payload => Some(match terms.codec {
            Codec::Opus => PayloadKind::Opus,
            Codec::G722 => PayloadKind::G722,
            Codec::Pcma => PayloadKind::G711(Law::A),
            Codec::Pcmu => PayloadKind::G711(Law::Mu),
        }),
        of if Some(of) == terms.events => Some(PayloadKind::Key),
        COMFORT_NOISE => Some(PayloadKind::ComfortNoise),
        0 if narrow => Some(PayloadKind::G711(Law::Mu)),
        8 if narrow => Some(PayloadKind::G711(Law::A)),
        _ => None,
    }
}

#[derive(Debug)]
enum Decoder {
    G711 {
        concealer: Concealer,
        resampler: Resampler,
        narrow: Vec<i16>,
    },
    G722 {
        decoder: Box<G722Decoder>,
        concealer: Concealer,
    },
    Opus(Box<opus::Decoder>),
}

impl Decoder {
    fn new(codec: Codec) -> Result<Self, Error> {
        Ok(match codec {
            Codec::Pcma | Codec::Pcmu => Self::G711 {
                concealer: Concealer::at_8_khz(),
                resampler: Resampler::from_8_to_16(),
                narrow: Vec::with_capacity(FRAME),
            },
            Codec::G722 => Self::G722 {
                decoder: Box::default(),
                concealer: Concealer::at_16_khz(),
            },
            Codec::Opus => Self::Opus(Box::new(opus::Decoder::new()?)),
        })
    }

    /// Appends the payload's samples at 16 kHz.
    fn decode(&mut self, kind: PayloadKind, payload: &[u8], out: &mut Vec<i16>) {
        match (self, kind) {
            (
                Self::G711 {
                    concealer,
                    resampler,
                    narrow,
                },
                PayloadKind::G711(law),
            ) => {
                narrow.clear();
                law.decode(payload, narrow);
                concealer.received(narrow);
                resampler.run(narrow, out);
            }
            (Self::G722 { decoder, concealer }, PayloadKind::G722) => {
                let before = out.len();
                decoder.decode(payload, out);
                concealer.received(&mut out[before..]);
            }
            (Self::Opus(decoder), PayloadKind::Opus) => {
                decoder.decode(payload, out);
            }
            _ => {}
        }
    }

    /// Appends concealment of a loss; the next payload may contain error correction for it.
    fn conceal(&mut self, ms: u64, next: &[u8], out: &mut Vec<i16>) {
        match self {
            Self::G711 {
                concealer,
                resampler,
                narrow,
            } => {
                narrow.clear();
                concealer.lost(8 * ms as usize, narrow);
                resampler.run(narrow, out);
            }
            Self::G722 { concealer, .. } => concealer.lost(16 * ms as usize, out),
            Self::Opus(decoder) => {
                decoder.conceal(16 * ms as usize, Some(next), out);
            }
        }
    }
}

#[derive(Debug)]
struct StoredPacket {
    header: Header,
    payload: Vec<u8>,
}

#[derive(Debug)]
pub struct MediaReceiver {
    decoder: Decoder,
    clock: u32,
    window: JitterBuffer<StoredPacket>,
    /// Buffers for reuse.
    spare: Vec<Vec<u8>>,
    reception: Option<Reception>,
    /// When its last packet came.
    last_ms: u64,
    /// Another source, and the sequence number with which it would take over.
    candidate: Option<(u32, u16)>,
    keys: KeyReceiver,
    /// Used while no events were negotiated.
    tones: ToneDetector,
    caller: CallerVoice,
    pub echo: EchoGuard,
    arrival: ArrivalClock,
    /// The next timestamp, while audio continues.
    expected: Option<u32>,
    /// Something before the next packet was lost.
    gap: bool,
    /// Samples that do not fill a frame yet.
    pending: Vec<i16>,
    /// When silence is due.
    fill_ms: Option<u64>,
    /// Silence that was already filled in for the time of the next packet.
    filled_ms: u64,
    /// Audio that was made up in place of lost packets.
    pub concealed_ms: u64,
    /// The jitter at each packet that is no key.
    pub jitter_samples: JitterSamples,
}

impl MediaReceiver {
    pub fn new(codec: Codec) -> Result<Self, Error> {
        Ok(Self {
            decoder: Decoder::new(codec)?,
            clock: clock(codec),
            window: JitterBuffer::default(),
            spare: Vec::new(),
            reception: None,
            last_ms: 0,
            candidate: None,
            keys: KeyReceiver::default(),
            tones: ToneDetector::default(),
            caller: CallerVoice::default(),
            echo: EchoGuard::default(),
            arrival: ArrivalClock::default(),
            expected: None,
            gap: false,
            pending: Vec::with_capacity(2 * FRAME),
            fill_ms: None,
            filled_ms: 0,
            concealed_ms: 0,
            jitter_samples: JitterSamples::default(),
        })
    }

    /// The call is held: a voice that was under way has ended.
    pub fn forget_voice(&mut self) {
        self.caller = CallerVoice::default();
    }

    pub fn change(&mut self, codec: Codec) -> Result<(), Error> {
        self.decoder = Decoder::new(codec)?;
        self.clock = clock(codec);
        self.begin(None);
        Ok(())
    }

    /// The terms have changed; silence is due only after the other side had time to speak.
    pub fn rest(&mut self, now_ms: u64) {
        self.fill_ms = self.fill_ms.map(|_| now_ms + PATIENCE_MS);
    }

    /// The packet continues the stream.
    pub fn follows(&self, header: &Header) -> bool {
        self.reception.as_ref().is_some_and(|reception| {
            reception.ssrc == header.ssrc && header.sequence.wrapping_sub(reception.last()) <= NEAR
        })
    }

    /// The source has this SSRC.
    pub fn is_from(&self, ssrc: u32) -> bool {
        let reception = self.reception.as_ref();
        reception.is_some_and(|reception| reception.ssrc == ssrc)
    }

    pub fn jitter(&self) -> u32 {
        self.reception.as_ref().map_or(0, Reception::jitter)
    }

    pub fn block(&mut self, now_ms: u64) -> Option<Block> {
        self.reception
            .as_mut()
            .map(|reception| reception.block(now_ms))
    }

    pub fn sender_reported(&mut self, ssrc: u32, time: u32, now_ms: u64) {
        if let Some(reception) = self
            .reception
            .as_mut()
            .filter(|reception| reception.ssrc == ssrc)
        {
            reception.sender_reported(time, now_ms);
        }
    }

    /// A source said goodbye, so its successor need not wait.
    pub fn left(&mut self, ssrc: u32) {
        if self.is_from(ssrc) {
            self.last_ms = 0;
        }
    }

    /// Begins anew with this source, or with the next one.
    fn begin(&mut self, reception: Option<Reception>) {
        self.reception = reception;
        self.window = JitterBuffer::default();
        self.candidate = None;
        self.keys = KeyReceiver::default();
        self.expected = None;
        self.gap = false;
        self.arrival = ArrivalClock::default();
    }

    pub fn take(
        &mut self,
        packet: &Packet<'_>,
        terms: &MediaTerms,
        now_ms: u64,
        statistics: &mut StreamStatistics,
        heard: &mut Vec<StreamEvent>,
    ) {
        let header = packet.header;
        if !self.is_source(&header, now_ms) {
            return;
        }
        self.last_ms = now_ms;
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.clear();
        payload.extend_from_slice(packet.payload);
        let pushed = self
            .window
            .push(header.sequence, now_ms, StoredPacket { header, payload });
        match pushed {
            PushOutcome::Stray => return,
            PushOutcome::Restarted => {
                self.reception = Some(Reception::new(header.ssrc, header.sequence));
                self.expected = None;
                self.arrival = ArrivalClock::default();
            }
            PushOutcome::Late => statistics.late += 1,
            PushOutcome::Repeated => statistics.repeated += 1,
            PushOutcome::Taken => {}
        }
        let arrival = (now_ms * u64::from(self.clock / 1_000)) as u32;
        if let Some(reception) = &mut self.reception {
            if kind(terms, header.payload_type) == Some(PayloadKind::Key) {
                reception.count_untimed(header.sequence);
            } else {
                reception.count(header.sequence, header.timestamp, arrival);
                self.jitter_samples
                    .add(reception.jitter() / (self.clock / 1_000));
            }
        }
        self.drain(terms, now_ms, statistics, heard);
    }

    /// The packet is from the current source. A new source takes over with its second packet in a row.
    fn is_source(&mut self, header: &Header, now_ms: u64) -> bool {
        let begun = Reception::new(header.ssrc, header.sequence);
        match &self.reception {
            None => {
                self.begin(Some(begun));
                true
            }
            Some(reception) if reception.ssrc == header.ssrc => true,
            Some(_) => {
                let follows = self.candidate == Some((header.ssrc, header.sequence));
                let vacant = now_ms.saturating_sub(self.last_ms) >= SUCCESSION_MS;
                self.candidate = Some((header.ssrc, header.sequence.wrapping_add(1)));
                if follows && vacant {
                    self.begin(Some(begun));
                }
                follows && vacant
            }
        }
    }

    /// Gives up overdue packets, and fills in silence.
    pub fn tick(
        &mut self,
        terms: &MediaTerms,
        now_ms: u64,
        statistics: &mut StreamStatistics,
        heard: &mut Vec<StreamEvent>,
    ) {
        self.drain(terms, now_ms, statistics, heard);
        let Some(due) = self.fill_ms.filter(|due| *due <= now_ms) else {
            return;
        };
        let frames = ((now_ms - due) / FRAME_MS + 1).min(FILL_MAX);
        self.filled_ms += frames * FRAME_MS;
        self.fill_ms = Some((due + frames * FRAME_MS).max(now_ms.saturating_sub(FRAME_MS)));
        self.pending
            .resize(self.pending.len() + FRAME * frames as usize, 0);
        self.emit(terms, None, heard);
    }

    fn drain(
        &mut self,
        terms: &MediaTerms,
        now_ms: u64,
        statistics: &mut StreamStatistics,
        heard: &mut Vec<StreamEvent>,
    ) {
        while let Some(next) = self.window.pop(now_ms) {
            match next {
                OrderedItem::Lost(count) => {
                    statistics.lost += u64::from(count);
                    self.gap = true;
                }
                OrderedItem::Packet(StoredPacket { header, payload }) => {
                    self.play(&header, &payload, terms, now_ms, heard);
                    self.spare.push(payload);
                }
            }
        }
    }

    fn play(
        &mut self,
        header: &Header,
        payload: &[u8],
        terms: &MediaTerms,
        now_ms: u64,
        heard: &mut Vec<StreamEvent>,
    ) {
        let gap = std::mem::take(&mut self.gap);
        let kind = match kind(terms, header.payload_type) {
            Some(PayloadKind::Key) => {
                heard.extend(
                    self.keys
                        .hear(header.timestamp, payload)
                        .map(StreamEvent::Key),
                );
                return;
            }
            Some(kind @ (PayloadKind::G711(_) | PayloadKind::G722 | PayloadKind::Opus)) => kind,
            Some(PayloadKind::ComfortNoise) | None => return,
        };
        let missing_ms = self.expected.map_or(0, |expected| {
            let missing = header.timestamp.wrapping_sub(expected) as i32;
            u64::try_from(missing).unwrap_or(0) / u64::from(self.clock / 1_000)
        });
        let hears_tones = terms.events.is_none() && !terms.held();
        if gap && self.expected.is_some() {
            let ms = missing_ms
                .saturating_sub(self.filled_ms)
                .min(CONCEAL_MAX_MS);
            self.decoder.conceal(ms, payload, &mut self.pending);
            self.concealed_ms += ms;
            self.tones.skip();
        } else if hears_tones && self.filled_ms > 0 {
            // Nothing was lost, so the other side was silent for this time, which ends a key.
            let silent = missing_ms.min(SILENCE_MAX_MS) as usize;
            let press = |key| heard.push(StreamEvent::Key(key));
            self.tones.hear(&vec![0; 16 * silent], press);
        }
        let arrived_ms = self
            .arrival
            .without_jitter(header.timestamp, self.clock / 1_000, now_ms);
        let at_ms = arrived_ms.saturating_sub(self.pending_ms());
        let before = self.pending.len();
        self.decoder.decode(kind, payload, &mut self.pending);
        // Concealed and filled-in samples are not from the other side: they would end a key, which then counted twice.
        if hears_tones {
            let press = |key| heard.push(StreamEvent::Key(key));
            self.tones.hear(&self.pending[before..], press);
        }
        let lasts = (self.pending.len() - before) as u32 / 16 * (self.clock / 1_000);
        self.expected = Some(header.timestamp.wrapping_add(lasts));
        self.fill_ms = Some(now_ms + PATIENCE_MS);
        self.filled_ms = 0;
        self.emit(terms, Some(at_ms), heard);
    }

    /// The milliseconds of samples that wait to be emitted.
    fn pending_ms(&self) -> u64 {
        self.pending.len() as u64 / 16
    }

    /// Emits whole frames; none while the call is held, because nobody speaks then. `at_ms`: when their first sample came. Silence
    /// that was filled in never came, and the echo guard does not hear it: the late packets will.
    fn emit(&mut self, terms: &MediaTerms, at_ms: Option<u64>, heard: &mut Vec<StreamEvent>) {
        let whole = self.pending.len() / FRAME * FRAME;
        if !terms.held() {
            for (n, frame) in (0..).zip(self.pending[..whole].chunks_exact(FRAME)) {
                let at_ms = at_ms.map(|at_ms| at_ms + n * FRAME_MS);
                let frame_heard = self.caller.hear(frame, &mut self.echo, at_ms);
                if !frame_heard.released.is_empty() {
                    heard.push(StreamEvent::Released(frame_heard.released));
                }
                heard.push(match frame_heard.is_hidden {
                    true => StreamEvent::Hidden(frame.to_vec()),
                    false => StreamEvent::Audio(frame.to_vec()),
                });
                heard.extend(frame_heard.change.map(|change| match change {
                    VoiceChange::Started => StreamEvent::VoiceStarted,
                    VoiceChange::Ended => StreamEvent::VoiceEnded,
                }));
            }
        }
        self.pending.drain(..whole);
    }
}
