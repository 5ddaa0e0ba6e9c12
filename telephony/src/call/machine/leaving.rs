//! The ways to leave a call: after the agent's last words, soon, after a sentence of the bridge, or by transfer to a person.

use dikala_entities::{HangupInitiator, HangupReason, InterruptionMode};
use dikala_sip::leg::{Order, VOICE_HANG_OVER_MS};
use serde_json::json;

use super::{CallMachine, End, MachineEffect, Now, Phase, VoiceState, functions::answer};
use crate::voice::{Phrase, ToolOutcome, VoiceInput};

/// Silence of the voice that counts as the end of its goodbye, after it has asked for the end of the call.
const SETTLE_MS: u64 = 1_500;
/// Time for a model to begin the goodbye that it is asked for.
const GOODBYE_BEGINS_MS: u64 = 5_000;
/// Limit for playing the goodbye. At most 30 s of speech wait in the leg.
const GOODBYE_MS_MAX: u64 = 35_000;
/// Time after the goodbye in which the caller may still say something.
const LAST_CHANCE_MS: u64 = 300;
/// A voice of less than 300 ms stops no goodbye. It is noticed after up to 96 ms, and its end after [`VOICE_HANG_OVER_MS`].
const YIELDS_AFTER_MS: u64 = 200 + VOICE_HANG_OVER_MS;
/// Goodbyes of one call that the caller may speak into. A noise without end is no reason to stay for ever.
const GOODBYES_MAX: u8 = 2;
/// For a model whose goodbye the caller has answered.
const GO_ON: &str = "The caller has spoken before the call was over, so it goes on. Answer, and end the call again once all is said.";
/// The longest time that a hang-up command waits for the current speech.
const SOON_MS: u64 = 2_000;
/// Limit for a sentence of the bridge.
const SENTENCE_MS_MAX: u64 = 8_000;
/// Time limits for the agent's last words before a transfer, and for the person to answer.
const ANNOUNCEMENT_MS_MAX: u64 = 15_000;
const CONNECTING_MS_MAX: u64 = 140_000;

#[derive(Debug)]
pub(super) struct Departure {
    then: Then,
    pub(super) stage: DepartureStage,
    until: u64,
    /// A voice over the goodbye stops it at this time, if it lasts.
    yields_at: Option<u64>,
    /// The model was interrupted by that voice.
    is_interrupted: bool,
}

#[derive(Debug)]
enum Then {
    End(End),
    /// The end that the agent wants. The caller may speak before it, and the call goes on.
    EndUnlessCallerSpeaks(End),
    Transfer {
        /// E.164.
        to: String,
        /// The model's tool call, if the agent asked for the transfer.
        tool: Option<String>,
        /// The person to call if this one cannot be reached: of the newest command since this one is called.
        next: Option<String>,
    },
}

#[derive(Debug)]
pub(super) enum DepartureStage {
    /// The voice may still speak.
    Settling { until: u64 },
    /// Plays what was said, up to this mark.
    Playing { mark: u64 },
    /// All was played; the caller may still speak.
    LastChance { until: u64 },
    /// A person is being called.
    Connecting,
}

impl Departure {
    pub(super) fn due(&self) -> u64 {
        if let Some(yields_at) = self.yields_at {
            return yields_at.min(self.until);
        }
        match self.stage {
            DepartureStage::Settling { until } => until.min(self.until),
            DepartureStage::LastChance { until } => until,
            DepartureStage::Playing { .. } | DepartureStage::Connecting => self.until,
        }
    }

    /// A person is being called.
    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.stage, DepartureStage::Connecting)
    }

    /// The call is left for a transfer; the person may be called already.
    pub(super) fn is_for_a_person(&self) -> bool {
        matches!(self.then, Then::Transfer { .. })
    }

    /// Calls `person` in place of the one who is to be called; or, if that one is being called, only if that fails. False if
    /// nobody is to be called, or the agent may still say so.
    pub(super) fn redirect(&mut self, person: &str) -> bool {
        let Then::Transfer { to, next, .. } = &mut self.then else {
            return false;
        };
        match self.stage {
            DepartureStage::Settling { .. } => return false,
            // A repeat asks for nothing new.
            DepartureStage::Connecting => *next = (to != person).then(|| person.to_owned()),
            DepartureStage::Playing { .. } | DepartureStage::LastChance { .. } => {
                person.clone_into(to);
            }
        }
        true
    }

    /// The model's tool call that asked for the transfer, once.
    pub(super) fn take_tool(&mut self) -> Option<String> {
        match &mut self.then {
            Then::Transfer { tool, .. } => tool.take(),
            Then::End(_) | Then::EndUnlessCallerSpeaks(_) => None,
        }
    }

    /// The caller is still heard.
    pub(super) fn is_goodbye(&self) -> bool {
        matches!(self.then, Then::EndUnlessCallerSpeaks(_))
    }

    /// Reports whether the voice's speech is still for the caller, and extends the wait if so.
    pub(super) fn still_speaks(&mut self, now_ms: u64) -> bool {
        let DepartureStage::Settling { until } = &mut self.stage else {
            return false;
        };
        *until = now_ms + SETTLE_MS;
        true
    }

    /// The caller's voice has ended before it stopped the goodbye.
    pub(super) fn caller_ended(&mut self) {
        self.yields_at = None;
        self.is_interrupted = false;
    }

    /// The model was interrupted. That counts once the voice has stopped the goodbye.
    pub(super) fn interrupted(&mut self) {
        self.is_interrupted = self.yields_at.is_some();
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
        self.leave_unless_caller_speaks(end, SETTLE_MS, now, out);
    }

    /// Ends the call after the goodbye that the model was asked for.
    pub(super) fn leave_after_goodbye(&mut self, end: End, now: Now, out: &mut Vec<MachineEffect>) {
        self.leave_unless_caller_speaks(end, GOODBYE_BEGINS_MS, now, out);
    }

    fn leave_unless_caller_speaks(
        &mut self,
        end: End,
        begins_ms: u64,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let until = now.ms + begins_ms;
        let stage = DepartureStage::Settling { until };
        let then = Then::EndUnlessCallerSpeaks(end);
        self.leave(then, stage, now.ms + GOODBYE_MS_MAX, now, out);
    }

    /// A voice begins over the agent's goodbye, which pauses: it may be a cough.
    pub(super) fn pause_goodbye(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let may_stay = self.may_stay();
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        if !leaving.is_goodbye() || !may_stay {
            return;
        }
        leaving.yields_at = Some(now.ms + YIELDS_AFTER_MS);
        if self.interruptions_mode() == InterruptionMode::Fast {
            self.pause_speech(now, out);
        }
    }

    fn may_stay(&self) -> bool {
        let may_stay = self.goodbyes < GOODBYES_MAX && self.stops_at.is_none();
        may_stay && self.voice == VoiceState::Ready
    }

    /// The caller speaks into the agent's goodbye, so the call goes on.
    fn stay_after_goodbye(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        if !self.may_stay() {
            self.resume_speech(now, out);
            return;
        }
        let is_interrupted =
            matches!(&self.phase, Phase::Leaving(leaving) if leaving.is_interrupted);
        self.goodbyes += 1;
        self.phase = Phase::Talking;
        if is_interrupted {
            self.flush_speech(true, now, out);
        } else if self.interruptions_mode() == InterruptionMode::Fast {
            self.pause_speech(now, out);
        }
        out.push(MachineEffect::Voice(VoiceInput::Text(GO_ON.to_owned())));
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
        self.resume_speech(now, out);
        let mark = self.speaking.mark(out);
        let stage = DepartureStage::Playing { mark };
        self.leave(Then::End(end), stage, until, now, out);
    }

    /// Ends the call after a fault, or because the bridge stops. A sentence replaces the current speech.
    pub(super) fn leave_with_a_sentence(
        &mut self,
        end: End,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        if self.speaking.is_speaking() {
            self.flush_speech(false, now, out);
        }
        self.say_phrase(Phrase::Sorry, now, out);
        let mark = self.speaking.mark(out);
        let until = self.in_time(now.ms + SENTENCE_MS_MAX);
        let stage = DepartureStage::Playing { mark };
        self.leave(Then::End(end), stage, until, now, out);
    }

    /// Transfers the caller to a person, after the agent's announcement or current sentence.
    pub(super) fn leave_for_a_person(
        &mut self,
        to: String,
        tool: Option<String>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        let tool = tool.or_else(|| match &mut self.phase {
            Phase::Leaving(leaving) => leaving.take_tool(),
            _ => None,
        });
        let speaks = self.voice != VoiceState::None && self.guard.is_mid_turn();
        let stage = if tool.is_some() || speaks {
            let until = now.ms + SETTLE_MS;
            DepartureStage::Settling { until }
        } else {
            let mark = self.speaking.mark(out);
            DepartureStage::Playing { mark }
        };
        let until = now.ms + ANNOUNCEMENT_MS_MAX;
        let until = match &self.phase {
            // A second command does not extend the time.
            Phase::Leaving(leaving) if leaving.is_for_a_person() => leaving.until.min(until),
            _ => until,
        };
        let next = None;
        self.leave(Then::Transfer { to, tool, next }, stage, until, now, out);
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
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        self.call_nobody(out);
        self.resume_speech(now, out);
        if matches!(then, Then::Transfer { .. }) && self.guard.caller_speaks() {
            // From now on the voice hears nothing of the caller, so not the end of these words either.
            self.tell_activity(false, out);
        }
        self.phase = Phase::Leaving(Departure {
            then,
            stage,
            until,
            yields_at: None,
            is_interrupted: false,
        });
    }

    /// Cancels the call to a person, if one is under way.
    fn call_nobody(&self, out: &mut Vec<MachineEffect>) {
        if let Phase::Leaving(leaving) = &self.phase
            && leaving.is_connecting()
        {
            out.push(MachineEffect::Leg(Order::CancelTransfer));
        }
    }

    pub(super) fn expire_leaving(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        if leaving.yields_at.take().is_some() {
            return self.stay_after_goodbye(now, out);
        }
        match leaving.stage {
            DepartureStage::Settling { until } if until <= now.ms && leaving.until > now.ms => {
                let mark = self.speaking.mark(out);
                leaving.stage = DepartureStage::Playing { mark };
            }
            DepartureStage::Connecting => {
                // The end of this attempt is still to be told, and would count as that of a next one.
                if let Then::Transfer { next, .. } = &mut leaving.then {
                    *next = None;
                }
                self.call_nobody(out);
                let words = "the person did not answer in time".to_owned();
                self.transferred(Err(words), now, out);
            }
            DepartureStage::LastChance { .. } if self.guard.caller_speaks() => {
                self.stay_after_goodbye(now, out);
                self.proceed(now, out);
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
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        if !matches!(leaving.stage, DepartureStage::Playing { mark } if mark == played) {
            return;
        }
        if leaving.is_goodbye() {
            let until = leaving.until.min(now.ms + LAST_CHANCE_MS);
            leaving.stage = DepartureStage::LastChance { until };
        } else {
            self.proceed(now, out);
        }
    }

    /// The speech was played, or its time is over: hangs up, or calls the person.
    fn proceed(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let Phase::Leaving(leaving) = &mut self.phase else {
            return;
        };
        match &leaving.then {
            Then::End(end) | Then::EndUnlessCallerSpeaks(end) => {
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
                then: Then::Transfer { tool, to, next },
                stage: DepartureStage::Connecting,
                ..
            }) => Some((tool.take(), to.clone(), next.take())),
            _ => None,
        };
        let Err(words) = done else {
            if let Some((tool, to, _)) = awaited {
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
        let Some((tool, _, next)) = awaited else {
            return;
        };
        self.phase = Phase::Talking;
        if let Some(next) = next.filter(|_| self.stops_at.is_none()) {
            // The agent is told how the last attempt ended.
            let tool = tool.filter(|_| self.voice != VoiceState::None);
            return self.leave_for_a_person(next, tool, now, out);
        }
        self.guard.begin(now.ms);
        let is_lost = self.voice == VoiceState::None;
        if is_lost && !self.fail_over("the voice was lost during a transfer", now, out) {
            out.push(MachineEffect::VoiceLost);
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
            Some(id) if !is_lost => {
                answer(id, ToolOutcome::failure("transfer_failed", &words), out);
            }
            // Another session knows nothing of the tool call.
            _ => {
                let words = format!(
                    "Connecting the caller to a person failed: {words}. Tell the caller so, and go on with the conversation."
                );
                out.push(MachineEffect::Voice(VoiceInput::Text(words)));
            }
        }
    }
}
