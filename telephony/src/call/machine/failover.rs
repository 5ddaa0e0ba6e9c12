//! The voice provider of a call, and the next one when it fails.

use dikala_entities::VoiceProvider;

use super::{CallMachine, MachineEffect, Now, Phase};
use crate::voice::{VoiceInput, VoiceSetup};

/// Time without the model after which another provider takes over, and after which the last one counts as lost.
const FAILOVER_MS: u64 = 3_000;
const GIVE_UP_MS: u64 = 8_000;
/// A model that leaves a waiting caller again within this time, without a word, was not back.
const BACK_MS: u64 = 10_000;
/// Voice sessions of one call. Each may cost the operator a prompt's worth of tokens.
const SESSIONS_MAX: u32 = 20;

/// State of the voice session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum VoiceState {
    /// There is no session, or it has ended.
    None,
    Away(ModelAbsence),
    Ready,
}

/// A time without a connected model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelAbsence {
    pub(super) since: u64,
    /// When the caller hears the next sound: the request for patience, then tones (`is_filled`).
    pub(super) sound_at: u64,
    pub(super) is_filled: bool,
}

/// An absence after which the model is connected, and has not spoken yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct EndedAbsence {
    absence: ModelAbsence,
    at: u64,
}

/// The providers that a call may use, in order of preference.
#[derive(Debug, Default)]
pub(super) struct ProviderOrder {
    providers: Vec<VoiceProvider>,
    /// The one that knows the agent's `voiceName`: its choice, or the default. The others have voices of other names.
    named: Option<VoiceProvider>,
    current: usize,
    /// Changes since the agent was last heard.
    changes: usize,
    /// Voice sessions opened so far.
    sessions: u32,
}

impl ProviderOrder {
    /// The agent's choice, if it is configured, or the default; then the fallbacks.
    pub(super) fn new(
        choice: Option<VoiceProvider>,
        configured: &[VoiceProvider],
        preferred: &[VoiceProvider],
    ) -> Self {
        let has_choice = choice.is_some();
        let choice = choice.filter(|choice| configured.contains(choice));
        // The choice stands in the place of the default.
        let others = preferred.iter().skip(usize::from(choice.is_some()));
        let mut providers = Vec::new();
        for provider in choice.iter().chain(others) {
            if configured.contains(provider) && !providers.contains(provider) {
                providers.push(*provider);
            }
        }
        let default = providers.first().copied().filter(|_| !has_choice);
        Self {
            providers,
            named: choice.or(default),
            ..Self::default()
        }
    }

    pub(super) fn current(&self) -> Option<VoiceProvider> {
        self.providers.get(self.current).copied()
    }

    /// Another provider has not failed since the agent was last heard.
    fn has_next(&self) -> bool {
        self.changes + 1 < self.providers.len() && self.may_open()
    }

    fn may_open(&self) -> bool {
        self.sessions < SESSIONS_MAX
    }

    fn change(&mut self) {
        self.current = (self.current + 1) % self.providers.len().max(1);
        self.changes += 1;
    }

    /// The agent is heard, so the providers may fail anew.
    pub(super) fn heard(&mut self) {
        self.changes = 0;
    }

    /// Time without the model after which the current provider counts as lost.
    pub(super) fn patience_ms(&self) -> u64 {
        match self.has_next() {
            true => FAILOVER_MS,
            false => GIVE_UP_MS,
        }
    }
}

impl CallMachine {
    /// Opens a session of the current provider, with the conversation so far.
    pub(super) fn open_voice(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let (Some(provider), Some(agent)) = (self.providers.current(), &self.agent) else {
            return;
        };
        self.providers.sessions += 1;
        let mut agent = (**agent).clone();
        agent.voice_name = agent
            .voice_name
            .filter(|_| self.providers.named == Some(provider));
        let setup = VoiceSetup {
            call_id: self.call_id.clone(),
            agent,
            circumstances: self.circumstances.clone(),
            so_far: self.transcript.so_far(),
            is_answer_cut: self.guard.is_mid_turn(),
        };
        out.push(MachineEffect::OpenVoice(provider, Box::new(setup)));
        self.voice = self.voice_away(now);
        self.last_absence = None;
        if matches!(self.phase, Phase::Talking) {
            out.push(MachineEffect::Voice(VoiceInput::Greet));
        }
    }

    /// The session has failed. Returns false if no other provider can take over.
    pub(super) fn fail_over(
        &mut self,
        words: &str,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) -> bool {
        let goes_on = matches!(
            self.phase,
            Phase::Opening(_) | Phase::Answering { .. } | Phase::Talking
        );
        if !goes_on || !self.providers.has_next() {
            return false;
        }
        out.push(MachineEffect::Fault(format!(
            "another voice takes over: {words}"
        )));
        self.providers.change();
        out.extend(self.providers.current().map(MachineEffect::Failover));
        self.reopen_voice(now, out);
        true
    }

    /// Replaces the session of a model that says nothing.
    pub(super) fn replace_voice(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let words = "the model does not answer the caller";
        if !self.fail_over(words, now, out) && self.providers.may_open() {
            out.push(MachineEffect::Fault(words.to_owned()));
            self.reopen_voice(now, out);
        }
    }

    /// The model is not connected any more.
    pub(super) fn model_left(&mut self, now: Now) {
        if self.voice != VoiceState::Ready {
            return;
        }
        let last = self.last_absence.take();
        let last = last.filter(|last| now.ms < last.at + BACK_MS);
        self.voice = match last.zip(self.guard.waits_since()) {
            // The caller has waited since then.
            Some((last, since)) if since <= last.at => VoiceState::Away(ModelAbsence {
                since: last.absence.since.max(since),
                ..last.absence
            }),
            _ => self.voice_away(now),
        };
    }

    /// The model is connected again.
    pub(super) fn model_came_back(&mut self, now: Now) {
        if let VoiceState::Away(absence) = self.voice {
            self.last_absence = Some(EndedAbsence {
                absence,
                at: now.ms,
            });
        }
        self.voice = VoiceState::Ready;
        self.guard.model_ready(now.ms);
        self.functions.reconnected();
    }

    fn reopen_voice(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.functions.reopened();
        self.transcript.turn_over(self.speaking.said_ms());
        self.speaking.change_voice();
        self.open_voice(now, out);
    }
}

#[cfg(test)]
mod tests {
    use VoiceProvider::{Gemini, Openai, Pipeline, Scripted};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::the_default(None, &[Gemini, Openai])]
    #[case::the_agents(Some(Pipeline), &[Pipeline, Openai])]
    #[case::one_of_the_fallbacks(Some(Openai), &[Openai])]
    #[case::not_configured(Some(Scripted), &[Gemini, Openai])]
    fn the_agents_choice_comes_first(
        #[case] choice: Option<VoiceProvider>,
        #[case] expected: &[VoiceProvider],
    ) {
        let order = ProviderOrder::new(choice, &[Gemini, Openai, Pipeline], &[Gemini, Openai]);
        assert_eq!(order.providers, expected);
    }

    #[test]
    fn each_fails_once_until_the_agent_is_heard() {
        let mut order = ProviderOrder::new(None, &[Gemini, Openai], &[Gemini, Openai]);
        assert_eq!(order.patience_ms(), FAILOVER_MS);
        order.change();
        assert_eq!((order.current(), order.has_next()), (Some(Openai), false));
        assert_eq!(order.patience_ms(), GIVE_UP_MS);
        order.heard();
        order.change();
        assert_eq!((order.current(), order.has_next()), (Some(Gemini), false));
        order.heard();
        order.sessions = SESSIONS_MAX;
        assert!(!order.has_next());
    }
}
