//! The requests that are under way: their deadlines, and what follows a failure.
//!
//! A failed request is tried once more. The second failure in a row of the same endpoint ends the voice, and so does one that every
//! further attempt would meet.

use std::time::Duration;

use super::{PipelineMachine, PipelineRequest, SessionEffect, VoiceEvent};
use crate::voice::common::{CloseReason, is_fatal};

/// Time limits: for the text of the caller's words, for the beginning of an answer, and for the beginning of speech.
const TEXT: Duration = Duration::from_secs(10);
const FIRST_TOKEN: Duration = Duration::from_secs(5);
const FIRST_SOUND: Duration = Duration::from_secs(5);
/// The longest pause within an answer or speech.
const STALL: Duration = Duration::from_secs(5);
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
    /// The call has not taken all that it was told. Nothing is read until it has, so no deadline counts.
    is_blocked: bool,
    /// Failures in a row of each endpoint.
    failures: [u32; 3],
    /// Nothing is requested before this time, because something has failed.
    not_before: Option<Duration>,
    /// The call knows of a failure.
    is_away: bool,
    /// The server refuses to tell the usage in a stream.
    pub(super) is_plain: bool,
}

#[derive(Debug)]
struct RunningRequest {
    connection: u32,
    stage: Stage,
    deadline: Duration,
    has_begun: bool,
}

impl PipelineRequests {
    pub(super) fn is_running(&self, connection: u32) -> bool {
        self.running.iter().any(|it| it.connection == connection)
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
        let running = self.running.drain(..);
        effects.extend(running.map(|it| SessionEffect::Close {
            connection: it.connection,
        }));
    }

    fn take(&mut self, connection: u32) -> Option<RunningRequest> {
        let at = self
            .running
            .iter()
            .position(|it| it.connection == connection)?;
        Some(self.running.swap_remove(at))
    }

    pub(super) fn block(&mut self) {
        self.is_blocked = true;
    }

    /// The call has taken everything, so the answers are read again.
    pub(super) fn unblock(&mut self, now: Duration) {
        self.is_blocked = false;
        for running in &mut self.running {
            let limit = match running.has_begun {
                true => STALL,
                false => running.stage.limit(),
            };
            running.deadline = now + limit;
        }
    }

    pub(super) fn due(&self) -> Option<Duration> {
        let deadlines = self.running.iter().map(|it| it.deadline);
        deadlines.min().filter(|_| !self.is_blocked)
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
        self.requests.failures[running.stage as usize] = 0;
        match running.stage {
            Stage::Hearing => {}
            Stage::Thinking => self.thought_over(connection),
            Stage::Speaking => self.speech.complete(connection),
        }
    }

    /// Ends requests whose deadline has passed.
    pub(super) fn expire_requests(&mut self) {
        let now = self.now;
        while !self.requests.is_blocked && !self.is_over {
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
        if self.summary.is_some() {
            return self.summed_up();
        }
        let is_final = why.is_final || is_fatal(&why.words);
        let is_plain = self.requests.is_plain;
        if stage == Stage::Thinking && why.refused && !is_final && !is_plain {
            self.requests.is_plain = true;
            return self.thinking_failed(false);
        }
        let failures = &mut self.requests.failures[stage as usize];
        *failures += 1;
        let pause = why.retry_after.unwrap_or(AGAIN);
        if is_final || *failures >= 2 || pause >= stage.limit() {
            return self.lost(format!("{}: {}", stage.name(), why.words));
        }
        self.requests.not_before = Some(self.now + pause);
        if !std::mem::replace(&mut self.requests.is_away, true) {
            self.tell(VoiceEvent::Away);
        }
        match stage {
            Stage::Hearing => self.turn.transcription_failed(),
            Stage::Thinking => self.thinking_failed(running.has_begun),
            Stage::Speaking => self.speech.failed(running.connection),
        }
    }
}
