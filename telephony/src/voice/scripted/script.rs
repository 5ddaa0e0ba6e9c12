//! The script of the test voice. Pure.

use dikala_protocol::CallAgent;
use dikala_sip::leg::SPEECH_RATE;
use serde_json::{Map, Value};

use super::{
    arguments::{arguments, digits},
    speech_detector::{SpeechActivity, SpeechDetector},
};
use crate::voice::{Phrase, VoiceEvent, VoiceInput, is_indonesian};

/// Silence after which the question is repeated; questions before a function is called anyway; questions if there is no function.
const SILENCE_MS: u64 = 10_000;
const QUESTIONS_WITH_FUNCTION: usize = 2;
const QUESTIONS_MAX: usize = 3;
/// Digits of an answer that are read out.
const DIGITS_MAX: usize = 8;
const END_CALL: &str = "end_call";
/// A chime of two rising tones: the function succeeded.
const CHIME: [(u32, u32); 2] = [(660, 120), (880, 180)];
const CHIME_LOUDNESS: i32 = 6_000;

#[derive(Debug)]
pub(super) struct VoiceScript {
    agent: CallAgent,
    detector: SpeechDetector,
    stage: Stage,
    /// When the current speech will have been played.
    speaks_until: u64,
    asked: usize,
    answers: usize,
    called: usize,
    goes_on: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Waits for the caller.
    Listening {
        since: u64,
    },
    /// A function is under way.
    Calling,
    Over,
}

impl VoiceScript {
    /// `goes_on`: another session has greeted.
    pub(super) fn begin(agent: CallAgent, goes_on: bool, now_ms: u64) -> (Self, Vec<VoiceEvent>) {
        let script = Self {
            agent,
            detector: SpeechDetector::default(),
            stage: Stage::Over,
            speaks_until: now_ms,
            asked: 0,
            answers: 0,
            called: 0,
            goes_on,
        };
        (script, vec![VoiceEvent::Ready])
    }

    fn greet(&mut self, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        if !self.goes_on {
            self.say(Phrase::Greeting, now_ms, said);
        }
        self.ask(now_ms, said);
    }

    pub(super) fn due(&self) -> Option<u64> {
        match self.stage {
            Stage::Listening { since } => Some(since.max(self.speaks_until) + SILENCE_MS),
            Stage::Calling | Stage::Over => None,
        }
    }

    /// The deadline of [`Self::due`] has passed.
    pub(super) fn wait(&mut self, now_ms: u64) -> Vec<VoiceEvent> {
        let mut said = Vec::new();
        if self.due().is_some_and(|due| due <= now_ms) {
            let can_call = self.called == 0 && !self.agent.functions.is_empty();
            if can_call && self.asked >= QUESTIONS_WITH_FUNCTION {
                self.call(None, now_ms, &mut said);
            } else if self.asked < QUESTIONS_MAX {
                self.ask(now_ms, &mut said);
            } else {
                self.goodbye(now_ms, &mut said);
            }
        }
        said
    }

    pub(super) fn hear(&mut self, spoken: VoiceInput, now_ms: u64) -> Vec<VoiceEvent> {
        let mut said = Vec::new();
        match spoken {
            VoiceInput::Audio(samples) => match self.detector.listen(&samples) {
                SpeechActivity::Began if self.speaks_until > now_ms && self.is_listening() => {
                    self.speaks_until = now_ms;
                    said.push(VoiceEvent::Interrupted);
                }
                SpeechActivity::Ended if self.is_listening() => {
                    let words = self.in_words("(suara)", "(speech)").to_owned();
                    said.push(VoiceEvent::CallerSaid(words));
                    self.answer(None, now_ms, &mut said);
                }
                _ => {}
            },
            VoiceInput::Keys(words) if self.is_listening() => {
                let pressed: String = words.chars().filter(char::is_ascii_digit).collect();
                if self.speaks_until > now_ms {
                    self.speaks_until = now_ms;
                    said.push(VoiceEvent::Interrupted);
                }
                self.answer(Some(&pressed), now_ms, &mut said);
            }
            VoiceInput::Goodbye(_) => self.goodbye(now_ms, &mut said),
            VoiceInput::ToolOutcome { outcome, .. } if self.stage == Stage::Calling => {
                self.tell(&outcome.fields(), now_ms, &mut said);
            }
            VoiceInput::Summarise => said.push(VoiceEvent::Summary(self.summary())),
            VoiceInput::Greet => self.greet(now_ms, &mut said),
            VoiceInput::Text(_)
            | VoiceInput::AnswerNow(_)
            | VoiceInput::Activity { .. }
            | VoiceInput::Keys(_)
            | VoiceInput::ToolOutcome { .. }
            | VoiceInput::Interrupted { .. } => {}
        }
        said
    }

    fn is_listening(&self) -> bool {
        matches!(self.stage, Stage::Listening { .. })
    }

    fn ask(&mut self, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        self.asked += 1;
        self.say(Phrase::Question, now_ms, said);
        said.push(VoiceEvent::TurnOver);
        self.stage = Stage::Listening { since: now_ms };
    }

    /// The caller has spoken, or pressed these keys.
    fn answer(&mut self, keys: Option<&str>, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        self.answers += 1;
        self.call(keys.filter(|keys| !keys.is_empty()), now_ms, said);
    }

    /// Calls the agent's first function, if it has one.
    fn call(&mut self, keys: Option<&str>, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        let Some(function) = self.agent.functions.first() else {
            self.say(Phrase::Heard, now_ms, said);
            self.goodbye(now_ms, said);
            return;
        };
        let wanted = VoiceEvent::Tool {
            id: format!("scripted-{}", self.called + 1),
            name: function.name.clone(),
            arguments: arguments(&function.parameters, keys),
        };
        self.called += 1;
        self.say(Phrase::Looking, now_ms, said);
        said.extend([VoiceEvent::TurnOver, wanted]);
        self.stage = Stage::Calling;
    }

    /// Reads out a function's outcome: its first number, or a chime.
    fn tell(&mut self, outcome: &Map<String, Value>, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        match outcome.get("output") {
            Some(output) => {
                let digits = digits(output, DIGITS_MAX);
                if digits.is_empty() {
                    self.sound(chime(), now_ms, said);
                    self.say(Phrase::Done, now_ms, said);
                } else {
                    self.say(Phrase::Result, now_ms, said);
                    for digit in digits {
                        self.say(Phrase::Digit(digit), now_ms, said);
                    }
                    end_sentence(said);
                }
            }
            None => self.say(Phrase::Failed, now_ms, said),
        }
        self.goodbye(now_ms, said);
    }

    /// Says goodbye and hangs up. An agent without that tool goes on listening.
    fn goodbye(&mut self, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        if self.stage == Stage::Over {
            return;
        }
        self.say(Phrase::Goodbye, now_ms, said);
        if self.agent.tools.iter().any(|tool| tool == END_CALL) {
            said.push(VoiceEvent::Tool {
                id: "scripted-end".to_owned(),
                name: END_CALL.to_owned(),
                arguments: Map::new(),
            });
            self.stage = Stage::Over;
        } else {
            self.asked = 0;
            self.stage = Stage::Listening { since: now_ms };
        }
        said.push(VoiceEvent::TurnOver);
    }

    fn say(&mut self, phrase: Phrase, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        let (text, samples) = phrase.spoken(&self.agent.language);
        said.push(VoiceEvent::AgentSaid(format!("{text} ")));
        self.sound(samples, now_ms, said);
    }

    fn sound(&mut self, samples: Vec<i16>, now_ms: u64, said: &mut Vec<VoiceEvent>) {
        let ms = samples.len() as u64 * 1_000 / u64::from(SPEECH_RATE);
        self.speaks_until = self.speaks_until.max(now_ms) + ms;
        said.push(VoiceEvent::Audio(samples));
    }

    fn summary(&self) -> String {
        let (answers, called) = (self.answers, self.called);
        let (intro, answered, functions) = (
            self.in_words("Panggilan dengan suara uji", "A call with the test voice"),
            self.in_words("Jawaban penelepon", "Answers of the caller"),
            self.in_words("Fungsi yang dipanggil", "Functions called"),
        );
        format!("{intro}. {answered}: {answers}. {functions}: {called}.")
    }

    /// Picks the text in the agent's language.
    fn in_words(&self, indonesian: &'static str, english: &'static str) -> &'static str {
        if is_indonesian(&self.agent.language) {
            indonesian
        } else {
            english
        }
    }
}

/// Ends the sentence that the digits make up.
fn end_sentence(said: &mut [VoiceEvent]) {
    let last = said.iter_mut().rev().find_map(|heard| match heard {
        VoiceEvent::AgentSaid(text) => Some(text),
        _ => None,
    });
    if let Some(text) = last {
        text.truncate(text.trim_end().len());
        text.push_str(". ");
    }
}

/// Triangle tones: they need no sine.
fn chime() -> Vec<i16> {
    CHIME
        .into_iter()
        .flat_map(|(hertz, ms)| {
            let samples = SPEECH_RATE * ms / 1_000;
            (0..samples).map(move |at| {
                let turn = i64::from(at) * i64::from(hertz) * 4 % (i64::from(SPEECH_RATE) * 4);
                let quarter = i64::from(SPEECH_RATE);
                let height = match turn / quarter {
                    0 => turn,
                    1 | 2 => 2 * quarter - turn,
                    _ => turn - 4 * quarter,
                };
                let height = height * i64::from(CHIME_LOUDNESS) / quarter;
                i16::try_from(height).unwrap_or_default()
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
