//! The conversation guard: neither side waits in silence. Pure: events and the time give steps, and the next deadline.
//!
//! It goes by the voice activity of both sides, not by what the provider reports. Two ladders of steps run, never both at once:
//! one while the caller waits for the agent, one while the caller says nothing after the agent's words. Both stand still while a
//! function runs or the caller holds the call.

mod owed;
mod steps;

use dikala_entities::ConversationSettings;
use dikala_sip::leg::SPEECH_RATE;

use self::owed::{CallerSilence, OwedAnswer, OwedWords, Wait};
pub(super) use self::steps::GuardStep;
pub(crate) use self::steps::Stall;

/// The time until the model of a caller who waits is asked again, since the end of the caller's voice or since it came back.
const ASK_MS: u64 = 2_500;
/// The other steps of a caller who waits, with the time since the end of the caller's voice.
const WAITING: [(u64, GuardStep); 3] = [
    (6_000, GuardStep::Filler),
    (12_000, GuardStep::Replace),
    (20_000, GuardStep::GiveUp),
];
/// The pause in the middle of an answer after which the model is asked for the rest. It speaks faster than it is heard, so this is
/// long for it.
const REST_MS: u64 = 2_000;
/// The length of a function's run from which the caller hears a filler, and the time until the next one.
const FUNCTION_FILLER_MS: u64 = 2_000;
const NEXT_FILLER_MS: u64 = 8_000;
/// The length of a later function's run from which a filler that is due is heard.
const NEXT_FUNCTION_MS: u64 = 500;
/// Functions in a row, without a word of the agent, after which the time of further ones counts as the caller's wait.
const LOOP_RUNS: u32 = 8;
/// The time in which a reminder must be heard; then the model is taken for dead.
const UNHEARD_MS: u64 = 12_000;
/// The longest voice of a caller that is waited for while the agent says nothing. With a filler 6 s later no caller waits for more
/// than 21 s in a noise that never pauses.
const NOISE_MS: u64 = 15_000;
/// A voice of this length that ends over the last words of the agent, when this much was left of them, may be an answer.
const ANSWER_MS: u64 = 300;
const LAST_WORDS_MS: u64 = 1_000;
/// Quieter samples of the agent (−50 dBFS) count as silence.
const SOFTEST: u16 = 104;

#[derive(Debug)]
pub(super) struct ConversationGuard {
    settings: ConversationSettings,
    caller_speaks: bool,
    /// When the caller's voice began.
    caller_since: u64,
    /// The agent owes the caller an answer.
    owed: Option<OwedAnswer>,
    /// The wait since the agent was heard last, without the present one.
    wait: Wait,
    /// When a model was ready for the first words, or came back.
    ready_at: u64,
    /// The caller has said nothing since the agent's words.
    silence: Option<CallerSilence>,
    /// When the agent was told to remind the caller, until it is heard.
    reminded_at: Option<u64>,
    /// When the speech so far will have been played, and the audible part of it.
    queued_until: u64,
    audible_until: u64,
    paused_since: Option<u64>,
    functions: u32,
    /// Functions that have run since the agent was heard last, those that run at once counted as one.
    runs: u32,
    /// When the last of them began.
    run_at: u64,
    /// When the caller hears the next filler of a function.
    filler_due: u64,
    is_held: bool,
    /// The caller has heard a filler in this wait.
    is_filled: bool,
    /// The agent has begun to speak, and the model has not said that its turn is over.
    is_mid_turn: bool,
    /// The model was asked for the rest of its turn, and has reported no end of a turn since. Some models may never do.
    is_rest_asked: bool,
    /// The end of the caller's voice that the latency of the next answer counts from.
    ended_at: u64,
    /// The agent began to speak at this time, while the end of the caller's voice was not noticed.
    spoke_early_at: Option<u64>,
}

impl ConversationGuard {
    pub(super) fn new(settings: ConversationSettings) -> Self {
        Self {
            settings,
            caller_speaks: false,
            caller_since: 0,
            owed: None,
            wait: Wait::default(),
            ready_at: 0,
            silence: None,
            reminded_at: None,
            queued_until: 0,
            audible_until: 0,
            paused_since: None,
            functions: 0,
            runs: 0,
            run_at: 0,
            filler_due: 0,
            is_held: false,
            is_filled: false,
            is_mid_turn: false,
            is_rest_asked: false,
            ended_at: 0,
            spoke_early_at: None,
        }
    }

    /// The caller was asked for patience already.
    pub(super) fn filled(&mut self) {
        self.is_filled = true;
    }

    pub(super) fn is_filled(&self) -> bool {
        self.is_filled
    }

    /// The call is answered: the caller waits for the first words.
    pub(super) fn begin(&mut self, now: u64) {
        self.silence = None;
        self.heard();
        self.owe(now, OwedWords::Words);
    }

    /// The model is ready, or has come back. It may not know that it owes an answer, so it is asked again, unless it was replaced
    /// for that. The other steps count from the beginning: the caller waits all the same.
    pub(super) fn model_ready(&mut self, now: u64) {
        let mut taken = WAITING[..self.wait.steps].iter();
        let is_replaced = taken.any(|(_, step)| *step == GuardStep::Replace);
        if let Some(owed) = self.owed.as_mut().filter(|_| !is_replaced) {
            owed.is_asked = false;
            self.ready_at = now;
        }
    }

    pub(super) fn caller_speaks(&self) -> bool {
        self.caller_speaks
    }

    pub(super) fn caller_started(&mut self, now: u64) {
        self.caller_speaks = true;
        self.caller_since = now;
        self.leave_waiting(now);
        self.silence = None;
        self.reminded_at = None;
        self.spoke_early_at = None;
    }

    /// The model has heard words of the caller, perhaps within a noise that hides when they ended.
    pub(super) fn caller_was_heard(&mut self, now: u64) {
        if let Some(silence) = &mut self.silence {
            *silence = CallerSilence {
                since: now,
                reminders: 0,
            };
        }
    }

    /// The caller presses a key. The end of the sequence follows.
    pub(super) fn key_pressed(&mut self, now: u64) {
        self.leave_waiting(now);
        self.silence = None;
        self.reminded_at = None;
    }

    /// The caller's voice ended at `at`, or keys were complete then. Returns the time from there to the agent's answer, if that
    /// has begun already.
    pub(super) fn caller_ended(&mut self, at: u64, now: u64) -> Option<u64> {
        let latency = self.spoke_early_at.take();
        let latency = latency.and_then(|answered_at| answered_at.checked_sub(at));
        self.caller_speaks = false;
        self.ended_at = at;
        self.silence = None;
        let left_ms = self.audible_ms(now);
        let is_answer = at.saturating_sub(self.caller_since) >= ANSWER_MS
            && left_ms < LAST_WORDS_MS
            && !self.is_mid_turn;
        if left_ms == 0 && latency.is_some() {
            self.owe(at, OwedWords::Words);
        } else if left_ms == 0 {
            self.owe(at, OwedWords::Answer);
        } else if is_answer {
            self.owe(now + left_ms, OwedWords::Answer);
        } else {
            // An agent whose speech is only paused goes on with it.
            self.listen(now);
            self.expect_rest();
        }
        latency
    }

    /// The agent speaks these samples. Returns the time since the end of the caller's voice, if they begin an answer.
    pub(super) fn agent_says(&mut self, samples: &[i16], now: u64) -> Option<u64> {
        let length = samples.len() as u64 * 1_000 / u64::from(SPEECH_RATE);
        self.queued_until = self.queued_until.max(now) + length;
        if samples
            .iter()
            .all(|sample| sample.unsigned_abs() <= SOFTEST)
        {
            return None;
        }
        self.audible_until = self.queued_until;
        self.heard();
        let begins = !std::mem::replace(&mut self.is_mid_turn, true);
        if self.caller_speaks {
            if begins {
                self.spoke_early_at = Some(now);
            }
            return None;
        }
        let owed = self.owed.take();
        self.is_filled = false;
        self.listen(now);
        self.expect_rest();
        owed.filter(|owed| owed.what == OwedWords::Answer)?;
        Some(now.saturating_sub(self.ended_at))
    }

    /// The bridge says a sentence of its own, which is no answer.
    pub(super) fn bridge_says(&mut self, samples: &[i16], now: u64) {
        let length = samples.len() as u64 * 1_000 / u64::from(SPEECH_RATE);
        self.queued_until = self.queued_until.max(now) + length;
    }

    /// Since when the caller waits for the agent; `None` if nothing is owed.
    pub(super) fn waits_since(&self) -> Option<u64> {
        self.owed.map(|owed| owed.since)
    }

    /// The agent has begun to speak, and its turn is not over.
    pub(super) fn is_mid_turn(&self) -> bool {
        self.is_mid_turn
    }

    /// The model has said all of its turn.
    pub(super) fn turn_over(&mut self) {
        self.is_mid_turn = false;
        let was_asked = std::mem::take(&mut self.is_rest_asked);
        match &mut self.owed {
            Some(owed) if owed.what == OwedWords::Rest && was_asked => {
                owed.what = OwedWords::Words;
            }
            Some(owed) if owed.what == OwedWords::Rest => self.owed = None,
            _ => {}
        }
    }

    pub(super) fn paused(&mut self, now: u64) {
        self.paused_since.get_or_insert(now);
    }

    pub(super) fn continued(&mut self, now: u64) {
        let Some(since) = self.paused_since.take() else {
            return;
        };
        for until in [&mut self.queued_until, &mut self.audible_until] {
            if *until > since {
                *until += now.saturating_sub(since);
            }
        }
    }

    /// All of the agent's speech has been played, perhaps sooner than estimated.
    pub(super) fn played(&mut self, now: u64) {
        self.queued_until = self.queued_until.min(now);
        self.audible_until = self.audible_until.min(now);
    }

    /// The agent's queued speech is discarded.
    pub(super) fn flushed(&mut self, now: u64) {
        self.spoke_early_at = None;
        self.paused_since = None;
        self.is_mid_turn = false;
        self.played(now);
        let owes_rest = |owed: OwedAnswer| owed.what == OwedWords::Rest;
        if !self.caller_speaks && self.owed.is_none_or(owes_rest) {
            self.silence = None;
            self.ended_at = now;
            self.owe(now, OwedWords::Answer);
        }
    }

    pub(super) fn function_began(&mut self, now: u64) {
        if self.functions == 0 {
            if self.is_looping() && !self.is_held {
                self.wait.ms += now.saturating_sub(self.run_at);
            }
            self.filler_due = match self.runs {
                0 => now + FUNCTION_FILLER_MS,
                _ => self.filler_due.max(now + NEXT_FUNCTION_MS),
            };
            self.runs += 1;
            self.run_at = now;
        }
        self.functions += 1;
    }

    /// A function has ended: the agent owes its result, after the words that it says meanwhile.
    pub(super) fn function_ended(&mut self, now: u64) {
        let was_last = self.functions == 1;
        self.functions = self.functions.saturating_sub(1);
        if was_last && !self.caller_speaks {
            let what = match self.owed.map(|owed| owed.what) {
                Some(OwedWords::Answer) => OwedWords::Answer,
                _ => OwedWords::Words,
            };
            self.silence = None;
            self.owe(now.max(self.audible_until), what);
        }
    }

    pub(super) fn held(&mut self, is_held: bool, now: u64) {
        self.is_held = is_held;
        if is_held {
            self.caller_speaks = false;
            self.reminded_at = None;
            return;
        }
        if let Some(owed) = &mut self.owed {
            owed.since = now;
            self.ended_at = now;
        }
        if let Some(silence) = &mut self.silence {
            silence.since = now;
        }
        self.filler_due = self.filler_due.max(now + FUNCTION_FILLER_MS);
    }

    /// Speech that is queued and not played at `now`, in milliseconds.
    pub(super) fn unplayed_ms(&self, now: u64) -> u64 {
        self.queued_until
            .saturating_sub(self.paused_since.unwrap_or(now))
    }

    /// The next deadline.
    pub(super) fn due(&self) -> Option<u64> {
        self.next().map(|(due, _)| due)
    }

    /// Takes the step that is due. Steps that need a model pass while there is none.
    pub(super) fn step(&mut self, now: u64, has_model: bool) -> Option<GuardStep> {
        let (_, step) = self.next().filter(|(due, _)| *due <= now)?;
        match step {
            GuardStep::FunctionFiller => self.filler_due = now + NEXT_FILLER_MS,
            GuardStep::IgnoreNoise => {
                self.caller_speaks = false;
                self.owe(now, OwedWords::Words);
            }
            GuardStep::Remind | GuardStep::EndForSilence => {
                if let Some(silence) = &mut self.silence {
                    silence.since = now;
                    silence.reminders += u8::from(has_model);
                }
                if step == GuardStep::Remind && has_model {
                    self.reminded_at = Some(now);
                }
            }
            GuardStep::AskAgain | GuardStep::AskForRest => {
                self.is_rest_asked |= step == GuardStep::AskForRest && has_model;
                if let Some(owed) = &mut self.owed {
                    owed.is_asked = true;
                }
            }
            GuardStep::Replace if self.owed.is_none() => self.reminded_at = None,
            GuardStep::Filler | GuardStep::Replace | GuardStep::GiveUp => {
                self.wait.steps += 1;
                if let Some(owed) = &mut self.owed {
                    // The new session knows what it owes.
                    owed.is_asked |= step == GuardStep::Replace;
                }
            }
        }
        let was_filled = self.is_filled;
        self.is_filled |= step == GuardStep::Filler && has_model;
        let is_needless = match step {
            GuardStep::GiveUp => false,
            GuardStep::IgnoreNoise => true,
            GuardStep::Filler => !has_model || was_filled,
            _ => !has_model,
        };
        (!is_needless).then_some(step)
    }

    fn next(&self) -> Option<(u64, GuardStep)> {
        if self.is_held {
            return None;
        }
        if self.caller_speaks {
            let since = self.caller_since.max(self.audible_until);
            return Some((since + NOISE_MS, GuardStep::IgnoreNoise));
        }
        let (due, step) = if self.functions > 0 {
            let after_words = self.audible_until + FUNCTION_FILLER_MS;
            (self.filler_due.max(after_words), GuardStep::FunctionFiller)
        } else if let Some(owed) = &self.owed {
            self.next_of(owed)?
        } else {
            let silence = self.silence.as_ref()?;
            if let Some(reminded_at) = self.reminded_at {
                return Some((reminded_at + UNHEARD_MS, GuardStep::Replace));
            }
            silence.next(&self.settings, self.audible_until)?
        };
        Some((due.max(self.audible_until), step))
    }

    fn next_of(&self, owed: &OwedAnswer) -> Option<(u64, GuardStep)> {
        let is_rest = owed.what == OwedWords::Rest;
        // A pause of the agent delays the end of its words.
        let since = match is_rest {
            true => owed.since.max(self.audible_until),
            false => owed.since,
        };
        let asked_at = since.max(self.ready_at);
        let ask = match is_rest {
            true => (asked_at + REST_MS, GuardStep::AskForRest),
            false => (asked_at + ASK_MS, GuardStep::AskAgain),
        };
        let (after, step) = *WAITING.get(self.wait.steps)?;
        // A pause in which the caller thinks has no step at its very beginning.
        let least = if self.is_looping() { 0 } else { ASK_MS };
        let other = (since + after.saturating_sub(self.wait.ms).max(least), step);
        Some(match !owed.is_asked && ask.0 <= other.0 {
            true => ask,
            false => other,
        })
    }

    /// The audible part of the speech that is not played at `now`, in milliseconds.
    fn audible_ms(&self, now: u64) -> u64 {
        self.audible_until
            .saturating_sub(self.paused_since.unwrap_or(now))
    }

    fn owe(&mut self, since: u64, what: OwedWords) {
        if self.wait.steps == WAITING.len() {
            self.wait = Wait::default();
        }
        self.owed = Some(OwedAnswer {
            since,
            is_asked: false,
            what,
        });
    }

    /// The caller speaks, or presses a key, before the answer.
    fn leave_waiting(&mut self, now: u64) {
        if let Some(owed) = self.owed.take()
            && owed.is_asked
            && owed.what == OwedWords::Answer
            && self.functions == 0
        {
            self.wait.ms += now.saturating_sub(owed.since);
        }
    }

    /// The agent is heard, or begins anew.
    fn heard(&mut self) {
        self.wait = Wait::default();
        self.runs = 0;
        self.reminded_at = None;
    }

    /// The model calls one function after the other, and says nothing.
    fn is_looping(&self) -> bool {
        self.runs >= LOOP_RUNS
    }

    /// The model is to go on with its turn, or to end it.
    fn expect_rest(&mut self) {
        if self.is_mid_turn && !self.is_rest_asked {
            self.owe(self.audible_until, OwedWords::Rest);
        }
    }

    /// The agent has said something, so the silence of the caller counts from its end.
    fn listen(&mut self, now: u64) {
        self.silence.get_or_insert(CallerSilence {
            since: now,
            reminders: 0,
        });
    }
}

#[cfg(test)]
mod tests;
