//! The model's responses: one at a time, and none after an interruption that began before it.
//!
//! A response of the server's own follows each turn of the caller. Texts and outcomes of functions need one that is requested, and a
//! request while another response is running is an error.

use std::time::Duration;

use serde_json::{Value, json};

use super::{RealtimeMachine, SummaryStage, VoiceEvent};
use crate::voice::{
    common::words,
    openai::wire::{
        client::{RealtimeRequest, RequestKind, user_text},
        server::ModelResponse,
    },
};

/// Time limit for a requested response to begin.
const BEGINS: Duration = Duration::from_secs(10);
/// The time in which the server begins its own response to a turn of the caller.
const SERVER_ANSWERS: Duration = Duration::from_secs(5);
/// Pause before a request that came while another response was running is repeated.
const AGAIN: Duration = Duration::from_millis(500);
/// A caller who seems to speak for longer delays no answer: it may be a noise.
pub(super) const SPEAKS_MOST: Duration = Duration::from_secs(15);
/// Answers in writing, in a row, before the connection is given up.
const IN_WRITING_MOST: u32 = 3;
/// A requested response that has not begun after this time is requested again, if the caller hears nothing.
const IS_LATE: Duration = Duration::from_secs(2);
/// The event id of a request for a summary.
pub(super) const SUMMARY_ID: &str = "summary";

#[derive(Debug, Default)]
pub(super) struct ModelAnswers {
    /// When a response was requested that has not begun.
    requested: Option<Duration>,
    running: Option<RunningResponse>,
    /// The requested response is void before it begins.
    is_next_void: bool,
    /// The model has something to answer, and no response was requested for it.
    wanted: bool,
    /// All of that was there when the caller's turn ended, so the response to that turn answers it.
    is_covered: bool,
    /// Outcomes of functions were sent, which the model has not answered.
    has_outcomes: bool,
    /// Since when the caller speaks.
    caller_speaks: Option<Duration>,
    /// The caller's turn has ended, and the server is to begin a response by then.
    owed: Option<Duration>,
    not_before: Duration,
    /// Answers in writing in a row, which nobody heard.
    in_writing: u32,
}

#[derive(Debug, Default)]
struct RunningResponse {
    id: String,
    /// The caller interrupted it, or it came after the interruption.
    is_void: bool,
    has_audio: bool,
    /// The item of an answer in writing.
    written: Option<String>,
}

/// The part of the conversation that a session leaves unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unanswered {
    Nothing,
    /// The caller, or a text.
    Caller,
    /// It has broken off in the middle of an answer.
    RestOfAnswer,
}

impl ModelAnswers {
    pub(super) fn unanswered(&self) -> Unanswered {
        let speaks = |it: &RunningResponse| it.has_audio && !it.is_void;
        match self.running.as_ref().is_some_and(speaks) {
            true => Unanswered::RestOfAnswer,
            false if self.owes_answer() => Unanswered::Caller,
            false => Unanswered::Nothing,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.requested.is_some() || self.running.is_some()
    }

    /// The conversation is in the middle of something.
    pub(super) fn is_busy(&self) -> bool {
        self.is_running() || self.caller_speaks.is_some() || self.owes_answer()
    }

    /// The caller's turn has begun and is not over.
    pub(super) fn caller_speaks(&self) -> bool {
        self.caller_speaks.is_some()
    }

    /// The model owes the caller an answer, or the rest of one.
    pub(super) fn owes_answer(&self) -> bool {
        let is_answering = self.running.as_ref().is_some_and(|it| !it.is_void);
        let is_requested = self.requested.is_some() && !self.is_next_void;
        is_answering || is_requested || self.wanted || self.has_outcomes || self.owed.is_some()
    }

    /// An answer is being made of which there is no sound yet.
    pub(super) fn is_unheard(&self) -> bool {
        let is_silent = |it: &RunningResponse| !it.has_audio;
        self.running
            .as_ref()
            .map_or(self.requested.is_some(), is_silent)
    }

    /// A new session has no responses.
    pub(super) fn forget(&mut self) {
        *self = Self {
            in_writing: self.in_writing,
            ..Self::default()
        };
    }

    /// A text for the model was sent.
    pub(super) fn want(&mut self) {
        self.wanted = true;
        self.is_covered = false;
    }

    /// An outcome was sent that is to be talked about.
    pub(super) fn has_outcome(&mut self) {
        self.has_outcomes = true;
    }

    fn waits_for_caller(&self, now: Duration) -> bool {
        let until = self.caller_speaks.map(|since| since + SPEAKS_MOST);
        until.is_some_and(|until| now < until)
    }

    /// Until when nothing is requested: the caller speaks, the server is about to answer, or a request came too early.
    fn waits(&self) -> Duration {
        let caller = self.caller_speaks.map(|since| since + SPEAKS_MOST);
        let waits = caller.into_iter().chain(self.owed);
        waits.fold(self.not_before, Duration::max)
    }

    /// The response that is for the caller or for the summary, and that this event belongs to.
    fn valid(&mut self, id: &str) -> Option<&mut RunningResponse> {
        let is_same = |it: &&mut RunningResponse| it.id == id || id.is_empty();
        let running = self.running.as_mut().filter(is_same);
        running.filter(|running| !running.is_void)
    }

    pub(super) fn is_valid(&mut self, id: &str) -> bool {
        self.valid(id).is_some()
    }

    pub(super) fn brought_audio(&mut self, id: &str) {
        self.in_writing = 0;
        if let Some(running) = self.valid(id) {
            running.has_audio = true;
        }
    }

    pub(super) fn brought_text(&mut self, id: &str, item: String) {
        if let Some(running) = self.valid(id) {
            running.written = Some(item);
        }
    }

    /// A response has begun and is not done.
    pub(super) fn has_begun(&self) -> bool {
        self.running.is_some()
    }

    /// The request came too early. The running response began before the server knew what is to be answered.
    pub(super) fn was_refused(&mut self, now: Duration) {
        self.requested = None;
        // It never begins, and the next response is another one.
        self.is_next_void = false;
        self.wanted = true;
        self.not_before = now + AGAIN;
    }

    /// A requested summary was refused.
    pub(super) fn was_refused_beside(&mut self) {
        self.requested = None;
    }

    fn due(&self, now: Duration) -> Option<Duration> {
        let begins = self.requested.map(|at| at + BEGINS);
        let has_request = self.wanted || self.has_outcomes;
        let wanted = Some(self.waits()).filter(|at| has_request && *at > now);
        begins.into_iter().chain(wanted).min()
    }
}

impl RealtimeMachine {
    pub(super) fn answer_due(&self) -> Option<Duration> {
        self.live().and_then(|_| self.answers.due(self.now))
    }

    /// A response that was requested and never begins is a fault of the connection.
    pub(super) fn answer_time(&mut self) {
        let requested = self.answers.requested;
        if let Some(connection) = self.live()
            && requested.is_some_and(|at| self.now >= at + BEGINS)
        {
            self.give_up(connection, "it began no response");
        }
    }

    /// Requests a response, if there is anything to answer and nothing is running.
    pub(super) fn respond(&mut self, connection: u32) {
        if self.answers.is_running() {
            return;
        }
        if self.summary.is_some() {
            return self.request_summary(connection);
        }
        if self.now < self.answers.waits() {
            return;
        }
        if self.answers.has_outcomes && !self.tools.open(connection) {
            self.answers.has_outcomes = false;
            self.answers.wanted = true;
        }
        if std::mem::take(&mut self.answers.wanted) {
            self.request(connection, None, None);
        }
    }

    fn request(
        &mut self,
        connection: u32,
        event_id: Option<&'static str>,
        response: Option<Value>,
    ) {
        self.answers.requested = Some(self.now);
        let request = RequestKind::CreateResponse { response };
        let message = RealtimeRequest { event_id, request };
        self.send(connection, message);
    }

    fn request_summary(&mut self, connection: u32) {
        let Some(summary) = &mut self.summary else {
            return;
        };
        if summary.stage == SummaryStage::Waiting {
            summary.stage = SummaryStage::Beside;
            let response = json!({
                "conversation": "none",
                "output_modalities": ["text"],
                "tool_choice": "none",
                "instructions": words::SUMMARISE,
            });
            self.request(connection, Some(SUMMARY_ID), Some(response));
        }
    }

    /// The server does not answer beside the conversation: the summary becomes a part of it.
    pub(super) fn summarise_within(&mut self, connection: u32) {
        if let Some(summary) = &mut self.summary
            && summary.stage == SummaryStage::Beside
        {
            summary.stage = SummaryStage::Within;
            self.answers.was_refused_beside();
            self.send(connection, user_text(words::SUMMARISE));
            let response = json!({"output_modalities": ["text"]});
            self.request(connection, Some(SUMMARY_ID), Some(response));
        }
    }

    pub(super) fn response_created(&mut self, connection: u32, id: String) {
        let was_requested = self.answers.requested.take().is_some();
        let is_next_void = was_requested && std::mem::take(&mut self.answers.is_next_void);
        self.answers.owed = None;
        if !was_requested {
            // Texts and outcomes that came while the caller spoke are answered with the caller's words.
            if std::mem::take(&mut self.answers.is_covered) {
                self.answers.wanted = false;
                self.answers.has_outcomes = false;
            }
        }
        // The answer to something else has come too late: the caller speaks.
        let is_late = self.terms.interruptible
            && self.summary.is_none()
            && self.answers.waits_for_caller(self.now);
        let is_foreign = self.summary.is_some() && !was_requested;
        let is_void = is_next_void || is_late || is_foreign;
        self.answers.running = Some(RunningResponse {
            id,
            is_void,
            ..RunningResponse::default()
        });
        if is_void {
            self.send(connection, RequestKind::CancelResponse.into());
        }
    }

    /// The caller hears nothing. False if an answer is on its way; otherwise nothing stands in the way of the next one.
    pub(super) fn gets_no_answer(&mut self) -> bool {
        let answers = &mut self.answers;
        if answers.requested.is_some_and(|at| self.now < at + IS_LATE) {
            return false;
        }
        match &answers.running {
            // It thinks.
            Some(running) if !running.is_void && !running.has_audio => return false,
            // It has begun to speak, and does not go on.
            Some(_) => self.stop_answer(),
            None => {}
        }
        self.answers.requested = None;
        self.answers.is_next_void = false;
        self.answers.owed = None;
        true
    }

    /// Makes the current answer void, and has the server stop it.
    pub(super) fn stop_answer(&mut self) {
        self.answers.is_next_void = self.answers.requested.is_some();
        if let Some(running) = &mut self.answers.running
            && !std::mem::replace(&mut running.is_void, true)
            && let Some(connection) = self.live()
        {
            self.send(connection, RequestKind::CancelResponse.into());
        }
    }

    /// The caller begins to speak. `stops`: the server has not stopped its answer by itself.
    pub(super) fn caller_starts(&mut self, stops: bool) {
        self.answers.caller_speaks = Some(self.now);
        if !self.terms.interruptible {
            return;
        }
        if stops {
            self.stop_answer();
        }
        self.answers.is_next_void = self.answers.requested.is_some();
        if let Some(running) = &mut self.answers.running {
            running.is_void = true;
        }
        self.speech.forget();
        match &mut self.summary {
            // Speech from before the interruption is not part of the summary.
            Some(summary) => summary.request.clear(),
            None if self.playback.has_spoken() => {
                self.record.turn_over();
                self.playback.interrupt();
                if let Some(turns) = &mut self.own_turns {
                    turns.was_flushed();
                }
                self.tell(VoiceEvent::Interrupted);
                if !self.answers.is_running() {
                    // No end of a turn follows, and the next words belong to the next answer.
                    self.tell_turn_over();
                }
            }
            None => {}
        }
    }

    /// The caller's turn has ended; the server answers it by itself, unless this side detects turns.
    pub(super) fn caller_stops(&mut self) {
        self.answers.caller_speaks = None;
        if self.own_turns.is_some() {
            self.answers.want();
        } else {
            self.answers.owed = Some(self.now + SERVER_ANSWERS);
            self.answers.is_covered = self.answers.wanted || self.answers.has_outcomes;
        }
    }

    /// The server takes the caller's turn. Some do not say before that it has ended.
    pub(super) fn turn_committed(&mut self) {
        if self.own_turns.is_none() && self.answers.caller_speaks.is_some() {
            self.caller_stops();
        }
    }

    pub(super) fn response_done(&mut self, connection: u32, response: ModelResponse) {
        let is_running = |it: &mut RunningResponse| it.id == response.id || response.id.is_empty();
        let Some(running) = self.answers.running.take_if(is_running) else {
            return;
        };
        self.speech.forget();
        if running.is_void {
            self.record.turn_over();
            return self.tell_turn_over();
        }
        if response.status == "failed" {
            self.answers.want();
            let code = response.status_details.error.shown();
            return self.fail(connection, &format!("a response failed with {code}"));
        }
        for item in response.output {
            self.wish(connection, item);
        }
        if self.live() != Some(connection) {
            return;
        }
        self.record.turn_over();
        if self.summary.is_some() {
            return self.summed_up();
        }
        self.tell_turn_over();
        if let (false, Some(item_id)) = (running.has_audio, running.written) {
            self.ask_for_speech(connection, item_id);
        }
    }

    fn tell_turn_over(&mut self) {
        if self.summary.is_none() {
            self.tell(VoiceEvent::TurnOver);
        }
    }

    /// The model has written its answer, which nobody hears (AVA). It has to say it.
    fn ask_for_speech(&mut self, connection: u32, item_id: String) {
        self.answers.in_writing += 1;
        if self.answers.in_writing >= IN_WRITING_MOST {
            return self.give_up(connection, "it answers in writing only");
        }
        self.record.remove(&item_id);
        let forgotten = RequestKind::DeleteItem { item_id };
        self.send(connection, forgotten.into());
        let response = json!({"output_modalities": ["audio"]});
        self.request(connection, None, Some(response));
    }
}
