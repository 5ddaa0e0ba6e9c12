//! The state machine of a session with a pipeline. Pure: no requests, no waiting.
//!
//! - `hearing` collects what the caller says, until the turn is over;
//! - `thinking` is the language model's answer, `history` the conversation for it;
//! - `speaking` are the clauses of the answer on their way to the caller;
//! - `requests` are those that are under way, with their deadlines and failures.

mod hearing;
mod history;
mod requests;
mod speaking;
#[cfg(test)]
mod tests;
mod thinking;

use std::time::Duration;

use dikala_entities::Speaker;
use dikala_protocol::CallAgent;

pub(super) use self::history::{ANSWERED, push};
use self::{
    hearing::HeardTurn, history::ChatHistory, requests::PipelineRequests, speaking::SpokenAnswer,
    thinking::ChatAnswer,
};
use super::wire::{ChatDelta, PipelineReply, PipelineRequest};
use crate::voice::{
    VoiceEvent, VoiceInput,
    common::{
        Bill, Playback, SessionEffect, SessionInput, SummaryRequest, ToolCalls, VoiceMachine,
        words::{self, WaitingWords},
    },
};

/// The longest time after the end of a call until its caller's last words are written down.
const LAST_WORDS: Duration = Duration::from_millis(900);

#[derive(Debug)]
pub(super) struct PipelineMachine {
    agent: CallAgent,
    /// The instruction for the language model.
    instruction: String,
    /// The caller's voice stops the agent's.
    is_interruptible: bool,
    now: Duration,
    effects: Vec<SessionEffect<PipelineRequest>>,
    requests: PipelineRequests,
    turn: HeardTurn,
    answer: ChatAnswer,
    speech: SpokenAnswer,
    playback: Playback,
    history: ChatHistory,
    /// Notes that the model gets with the next request.
    notes: WaitingWords,
    tools: ToolCalls,
    bill: Bill,
    summary: Option<SummaryRequest>,
    /// The summary is asked for at this time, or once the caller's last words are written down.
    last_words_until: Option<Duration>,
    /// The call is answered, so the agent may speak.
    may_speak: bool,
    /// There was a session before this one.
    goes_on: bool,
    /// Another session has left the rest of an answer.
    is_answer_cut: bool,
    is_ready: bool,
    is_over: bool,
}

impl PipelineMachine {
    /// With a conversation so far the agent goes on with it and does not greet.
    pub(super) fn new(
        agent: CallAgent,
        circumstances: &str,
        is_interruptible: bool,
        so_far: &[(Speaker, String)],
        is_answer_cut: bool,
    ) -> Self {
        Self {
            instruction: words::instruction(&agent, circumstances, ""),
            agent,
            is_interruptible,
            now: Duration::ZERO,
            effects: Vec::new(),
            requests: PipelineRequests::default(),
            turn: HeardTurn::default(),
            answer: ChatAnswer::default(),
            speech: SpokenAnswer::default(),
            playback: Playback::default(),
            history: ChatHistory::new(so_far),
            notes: WaitingWords::default(),
            tools: ToolCalls::default(),
            bill: Bill::default(),
            summary: None,
            last_words_until: None,
            may_speak: false,
            goes_on: !so_far.is_empty(),
            is_answer_cut,
            is_ready: false,
            is_over: false,
        }
    }

    fn spoken(&mut self, spoken: VoiceInput) {
        match spoken {
            VoiceInput::Summarise => self.summarise(),
            _ if self.summary.is_some() => {}
            VoiceInput::Audio(samples) => self.turn.hear(&samples),
            VoiceInput::Activity { speaks } => self.activity(speaks),
            VoiceInput::AnswerNow(_) if self.turn.is_open(self.now) => {}
            VoiceInput::AnswerNow(_) if self.is_answering() => self.hurry(),
            VoiceInput::Text(text) | VoiceInput::AnswerNow(text) | VoiceInput::Goodbye(text) => {
                self.note(&text);
            }
            VoiceInput::Keys(words) => self.note(&words),
            VoiceInput::ToolOutcome { id, outcome } => {
                self.tools.came(&id, outcome, self.now);
            }
            VoiceInput::Interrupted { played_ms } => {
                for cut in self.playback.played(played_ms) {
                    self.history.keep(&cut.id, cut.heard_ms, cut.length_ms);
                }
            }
            VoiceInput::Greet => self.greet(),
        }
    }

    /// Tells the model something that it is to answer.
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
        self.answer.want();
    }

    /// The call is answered. A greeting with given words needs no model.
    fn greet(&mut self) {
        if std::mem::replace(&mut self.may_speak, true) {
            return;
        }
        let given = self.agent.greeting_text.as_deref().map(str::trim);
        match given.filter(|greeting| !greeting.is_empty()) {
            // A session of another voice has left the caller waiting.
            _ if self.goes_on && self.is_answer_cut => {
                let again = words::say_again(self.history.last_of_caller());
                self.note(again.trim_matches(['[', ']']));
            }
            _ if self.goes_on => self.note(words::GO_ON.trim_matches(['[', ']'])),
            Some(greeting) => {
                let greeting = greeting.to_owned();
                self.write(&greeting);
                self.written();
                self.speech.greets();
            }
            None => self.note(words::greeting(&self.agent).trim_matches(['[', ']'])),
        }
    }

    fn summarise(&mut self) {
        if self.summary.is_some() {
            return;
        }
        self.stop_answer();
        self.turn.ends();
        self.summary = Some(SummaryRequest::new(self.now));
        self.last_words_until = Some(self.now + LAST_WORDS);
    }

    /// Asks for the summary once the caller's last words are written down, or it is time.
    fn ask_for_summary(&mut self) {
        let Some(until) = self.last_words_until else {
            return;
        };
        if self.turn.has_unheard() && self.now < until {
            return self.write_down();
        }
        self.last_words_until = None;
        // The summary begins later by what was waited for.
        let has_waited = self.now + LAST_WORDS > until;
        if has_waited && self.summary.as_mut().is_some_and(SummaryRequest::begins) {
            self.tell(VoiceEvent::Summarising);
        }
        let turn = std::mem::take(&mut self.turn);
        self.requests.cancel_all(&mut self.effects);
        if let Some(words) = turn.into_words() {
            self.history.caller(&words);
        }
        self.ask();
    }

    /// An answer is being written or spoken, or is to end the call.
    fn is_answering(&self) -> bool {
        self.answer.is_running() || !self.speech.is_empty() || self.answer.is_parting()
    }

    fn replied(&mut self, connection: u32, reply: PipelineReply) {
        if !self.requests.is_running(connection) {
            return;
        }
        match reply {
            PipelineReply::Done => self.done(connection),
            PipelineReply::Chat(delta) => self.thought(connection, delta),
            PipelineReply::Transcript(text) => self.transcribed(connection, &text),
            PipelineReply::Audio(samples) => self.synthesised(connection, &samples),
        }
    }

    /// Takes whatever step has become possible.
    fn proceed(&mut self) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.tell(VoiceEvent::Ready);
        }
        let summary = self.summary.as_ref().and_then(SummaryRequest::due);
        if summary.is_some_and(|until| until <= self.now) {
            self.summed_up();
        }
        self.expire_requests();
        if self.is_over {
            return;
        }
        if self.summary.is_some() {
            return self.ask_for_summary();
        }
        self.speak();
        self.end_turn();
        self.think();
        self.ask_beside();
    }

    fn tell(&mut self, heard: VoiceEvent) {
        self.effects.push(SessionEffect::Tell(heard));
    }

    /// Ends the voice.
    fn lost(&mut self, words: String) {
        self.requests.cancel_all(&mut self.effects);
        self.bill_ended();
        self.is_over = true;
        self.tell(VoiceEvent::Lost(words));
    }
}

impl VoiceMachine for PipelineMachine {
    type Received = PipelineReply;
    type Sent = PipelineRequest;
    const TELLS_WORDS_WITH_SPEECH: bool = true;

    fn step(
        &mut self,
        input: SessionInput<Self::Received>,
        now: Duration,
    ) -> Vec<SessionEffect<Self::Sent>> {
        self.now = self.now.max(now);
        if !self.is_over {
            match input {
                SessionInput::Message {
                    connection,
                    message,
                } => self.replied(connection, *message),
                SessionInput::Closed { connection, why } => self.failed(connection, &why),
                SessionInput::Spoken(spoken) => self.spoken(spoken),
                SessionInput::Drained => self.requests.unblock(self.now),
                SessionInput::Opened { .. } | SessionInput::Rubbish { .. } | SessionInput::Time => {
                }
            }
        }
        if !self.is_over {
            self.proceed();
        }
        self.bill_ended();
        let effects = std::mem::take(&mut self.effects);
        let tells = |effect: &SessionEffect<_>| matches!(effect, SessionEffect::Tell(_));
        if effects.iter().any(tells) {
            self.requests.block(self.now);
        }
        effects
    }

    fn due(&self) -> Option<Duration> {
        let summary = self.summary.as_ref().and_then(SummaryRequest::due);
        let resumes = self.requests.resumes_at().filter(|at| *at > self.now);
        let turn = self.turn.due(self.now);
        let beside = self.beside_due().filter(|at| *at > self.now);
        let turn = turn.filter(|_| self.summary.is_none());
        [
            summary,
            self.last_words_until,
            self.requests.due(),
            resumes,
            turn,
            beside,
        ]
        .into_iter()
        .flatten()
        .min()
        .filter(|_| !self.is_over)
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
