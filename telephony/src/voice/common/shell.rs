//! Carries out the machine's effects: sockets, timers, the channels of the call.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::exchange::{CloseReason, SessionEffect, SessionInput, VoiceMachine};
use crate::voice::{VoiceEvent, VoiceInput, VoiceSession};

/// Messages from the call that wait for the session: 5 s of audio.
const SPOKEN_MOST: usize = 256;
/// Messages to the call that wait: less than a second. The session itself holds back the rest.
const HEARD_MOST: usize = 8;

/// Messages that wait to be written: 10 s of the caller. A service that is further behind counts as gone.
const OUTGOING_MOST: usize = 512;
/// Messages that were read but not handled. One may be a minute of speech, and only half a minute should wait for the call.
const EVENTS_MOST: usize = 1;
/// A deadline in place of none.
const LATER: Duration = Duration::from_secs(3600);

/// The way to a model.
pub(in crate::voice) trait Transport<V: VoiceMachine>: Send + 'static {
    /// Carries one connection: a socket, or a single request. Dropping the sender of `outgoing` ends it.
    fn carry(
        &self,
        connection: u32,
        outgoing: mpsc::Receiver<V::Sent>,
        events: mpsc::Sender<SessionInput<V::Received>>,
    ) -> impl Future<Output = ()> + Send + 'static;
}

struct Session<V: VoiceMachine, T> {
    machine: V,
    transport: T,
    call_id: String,
    began: Instant,
    sockets: HashMap<u32, mpsc::Sender<V::Sent>>,
    events: mpsc::Sender<SessionInput<V::Received>>,
    /// The newest connection with unreadable messages, which are logged once.
    unreadable: Option<u32>,
    /// Messages that the call has not taken yet. Until it has, the socket is not read.
    unheard: VecDeque<VoiceEvent>,
}

/// Starts a session, which runs until the call or the voice ends it. Needs a tokio runtime.
pub(in crate::voice) fn open<V: VoiceMachine>(
    machine: V,
    transport: impl Transport<V>,
    call_id: String,
) -> VoiceSession {
    let (spoken, from_call) = mpsc::channel(SPOKEN_MOST);
    let (to_call, heard) = mpsc::channel(HEARD_MOST);
    let running = run(machine, transport, call_id, from_call, to_call);
    tokio::spawn(running);
    VoiceSession { spoken, heard }
}

async fn run<V: VoiceMachine>(
    machine: V,
    transport: impl Transport<V>,
    call_id: String,
    mut spoken: mpsc::Receiver<VoiceInput>,
    heard: mpsc::Sender<VoiceEvent>,
) {
    let (events, mut came) = mpsc::channel(EVENTS_MOST);
    let mut session = Session {
        machine,
        transport,
        call_id,
        began: Instant::now(),
        sockets: HashMap::new(),
        events,
        unreadable: None,
        unheard: VecDeque::new(),
    };
    session.take(SessionInput::Time);
    while !(session.machine.is_over() && session.unheard.is_empty()) {
        let due = session.began + session.machine.due().unwrap_or(LATER);
        tokio::select! {
            permit = heard.reserve(), if !session.unheard.is_empty() => {
                let Ok(permit) = permit else { break };
                if let Some(heard) = session.unheard.pop_front() {
                    permit.send(heard);
                }
                if session.unheard.is_empty() {
                    session.take(SessionInput::Drained);
                }
            }
            said = spoken.recv() => {
                let Some(said) = said else { break };
                session.take(SessionInput::Spoken(said));
            }
            Some(input) = came.recv(), if session.unheard.is_empty() => session.take(input),
            () = sleep_until(due) => session.take(SessionInput::Time),
            () = heard.closed() => break,
        }
    }
}

impl<V: VoiceMachine, T: Transport<V>> Session<V, T> {
    fn take(&mut self, input: SessionInput<V::Received>) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.log(&input);
            for effect in self.machine.step(input, self.began.elapsed()) {
                if let Some(connection) = self.carry_out(effect) {
                    inputs.push_back(SessionInput::Closed {
                        connection,
                        why: CloseReason::gone("the service does not read"),
                    });
                }
            }
        }
    }

    /// Returns a connection whose queue is full.
    fn carry_out(&mut self, effect: SessionEffect<V::Sent>) -> Option<u32> {
        match effect {
            SessionEffect::Open { connection } => {
                let (socket, outgoing) = mpsc::channel(OUTGOING_MOST);
                self.sockets.insert(connection, socket);
                let events = self.events.clone();
                tokio::spawn(self.transport.carry(connection, outgoing, events));
            }
            SessionEffect::Send {
                connection,
                message,
            } => {
                let full = matches!(
                    self.sockets.get(&connection)?.try_send(message),
                    Err(mpsc::error::TrySendError::Full(_))
                );
                if full {
                    self.sockets.remove(&connection);
                    return Some(connection);
                }
            }
            SessionEffect::Close { connection } => {
                self.sockets.remove(&connection);
            }
            SessionEffect::Warn(words) => tracing::warn!(call_id = %self.call_id, "{words}"),
            SessionEffect::Tell(heard) => {
                if heard == VoiceEvent::Interrupted {
                    self.unheard.retain(|waiting| match waiting {
                        VoiceEvent::Audio(_) => false,
                        VoiceEvent::AgentSaid(_) => !V::TELLS_WORDS_WITH_SPEECH,
                        _ => true,
                    });
                }
                if let VoiceEvent::Lost(why) = &heard {
                    tracing::warn!(call_id = %self.call_id, %why, "the voice is lost");
                }
                self.unheard.push_back(heard);
            }
        }
        None
    }

    /// The content of messages is not logged: it is what people say.
    fn log(&mut self, input: &SessionInput<V::Received>) {
        let call_id = &self.call_id;
        match input {
            SessionInput::Closed { connection, why } => {
                self.sockets.remove(connection);
                tracing::info!(%call_id, connection, why = %why.words, "a connection to the model is closed");
            }
            SessionInput::Rubbish { connection } => {
                if self.unreadable < Some(*connection) {
                    self.unreadable = Some(*connection);
                    tracing::warn!(%call_id, connection, "the model sent something that cannot be read");
                }
            }
            SessionInput::Opened { .. }
            | SessionInput::Message { .. }
            | SessionInput::Spoken(_)
            | SessionInput::Drained
            | SessionInput::Time => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says twenty words on a text, stops on a voice, and turns over once the call has taken everything.
    struct Talker<const TELLS_WORDS: bool> {
        is_over: bool,
    }

    struct Nowhere;

    impl<V: VoiceMachine> Transport<V> for Nowhere {
        fn carry(
            &self,
            _: u32,
            _: mpsc::Receiver<V::Sent>,
            _: mpsc::Sender<SessionInput<V::Received>>,
        ) -> impl Future<Output = ()> + Send + 'static {
            std::future::ready(())
        }
    }

    impl<const TELLS_WORDS: bool> VoiceMachine for Talker<TELLS_WORDS> {
        type Received = ();
        type Sent = ();
        const TELLS_WORDS_WITH_SPEECH: bool = TELLS_WORDS;

        fn step(&mut self, input: SessionInput<()>, _: Duration) -> Vec<SessionEffect<()>> {
            let told = match input {
                SessionInput::Spoken(VoiceInput::Text(_)) => {
                    let word = || VoiceEvent::AgentSaid("word ".to_owned());
                    let pieces = (0..20).flat_map(|_| [VoiceEvent::Audio(vec![1; 240]), word()]);
                    pieces.collect()
                }
                SessionInput::Spoken(_) => vec![VoiceEvent::Interrupted],
                SessionInput::Drained if !self.is_over => {
                    self.is_over = true;
                    vec![VoiceEvent::TurnOver]
                }
                _ => vec![],
            };
            told.into_iter().map(SessionEffect::Tell).collect()
        }

        fn due(&self) -> Option<Duration> {
            None
        }

        fn is_over(&self) -> bool {
            self.is_over
        }
    }

    /// The words and the pieces of speech that a call gets which takes nothing until it interrupts.
    async fn interrupted<const TELLS_WORDS: bool>() -> (usize, usize) {
        let machine = Talker::<TELLS_WORDS> { is_over: false };
        let VoiceSession { spoken, mut heard } = open(machine, Nowhere, "call_test".to_owned());
        spoken.send(VoiceInput::Text(String::new())).await.unwrap();
        while heard.len() < HEARD_MOST {
            tokio::task::yield_now().await;
        }
        let voice = VoiceInput::Activity { speaks: true };
        spoken.send(voice).await.unwrap();
        while spoken.capacity() < SPOKEN_MOST {
            tokio::task::yield_now().await;
        }
        let mut told = Vec::new();
        while let Some(event) = heard.recv().await {
            told.push(event);
        }
        assert_eq!(
            told[told.len() - 2..],
            [VoiceEvent::Interrupted, VoiceEvent::TurnOver]
        );
        let count = |wanted: fn(&VoiceEvent) -> bool| told.iter().filter(|it| wanted(it)).count();
        (
            count(|it| matches!(it, VoiceEvent::AgentSaid(_))),
            count(|it| matches!(it, VoiceEvent::Audio(_))),
        )
    }

    #[tokio::test]
    async fn an_interruption_voids_speech_and_the_words_that_go_with_it() {
        assert_eq!(interrupted::<true>().await, (4, 4));
        assert_eq!(interrupted::<false>().await, (20, 4));
    }
}
