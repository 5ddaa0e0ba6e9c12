//! The media of one call: its 20 ms tick, on threads without slow work.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Instant,
};

use futures_util::FutureExt;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot,
    },
    time::{Duration, Interval, MissedTickBehavior},
};

use super::media_sockets::MediaSockets;
use crate::{
    address_rules,
    leg::{LegEvent, Speech},
    media::{
        key_dedup::{self, KeyDeduplicator},
        sdp::MediaTerms,
        stream::{Channel, MediaStream, RtpSeed, StreamEvent},
    },
    quality::QualityReporter,
    shared::Shared,
    statistics::count,
};

const TICK: Duration = Duration::from_millis(20);
/// Longer packets are dropped; audio packets are far shorter.
const PACKET_BYTES_MAX: usize = 2_048;
/// Interval of the reports on the quality.
const REPORT_MS: u64 = 1_000;
/// Part of the channel that is reserved for events other than audio, which must not be lost.
pub(super) const KEPT_FOR_EVENTS: usize = 64;

/// A command to a call's media.
#[derive(Debug)]
pub enum Control {
    /// New terms, and the current source address of the signalling.
    Change(Box<MediaTerms>, IpAddr),
    Pause,
    Continue,
    Flush,
    /// The caller hears a ring tone, or no longer. It ends when legs are joined.
    Ring(bool),
    /// Early media of the leg that is called, at [`crate::leg::SPEECH_RATE`].
    Early(Vec<i16>),
    /// The answer was acknowledged: sending begins, unless it has.
    Begin,
    /// The same before the answer.
    BeginEarly,
    /// A DTMF key from the signalling.
    Key(char),
    /// Connects the media to other channels, those of a joined leg.
    Join(mpsc::Receiver<Speech>, mpsc::Sender<LegEvent>),
}

/// The task that runs a call's media.
#[derive(Debug)]
pub struct MediaTask {
    /// The other side of the leg is an agent, not a person.
    is_with_agent: bool,
    stream: MediaStream,
    way: MediaOutput,
    key_dedup: KeyDeduplicator,
    /// `None` until the answer is acknowledged or the peer's first packet has come. Nothing is sent before.
    begun: Option<Instant>,
    is_answered: bool,
    /// Notified of the peer's first packet.
    first: Option<oneshot::Sender<()>>,
    speech: mpsc::Receiver<Speech>,
    events: mpsc::Sender<LegEvent>,
    reporter: QualityReporter,
    /// When the quality is reported next.
    report_ms: u64,
    shared: Arc<Shared>,
}

/// The sending side.
#[derive(Debug)]
struct MediaOutput {
    sockets: MediaSockets,
    /// The source address of the call's signalling.
    signalling: IpAddr,
    shared: Arc<Shared>,
}

impl MediaOutput {
    fn send(&self, channel: Channel, to: SocketAddr, packet: &[u8]) {
        if !address_rules::may_hear(to.ip(), self.signalling, &self.shared.settings.trunks) {
            return;
        }
        let socket = match channel {
            Channel::Rtp => &self.sockets.rtp,
            Channel::Rtcp => &self.sockets.rtcp,
        };
        // A failure is a lost packet.
        let _ = socket.send_to(packet, to);
    }
}

/// Handle to a call's media. Dropping it ends the media.
#[derive(Debug)]
pub struct MediaHandle {
    pub control: mpsc::Sender<Control>,
    /// Completes if the peer's first packet starts the media.
    pub first: Option<oneshot::Receiver<()>>,
}

/// Starts the media of a call; packets that came before are dropped. It sends and receives once told so, or once a packet comes
/// from the signalling's address.
pub fn start(
    shared: &Arc<Shared>,
    sockets: MediaSockets,
    terms: MediaTerms,
    signalling: IpAddr,
    speech: mpsc::Receiver<Speech>,
    events: mpsc::Sender<LegEvent>,
    reporter: QualityReporter,
) -> Result<MediaHandle, crate::media::Error> {
    sockets.drop_received();
    let is_with_agent = reporter.is_of_caller();
    let (control, controls) = mpsc::channel(64);
    let (first, came_first) = oneshot::channel();
    let audio = MediaTask {
        stream: MediaStream::new(terms, signalling, RtpSeed::new(rand::random()), 0)?,
        way: MediaOutput {
            sockets,
            signalling,
            shared: shared.clone(),
        },
        key_dedup: KeyDeduplicator::default(),
        begun: None,
        is_answered: false,
        first: Some(first),
        speech,
        events,
        reporter,
        report_ms: REPORT_MS,
        shared: shared.clone(),
        is_with_agent,
    };
    let told = audio.events.clone();
    shared.media.spawn(guarded(audio.run(controls), told));
    Ok(MediaHandle {
        control,
        first: Some(came_first),
    })
}

/// Runs a call's media. An error or a panic in a codec ends this call only, and the call is told.
async fn guarded(media: impl Future<Output = io::Result<()>>, told: mpsc::Sender<LegEvent>) {
    match AssertUnwindSafe(media).catch_unwind().await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => tracing::warn!(%error, "the media of a call failed"),
        Err(_) => tracing::error!("the media of a call panicked"),
    }
    let _ = told.send(LegEvent::MediaLost).await;
}

impl MediaTask {
    async fn run(mut self, mut controls: mpsc::Receiver<Control>) -> io::Result<()> {
        let (rtp, rtcp) = self.way.sockets.readers()?;
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (mut packet, mut report) = ([0; PACKET_BYTES_MAX + 1], [0; PACKET_BYTES_MAX + 1]);
        let mut heard = Vec::new();
        let mut speaking = true;
        let mut outcome = Ok(());
        loop {
            tokio::select! {
                biased;
                control = controls.recv() => match control {
                    Some(Control::BeginEarly) => {
                        self.begin(&mut tick);
                    }
                    Some(Control::Begin) => {
                        self.is_answered = true;
                        self.stream.answered();
                        self.begin(&mut tick);
                    }
                    Some(control) => {
                        outcome = self.control(control, &mut heard);
                        if outcome.is_err() {
                            break;
                        }
                        speaking = true;
                    }
                    None => break,
                },
                due = tick.tick(), if self.begun.is_some() => {
                    self.count_ticks(due.elapsed());
                    self.tick(&mut heard);
                }
                Ok((length, from)) = rtp.recv_from(&mut packet) => {
                    if length <= PACKET_BYTES_MAX && self.may_count(from) {
                        self.stream.on_packet(&packet[..length], from, Channel::Rtp, self.now(), &mut heard);
                        if self.stream.statistics().received > 0 && self.begin(&mut tick) {
                            let _ = self.first.take().map(|first| first.send(()));
                        }
                    }
                }
                Ok((length, from)) = rtcp.recv_from(&mut report) => {
                    if length <= PACKET_BYTES_MAX && self.begun.is_some() {
                        self.stream.on_packet(&report[..length], from, Channel::Rtcp, self.now(), &mut heard);
                    }
                }
                speech = self.speech.recv(), if speaking && self.begun.is_some() && self.stream.wants_speech() => match speech {
                    Some(speech) => self.say(speech),
                    None => speaking = false,
                },
            }
            if !self.report_events(&mut heard) {
                outcome = Err(unread());
                break;
            }
        }
        self.ends();
        outcome
    }

    /// Says goodbye, and counts the call.
    fn ends(&mut self) {
        let Self { stream, way, .. } = self;
        stream.bye(&mut |channel, to, packet| way.send(channel, to, packet));
        let all = self.stream.statistics();
        let counters = &self.shared.counters;
        count(&counters.packets, all.distinct());
        count(&counters.packets_lost, all.lost);
        count(&counters.packets_late, all.late);
        let quality = self.stream.quality();
        if self.is_answered && all.received + all.sent > 0 {
            counters.quality.count(&quality);
        }
        self.reporter.report(quality);
    }

    fn tick(&mut self, heard: &mut Vec<StreamEvent>) {
        let now = self.now();
        let Self { stream, way, .. } = self;
        stream.tick(now, heard, &mut |channel, to, packet| {
            way.send(channel, to, packet);
        });
        if now >= self.report_ms {
            self.report_ms = now + REPORT_MS;
            self.reporter.report(self.stream.quality());
        }
    }

    /// Begins to send. False if it had begun already.
    fn begin(&mut self, tick: &mut Interval) -> bool {
        let begins = self.begun.is_none();
        if begins {
            self.begun = Some(Instant::now());
            tick.reset_immediately();
        }
        begins
    }

    /// True if a packet is processed. Before sending has begun, only packets from the signalling's address are.
    fn may_count(&self, from: SocketAddr) -> bool {
        self.begun.is_some() || from.ip().to_canonical() == self.way.signalling.to_canonical()
    }

    fn now(&self) -> u64 {
        let elapsed = self.begun.map(|begun| begun.elapsed().as_millis());
        u64::try_from(elapsed.unwrap_or_default()).unwrap_or(u64::MAX)
    }

    fn count_ticks(&self, late: Duration) {
        let counters = &self.shared.counters;
        let more = due_meanwhile(late);
        count(&counters.ticks, more.saturating_add(1));
        count(&counters.ticks_late, more);
    }

    fn say(&mut self, speech: Speech) {
        match speech {
            Speech::Audio(samples) => self.stream.say(&samples),
            Speech::Live(samples) => self.stream.say_live(&samples),
            Speech::Mark(mark) => self.stream.mark(mark),
            Speech::Key(key) => self.stream.press(key),
        }
    }

    /// Carries out a command. Errors: nobody reads the leg, or media cannot be sent on the new terms.
    fn control(&mut self, control: Control, heard: &mut Vec<StreamEvent>) -> io::Result<()> {
        match control {
            Control::Begin | Control::BeginEarly => {}
            Control::Key(key) => {
                if !self.pressed(key, key_dedup::KeySource::Signalling) {
                    return Err(unread());
                }
            }
            Control::Ring(rings) => self.stream.ring(rings),
            Control::Early(samples) => self.stream.say_early(&samples),
            Control::Join(speech, events) => {
                self.stream.ring(false);
                (self.speech, self.events) = (speech, events);
                self.is_with_agent = false;
                self.stream.go_on();
                self.stream.flush(&mut Vec::new());
            }
            Control::Change(terms, signalling) => {
                self.way.signalling = signalling;
                let changed = self.stream.change(*terms, signalling, self.now());
                changed.map_err(io::Error::other)?;
            }
            Control::Pause => self.stream.pause(),
            Control::Continue => self.stream.go_on(),
            Control::Flush => {
                // Speech that is still in the channel is flushed, too. Only the work for its samples is saved.
                while let Ok(speech) = self.speech.try_recv() {
                    match speech {
                        Speech::Audio(_) | Speech::Live(_) => self.stream.say(&[]),
                        Speech::Mark(_) | Speech::Key(_) => self.say(speech),
                    }
                }
                self.stream.flush(heard);
            }
        }
        Ok(())
    }

    /// Reports a key unless it is a double; false if nobody reads the leg.
    fn pressed(&mut self, key: char, way: key_dedup::KeySource) -> bool {
        let is_new = self.key_dedup.is_new(key, way, self.now());
        let told = is_new.then(|| self.events.try_send(LegEvent::Key(key)));
        !matches!(told, Some(Err(TrySendError::Full(_))))
    }

    /// Reports events; false if nobody reads the leg. A closed channel is no reason to stop: the call's task
    /// ends the media.
    fn report_events(&mut self, heard: &mut Vec<StreamEvent>) -> bool {
        for heard in heard.drain(..) {
            let heard = match heard {
                StreamEvent::Hidden(samples) if self.is_with_agent => {
                    StreamEvent::Audio(vec![0; samples.len()])
                }
                StreamEvent::Released(_) if !self.is_with_agent => continue,
                heard => heard,
            };
            let event = match heard {
                StreamEvent::Audio(samples)
                | StreamEvent::Hidden(samples)
                | StreamEvent::Released(samples) => {
                    // The reader does not keep up: a gap is better than a queue.
                    if self.events.capacity() <= KEPT_FOR_EVENTS {
                        continue;
                    }
                    LegEvent::Audio(samples)
                }
                StreamEvent::VoiceStarted => LegEvent::VoiceStarted,
                StreamEvent::VoiceEnded => LegEvent::VoiceEnded,
                StreamEvent::Key(key) => {
                    if !self.pressed(key, key_dedup::KeySource::Media) {
                        return false;
                    }
                    continue;
                }
                StreamEvent::Played(mark) => LegEvent::Played(mark),
                StreamEvent::Flushed { total_played_ms } => LegEvent::Flushed { total_played_ms },
                StreamEvent::MediaLost => LegEvent::MediaLost,
                StreamEvent::FellSilent { after_ms } => {
                    let after = Duration::from_millis(after_ms);
                    self.shared.counters.barge_in.took(after);
                    continue;
                }
            };
            if let Err(TrySendError::Full(_)) = self.events.try_send(event) {
                return false;
            }
        }
        true
    }
}

fn unread() -> io::Error {
    io::Error::other("its events are not read")
}

/// Further ticks that are due when one is late by this much. All due ticks but the last are then more than a tick late.
fn due_meanwhile(late: Duration) -> u64 {
    u64::try_from(late.as_millis() / TICK.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
