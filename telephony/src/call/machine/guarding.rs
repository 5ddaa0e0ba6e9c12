//! The steps of the conversation guard, as a call takes them.

use dikala_entities::{FillerKind, HangupInitiator, HangupReason, InterruptionMode};

use super::{CallMachine, End, MachineEffect, Now, Stall, VoiceState, guard::GuardStep};
use crate::voice::{Phrase, VoiceInput};

/// For a model that leaves the caller without an answer.
const ANSWER_NOW: &str = "The caller is waiting and hears nothing. Answer now what the caller said last. If you did not understand \
     it, ask the caller to say it again.";
/// For a model that has stopped in the middle of its answer.
const GO_ON: &str = "You broke off in the middle of your answer, and the caller is waiting. Say the rest of it now.";
/// For an agent whose function takes long.
const ASK_FOR_PATIENCE: &str = "The function takes a while. Ask the caller for a moment's patience in one short sentence, and say \
     nothing else until its result is there.";
const IS_THE_CALLER_THERE: &str = "The caller has said nothing for a while. Ask in one short sentence whether the caller is still \
     there.";
const SAY_GOODBYE: &str = "The caller has said nothing for a long time. Say goodbye in one short sentence; then the call ends.";

impl CallMachine {
    /// The voice may have sent an interruption, queued behind all that it said before.
    pub(in crate::call) fn may_be_interrupted(&self) -> bool {
        match self.interruptions_mode() {
            InterruptionMode::Fast => self.speaking.is_paused() || self.guard.caller_speaks(),
            // The model may hear a caller whom this side does not notice.
            InterruptionMode::Model => self.speaking.is_speaking(),
            InterruptionMode::Off => false,
        }
    }

    /// Takes the guard's step that is due.
    pub(super) fn guard_conversation(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let has_model = self.voice == VoiceState::Ready;
        let Some(step) = self.guard.step(now.ms, has_model) else {
            return;
        };
        if let Some((provider, stall)) = self.providers.current().zip(step.stall()) {
            self.stalls += u32::from(stall == Stall::AskedAgain);
            out.push(MachineEffect::Stall { provider, stall });
        }
        let say = |text: &str| MachineEffect::Voice(VoiceInput::Text(text.to_owned()));
        let ask = |text: &str| MachineEffect::Voice(VoiceInput::AnswerNow(text.to_owned()));
        match step {
            GuardStep::AskAgain => out.push(ask(ANSWER_NOW)),
            GuardStep::AskForRest => out.push(ask(GO_ON)),
            GuardStep::Filler => self.say_phrase(Phrase::Wait, now, out),
            GuardStep::Replace => self.replace_voice(now, out),
            GuardStep::GiveUp => self.give_up(now, out),
            GuardStep::Remind => out.push(say(IS_THE_CALLER_THERE)),
            GuardStep::EndForSilence => {
                let goodbye = VoiceInput::Goodbye(SAY_GOODBYE.to_owned());
                out.push(MachineEffect::Voice(goodbye));
                let end = End::hangup(
                    HangupReason::Silence,
                    HangupInitiator::Agent,
                    "The caller was silent.",
                );
                self.leave_after_goodbye(end, now, out);
            }
            GuardStep::FunctionFiller => match self.conversation().fillers {
                FillerKind::Words => out.push(ask(ASK_FOR_PATIENCE)),
                FillerKind::Tone => self.say_tone(now, out),
                FillerKind::Off => {}
            },
            GuardStep::IgnoreNoise => {}
        }
    }

    /// The model leaves the caller alone: a person takes over, or the call ends with an apology.
    fn give_up(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let agent = self.agent.as_ref();
        let person = agent.and_then(|agent| agent.escalation_number.clone());
        self.close_voice(out);
        match person {
            Some(to) => self.transfer(to, None, now, out),
            None => {
                out.push(MachineEffect::VoiceLost);
                let end = End::failed(
                    HangupReason::AiError,
                    "the model did not answer the caller for 20 s",
                    "The agent's voice is not available.",
                );
                self.leave_with_a_sentence(end, now, out);
            }
        }
    }
}
