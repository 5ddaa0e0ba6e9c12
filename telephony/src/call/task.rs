//! The task of a call: feeds the state machine with inputs from phone, voice and service, and carries out its effects.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use dikala_entities::VoiceProvider;
use dikala_protocol::{CallReport, client::CallChannel};
use dikala_sip::leg::{Leg, LegEvent, Order, Speech};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, watch},
    time::{Instant, sleep_until, timeout},
};

use super::{
    counters::CallCounters,
    machine::{CallMachine, CallOrigin, CallRules, MachineEffect, MachineInput, Now},
    notes::{CallNote, NoteTaker},
    outlet::Outlet,
};
use crate::voice::{Provider, Usage, VoiceEvent, VoiceInput, VoiceSession, VoiceSetup};

/// Time limit for the leg to read the last orders.
const LAST_ORDER: Duration = Duration::from_secs(2);
/// Pieces of speech, 48 to 60 s, that are read ahead while the caller may be interrupting. The voice's confirmation of the
/// interruption is queued behind them.
const AHEAD_MOST: usize = 600;
/// 100 ms, the longest piece of a voice.
const PIECE_SAMPLES: usize = dikala_sip::leg::SPEECH_RATE as usize / 10;

/// The configured voice providers.
pub type Providers = BTreeMap<VoiceProvider, Arc<dyn Provider>>;

#[derive(Debug, Clone)]
pub(crate) struct TaskDeps {
    pub(crate) providers: Arc<Providers>,
    pub(crate) rules: CallRules,
    pub(crate) counters: Arc<CallCounters>,
    /// Set once the bridge stops: the time by which calls have to be over.
    pub(crate) stop: watch::Receiver<Option<Instant>>,
}

/// Runs a call until its end is handed to the service's client. With the permit, its voice session opens before the answer.
pub(crate) async fn run(
    mut deps: TaskDeps,
    channel: CallChannel,
    leg: Leg,
    origin: CallOrigin,
    early_voice: Option<OwnedSemaphorePermit>,
    notes: Option<mpsc::Sender<CallNote>>,
) {
    deps.rules.opens_early = early_voice.is_some();
    let mut call = Call::new(deps, channel, leg, origin, early_voice);
    call.notes = notes.map(|notes| (NoteTaker::default(), notes));
    call.run().await;
}

struct Call {
    deps: TaskDeps,
    channel: CallChannel,
    /// The service's id, empty until it is known.
    call_id: String,
    machine: CallMachine,
    epoch: Instant,
    orders: Outlet<Order>,
    speech: Outlet<Speech>,
    /// `None` once the leg's channel is closed.
    events: Option<mpsc::Receiver<LegEvent>>,
    /// False once the service's client has ended.
    hears_service: bool,
    voice: Option<Voice>,
    /// Given back with the answer.
    early_voice: Option<OwnedSemaphorePermit>,
    effects: Vec<MachineEffect>,
    /// For the page that shows the call.
    notes: Option<(NoteTaker, mpsc::Sender<CallNote>)>,
}

struct Voice {
    provider: VoiceProvider,
    spoken: Outlet<VoiceInput>,
    heard: mpsc::Receiver<VoiceEvent>,
}

impl Call {
    fn new(
        deps: TaskDeps,
        channel: CallChannel,
        leg: Leg,
        origin: CallOrigin,
        early_voice: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let mut effects = Vec::new();
        let now = Now {
            ms: 0,
            at: channel.now(),
        };
        let machine = CallMachine::new(deps.rules.clone(), origin, now, &mut effects);
        Self {
            deps,
            channel,
            call_id: String::new(),
            machine,
            epoch: Instant::now(),
            orders: Outlet::new(leg.orders),
            speech: Outlet::new(leg.speech),
            events: Some(leg.events),
            hears_service: true,
            voice: None,
            early_voice,
            effects,
            notes: None,
        }
    }

    async fn run(mut self) {
        let service = self.service();
        self.carry_out().await;
        self.take(service).await;
        if let Some(input) = self.stopping() {
            self.take(input).await;
        }
        while !self.machine.is_over() {
            if let Some(input) = self.next().await {
                self.take(input).await;
            }
        }
        // Dropping `orders` hangs up, so pending orders are sent first.
        let _ = timeout(LAST_ORDER, async {
            while !self.orders.is_idle() {
                self.orders.pass().await;
            }
        })
        .await;
    }

    fn service(&mut self) -> MachineInput {
        match *self.channel.away_since.borrow_and_update() {
            None => MachineInput::ServiceStands(true),
            Some(since) => {
                let since = since.saturating_duration_since(self.epoch).as_millis();
                MachineInput::ServiceAway {
                    since_ms: u64::try_from(since).unwrap_or(u64::MAX),
                }
            }
        }
    }

    /// Waits for an input. `None`: something waiting was sent, and nothing else happened.
    async fn next(&mut self) -> Option<MachineInput> {
        let due = self
            .machine
            .due()
            .unwrap_or(u64::MAX)
            .min(u64::from(u32::MAX));
        let due = self.epoch + Duration::from_millis(due);
        // The voice's speech waits in its channel while the leg accepts no more.
        let ahead_most = match self.machine.may_be_interrupted() {
            true => AHEAD_MOST,
            false => 0,
        };
        let listens = self.machine.listens() && self.speech.waiting() <= ahead_most;
        tokio::select! {
            event = next_of(&mut self.events) => Some(match event {
                Some(event) => MachineInput::Leg(event),
                None => {
                    self.events = None;
                    MachineInput::LegGone
                }
            }),
            event = self.channel.events.recv(), if self.hears_service => Some(match event {
                Some(event) => MachineInput::Service(event),
                None => {
                    self.hears_service = false;
                    MachineInput::ServiceStands(false)
                }
            }),
            Ok(()) = self.channel.away_since.changed() => Some(self.service()),
            Ok(()) = self.deps.stop.changed() => self.stopping(),
            heard = with_voice(&mut self.voice, listens) => match heard {
                WithVoice::Passed => None,
                WithVoice::Heard(heard) => Some(MachineInput::Voice(heard)),
                WithVoice::Gone => {
                    self.voice = None;
                    Some(MachineInput::VoiceGone)
                }
            },
            () = self.orders.pass(), if !self.orders.is_idle() => None,
            () = self.speech.pass(), if !self.speech.is_idle() => None,
            () = sleep_until(due) => Some(MachineInput::Time),
        }
    }

    /// The input for a bridge that stops, if it does.
    fn stopping(&mut self) -> Option<MachineInput> {
        let by = (*self.deps.stop.borrow_and_update())?;
        let left = by.saturating_duration_since(Instant::now());
        let within_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Some(MachineInput::Stop { within_ms })
    }

    async fn take(&mut self, input: MachineInput) {
        let ms = u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX);
        let at = self.channel.now();
        self.deps.counters.count_input(&input);
        self.note(|taker| taker.of_input(&input));
        self.machine.step(Now { ms, at }, input, &mut self.effects);
        self.carry_out().await;
    }

    async fn carry_out(&mut self) {
        for effect in std::mem::take(&mut self.effects) {
            self.deps.counters.count_effect(&effect);
            self.note(|taker| taker.of_effect(&effect));
            match effect {
                MachineEffect::Leg(order) => {
                    if order == Order::Flush {
                        self.speech.retain(|said| matches!(said, Speech::Mark(_)));
                    }
                    self.orders.send(order);
                }
                MachineEffect::Say(speech) => self.say(speech),
                MachineEffect::OpenVoice(name, setup) => self.open_voice(name, *setup),
                MachineEffect::Voice(spoken) => {
                    if let Some(voice) = &mut self.voice {
                        match spoken {
                            VoiceInput::Audio(_) => voice.spoken.send_now(spoken),
                            _ => voice.spoken.send(spoken),
                        }
                    }
                }
                MachineEffect::CloseVoice => {
                    self.early_voice = None;
                    self.close_voice();
                }
                MachineEffect::Fault(words) => {
                    tracing::warn!(call = self.call_id, %words, "a call broke");
                }
                MachineEffect::Stall { .. }
                | MachineEffect::Failover(_)
                | MachineEffect::Interruption
                | MachineEffect::SpeechPaused
                | MachineEffect::VoiceLost
                | MachineEffect::TurnLatency { .. } => {}
                MachineEffect::Service(message, at) => {
                    if message == CallReport::Answered {
                        self.early_voice = None;
                    }
                    self.channel.post(message, at).await;
                }
            }
        }
    }

    /// A page that does not read misses notes, and is about to be disconnected.
    fn note(&mut self, take: impl FnOnce(&mut NoteTaker) -> Option<CallNote>) {
        if let Some((taker, to)) = &mut self.notes
            && let Some(note) = take(taker)
        {
            let _ = to.try_send(note);
        }
    }

    fn open_voice(&mut self, name: VoiceProvider, setup: VoiceSetup) {
        tracing::info!(call = setup.call_id, voice = %name, "a voice session opens");
        self.close_voice();
        self.call_id.clone_from(&setup.call_id);
        let session = self.deps.providers.get(&name).map(|it| it.open(setup));
        self.voice = session.map(|VoiceSession { spoken, heard }| Voice {
            provider: name,
            spoken: Outlet::new(spoken),
            heard,
        });
    }

    /// Closes the session, if one is open. What it has used so far is paid for.
    fn close_voice(&mut self) {
        let Some(mut voice) = self.voice.take() else {
            return;
        };
        for usage in unread_usage(&mut voice.heard) {
            self.machine.add_usage(voice.provider, usage);
        }
    }

    fn say(&mut self, speech: Speech) {
        let last = self.speech.last_waiting();
        if !last.is_some_and(|last| joins(last, &speech)) {
            self.speech.send(speech);
        }
    }
}

async fn next_of<T>(channel: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match channel {
        Some(channel) => channel.recv().await,
        None => std::future::pending().await,
    }
}

enum WithVoice {
    Passed,
    Heard(VoiceEvent),
    Gone,
}

/// Reads from the voice if `listens`, and sends what waits for it.
async fn with_voice(voice: &mut Option<Voice>, listens: bool) -> WithVoice {
    let Some(Voice { spoken, heard, .. }) = voice else {
        return std::future::pending().await;
    };
    tokio::select! {
        heard = heard.recv(), if listens => heard.map_or(WithVoice::Gone, WithVoice::Heard),
        () = spoken.pass(), if !spoken.is_idle() => WithVoice::Passed,
        () = std::future::pending() => WithVoice::Passed,
    }
}

/// The usage that a session has told and nobody has read.
fn unread_usage(heard: &mut mpsc::Receiver<VoiceEvent>) -> Vec<Usage> {
    let heard = std::iter::from_fn(|| heard.try_recv().ok());
    let usage = |heard| match heard {
        VoiceEvent::Usage(usage) => Some(usage),
        _ => None,
    };
    heard.filter_map(usage).collect()
}

/// Joins short pieces of speech that wait, so that the number of pieces limits their time. False if they stay apart.
fn joins(last: &mut Speech, next: &Speech) -> bool {
    match (last, next) {
        (Speech::Audio(last), Speech::Audio(next)) if last.len() + next.len() <= PIECE_SAMPLES => {
            last.extend_from_slice(next);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unread_usage_of_a_session_is_found_behind_its_speech() {
        let (told, mut heard) = mpsc::channel(4);
        let usage = Usage {
            audio_out: 7,
            ..Usage::default()
        };
        for event in [
            VoiceEvent::Audio(vec![1]),
            VoiceEvent::Usage(usage),
            VoiceEvent::TurnOver,
        ] {
            told.try_send(event).expect("room");
        }
        assert_eq!(unread_usage(&mut heard), [usage]);
        assert_eq!(unread_usage(&mut heard), []);
    }

    #[test]
    fn most_of_a_minute_is_read_ahead_however_short_the_pieces() {
        for milliseconds in [20, 40, 100] {
            let samples = PIECE_SAMPLES * milliseconds / 100;
            let mut waiting: Vec<Speech> = Vec::new();
            for _ in 0..48_000 / milliseconds {
                let next = Speech::Audio(vec![7; samples]);
                if !waiting.last_mut().is_some_and(|last| joins(last, &next)) {
                    waiting.push(next);
                }
            }
            assert!(waiting.len() <= AHEAD_MOST, "{milliseconds} ms");
            let mark = Speech::Mark(1);
            assert!(!joins(&mut waiting[0], &mark));
        }
    }
}
