//! The conversation of caller and agent.

use dikala_entities::{ConversationSettings, HangupReason, InterruptionMode, Speaker};
use dikala_sip::{
    leg::{LegEvent, Order, VOICE_HANG_OVER_MS},
    waiting_tone,
};

use super::{
    CallMachine, End, MachineEffect, Now, Phase, Stall, VoiceState, failover::ModelAbsence,
    leaving::DepartureStage,
};
use crate::voice::{Phrase, VoiceEvent, VoiceInput};

/// The longest silence of a caller while the model is away. Another 100 ms are for what the line adds.
pub(super) const SILENT_MS: u64 = 1_400;

impl CallMachine {
    pub(super) fn on_media(&mut self, event: LegEvent, now: Now, out: &mut Vec<MachineEffect>) {
        let is_talking = matches!(self.phase, Phase::Talking);
        match event {
            LegEvent::Audio(samples) if self.is_heard() && self.voice != VoiceState::None => {
                out.push(MachineEffect::Voice(VoiceInput::Audio(samples)));
            }
            LegEvent::VoiceStarted if !self.is_held => self.caller_started(now, out),
            LegEvent::VoiceEnded if !self.is_held => self.caller_ended(now, out),
            LegEvent::Key(key) if is_talking => {
                self.guard.key_pressed(now.ms);
                let keys = self.keys.press(key, now.ms);
                self.tell_keys(keys, now, out);
            }
            LegEvent::Played(mark) => {
                self.speaking.played(mark);
                if !self.speaking.is_speaking() {
                    self.transcript.played();
                    self.guard.played(now.ms);
                }
                self.played_in_leaving(mark, now, out);
            }
            LegEvent::Flushed { total_played_ms } => {
                let heard = self.speaking.flushed(total_played_ms, out);
                if let Some(heard) = heard {
                    let is_cut = self.transcript.heard(heard.heard_ms, heard.said_ms);
                    // The call's own commands cut speech, too.
                    if is_cut && heard.told_ms.is_some() {
                        self.interruptions += 1;
                        out.push(MachineEffect::Interruption);
                    }
                    if let Some(played_ms) =
                        heard.told_ms.filter(|_| self.voice != VoiceState::None)
                    {
                        out.push(MachineEffect::Voice(VoiceInput::Interrupted { played_ms }));
                    }
                }
                if self.is_held {
                    out.push(MachineEffect::Leg(Order::Pause));
                }
            }
            LegEvent::Held(is_held) => {
                self.resume_speech(now, &mut Vec::new());
                self.guard.held(is_held, now.ms);
                if is_held {
                    self.guard.paused(now.ms);
                    self.tell_activity(false, out);
                    if let Phase::Leaving(leaving) = &mut self.phase {
                        leaving.caller_ended();
                    }
                }
                self.is_held = is_held;
                let sound = self.sound_at(now);
                if let VoiceState::Away(absence) = &mut self.voice {
                    absence.sound_at = sound;
                }
                let order = if is_held {
                    Order::Pause
                } else {
                    Order::Continue
                };
                out.push(MachineEffect::Leg(order));
            }
            LegEvent::Transfer(done) => self.transferred(done, now, out),
            _ => {}
        }
    }

    pub(super) fn on_voice(&mut self, heard: VoiceEvent, now: Now, out: &mut Vec<MachineEffect>) {
        if self.voice == VoiceState::None {
            return;
        }
        match heard {
            VoiceEvent::Ready => self.voice_ready(now, out),
            VoiceEvent::Audio(samples) => {
                self.voice = VoiceState::Ready;
                self.last_absence = None;
                self.say(samples, now, out);
            }
            VoiceEvent::Interrupted => self.interrupted(now, out),
            VoiceEvent::Tool {
                id,
                name,
                arguments,
            } => self.tool(id, &name, arguments, now, out),
            VoiceEvent::ToolCancelled { ids } => self.functions.cancel(&ids),
            VoiceEvent::CallerSaid(piece) => {
                self.guard.caller_was_heard(now.ms);
                self.transcript.piece(Speaker::Caller, &piece, now.at);
            }
            VoiceEvent::AgentSaid(piece) => {
                let said_ms = self.speaking.said_ms();
                self.transcript.agent_piece(&piece, said_ms, now.at);
            }
            VoiceEvent::CannotSpeak if matches!(self.phase, Phase::Talking) => {
                self.say_tone(now, out);
            }
            VoiceEvent::CannotSpeak => {}
            VoiceEvent::TurnOver => self.turn_over(now, out),
            VoiceEvent::Usage(usage) => {
                if let Some(provider) = self.providers.current() {
                    self.add_usage(provider, usage);
                }
            }
            VoiceEvent::Summarising => self.summarising(),
            VoiceEvent::Summary(summary) => self.summed_up(summary, now, out),
            VoiceEvent::Away => {
                // The next connection begins its answer anew.
                self.transcript.turn_over(self.speaking.said_ms());
                self.model_left(now);
            }
            VoiceEvent::Reconnected => self.model_came_back(now),
            VoiceEvent::Lost(words) => self.voice_lost(&words, now, out),
        }
    }

    fn caller_started(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.guard.caller_started(now.ms);
        self.transcript.caller_begins(now.at);
        self.tell_activity(true, out);
        match &self.phase {
            Phase::Talking if self.interruptions_mode() == InterruptionMode::Fast => {
                self.pause_speech(now, out);
            }
            Phase::Leaving(_) => self.pause_goodbye(now, out),
            _ => {}
        }
    }

    fn caller_ended(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let at = now.ms.saturating_sub(VOICE_HANG_OVER_MS);
        let latency_ms = self.guard.caller_ended(at, now.ms);
        self.answered_after(latency_ms, out);
        self.tell_activity(false, out);
        self.resume_speech(now, out);
        if let Phase::Leaving(leaving) = &mut self.phase {
            leaving.caller_ended();
        }
    }

    /// The model hears the caller.
    fn is_heard(&self) -> bool {
        match &self.phase {
            Phase::Leaving(leaving) => leaving.is_goodbye(),
            phase => matches!(phase, Phase::Talking),
        }
    }

    pub(super) fn tell_activity(&self, speaks: bool, out: &mut Vec<MachineEffect>) {
        if self.is_heard() && self.voice != VoiceState::None {
            out.push(MachineEffect::Voice(VoiceInput::Activity { speaks }));
        }
    }

    pub(super) fn conversation(&self) -> ConversationSettings {
        let agent = self.agent.as_ref();
        agent.map(|agent| agent.conversation).unwrap_or_default()
    }

    pub(super) fn interruptions_mode(&self) -> InterruptionMode {
        match self.rules.barge_in {
            true => self.conversation().interruptions,
            false => InterruptionMode::Off,
        }
    }

    fn say(&mut self, samples: Vec<i16>, now: Now, out: &mut Vec<MachineEffect>) {
        if !self.is_for_the_caller(now) {
            return;
        }
        self.providers.heard();
        self.transcript.agent_speaks(self.speaking.said_ms());
        let latency_ms = self.guard.agent_says(&samples, now.ms);
        self.answered_after(latency_ms, out);
        self.speaking.say(samples, out);
    }

    fn answered_after(&mut self, ms: Option<u64>, out: &mut Vec<MachineEffect>) {
        if let Some(ms) = ms {
            self.transcript.answered_after(ms);
            if let Some(provider) = self.providers.current() {
                out.push(MachineEffect::TurnLatency { provider, ms });
            }
        }
    }

    fn interrupted(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.transcript.interrupted(self.speaking.said_ms());
        if self.is_for_the_caller(now) {
            self.flush_speech(true, now, out);
        } else if let Phase::Leaving(leaving) = &mut self.phase {
            leaving.interrupted();
        }
    }

    /// Discards the agent's queued speech.
    pub(super) fn flush_speech(
        &mut self,
        is_reported: bool,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        self.speaking.flush(is_reported, out);
        self.guard.flushed(now.ms);
    }

    /// Pauses the agent for the caller.
    pub(super) fn pause_speech(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.speaking.pause(now.ms, out);
        if self.speaking.is_paused() {
            self.guard.paused(now.ms);
        }
    }

    /// Ends a pause of the agent.
    pub(super) fn resume_speech(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.speaking.resume(out);
        self.guard.continued(now.ms);
    }

    /// The voice's action still concerns the caller.
    fn is_for_the_caller(&mut self, now: Now) -> bool {
        match &mut self.phase {
            Phase::Talking => true,
            Phase::Leaving(leaving) => leaving.still_speaks(now.ms),
            _ => false,
        }
    }

    fn turn_over(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.transcript.turn_over(self.speaking.said_ms());
        self.guard.turn_over();
        match &mut self.phase {
            Phase::Talking => {
                self.speaking.mark(out);
            }
            Phase::Leaving(leaving) => leaving.has_spoken(now.ms),
            _ => {}
        }
    }

    /// Ends the voice session; the caller hears a sentence about it.
    fn voice_lost(&mut self, words: &str, now: Now, out: &mut Vec<MachineEffect>) {
        if self.fail_over(words, now, out) {
            return;
        }
        // After a transfer that fails another provider may take over.
        let is_transferred = matches!(&self.phase, Phase::Leaving(it) if it.is_for_a_person());
        if !is_transferred && !matches!(self.phase, Phase::Closing(_)) {
            out.push(MachineEffect::VoiceLost);
        }
        self.close_voice(out);
        match &mut self.phase {
            Phase::Talking => {
                let end = End::failed(
                    HangupReason::AiError,
                    words,
                    "The agent's voice is not available.",
                );
                self.leave_with_a_sentence(end, now, out);
            }
            Phase::Leaving(leaving) => leaving.has_spoken(now.ms),
            Phase::Joined(joined) => {
                joined.summary = None;
                self.agent_has_left(now, out);
            }
            Phase::Closing(_) => self.close(out),
            Phase::Opening(_) => self.answer(now, out),
            Phase::Asking { .. } | Phase::Answering { .. } | Phase::Over => {}
        }
    }

    /// Ends the voice session, if there is one.
    pub(super) fn close_voice(&mut self, out: &mut Vec<MachineEffect>) {
        if self.voice != VoiceState::None {
            self.voice = VoiceState::None;
            out.push(MachineEffect::CloseVoice);
        }
    }

    /// The model is not connected from now on. A caller who is waiting already goes on waiting.
    pub(super) fn voice_away(&self, now: Now) -> VoiceState {
        let (sound_at, was_filled) = match self.voice {
            VoiceState::Away(absence) => (absence.sound_at, absence.is_filled),
            VoiceState::None | VoiceState::Ready => (self.sound_at(now), false),
        };
        VoiceState::Away(ModelAbsence {
            since: now.ms,
            sound_at,
            is_filled: was_filled || self.guard.is_filled(),
        })
    }

    pub(super) fn voice_due(&self) -> Option<u64> {
        match self.voice {
            VoiceState::Away(absence) => {
                let lost_at = absence.since + self.providers.patience_ms();
                Some(absence.sound_at.min(lost_at))
            }
            VoiceState::None | VoiceState::Ready => None,
        }
    }

    pub(super) fn expire_talk(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let is_due = |due: Option<u64>| due.is_some_and(|due| due <= now.ms);
        if is_due(self.service_lost_at()) {
            self.leave_with_a_sentence(self.service_lost(), now, out);
            return;
        }
        let keys = self.keys.expire(now.ms);
        self.tell_keys(keys, now, out);
        if is_due(self.speaking.due()) {
            self.resume_speech(now, out);
        }
        if is_due(self.guard.due()) {
            self.guard_conversation(now, out);
            return;
        }
        if !is_due(self.voice_due()) {
            return;
        }
        let VoiceState::Away(ModelAbsence {
            since, is_filled, ..
        }) = self.voice
        else {
            return;
        };
        let patience = self.providers.patience_ms();
        if now.ms >= since + patience {
            let words = format!("no model for {} s", patience / 1_000);
            self.voice_lost(&words, now, out);
            return;
        }
        let is_waiting = !self.is_held && !self.guard.caller_speaks();
        match is_filled {
            _ if !is_waiting => {}
            false => self.ask_for_patience(now, out),
            true => self.say_tone(now, out),
        }
        self.voice = VoiceState::Away(ModelAbsence {
            since,
            sound_at: self.sound_at(now),
            is_filled: is_filled || is_waiting,
        });
    }

    /// When a caller who waits for a model hears the next sound.
    fn sound_at(&self, now: Now) -> u64 {
        now.ms + self.guard.unplayed_ms(now.ms) + SILENT_MS
    }

    /// The model is away, and the caller waits.
    fn ask_for_patience(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        self.guard.filled();
        self.stalls += 1;
        if let Some(provider) = self.providers.current() {
            let stall = Stall::Filled;
            out.push(MachineEffect::Stall { provider, stall });
        }
        self.say_phrase(Phrase::Wait, now, out);
    }

    /// A soft tone: the call goes on.
    pub(super) fn say_tone(&mut self, now: Now, out: &mut Vec<MachineEffect>) {
        let samples = waiting_tone();
        self.guard.bridge_says(&samples, now.ms);
        self.speaking.say_own(samples, out);
    }

    /// Plays a recorded sentence of the bridge.
    pub(super) fn say_phrase(&mut self, phrase: Phrase, now: Now, out: &mut Vec<MachineEffect>) {
        let language = self.agent.as_ref().map_or("", |agent| &agent.language);
        let (text, samples) = phrase.spoken(language);
        let from_ms = self.speaking.said_ms();
        self.guard.bridge_says(&samples, now.ms);
        self.speaking.say_own(samples, out);
        let speech = from_ms..self.speaking.said_ms();
        self.transcript.own(text, speech, now.at);
    }

    fn tell_keys(&mut self, keys: Option<String>, now: Now, out: &mut Vec<MachineEffect>) {
        let Some(keys) = keys else {
            return;
        };
        let words = self.transcribe_keys(&keys, now);
        self.guard.caller_ended(now.ms, now.ms);
        if self.voice != VoiceState::None {
            out.push(MachineEffect::Voice(VoiceInput::Keys(words)));
        }
    }

    /// Adds the keys to the transcript and returns its words for them.
    pub(super) fn transcribe_keys(&mut self, keys: &str, now: Now) -> String {
        let words = |keys: &str| format!("the caller pressed {keys}");
        let transcribed = match self.conversation().mask_keys {
            true => {
                self.transcript.hide(keys);
                words(&keys.replace(|key: char| key.is_ascii_digit(), "•"))
            }
            false => words(keys),
        };
        self.transcript.whole(Speaker::Caller, &transcribed, now.at);
        self.transcript.add_for_models(words(keys));
        words(keys)
    }

    pub(super) fn warn(
        &mut self,
        reason: HangupReason,
        seconds_left: u64,
        out: &mut Vec<MachineEffect>,
    ) {
        if matches!(self.phase, Phase::Joined(_)) {
            return self.warn_joined(out);
        }
        if !matches!(self.phase, Phase::Talking) || self.voice == VoiceState::None {
            return;
        }
        let why = match reason {
            HangupReason::CreditsExhausted => "no more time can be paid for",
            _ => "it has reached its longest duration",
        };
        let words = format!(
            "The call will be cut off in {seconds_left} seconds, because {why}. Tell the caller that you have to end the call, and say \
             goodbye now."
        );
        out.push(MachineEffect::Voice(VoiceInput::Goodbye(words)));
    }

    /// Transfers the caller to a person, for the agent's tool or a command of the service.
    pub(super) fn transfer(
        &mut self,
        to: String,
        tool: Option<String>,
        now: Now,
        out: &mut Vec<MachineEffect>,
    ) {
        // No person is called once the bridge stops.
        let is_free = match &mut self.phase {
            _ if self.stops_at.is_some() => false,
            Phase::Talking => true,
            Phase::Leaving(leaving) => {
                !leaving.redirect(&to) && matches!(leaving.stage, DepartureStage::Settling { .. })
            }
            _ => false,
        };
        if is_free {
            self.leave_for_a_person(to, tool, now, out);
        }
    }
}
