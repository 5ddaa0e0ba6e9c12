//! The media of a phone: G.711 A-law, loud or silent.

#![expect(clippy::float_arithmetic, reason = "tones are made with sines")]

use std::{f64::consts::TAU, net::SocketAddr, path::PathBuf, time::Duration};

use tokio::{net::UdpSocket, time::timeout};

use super::PATIENCE;

#[derive(Debug)]
pub struct PhoneMedia {
    socket: UdpSocket,
    ssrc: u32,
    sequence: u16,
    /// Samples of half a period.
    half: usize,
}

impl PhoneMedia {
    pub async fn new() -> Self {
        Self::at("127.0.0.1").await
    }

    pub async fn at(host: &str) -> Self {
        Self::of(UdpSocket::bind((host, 0)).await.unwrap())
    }

    pub fn of(socket: UdpSocket) -> Self {
        Self {
            socket,
            ssrc: rand::random(),
            sequence: 1,
            half: 10,
        }
    }

    /// The same stream goes on from another socket.
    pub fn moves_to(&mut self, socket: UdpSocket) {
        self.socket = socket;
    }

    /// The same with a tone of 800 Hz.
    pub fn higher(self) -> Self {
        Self { half: 5, ..self }
    }

    pub fn port(&self) -> u16 {
        self.socket.local_addr().unwrap().port()
    }

    /// Sends 20 ms of a loud tone to the address in this SDP.
    pub async fn send(&mut self, sdp: &str) {
        // 400 Hz: ten samples up, ten down.
        let half = self.half;
        let is_up = |at: usize| (at / half).is_multiple_of(2);
        let tone = (0..160).map(|at| if is_up(at) { 0xAA } else { 0x2A });
        self.send_payload(sdp, tone).await;
    }

    /// Sends 20 ms of these tones, or of silence.
    pub async fn send_tones(&mut self, sdp: &str, hertz: &[f64]) {
        let begun = usize::from(self.sequence) * 160;
        let sample = |at: usize| {
            let sine = |hertz: &f64| (TAU * hertz * at as f64 / 8_000.0).sin();
            hertz.iter().map(sine).sum::<f64>() * 6_000.0
        };
        let nearest = |wanted: f64| {
            let off = |byte: &u8| (f64::from(linear(*byte)) - wanted).abs() as u32;
            (0..=u8::MAX).min_by_key(off).unwrap()
        };
        let payload: Vec<u8> = (begun..begun + 160).map(|at| nearest(sample(at))).collect();
        self.send_payload(sdp, payload).await;
    }

    async fn send_payload(&mut self, sdp: &str, payload: impl IntoIterator<Item = u8>) {
        let to = media(sdp);
        let mut packet = vec![0x80, 8];
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&(u32::from(self.sequence) * 160).to_be_bytes());
        packet.extend_from_slice(&self.ssrc.to_be_bytes());
        packet.extend(payload);
        self.sequence += 1;
        self.socket.send_to(&packet, to).await.unwrap();
    }

    /// Sends a key as an RFC 4733 event, with payload type 101.
    pub async fn press(&mut self, sdp: &str, event: u8) {
        let to = media(sdp);
        let begun = u32::from(self.sequence) * 160;
        for step in 1..=6_u16 {
            let marker = if step == 1 { 0x80 } else { 0 };
            let mut packet = vec![0x80, marker | 101];
            packet.extend_from_slice(&self.sequence.to_be_bytes());
            packet.extend_from_slice(&begun.to_be_bytes());
            packet.extend_from_slice(&self.ssrc.to_be_bytes());
            // The last three mark the end.
            let over = if step > 3 { 0x80 } else { 0 };
            let [high, low] = (step.min(4) * 160).to_be_bytes();
            packet.extend_from_slice(&[event, over | 10, high, low]);
            self.sequence += 1;
            self.socket.send_to(&packet, to).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The received keys, until half a second of silence.
    pub async fn keys(&self) -> Vec<u8> {
        let (mut packet, mut keys, mut last) = ([0; 2_048], Vec::new(), None);
        let until = tokio::time::Instant::now() + PATIENCE;
        let mut quiet_from = tokio::time::Instant::now();
        while tokio::time::Instant::now() < until {
            let received = timeout(Duration::from_millis(100), self.socket.recv(&mut packet));
            if let Ok(Ok(16)) = received.await
                && packet[1] & 0x7f == 101
            {
                quiet_from = tokio::time::Instant::now();
                let begun = packet[4..8].to_vec();
                if last.as_ref() != Some(&begun) {
                    keys.push(packet[12]);
                    last = Some(begun);
                }
            }
            if !keys.is_empty() && quiet_from.elapsed() > Duration::from_millis(500) {
                break;
            }
        }
        keys
    }

    /// True if a loud packet comes soon.
    pub async fn is_loud(&self) -> bool {
        let mut packet = [0; 2_048];
        for _ in 0..3 {
            let received = timeout(Duration::from_millis(30), self.socket.recv(&mut packet));
            let Ok(Ok(length)) = received.await else {
                return false;
            };
            if loud(&packet[..length]) {
                return true;
            }
        }
        false
    }

    /// Waits until a tone of this pitch comes.
    pub async fn hears_a_tone(&self, hertz: usize) {
        let until = tokio::time::Instant::now() + PATIENCE;
        let mut heard = Vec::new();
        // 0.8 s, because a ring tone lasts for a second only.
        while !(hertz - 20..hertz + 20).contains(&(pitch(&heard, 6_400) * 10 / 8)) {
            assert!(tokio::time::Instant::now() < until, "no tone came");
            self.receive(&mut heard).await;
        }
    }

    /// The upward zero crossings in so many packets; 0 for silence.
    pub async fn pitch_of(&self, packets: usize) -> usize {
        let mut heard = Vec::new();
        for _ in 0..packets {
            self.receive(&mut heard).await;
        }
        pitch(&heard, heard.len())
    }

    /// Appends the samples of the next packet.
    async fn receive(&self, heard: &mut Vec<i16>) {
        let mut packet = [0; 2_048];
        let received = timeout(PATIENCE, self.socket.recv(&mut packet)).await;
        let length = received.expect("silence is sent, too").unwrap();
        heard.extend(packet[12..length].iter().map(|byte| linear(*byte)));
    }

    /// Sends until the echo comes back.
    pub async fn echoes(&mut self, sdp: &str) {
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            self.send(sdp).await;
            if self.is_loud().await {
                return;
            }
            assert!(tokio::time::Instant::now() < until, "nothing came back");
        }
    }

    /// Drops the received packets, and returns how many.
    pub fn forgets(&self) -> usize {
        let mut packet = [0; 2_048];
        std::iter::from_fn(|| self.socket.try_recv(&mut packet).ok()).count()
    }

    /// Waits until half a second of silence has come.
    pub async fn falls_silent(&self) {
        self.loud_until_silence().await;
    }

    /// Waits until nothing is sent for half a second.
    pub async fn ends(&self) {
        let until = tokio::time::Instant::now() + PATIENCE;
        let mut packet = [0; 2_048];
        let pause = Duration::from_millis(500);
        while timeout(pause, self.socket.recv(&mut packet)).await.is_ok() {
            assert!(tokio::time::Instant::now() < until, "it never ends");
        }
    }

    /// The number of loud packets until half a second of silence has come.
    pub async fn loud_until_silence(&self) -> usize {
        let until = tokio::time::Instant::now() + PATIENCE;
        let (mut packet, mut quiet, mut all) = ([0; 2_048], 0, 0);
        while quiet < 25 {
            let received = timeout(PATIENCE, self.socket.recv(&mut packet)).await;
            let length = received.expect("silence is sent, too").unwrap();
            if loud(&packet[..length]) {
                (quiet, all) = (0, all + 1);
            } else {
                quiet += 1;
            }
            assert!(tokio::time::Instant::now() < until, "it is never silent");
        }
        all
    }
}

/// The sample of a byte of G.711 A-law.
fn linear(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (segment, step) = (byte >> 4 & 7, i16::from(byte & 15) << 4);
    let size = match segment {
        0 => step + 8,
        _ => (step + 0x108) << (segment - 1),
    };
    if byte & 0x80 == 0 { -size } else { size }
}

/// True if a packet of G.711 A-law is loud.
fn loud(packet: &[u8]) -> bool {
    let loud = |byte: &u8| (byte ^ 0x55) >> 4 & 7 >= 4;
    packet
        .get(12..)
        .is_some_and(|payload| payload.iter().filter(|byte| loud(byte)).count() > 40)
}

/// The media address of this SDP.
fn media(sdp: &str) -> SocketAddr {
    let word_after = |text: &str| {
        let rest = sdp.split(text).nth(1).unwrap();
        rest.split([' ', '\r']).next().unwrap()
    };
    let family = if sdp.contains("c=IN IP4 ") {
        "c=IN IP4 "
    } else {
        "c=IN IP6 "
    };
    let port = word_after("m=audio ").parse().unwrap();
    SocketAddr::new(word_after(family).parse().unwrap(), port)
}

/// Sends into one side until the other is loud.
pub async fn carries(from: &mut PhoneMedia, sdp: &str, to: &PhoneMedia) {
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        from.send(sdp).await;
        if to.is_loud().await {
            return;
        }
        assert!(tokio::time::Instant::now() < until, "nothing was heard");
    }
}

/// The number of upward zero crossings in the last second; 0 for silence.
pub fn pitch(samples: &[i16], rate: usize) -> usize {
    let Some(last) = samples.len().checked_sub(rate) else {
        return 0;
    };
    let second = &samples[last..];
    if second.iter().all(|sample| sample.unsigned_abs() < 500) {
        return 0;
    }
    second
        .windows(2)
        .filter(|pair| pair[0] < 0 && pair[1] >= 0)
        .count()
}

/// The audio that a phone hears: a growing file of one channel in 16 bits, whose header may still be missing.
#[derive(Debug)]
pub struct Recording(pub PathBuf);

impl Recording {
    /// The pitch of the last second, at so many samples a second.
    pub fn pitch(&self, rate: usize) -> usize {
        let bytes = std::fs::read(&self.0).unwrap_or_default();
        pitch(&recorded(&bytes, 1), rate)
    }

    /// Forgets what was heard. The phone goes on writing at the same place.
    pub fn forgets(&self) {
        if let Ok(file) = std::fs::File::options().write(true).open(&self.0) {
            file.set_len(0).unwrap();
        }
    }
}

/// The samples of a recording in 16 bits with this many channels: the first of each frame.
pub fn recorded(bytes: &[u8], channels: usize) -> Vec<i16> {
    let frames = bytes
        .get(44..)
        .unwrap_or_default()
        .chunks_exact(2 * channels);
    frames
        .map(|frame| i16::from_le_bytes([frame[0], frame[1]]))
        .collect()
}
