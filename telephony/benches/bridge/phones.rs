//! Phones: signalling by the tests' phone, one thread that sends for all, and a listening task for each.

use std::{
    collections::VecDeque,
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use dikala_sip::settings::Codec;
use dikala_testkit::phone::{self, SignallingPhone};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    service,
    sound::{CallerAudio, PhoneDecoder, SECOND},
    stage::{MarkDirection, TrafficMode, TrafficState},
};

pub const DID: &str = "+622150001000";
/// The fixed part of an RTP header.
const HEADER_BYTES: usize = 12;
const PACKET: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Phones {
    runtime: Handle,
    stage: Arc<TrafficState>,
    codec: Codec,
    edge: SocketAddr,
    speakers: mpsc::Sender<Speaker>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    answered: Mutex<Vec<(SignallingPhone, JoinHandle<()>)>>,
    watched: AtomicBool,
    /// Per call, the arrival of each packet relative to its timestamp, in microseconds from any epoch.
    arrivals: Mutex<Vec<Vec<i64>>>,
}

/// The sender of a phone's audio.
#[derive(Debug)]
struct Speaker {
    call: usize,
    socket: UdpSocket,
    to: SocketAddr,
    packets: u16,
    due: Instant,
}

/// The payload type of a codec, and its SDP name.
fn payload(codec: Codec) -> (u8, &'static str) {
    match codec {
        Codec::G722 => (9, "G722/8000"),
        Codec::Pcma => (8, "PCMA/8000"),
        Codec::Pcmu => (0, "PCMU/8000"),
        Codec::Opus => (111, "opus/48000/2"),
    }
}

/// RTP ticks per millisecond.
fn per_ms(codec: Codec) -> u32 {
    if codec == Codec::Opus { 48 } else { 8 }
}

impl Phones {
    pub fn new(runtime: &Handle, stage: Arc<TrafficState>, codec: Codec, edge: SocketAddr) -> Self {
        let (speakers, begin) = mpsc::channel();
        let speaking = stage.clone();
        thread::spawn(move || speak(&begin, &speaking, codec));
        let shared = Shared::default();
        shared
            .arrivals
            .lock()
            .unwrap()
            .resize_with(stage.calls(), Vec::new);
        Self {
            runtime: runtime.clone(),
            stage,
            codec,
            edge,
            speakers,
            shared: Arc::new(shared),
        }
    }

    /// Places a call and starts its audio. Returns the time until the answer.
    pub async fn call(self, number: usize) -> Duration {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let (kind, name) = payload(self.codec);
        let offer = phone::offer(socket.local_addr().unwrap().port(), kind, name);
        let (caller, id) = (service::caller(number), format!("bench{number}"));
        let began = Instant::now();
        let phone = SignallingPhone::call(self.edge, DID, &caller, &id, &offer).await;
        let took = began.elapsed();
        self.stage.mark(number, MarkDirection::FirstWords);
        let speaker = Speaker {
            call: number,
            socket: socket.try_clone().unwrap(),
            to: phone.media,
            packets: 0,
            due: Instant::now() + PACKET,
        };
        self.speakers.send(speaker).unwrap();
        let listening = self.runtime.spawn(self.clone().listen(number, socket));
        let mut answered = self.shared.answered.lock().unwrap();
        answered.push((phone, listening));
        took
    }

    async fn listen(self, number: usize, socket: UdpSocket) {
        let socket = tokio::net::UdpSocket::from_std(socket).unwrap();
        let mut ear = PhoneDecoder::new(self.codec);
        let mut packet = [0; 2_048];
        let mut first = None;
        while let Ok(length) = socket.recv(&mut packet).await {
            let now = self.stage.now_us();
            // Reports of a neighbour go to the port after its own, which may be this one.
            if packet[1] & 0x7f != payload(self.codec).0 {
                continue;
            }
            let Some([t0, t1, t2, t3, ..]) = packet[..length].get(4..HEADER_BYTES) else {
                continue;
            };
            let timestamp = u32::from_be_bytes([*t0, *t1, *t2, *t3]);
            let first = *first.get_or_insert(timestamp);
            if self.shared.watched.load(Relaxed) {
                let told = u64::from(timestamp.wrapping_sub(first)) * 1_000;
                let told = told / u64::from(per_ms(self.codec));
                let late = now.cast_signed() - told.cast_signed();
                self.shared.arrivals.lock().unwrap()[number].push(late);
            }
            // The decoder needs every packet.
            if !self.stage.is(TrafficMode::Talk) && ear.is_loud(&packet[HEADER_BYTES..length]) {
                self.stage.found(number, MarkDirection::FirstWords);
                self.stage.found(number, MarkDirection::ToPhone);
            }
        }
    }

    pub fn watch(&self, watched: bool) {
        self.shared.watched.store(watched, Relaxed);
    }

    /// Packets that came while watched, and those more than 20 ms later than the quickest packet of their call would suggest.
    pub fn packets(&self) -> (u64, u64) {
        let arrivals = self.shared.arrivals.lock().unwrap();
        let mut counted = (0, 0);
        for call in arrivals.iter() {
            let quickest = call.iter().min().expect("audio flows");
            let late = call.iter().filter(|one| *one - quickest > 20_000).count();
            counted.0 += call.len() as u64;
            counted.1 += late as u64;
        }
        counted
    }

    pub async fn hang_up(self) {
        let answered = std::mem::take(&mut *self.shared.answered.lock().unwrap());
        self.stage.be(TrafficMode::Over);
        for (phone, listening) in answered {
            phone.hang_up().await;
            listening.abort();
        }
    }
}

fn speak(begin: &mpsc::Receiver<Speaker>, stage: &TrafficState, codec: Codec) {
    let said = CallerAudio::new(codec);
    let mut packet = Vec::new();
    // All wait equally long, so a new speaker is the last.
    let mut speakers = VecDeque::from_iter(begin.recv());
    while let Some(mut speaker) = speakers.pop_front() {
        thread::sleep(speaker.due.saturating_duration_since(Instant::now()));
        speaker.say(stage, &said, codec, &mut packet);
        speaker.due += PACKET;
        speakers.push_back(speaker);
        speakers.extend(begin.try_iter());
        if stage.is(TrafficMode::Over) {
            return;
        }
    }
}

impl Speaker {
    fn say(
        &mut self,
        stage: &TrafficState,
        said: &CallerAudio,
        codec: Codec,
        packet: &mut Vec<u8>,
    ) {
        let step = usize::from(self.packets) % SECOND;
        let marks = stage.is(TrafficMode::Marks);
        let second = if marks { &said.marked } else { &said.noise };
        let timestamp = u32::from(self.packets) * 20 * per_ms(codec);
        let marker = u8::from(self.packets == 0) << 7;
        packet.clear();
        packet.extend_from_slice(&[0x80, marker | payload(codec).0]);
        packet.extend_from_slice(&self.packets.to_be_bytes());
        packet.extend_from_slice(&timestamp.to_be_bytes());
        packet.extend_from_slice(&[0, 0, 0, 7]);
        packet.extend_from_slice(&second[step]);
        if marks && step == 0 {
            stage.mark(self.call, MarkDirection::ToModel);
        }
        // A failure is a lost packet.
        let _ = self.socket.send_to(packet, self.to);
        self.packets += 1;
    }
}
