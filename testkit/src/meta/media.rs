//! The media of a call from WhatsApp: SRTP with keys in the SDP (RFC 4568), and Opus.
#![expect(
    clippy::float_arithmetic,
    reason = "the decoder gives floats; they are made samples here and go nowhere else"
)]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD};
use opus_rs::{Application, OpusDecoder, OpusEncoder};
use tokio::{net::UdpSocket, task::JoinHandle, time::interval};
use webrtc_srtp::{context::Context, protection_profile::ProtectionProfile};

/// Samples a second of what is heard.
const RATE: i32 = 16_000;
/// Samples of a packet.
const FRAME: usize = 320;
/// Ticks of the RTP clock in a packet.
const TICKS: u32 = 960;
const HEADER_BYTES: usize = 12;
const OPUS: u8 = 111;

#[derive(Debug, Default)]
struct Heard {
    samples: Vec<i16>,
    packets: usize,
    rejected: usize,
}

/// The sockets and keys of one call.
#[derive(Debug)]
pub struct MetaMedia {
    socket: Arc<UdpSocket>,
    key: [u8; 30],
    heard: Arc<Mutex<Heard>>,
    speaks: Arc<AtomicBool>,
    running: Option<JoinHandle<()>>,
}

impl Drop for MetaMedia {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

impl MetaMedia {
    pub(super) async fn open(key: [u8; 30]) -> Self {
        Self {
            socket: Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()),
            key,
            heard: Arc::default(),
            speaks: Arc::default(),
            running: None,
        }
    }

    /// The offer: Opus, and PCMA before it if `prefers_g711`; without keys unless `is_encrypted`.
    pub(super) fn offer(&self, prefers_g711: bool, is_encrypted: bool) -> String {
        let port = self.socket.local_addr().unwrap().port();
        let (profile, crypto) = match is_encrypted {
            true => {
                let key = BASE64_STANDARD.encode(self.key);
                let line = format!("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{key}\r\n");
                ("RTP/SAVP", line)
            }
            false => ("RTP/AVP", String::new()),
        };
        let first = if prefers_g711 { "8 " } else { "" };
        format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {port} {profile} {first}{OPUS} 126\r\n\
             a=rtpmap:8 PCMA/8000\r\na=rtpmap:{OPUS} opus/48000/2\r\n\
             a=fmtp:{OPUS} maxaveragebitrate=20000;maxplaybackrate=16000;minptime=20;sprop-maxcapturerate=16000;useinbandfec=1\r\n\
             a=rtpmap:126 telephone-event/8000\r\na=ptime:20\r\na=maxptime:20\r\n{crypto}a=sendrecv\r\n"
        )
    }

    /// Begins to listen, and to send once the business has sent: Meta expects its packet first. `key`: the one that packets are
    /// encrypted with, in place of the offered one.
    pub(super) fn start(&mut self, answer: &str, key: Option<[u8; 30]>) {
        let media = answer.split("m=audio ").nth(1).unwrap();
        let mut words = media.split_whitespace();
        let port = words.next().unwrap().parse().unwrap();
        assert_eq!(words.next(), Some("RTP/SAVP"), "{answer}");
        assert_eq!(words.next(), Some("111"), "Opus is wanted: {answer}");
        let theirs = answer.split("inline:").nth(1).unwrap();
        let theirs = theirs.split(['|', '\r']).next().unwrap();
        let theirs = BASE64_STANDARD.decode(theirs).unwrap();
        let task = run(
            self.socket.clone(),
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            context(&key.unwrap_or(self.key)),
            context(&theirs),
            self.heard.clone(),
            self.speaks.clone(),
        );
        self.running = Some(tokio::spawn(task));
    }

    /// Speaks a loud tone from now on, or is silent.
    pub fn speak(&self, speaks: bool) {
        self.speaks.store(speaks, Ordering::Relaxed);
    }

    /// The samples that were heard so far, 16,000 a second.
    pub fn heard(&self) -> Vec<i16> {
        self.heard.lock().unwrap().samples.clone()
    }

    /// The number of authentic packets, and of others.
    pub fn packets(&self) -> (usize, usize) {
        let heard = self.heard.lock().unwrap();
        (heard.packets, heard.rejected)
    }
}

fn context(master: &[u8]) -> Context {
    let (key, salt) = master.split_at(16);
    let profile = ProtectionProfile::Aes128CmHmacSha1_80;
    Context::new(key, salt, profile, None, None).unwrap()
}

async fn run(
    socket: Arc<UdpSocket>,
    edge: SocketAddr,
    mut ours: Context,
    mut theirs: Context,
    heard: Arc<Mutex<Heard>>,
    speaks: Arc<AtomicBool>,
) {
    let mut decoder = OpusDecoder::new(RATE, 1).unwrap();
    let mut encoder = OpusEncoder::new(RATE, 1, Application::Voip).unwrap();
    let (mut packet, mut may_send, mut sequence) = ([0; 2_048], false, 0_u16);
    let mut tick = interval(Duration::from_millis(20));
    loop {
        tokio::select! {
            received = socket.recv(&mut packet) => {
                let length = received.unwrap_or_default();
                let opened = theirs.decrypt_rtp(&packet[..length]);
                let mut heard = heard.lock().unwrap();
                match opened {
                    Ok(opened) if opened[1] & 0x7f == OPUS => {
                        may_send = true;
                        heard.packets += 1;
                        decode(&mut decoder, &opened[HEADER_BYTES..], &mut heard.samples);
                    }
                    Ok(_) => {}
                    Err(_) => heard.rejected += 1,
                }
            }
            _ = tick.tick(), if may_send => {
                let sound = frame(speaks.load(Ordering::Relaxed));
                let mut said = [0; 400];
                let length = encoder.encode_i16(&sound, FRAME, &mut said).unwrap();
                let mut plain = vec![0x80, OPUS];
                plain.extend_from_slice(&sequence.to_be_bytes());
                plain.extend_from_slice(&(u32::from(sequence) * TICKS).to_be_bytes());
                plain.extend_from_slice(&[0, 0, 0, 9]);
                plain.extend_from_slice(&said[..length]);
                sequence += 1;
                let sealed = ours.encrypt_rtp(&plain).unwrap();
                let _ = socket.send_to(&sealed, edge).await;
            }
        }
    }
}

/// 20 ms of a tone of 400 Hz, or of silence.
fn frame(speaks: bool) -> Vec<i16> {
    let height = if speaks { 8_000 } else { 0 };
    let is_up = |at: usize| (at / 20).is_multiple_of(2);
    (0..FRAME)
        .map(|at| if is_up(at) { height } else { -height })
        .collect()
}

fn decode(decoder: &mut OpusDecoder, payload: &[u8], out: &mut Vec<i16>) {
    let mut pcm = [0.0; 1_920];
    let count = decoder.decode(payload, 1_920, &mut pcm).unwrap();
    out.extend(pcm[..count].iter().map(|it| (it * 32_768.0) as i16));
}
