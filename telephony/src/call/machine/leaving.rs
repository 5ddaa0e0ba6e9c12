//! The ways to leave a call: after the agent's last words, soon, after a sentence of the bridge, or by transfer to a person.

use dikala_entities::{HangupInitiator, HangupReason};
use dikala_sip::leg::Order;
use serde_json::json;

use super::{CallMachine, End, MachineEffect, Now, Phase, VoiceState, functions::answer};
use crate::voice::{Phrase, ToolOutcome, VoiceInput};

/// Silence of the voice that counts as the end of its goodbye, after it has asked for the end of the call.
const SETTLE_MS: u64 = 1_500;
/// Limit for playing the goodbye. At most 30 s of speech wait in the leg.
const GOODBYE_MS_MAX: u64 = 35_000;
/// The longest time that a hang-up command waits for the current speech.
const SOON_MS: u64 = 2_000;
/// Limit for a sentence of the bridge.
const SENTENCE_MS_MAX: u64 = 8_000;
/// Time limits for the agent's announcement of a transfer, and for the person to answer.
const ANNOUNCEMENT_MS_MAX: u64 = 15_000;
const CONNECTING_MS_MAX: u64 = 120_000;

#[derive(Debug)]
pub(super) struct Departure {
    then: Then,
    pub(super) stage: DepartureStage,
    until: u64,
}

#[derive(Debug)]
enum Then {
    End(End),
    Transfer {
        /// E.164.
        to: String,
        /// The model's tool call, if the agent asked for the transfer.
        tool: Option<String>,
    },
}

#[derive(Debug)]
pub(super) enum DepartureStage {
    /// The voice may still speak.
    Settling { until: u64 },
    /// Plays what was said, up to this mark.
    Playing { mark: u64 },
    /// A person is being called.
    Connecting,
}

impl Departure {
    pub(super) fn due(&self) -> u64 {
        match self.stage {
            DepartureStage::Settling { until } => until.min(self.until),
            DepartureStage::Playing { .. } | DepartureStage::Connecting => self.until,
        }
    }

    /// The call is left for a transfer; the person may be called already.
    pub(super) fn is_for_a_person(&self) -> bool {
        matches!(self.then, Then::Transfer { .. })
    }

    /// The model's tool call that asked for the transfer, once.
    pub(super) fn take_tool(&mut self) -> Option<String> {
        match &mut self.then {
            Then::Transfer { tool, .. } => tool.take(),
            Then::End(_) => None,
        }
    }

    /// Reports whether the voice's speech is still for the caller, and extends the wait if so.
    pub(super) fn still_speaks(&mut self, now_ms: u64) -> bool {
        let DepartureStage::Settling { until } = &mut self.stage else {
            return false;
        };
        *until = now_ms + SETTLE_MS;
        true
    }

    /// The voice has finished speaking.
    pub(super) fn has_spoken(&mut self, now_ms: u64) {
        if let DepartureStage::Settling { until } = &mut self.stage {
            *until = now_ms;
        }
    }
}

impl CallMachine {
    /// Ends the call for the agent, after its speech was played.
    pub(super) fn leave_once_said(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let end = End::hangup(
            HangupReason::Normal,
            HangupInitiator::Agent,
            "The agent ended the call.",
        );
        let stage = DepartureStage::Settling {
            until: now.ms + SETTLE_MS,
        };
        self.leave(Then::End(end), stage, now.ms + GOODBYE_MS_MAX, out);
    }

    /// Ends the call for the service. The current speech gets [`SOON_MS`].
    pub(super) fn leave_soon(&mut self, end: End, now: Now, out: &mut Vec<MachineEffect>) {
        let until = now.ms + SOON_MS;
        if !self.speaking.is_speaking() {
            self.end(end, now, out);
            return;
        }
        let until = match &self.phase {
            // A second command does not extend the time.
            Phase::Leaving(leaving) => leaving.until.min(until),
            _ => until,
        };
        self.speaking.resume(out);
        let mark = self.speaking.mark(out);
        self.leave(Then::End(end), DepartureStage::Playing { mark }, until, out);
    }

    /// Ends the call after a fault, or because the bridge stops. A sentence replaces the current speech.
    pub(super) fn leave_with_a_sentence(
        &mut self,
        end: End,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        if self.speaking.is_speaking() {
            self.speaking.flush(false, out);
        }
        self.say_phrase(Phrase::Sorry, now, out);
        let mark = self.speaking.mark(out);
        let until = self.in_time(now.ms + SENTENCE_MS_MAX);
        self.leave(Then::End(end), DepartureStage::Playing { mark }, until, out);
    }

    /// Transfers the caller to a person, after the agent's announcement.
    pub(super) fn leave_for_a_person(
        &mut self,
        to: String,
        tool: Option<String>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let (stage, wait) = if tool.is_some() {
            let until = now.ms + SETTLE_MS;
            (DepartureStage::Settling { until }, ANNOUNCEMENT_MS_MAX)
        } else {
            self.speaking.resume(out);
            let mark = self.speaking.mark(out);
            (DepartureStage::Playing { mark }, SOON_MS)
        };
        self.leave(Then::Transfer { to, tool }, stage, now.ms + wait, out);
    }

    /// Caps the time left at the bridge's stop.
    pub(super) fn hurry(&mut self) {
        let stops_at = self.stops_at;
        if let (Phase::Leaving(leaving), Some(stops_at)) = (&mut self.phase, stops_at) {
            leaving.until = leaving.until.min(stops_at);
        }
    }

    fn leave(
        &mut self,
        then: Then,
        stage: DepartureStage,
        until: u64,
        out: &mut Vec<MachineEffect>,
    ) {
        self.call_nobody(out);
        self.speaking.resume(out);
        self.phase = Phase::Leaving(Departure { then, stage, until });
    }

    /// Cancels the call to a person, if one is under way.
    fn call_nobody(&self, out: &mut Vec<MachineEffect>) {
        if let Phase::Leaving(leaving) = &self.phase
            && matches!(leaving.stage, DepartureStage::Connecting)
        {
            out.push(MachineEffect::Leg(Order::CancelTransfer));
        }
    }

    pub(super) fn expire_leaving(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        match leaving.stage {
            DepartureStage::Settling { until } if until <= now.ms && leaving.until > now.ms => {
                let mark = self.speaking.mark(out);
                leaving.stage = DepartureStage::Playing { mark };
            }
            DepartureStage::Connecting => {
                self.call_nobody(out);
                let words = "the person did not answer in time".to_owned();
                self.transferred(Err(words), now, out);
            }
            _ => self.proceed(now, out),
        }
    }

    pub(super) fn played_in_leaving(
        &mut self,
        played: u64,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let Phase::Leaving(leaving) = &self.phase else {
            return;
        };
        if matches!(leaving.stage, DepartureStage::Playing { mark } if mark == played) {
            self.proceed(now, out);
        }
    }

    /// The speech was played, or its time is over: hangs up, or calls the person.
    fn proceed(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        match &leaving.then {
            Then::End(end) => {
                let end = end.clone();
                self.end(end, now, out);
            }
            Then::Transfer { to, .. } => {
                let to = to.clone();
                out.push(MachineEffect::Leg(Order::Transfer { to }));
                leaving.stage = DepartureStage::Connecting;
                leaving.until = now.ms + CONNECTING_MS_MAX;
            }
        }
    }

    /// Handles the outcome of a transfer. A successful one ends the call here, even if it was cancelled meanwhile.
    pub(super) fn transferred(
        &mut self,
        done: Result<(), String>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let awaited = match &mut self.phase {
            Phase::Leaving(Departure {
                then: Then::Transfer { tool, to },
                stage: DepartureStage::Connecting,
                ..
            }) => Some((tool.take(), to.clone())),
            _ => None,
        };
        let Err(words) = done else {
            if let Some((tool, to)) = awaited {
                self.transcribe_transfer(&to, now);
                if let Some(id) = tool {
                    answer(id, ToolOutcome::success(json!({"connected": true})), out);
                }
            }
            let end = End::hangup(
                HangupReason::Transferred,
                HangupInitiator::Bridge,
                "The caller was connected to a person.",
            );
            self.end(end, now, out);
            return;
        };
        let Some((tool, _)) = awaited else {
            return;
        };
        self.phase = Phase::Talking;
        if self.voice == VoiceState::None {
            self.leave_with_a_sentence(
                End::failed(
                    HangupReason::AiError,
                    "the voice was lost during a transfer that failed",
                    "The agent's voice is not available.",
                ),
                now,
                out,
            );
            return;
        }
        match tool {
            Some(id) => answer(id, ToolOutcome::failure("transfer_failed", &words), out),
            None => {
                let words = format!(
                    "Connecting the caller to a person failed: {words}. Tell the caller so, and go on with the conversation."
                );
                out.push(MachineEffect::Voice(VoiceInput::Text(words)));
            }
        }
    }
}
