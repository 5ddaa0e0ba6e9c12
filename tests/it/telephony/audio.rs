//! A phone's audio: sends and receives G.711 A-law over RTP every 20 ms, and recognises the model's voice.
//!
//! It runs on its own threads, so that its measurements do not wait for the test's other work.

use std::{
    collections::VecDeque,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use super::room::Room;
use crate::support::prelude::*;

/// Samples of a packet, and its duration in milliseconds.
pub const SAMPLES: usize = 160;
pub const PACKET_MS: usize = 20;
/// A second in RTP timestamps of G.711.
const SECOND: u32 = 8_000;
/// After this many packets without the voice, an utterance is over. A busy machine leaves shorter gaps.
const PAUSE: usize = 10;
/// After this time without any packet, not even silence, nothing more will come.
const GONE: Duration = Duration::from_secs(3);
const SILENCE: u8 = 0xd5;
const PCMA: u8 = 8;
const EVENTS: u8 = 101;

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Step>,
    /// Number of packets of the current speech that were sent.
    spoken: usize,
    heard: Vec<Packet>,
    /// The sound beside the speech; none is silence.
    room: Option<Room>,
}

/// A received packet of 20 ms.
#[derive(Debug, Clone, Copy)]
struct Packet {
    at: Instant,
    timestamp: u32,
    is_loud: bool,
    /// It is no silence, however soft.
    is_sound: bool,
    /// For the model's tone: how much the caller had spoken by then, in packets.
    tone: Option<usize>,
}

#[derive(Debug)]
enum Step {
    Sound(Vec<u8>),
    /// A part of a key press (RFC 4733).
    Key {
        event: u8,
        part: u16,
    },
}

/// An utterance of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utterance {
    pub packets: usize,
    /// Packets that the caller had spoken when the last one of it arrived.
    pub spoken: usize,
    pub is_over: bool,
}

impl Utterance {
    pub fn milliseconds(self) -> usize {
        self.packets * PACKET_MS
    }
}

/// Sound of any kind, in packets.
#[derive(Debug, Default, Clone, Copy)]
pub struct HeardSound {
    pub packets: usize,
    /// The longest silence in it, and the sound before that. A busy machine that sends nothing for a while sends no silence.
    pub pause: usize,
    pub before: usize,
    /// Silence after it.
    pub silence: usize,
}

/// The packets received over a time.
#[derive(Debug, Clone, Copy)]
pub struct PacketFlow {
    pub packets: usize,
    /// Time from the first packet to the last, by timestamps, and by arrival.
    pub told_ms: u64,
    pub lasted_ms: u64,
}

pub struct PhoneAudio {
    socket: Arc<UdpSocket>,
    /// The peer's RTP address.
    pub to: Option<SocketAddr>,
    state: Arc<Mutex<State>>,
    stops: Arc<AtomicBool>,
    /// Stops all sending, even of silence.
    is_gone: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl PhoneAudio {
    pub fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let poll = Duration::from_millis(50);
        socket.set_read_timeout(Some(poll)).unwrap();
        Self {
            socket: Arc::new(socket),
            to: None,
            state: Arc::default(),
            stops: Arc::default(),
            is_gone: Arc::default(),
            threads: Vec::new(),
        }
    }

    pub fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Sends to this address from now on, silence if there is no speech, and listens.
    pub fn start(&mut self, to: SocketAddr) {
        self.to = Some(to);
        let parts = || (self.socket.clone(), self.state.clone(), self.stops.clone());
        let (mouth, ear) = (parts(), parts());
        let is_gone = self.is_gone.clone();
        self.threads = vec![
            thread::spawn(move || speak(&mouth.0, to, &mouth.1, &mouth.2, &is_gone)),
            thread::spawn(move || listen(&ear.0, &ear.1, &ear.2)),
        ];
    }

    /// Queues speech in G.711 A-law.
    pub fn say(&self, sound: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.spoken = 0;
        let packets = sound.chunks_exact(SAMPLES);
        state
            .waiting
            .extend(packets.map(|packet| Step::Sound(packet.to_vec())));
    }

    /// From now on the phone is in this room.
    pub fn enter(&self, room: Room) {
        self.state.lock().unwrap().room = Some(room);
    }

    pub fn press(&self, events: &[u8]) {
        let mut state = self.state.lock().unwrap();
        for event in events {
            // The last three packets mark the end of the key press; then a pause.
            let parts = (1..=7).map(|part| Step::Key {
                event: *event,
                part,
            });
            state.waiting.extend(parts);
            state.waiting.push_back(Step::Sound(vec![SILENCE; SAMPLES]));
        }
    }

    /// Waits until all speech was sent.
    pub async fn said(&self) {
        eventually("all to be said", async || {
            self.state.lock().unwrap().waiting.is_empty().then_some(())
        })
        .await;
    }

    /// Stops sending.
    pub fn fall_away(&self) {
        self.is_gone.store(true, Ordering::Relaxed);
    }

    /// Sends raw bytes from the RTP socket.
    pub fn send(&self, bytes: &[u8]) {
        self.socket.send_to(bytes, self.to.unwrap()).unwrap();
    }

    /// True if anything but silence was received.
    pub fn is_loud(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.heard.iter().any(|packet| packet.is_loud)
    }

    /// Waits for `count` packets after the first `from`.
    pub async fn hears_packets(&self, from: usize, count: usize) {
        let what = format!("{count} packets to be heard");
        eventually(&what, async || {
            (self.packets() >= from + count).then_some(())
        })
        .await;
    }

    /// Loud audio after the first `from` packets that is not the model's tone: the start of each sentence, with at
    /// least a second in between.
    pub fn sentences(&self, from: usize) -> Vec<Instant> {
        let state = self.state.lock().unwrap();
        let loud = state.heard[from..]
            .iter()
            .filter(|packet| packet.is_loud && packet.tone.is_none());
        let mut begun = Vec::new();
        // By the sender's time, because a busy machine delivers packets late.
        let mut last: Option<u32> = None;
        for packet in loud {
            if last.is_none_or(|last| packet.timestamp.wrapping_sub(last) >= SECOND) {
                begun.push(packet.at);
            }
            last = Some(packet.timestamp);
        }
        begun
    }

    /// The number of packets with the model's tone after the first `from`, and the time of the first of them.
    pub fn tones(&self, from: usize) -> (usize, Option<Instant>) {
        let state = self.state.lock().unwrap();
        let mut tones = state.heard[from..]
            .iter()
            .filter(|packet| packet.tone.is_some());
        let first = tones.next().map(|packet| packet.at);
        (tones.count() + usize::from(first.is_some()), first)
    }

    /// The number of packets between the start of the utterance with this number, counted from 1, and the end of
    /// the one before.
    pub fn silence_before(&self, count: usize) -> usize {
        let state = self.state.lock().unwrap();
        let (mut found, mut pause) = (0, PAUSE);
        for packet in &state.heard {
            if packet.tone.is_none() {
                pause += 1;
                continue;
            }
            found += usize::from(pause >= PAUSE);
            if found == count {
                return pause;
            }
            pause = 0;
        }
        panic!("no utterance {count}");
    }

    /// Asserts that a packet came every 20 ms after the first `from`, without an audible gap.
    #[track_caller]
    pub fn assert_unbroken(&self, from: usize) {
        let state = self.state.lock().unwrap();
        let times: Vec<Instant> = state.heard[from..].iter().map(|packet| packet.at).collect();
        let lasted = times[times.len() - 1] - times[0];
        let expected = lasted.as_millis() / PACKET_MS as u128;
        let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
        assert!(
            times.len() as u128 * 100 >= expected * 85,
            "{} of {expected} packets",
            times.len()
        );
        // A busy machine also delays the measurement.
        assert!(longest < Some(Duration::from_secs(1)), "{longest:?}");
    }

    /// The longest time without a packet. A busy machine stalls.
    pub fn longest_stall(&self) -> Duration {
        let state = self.state.lock().unwrap();
        let stalls = state.heard.windows(2).map(|pair| pair[1].at - pair[0].at);
        stalls.max().unwrap_or_default()
    }

    /// The length of all audio that is not silence, and of the silence at the end.
    pub fn loud_ms(&self) -> usize {
        let state = self.state.lock().unwrap();
        let loud = state.heard.iter().filter(|packet| packet.is_loud);
        loud.count() * PACKET_MS
    }

    pub fn silent_ms(&self) -> usize {
        let state = self.state.lock().unwrap();
        let silent = state
            .heard
            .iter()
            .rev()
            .take_while(|packet| !packet.is_loud);
        silent.count() * PACKET_MS
    }

    /// The sound after the first `from` packets.
    pub fn sound(&self, from: usize) -> HeardSound {
        let state = self.state.lock().unwrap();
        let mut heard = HeardSound::default();
        for packet in &state.heard[from..] {
            if !packet.is_sound {
                heard.silence += 1;
                continue;
            }
            let pause = std::mem::take(&mut heard.silence);
            if heard.packets > 0 && pause > heard.pause {
                (heard.pause, heard.before) = (pause, heard.packets);
            }
            heard.packets += 1;
        }
        heard
    }

    /// The number of received packets.
    pub fn packets(&self) -> usize {
        self.state.lock().unwrap().heard.len()
    }

    /// Statistics of all received packets.
    pub fn flow(&self) -> PacketFlow {
        let state = self.state.lock().unwrap();
        let (first, last) = (state.heard[0], state.heard[state.heard.len() - 1]);
        PacketFlow {
            packets: state.heard.len(),
            told_ms: u64::from(last.timestamp.wrapping_sub(first.timestamp) / 8),
            lasted_ms: u64::try_from((last.at - first.at).as_millis()).unwrap(),
        }
    }

    /// The model's utterances so far.
    pub fn utterances(&self) -> Vec<Utterance> {
        let state = self.state.lock().unwrap();
        let mut found: Vec<Utterance> = Vec::new();
        let mut pause = PAUSE;
        for packet in &state.heard {
            let Some(spoken) = packet.tone else {
                pause += 1;
                continue;
            };
            if pause >= PAUSE {
                found.push(Utterance {
                    packets: 0,
                    spoken: 0,
                    is_over: true,
                });
            }
            pause = 0;
            let last = found.last_mut().unwrap();
            (last.packets, last.spoken) = (last.packets + 1, spoken);
        }
        if let Some(last) = found.last_mut() {
            let came = state.heard.last().map(|packet| packet.at.elapsed());
            last.is_over = pause >= PAUSE || came > Some(GONE);
        }
        found
    }

    /// Waits for the utterance with this number to be as wanted; returns it.
    pub async fn hears(&self, count: usize, wanted: impl Fn(&Utterance) -> bool) -> Utterance {
        let what = format!("utterance {count} to be heard");
        eventually(&what, async || {
            let heard = self.utterances();
            assert!(heard.len() <= count, "more than {count}: {heard:?}");
            let last = heard.get(count - 1).copied();
            last.filter(&wanted)
        })
        .await
    }
}

impl Drop for PhoneAudio {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn speak(
    socket: &UdpSocket,
    to: SocketAddr,
    state: &Mutex<State>,
    stops: &AtomicBool,
    is_gone: &AtomicBool,
) {
    let (mut sequence, mut begun) = (0_u16, 0_u32);
    let mut next = Instant::now();
    while !stops.load(Ordering::Relaxed) {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next += Duration::from_millis(20);
        let now = u32::from(sequence) * 160;
        let (step, beside) = {
            let mut state = state.lock().unwrap();
            let step = state.waiting.pop_front();
            state.spoken += usize::from(matches!(step, Some(Step::Sound(_))));
            (step, state.room.as_mut().map(Room::next))
        };
        let (kind, at, payload) = match step {
            None => (PCMA, now, mixed(vec![SILENCE; SAMPLES], beside)),
            Some(Step::Sound(sound)) => (PCMA, now, mixed(sound, beside)),
            Some(Step::Key { event, part }) => {
                if part == 1 {
                    begun = now;
                }
                let marker = if part == 1 { 0x80 } else { 0 };
                let over = if part > 4 { 0x80 } else { 0 };
                let [high, low] = (part.min(5) * 160).to_be_bytes();
                (EVENTS | marker, begun, vec![event, over | 10, high, low])
            }
        };
        let mut packet = vec![0x80, kind];
        packet.extend_from_slice(&sequence.to_be_bytes());
        packet.extend_from_slice(&at.to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0, 7]);
        packet.extend_from_slice(&payload);
        if !is_gone.load(Ordering::Relaxed) {
            let _ = socket.send_to(&packet, to);
        }
        sequence += 1;
    }
}

fn listen(socket: &UdpSocket, state: &Mutex<State>, stops: &AtomicBool) {
    let mut packet = [0; 2_048];
    while !stops.load(Ordering::Relaxed) {
        let Ok(length) = socket.recv(&mut packet) else {
            continue;
        };
        if length != 12 + SAMPLES || packet[1] & 0x7f != PCMA {
            continue;
        }
        let samples: Vec<i32> = packet[12..length].iter().copied().map(linear).collect();
        let stamp = [packet[4], packet[5], packet[6], packet[7]];
        let timestamp = u32::from_be_bytes(stamp);
        let mut state = state.lock().unwrap();
        if let Some(room) = &mut state.room {
            room.play(timestamp, &samples);
        }
        let packet = Packet {
            at: Instant::now(),
            timestamp,
            is_loud: samples.iter().any(|sample| sample.abs() > 1_000) && !is_ringing(&samples),
            is_sound: packet[12..length].iter().any(|code| *code != SILENCE),
            tone: is_tone(&samples).then_some(state.spoken),
        };
        state.heard.push(packet);
    }
}

/// Speech with the sound of a room.
fn mixed(speech: Vec<u8>, room: Option<Vec<i32>>) -> Vec<u8> {
    let Some(room) = room else {
        return speech;
    };
    let both = speech.iter().zip(&room);
    both.map(|(code, beside)| coded(linear(*code) + beside))
        .collect()
}

/// True for the ring tone of 425 Hz, unless it looks like the model's: each three samples of a sine have the same
/// proportion.
fn is_ringing(samples: &[i32]) -> bool {
    if is_tone(samples) {
        return false;
    }
    let loudness: i32 = samples.iter().map(|it| it.abs()).sum();
    let off = |three: &[i32]| (1_000 * (three[0] + three[2]) - 1_890 * three[1]).abs() / 1_000;
    samples.windows(3).map(off).sum::<i32>() < loudness / 10
}

/// True for the simulated model's loud tone of 500 Hz: ten waves per packet.
fn is_tone(samples: &[i32]) -> bool {
    let mean = samples.iter().map(|it| it.abs()).sum::<i32>() / 160;
    let waves = samples
        .windows(2)
        .filter(|pair| pair[0] < 0 && pair[1] >= 0);
    mean > 1_000 && (9..=11).contains(&waves.count())
}

/// ITU-T G.711, A-law.
pub fn coded(sample: i32) -> u8 {
    let magnitude = sample.abs().min(0x7fff);
    let exponent = match magnitude >> 8 {
        0 => 0,
        high => high.ilog2() + 1,
    };
    let mantissa = (magnitude >> (exponent.max(1) + 3)) & 15;
    let sign = if sample < 0 { 0 } else { 0x80 };
    (sign | (exponent << 4) as u8 | mantissa as u8) ^ 0x55
}

fn linear(code: u8) -> i32 {
    let code = code ^ 0x55;
    let (exponent, mantissa) = (code >> 4 & 7, i32::from(code & 15) << 4);
    let magnitude = match exponent {
        0 => mantissa + 8,
        _ => (mantissa + 0x108) << (exponent - 1),
    };
    if code & 0x80 == 0 {
        -magnitude
    } else {
        magnitude
    }
}
