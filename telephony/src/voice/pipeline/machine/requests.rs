//! The requests that are under way: their deadlines, and what follows a failure.
//!
//! A failed request is tried once more. The second failure in a row of the same endpoint ends the voice, and so does one that every
//! further attempt would meet. Requests that are under way together may fail together, which counts once.

use std::time::Duration;

use super::{PipelineMachine, PipelineRequest, SessionEffect, VoiceEvent};
use crate::voice::{
    Usage,
    common::{CloseReason, is_fatal},
};

/// Time limits: for the text of the caller's words, for the beginning of an answer, and for the beginning of speech.
const TEXT: Duration = Duration::from_secs(10);
const FIRST_TOKEN: Duration = Duration::from_secs(5);
const FIRST_SOUND: Duration = Duration::from_secs(5);
/// The longest pause within an answer or speech.
const STALL: Duration = Duration::from_secs(5);
/// The wait for a first token, and the pause within an answer, after which a waiting caller needs another answer.
const WAITED: Duration = Duration::from_secs(1);
/// Pause before a failed request is tried again, if the server does not name one.
const AGAIN: Duration = Duration::from_millis(200);

/// The three endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Hearing,
    Thinking,
    Speaking,
}

impl Stage {
    /// For operators.
    fn name(self) -> &'static str {
        match self {
            Self::Hearing => "speech-to-text (telephony.pipeline.stt)",
            Self::Thinking => "the language model (telephony.pipeline.llm)",
            Self::Speaking => "text-to-speech (telephony.pipeline.tts)",
        }
    }

    fn limit(self) -> Duration {
        match self {
            Self::Hearing => TEXT,
            Self::Thinking => FIRST_TOKEN,
            Self::Speaking => FIRST_SOUND,
        }
    }

    /// Words for a deadline that has passed.
    fn late(self, has_begun: bool) -> &'static str {
        match self {
            Self::Hearing => "no text came within 10 s",
            _ if has_begun => "its answer stopped for 5 s",
            Self::Thinking => "no answer began within 5 s",
            Self::Speaking => "no sound came within 5 s",
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct PipelineRequests {
    /// Requests made so far.
    count: u32,
    running: Vec<RunningRequest>,
    /// Since when the call has not taken all that it was told. Nothing is read until it has, so no deadline counts.
    blocked_since: Option<Duration>,
    failures: [StageFailures; 3],
    /// Nothing is requested before this time, because something has failed.
    not_before: Option<Duration>,
    /// The call knows of a failure, and waits.
    is_away: bool,
    /// Usage of requests that have ended.
    unbilled: Vec<Usage>,
    /// The server refuses to tell the usage in a stream.
    pub(super) is_plain: bool,
}

/// Failures in a row of an endpoint.
#[derive(Debug, Default)]
struct StageFailures {
    count: u32,
    /// The newest request when the last one was counted.
    newest: u32,
}

#[derive(Debug)]
struct RunningRequest {
    connection: u32,
    stage: Stage,
    deadline: Duration,
    has_begun: bool,
    /// As last reported: some servers report the sum so far with every part of an answer.
    usage: Option<Usage>,
}

impl PipelineRequests {
    pub(super) fn is_running(&self, connection: u32) -> bool {
        self.find(connection).is_some()
    }

    fn find(&self, connection: u32) -> Option<&RunningRequest> {
        self.running.iter().find(|it| it.connection == connection)
    }

    /// A part of its answer has come, and for some time nothing more.
    pub(super) fn has_stopped(&self, connection: u32, now: Duration) -> bool {
        let running = self.find(connection).filter(|it| it.has_begun);
        running.is_some_and(|it| it.deadline <= now + STALL - WAITED)
    }

    /// When it has waited long enough for the beginning of its answer; `None` after that.
    pub(super) fn waited_enough_at(&self, connection: u32) -> Option<Duration> {
        let running = self.find(connection).filter(|it| !it.has_begun)?;
        Some(running.deadline.saturating_sub(running.stage.limit()) + WAITED)
    }

    pub(super) fn start(
        &mut self,
        stage: Stage,
        message: PipelineRequest,
        now: Duration,
        effects: &mut Vec<SessionEffect<PipelineRequest>>,
    ) -> u32 {
        self.count += 1;
        let connection = self.count;
        self.running.push(RunningRequest {
            connection,
            stage,
            deadline: now + stage.limit(),
            has_begun: false,
            usage: None,
        });
        effects.push(SessionEffect::Open { connection });
        effects.push(SessionEffect::Send {
            connection,
            message,
        });
        connection
    }

    /// Ends a request, if it is running.
    pub(super) fn cancel(
        &mut self,
        connection: u32,
        effects: &mut Vec<SessionEffect<PipelineRequest>>,
    ) {
        if self.take(connection).is_some() {
            effects.push(SessionEffect::Close { connection });
        }
    }

    pub(super) fn cancel_all(&mut self, effects: &mut Vec<SessionEffect<PipelineRequest>>) {
        while let Some(connection) = self.running.last().map(|it| it.connection) {
            self.cancel(connection, effects);
        }
    }

    fn take(&mut self, connection: u32) -> Option<RunningRequest> {
        let at = self
            .running
            .iter()
            .position(|it| it.connection == connection)?;
        let running = self.running.swap_remove(at);
        self.unbilled.extend(running.usage);
        Some(running)
    }

    /// A request reports what it has used so far.
    pub(super) fn used(&mut self, connection: u32, usage: Usage) {
        let mut running = self.running.iter_mut();
        if let Some(running) = running.find(|it| it.connection == connection) {
            running.usage = Some(usage);
        }
    }

    pub(super) fn take_unbilled(&mut self) -> Vec<Usage> {
        std::mem::take(&mut self.unbilled)
    }

    /// The last request to the endpoint that ended has failed.
    pub(super) fn has_failed(&self, stage: Stage) -> bool {
        self.failures[stage as usize].count > 0
    }

    pub(super) fn block(&mut self, now: Duration) {
        self.blocked_since.get_or_insert(now);
    }

    /// The call has taken everything, so the answers are read again.
    pub(super) fn unblock(&mut self, now: Duration) {
        let Some(since) = self.blocked_since.take() else {
            return;
        };
        for running in &mut self.running {
            let limit = match running.has_begun {
                true => STALL,
                false => running.stage.limit(),
            };
            // A request that began meanwhile has its whole time.
            running.deadline = (running.deadline + (now - since)).min(now + limit);
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        let deadlines = self.running.iter().map(|it| it.deadline);
        deadlines.min().filter(|_| self.blocked_since.is_none())
    }

    /// When requests may be made again after a failure.
    pub(super) fn resumes_at(&self) -> Option<Duration> {
        self.not_before
    }

    pub(super) fn may_start(&self, now: Duration) -> bool {
        self.not_before.is_none_or(|at| at <= now)
    }
}

impl PipelineMachine {
    pub(super) fn start(&mut self, stage: Stage, request: PipelineRequest) -> u32 {
        let effects = &mut self.effects;
        self.requests.start(stage, request, self.now, effects)
    }

    /// A request has brought what it is for, or a part of it.
    pub(super) fn brought(&mut self, connection: u32) {
        let now = self.now;
        let mut running = self.requests.running.iter_mut();
        let Some(running) = running.find(|it| it.connection == connection) else {
            return;
        };
        running.has_begun = true;
        running.deadline = now + STALL;
        self.back();
    }

    /// The call waits for no second attempt any more.
    pub(super) fn back(&mut self) {
        if std::mem::take(&mut self.requests.is_away) {
            self.tell(VoiceEvent::Reconnected);
        }
    }

    /// A request is complete.
    pub(super) fn done(&mut self, connection: u32) {
        let Some(running) = self.requests.take(connection) else {
            return;
        };
        self.effects.push(SessionEffect::Close { connection });
        if running.stage == Stage::Speaking && !running.has_begun {
            return self.fail(&running, &CloseReason::gone("it sends no sound"));
        }
        self.requests.failures[running.stage as usize].count = 0;
        self.back();
        match running.stage {
            Stage::Hearing => {}
            Stage::Thinking => self.thought_over(connection),
            Stage::Speaking => self.speech.complete(connection),
        }
    }

    /// Ends requests whose deadline has passed.
    pub(super) fn expire_requests(&mut self) {
        let now = self.now;
        while self.requests.blocked_since.is_none() && !self.is_over {
            let mut running = self.requests.running.iter();
            let Some(late) = running.find(|it| it.deadline <= now) else {
                return;
            };
            let (connection, words) = (late.connection, late.stage.late(late.has_begun));
            self.effects.push(SessionEffect::Close { connection });
            self.failed(connection, &CloseReason::gone(words));
        }
    }

    pub(super) fn failed(&mut self, connection: u32, why: &CloseReason) {
        if let Some(running) = self.requests.take(connection) {
            self.fail(&running, why);
        }
    }

    fn fail(&mut self, running: &RunningRequest, why: &CloseReason) {
        let stage = running.stage;
        if self.summary.is_some() && stage == Stage::Hearing {
            // The summary is made without those words.
            return self.turn.give_up();
        }
        if self.summary.is_some() {
            return self.summed_up();
        }
        if stage == Stage::Thinking && !self.answer.is_from(running.connection) {
            // The answer was complete.
            self.requests.failures[stage as usize].count = 0;
            return;
        }
        // A lasting fault meets the other one, too.
        if stage == Stage::Thinking && self.answer.one_is_left(running.connection) {
            return;
        }
        let is_final = why.is_final || is_fatal(&why.words);
        let is_plain = self.requests.is_plain;
        if stage == Stage::Thinking && why.refused && !is_final && !is_plain {
            self.requests.is_plain = true;
            return self.thinking_failed(false);
        }
        let newest = self.requests.count;
        let failures = &mut self.requests.failures[stage as usize];
        if running.connection > failures.newest {
            failures.count += 1;
            failures.newest = newest;
        }
        let pause = why.retry_after.unwrap_or(AGAIN);
        if is_final || failures.count >= 2 || pause >= stage.limit() {
            return self.lost(format!("{}: {}", stage.name(), why.words));
        }
        self.requests.not_before = Some(self.now + pause);
        self.again(running);
    }

    /// Has the work of a failed request done once more. The call waits for it, unless the caller has the word.
    fn again(&mut self, running: &RunningRequest) {
        let is_waiting = match running.stage {
            Stage::Hearing => {
                self.turn.transcription_failed();
                !self.turn.is_speaking()
            }
            Stage::Thinking => {
                self.thinking_failed(running.has_begun);
                !self.turn.is_open(self.now)
            }
            Stage::Speaking => {
                self.speech.failed(running.connection) && !self.turn.is_open(self.now)
            }
        };
        if is_waiting && !std::mem::replace(&mut self.requests.is_away, true) {
            self.tell(VoiceEvent::Away);
        }
    }
}
