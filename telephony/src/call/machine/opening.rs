//! The beginning of a call: the voice session opens while the phone rings, and then the call is answered.

use dikala_entities::{CallId, HangupReason};
use dikala_protocol::{CallAgent, CallReport, CalledParty, CalleeNames};
use dikala_sip::leg::Order;

use super::{
    CallMachine, End, MachineEffect, Now, Phase, VoiceState, circumstances::circumstances,
    failover::ProviderOrder, guard::ConversationGuard, talking::SILENT_MS,
};
use crate::voice::VoiceInput;

/// Time limit for the voice session to open before the answer.
const OPENS_MS: u64 = 2_000;
/// Time after the answer in which a voice session that opened early is kept without the phone's acknowledgement.
const EARLY_MS: u64 = 2_000;
/// Time limit for the phone's acknowledgement of the answer.
const ACKNOWLEDGE_MS: u64 = 40_000;

/// A call that is taken and not answered yet.
#[derive(Debug)]
pub(super) struct OpeningVoice {
    pub(super) until: u64,
    /// The called number, if a number was called.
    did: Option<String>,
}

impl CallMachine {
    pub(super) fn taken(
        &mut self,
        call: CallId,
        called: &CalledParty,
        agent: Box<CallAgent>,
        callee: &CalleeNames,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        if !matches!(self.phase, Phase::Asking { .. }) {
            return;
        }
        let configured: Vec<_> = self.rules.voices.iter().map(|(name, _)| *name).collect();
        self.providers =
            ProviderOrder::new(agent.voice_provider, &configured, &self.rules.preferred);
        self.guard = ConversationGuard::new(agent.conversation);
        if agent.conversation.mask_keys {
            self.transcript.hide_digits();
        }
        self.circumstances = circumstances(&self.origin, called, callee, &agent, now.at);
        self.call_id = call.to_string();
        self.agent = Some(agent);
        self.phase = Phase::Opening(OpeningVoice {
            until: now.ms + OPENS_MS,
            did: called.number().map(|number| number.as_str().to_owned()),
        });
        match self.rules.opens_early {
            true => self.open_voice(now, out),
            false => self.answer(now, out),
        }
    }

    /// Answers the call. The voice may still be opening.
    pub(super) fn answer(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let answering = Phase::Answering {
            until: now.ms + ACKNOWLEDGE_MS,
            voice_until: Some(now.ms + EARLY_MS),
        };
        if let Phase::Opening(OpeningVoice { did, .. }) =
            std::mem::replace(&mut self.phase, answering)
        {
            let did = did.unwrap_or_default();
            out.push(MachineEffect::Leg(Order::Answer { did }));
        }
    }

    /// The phone has not acknowledged the answer in time: the session is left to another call, and opens after the answer.
    pub(super) fn unacknowledged(&mut self, out: &mut Vec<MachineEffect>) {
        self.rules.opens_early = false;
        self.close_voice(out);
    }

    /// The phone has acknowledged the answer.
    pub(super) fn answered(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.phase = Phase::Talking;
        out.push(MachineEffect::Service(CallReport::Answered, now.at));
        self.guard.begin(now.ms);
        if !self.rules.opens_early {
            self.open_voice(now, out);
        } else if self.voice != VoiceState::None {
            out.push(MachineEffect::Voice(VoiceInput::Greet));
        }
        self.last_absence = None;
        if let VoiceState::Away(absence) = &mut self.voice {
            (absence.since, absence.sound_at) = (now.ms, now.ms + SILENT_MS);
        }
        if self.voice == VoiceState::None {
            let end = End::failed(
                HangupReason::AiError,
                "no voice session could be opened",
                "The agent's voice is not available.",
            );
            self.leave_with_a_sentence(end, now, out);
        }
    }

    /// The model is ready to talk.
    pub(super) fn voice_ready(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.voice = VoiceState::Ready;
        match self.phase {
            Phase::Opening(_) => self.answer(now, out),
            Phase::Talking => self.guard.model_ready(now.ms),
            _ => {}
        }
    }
}
