//! Calls over a line that loses, duplicates and reorders packets.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use dikala_sip::leg::LegEvent;
use tokio::{
    net::UdpSocket,
    time::{Instant, interval, sleep, timeout},
};

use crate::support::{
    CallBehaviour, ObservedCall, ScriptedPhone, TestEdge, eventually, offer, pitch,
};

const STEP: Duration = Duration::from_millis(20);
/// Speech between two keys, in steps of 20 ms; four of them are long enough for two reports of the edge.
const BETWEEN_KEYS: usize = 150;
const KEYS: [u8; 4] = [4, 4, 2, 11];
/// A machine that is busy with other tests is late itself.
const SLACK_MS: usize = 200;
const SSRC: u32 = 7;
const TONE_HZ: usize = 400;

/// Faults of the line, in per cent of packets.
#[derive(Debug, Clone, Copy)]
struct Faults {
    lost: u64,
    doubled: u64,
    /// Delayed until later packets have overtaken it.
    late: u64,
}

/// The fate of the phone's packets, by sequence number.
#[derive(Debug, Default)]
struct Fate {
    lost: Vec<u16>,
    doubled: Vec<u16>,
}

impl Fate {
    /// The losses that a report up to this number must contain.
    fn told(&self, highest: u16) -> i64 {
        let before = |numbers: &[u16]| {
            let count = numbers.iter().filter(|number| **number <= highest).count();
            i64::try_from(count).unwrap()
        };
        before(&self.lost) - before(&self.doubled)
    }
}

/// The line between phone and edge: media of both directions passes through it.
struct LossyLine {
    /// The phone's end of the line.
    near: SocketAddr,
    /// The edge's end; the phone's offer names it.
    far: SocketAddr,
    fate: Arc<Mutex<Fate>>,
    ends: [tokio::task::JoinHandle<()>; 2],
}

impl Drop for LossyLine {
    fn drop(&mut self) {
        self.ends.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Pseudo-random numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn is_report(packet: &[u8]) -> bool {
    packet.get(1).is_some_and(|kind| (200..=207).contains(kind))
}

impl LossyLine {
    async fn new(phone: SocketAddr, faults: Faults) -> Self {
        let near = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let far = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let (near_address, far_address) = (near.local_addr().unwrap(), far.local_addr().unwrap());
        // The edge's address is learned from its packets.
        let edge: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let fate: Arc<Mutex<Fate>> = Arc::default();
        let up = carry(near.clone(), far.clone(), faults, {
            let (edge, fate) = (edge.clone(), fate.clone());
            move |_, packet, copies| {
                if let (false, Some(number)) = (is_report(packet), packet.get(2..4)) {
                    let number = u16::from_be_bytes([number[0], number[1]]);
                    let mut fate = fate.lock().unwrap();
                    match copies {
                        0 => fate.lost.push(number),
                        1 => {}
                        _ => fate.doubled.push(number),
                    }
                }
                *edge.lock().unwrap()
            }
        });
        let down = carry(far, near, faults, move |from, _, _| {
            *edge.lock().unwrap() = Some(from);
            Some(phone)
        });
        Self {
            near: near_address,
            far: far_address,
            fate,
            ends: [tokio::spawn(up), tokio::spawn(down)],
        }
    }
}

/// Passes packets on, with faults. `to` returns the destination, and gets the number of copies.
async fn carry(
    from: Arc<UdpSocket>,
    by: Arc<UdpSocket>,
    faults: Faults,
    to: impl Fn(SocketAddr, &[u8], usize) -> Option<SocketAddr>,
) {
    let mut dice = Dice(88_172_645_463_325_252 + faults.lost);
    let mut packet = [0; 2_048];
    loop {
        let (length, sender) = from.recv_from(&mut packet).await.unwrap();
        let packet = packet[..length].to_vec();
        let copies = match dice.below(100) {
            _ if is_report(&packet) => 1,
            dice if dice < faults.lost => 0,
            dice if dice < faults.lost + faults.doubled => 2,
            _ => 1,
        };
        let late = dice.below(100) < faults.late;
        let Some(to) = to(sender, &packet, copies) else {
            continue;
        };
        for _ in 0..copies {
            let wait = dice.below(10) + if late { 30 } else { 0 };
            let (by, packet) = (by.clone(), packet.clone());
            tokio::spawn(async move {
                sleep(Duration::from_millis(wait)).await;
                let _ = by.send_to(&packet, to).await;
            });
        }
    }
}

/// The media of a phone: what it sends, and what it has heard.
struct Talker {
    socket: Arc<UdpSocket>,
    sequence: u16,
    heard: Arc<Mutex<PhoneHeard>>,
}

#[derive(Debug, Default)]
struct PhoneHeard {
    packets: usize,
    last_loud: Option<Instant>,
    /// The edge's last report: packets lost, and the highest number.
    report: Option<(i64, u16)>,
    reports: usize,
}

impl Talker {
    async fn new() -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let heard: Arc<Mutex<PhoneHeard>> = Arc::default();
        tokio::spawn(listen(socket.clone(), heard.clone()));
        Self {
            socket,
            sequence: 1,
            heard,
        }
    }

    async fn send(&mut self, to: SocketAddr, kind: u8, begun: u16, payload: &[u8]) {
        let mut packet = vec![0x80, kind];
        packet.extend_from_slice(&self.sequence.to_be_bytes());
        packet.extend_from_slice(&(u32::from(begun) * 160).to_be_bytes());
        packet.extend_from_slice(&SSRC.to_be_bytes());
        packet.extend_from_slice(payload);
        self.sequence += 1;
        self.socket.send_to(&packet, to).await.unwrap();
    }

    /// Sends 20 ms of the tone (ten samples up, ten down) or of silence.
    async fn say(&mut self, to: SocketAddr, loud: bool) {
        let sample = |at: usize| match (loud, at / 10 % 2) {
            (true, 0) => 0xAA,
            (true, _) => 0x2A,
            (false, _) => 0xD5,
        };
        let payload: Vec<u8> = (0..160).map(sample).collect();
        self.send(to, 8, self.sequence, &payload).await;
    }

    /// Sends one of the six packets of a key.
    async fn press(&mut self, to: SocketAddr, event: u8, begun: u16, step: u16) {
        let over = if step > 3 { 0x80 } else { 0 };
        let [high, low] = (step.min(4) * 160).to_be_bytes();
        let marker = if step == 1 { 0x80 } else { 0 };
        self.send(to, marker | 101, begun, &[event, over | 10, high, low])
            .await;
    }
}

async fn listen(socket: Arc<UdpSocket>, heard: Arc<Mutex<PhoneHeard>>) {
    let mut packet = [0; 2_048];
    loop {
        let length = socket.recv(&mut packet).await.unwrap();
        let packet = &packet[..length];
        let mut heard = heard.lock().unwrap();
        if is_report(packet) {
            if let Some(report) = reported(packet) {
                heard.report = Some(report);
                heard.reports += 1;
            }
            continue;
        }
        heard.packets += 1;
        let loud = |byte: &&u8| (*byte ^ 0x55) >> 4 & 7 >= 4;
        if packet[12..].iter().filter(loud).count() > 40 {
            heard.last_loud = Some(Instant::now());
        }
    }
}

/// The report block about us: packets lost, and the highest number.
fn reported(packet: &[u8]) -> Option<(i64, u16)> {
    let blocks = match packet[1] {
        200 => 28,
        201 => 8,
        _ => return None,
    };
    if packet[0] & 0x1f == 0 {
        return None;
    }
    let block = packet.get(blocks..blocks + 24)?;
    assert_eq!(block[..4], SSRC.to_be_bytes());
    let lost = i32::from_be_bytes([block[5], block[6], block[7], 0]) >> 8;
    Some((i64::from(lost), u16::from_be_bytes([block[10], block[11]])))
}

/// The percentage of tenths of a second that contain the tone.
fn found(audio: &[i16]) -> usize {
    let tenths: Vec<&[i16]> = audio.chunks_exact(1_600).collect();
    let holds = |tenth: &&&[i16]| {
        let hertz = pitch(&tenth.repeat(10), 16_000);
        hertz.abs_diff(TONE_HZ) <= TONE_HZ / 8
    };
    tenths.iter().filter(holds).count() * 100 / tenths.len().max(1)
}

/// Sends the tone with keys in it, then a second of silence. Returns when the silence began.
async fn speaks(talker: &mut Talker, to: SocketAddr) -> Instant {
    let mut steps = interval(STEP);
    for key in KEYS {
        for _ in 0..BETWEEN_KEYS {
            steps.tick().await;
            talker.say(to, true).await;
        }
        let pressed = talker.sequence;
        for step in 1..=6 {
            steps.tick().await;
            talker.press(to, key, pressed, step).await;
        }
    }
    for _ in 0..BETWEEN_KEYS {
        steps.tick().await;
        talker.say(to, true).await;
    }
    let silent = Instant::now();
    for _ in 0..50 {
        steps.tick().await;
        talker.say(to, false).await;
    }
    silent
}

/// Checks what the call's task heard: all of the audio, and each key once.
fn understood(call: &ObservedCall, lasted: Duration, faults: Faults) {
    let keys = call.events.iter().filter_map(|happening| match happening {
        LegEvent::Key(key) => Some(*key),
        _ => None,
    });
    assert_eq!(keys.collect::<String>(), "442#", "{faults:?}");
    let (audio, lasted) = (call.audio.len() / 16, lasted.as_millis());
    let lasted = usize::try_from(lasted).unwrap();
    // While a key is down there is no audio, and the first 100 ms of that are not filled with silence.
    let least = lasted - 100 * KEYS.len() - SLACK_MS;
    assert!(
        (least..lasted + SLACK_MS).contains(&audio),
        "{faults:?}: {audio} ms of {lasted} ms"
    );
    let share = found(&call.audio[..call.audio.len().saturating_sub(16_000)]);
    let least = if faults.lost < 10 { 85 } else { 75 };
    assert!(share >= least, "{faults:?}: the tone is in {share} %");
}

/// Checks what the phone heard: the echo without growing delay, and correct reports. Returns the number of lost packets.
fn reported_well(talker: &Talker, line: &LossyLine, silent: Instant, faults: Faults) -> usize {
    let heard = talker.heard.lock().unwrap();
    let echoed = heard.last_loud.unwrap().saturating_duration_since(silent);
    assert!(
        echoed < Duration::from_millis(600),
        "{faults:?}: {echoed:?}"
    );
    assert!(heard.reports >= 2, "{faults:?}: {}", heard.reports);
    let (lost, highest) = heard.report.unwrap();
    let fate = line.fate.lock().unwrap();
    let expected = fate.told(highest);
    // Some packets were still on their way when the report was made.
    let off = lost.abs_diff(expected);
    assert!(off <= 8, "{faults:?}: {lost} for {expected} of {highest}");
    fate.lost.len()
}

async fn a_call_over(faults: Faults) {
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut talker = Talker::new().await;
    let line = LossyLine::new(talker.socket.local_addr().unwrap(), faults).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let sdp = offer(line.far.port())
        .replace("RTP/AVP 0 8 101", "RTP/AVP 8 101")
        .replace("a=sendrecv", "a=rtcp-mux\r\na=sendrecv");
    phone.call("", &sdp).await;
    // The edge speaks first, so that the line learns its address.
    eventually("the edge is heard", || {
        talker.heard.lock().unwrap().packets > 0
    })
    .await;
    let begun = Instant::now();
    let silent = speaks(&mut talker, line.near).await;
    understood(&bench.call(), begun.elapsed(), faults);
    let lost = reported_well(&talker, &line, silent, faults);
    phone.hang_up().await;
    eventually("its packets are counted", || {
        bench.edge.statistics().packets > 0
    })
    .await;
    let counted = usize::try_from(bench.edge.statistics().packets_lost).unwrap();
    assert!(
        counted + 8 >= lost && counted <= lost + lost / 4 + 12,
        "{faults:?}: {counted} for {lost}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_line_costs_words_and_nothing_else() {
    let calls = [(1, 1), (5, 2), (20, 5)].map(|(lost, late)| {
        let faults = Faults {
            lost,
            doubled: 2,
            late,
        };
        tokio::spawn(a_call_over(faults))
    });
    let all = async {
        for call in calls {
            call.await.unwrap();
        }
    };
    timeout(Duration::from_secs(60), all).await.unwrap();
}
