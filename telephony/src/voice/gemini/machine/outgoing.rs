//! Messages to the model: the caller's audio, text, outcomes of functions.

use std::time::Duration;

use super::{
    super::{
        profile::{FunctionMode, History, Words},
        wire::client::{ClientMessage, FunctionResponse, ToolResponse, turn},
    },
    SessionMachine,
};
use crate::voice::common::{AnswerTarget, Role, SessionEffect, ToolAnswer, steps, words};

/// If a resumed model is silent for this long after the answer to an earlier call, it does not know of the call.
const DOUBT: Duration = Duration::from_secs(4);

/// Text to send if the model does not seem to have understood an answer.
#[derive(Debug)]
pub(super) struct Doubt {
    words: String,
    pub(super) until: Duration,
}

impl SessionMachine {
    /// Sends the caller's audio. After the end of the call it is dropped.
    pub(super) fn caller(&mut self, samples: &[i16]) {
        if self.summary.is_some() {
            return;
        }
        match self.live() {
            Some(connection) if !self.gated(connection) => {
                self.flush();
                for step in steps(samples) {
                    self.send(connection, ClientMessage::audio(&step));
                }
            }
            _ => self.held_audio.push(samples),
        }
    }

    /// Sends what waits: outcomes first, because the model may wait for them, then text, so that the greeting precedes the
    /// caller's audio.
    pub(super) fn flush(&mut self) {
        let Some(connection) = self.live() else {
            return;
        };
        for answer in self.tools.answers(connection) {
            self.answer(connection, answer);
        }
        if self.gated(connection) {
            return;
        }
        while let Some(words) = self.words.pop() {
            let message = match self.session_settings.profile.words {
                Words::Realtime => ClientMessage::text(words),
                Words::Turn => ClientMessage::turns(vec![turn("user", &words)]),
            };
            self.answering = true;
            self.send(connection, message);
        }
        for step in self.held_audio.take() {
            self.send(connection, ClientMessage::audio(&step));
        }
    }

    /// The model waits for a function, and says nothing before its outcome is there.
    pub(super) fn waits(&self, connection: u32) -> bool {
        self.session_settings.profile.functions == FunctionMode::Blocking
            && self.tools.open(connection)
    }

    pub(super) fn gated(&self, connection: u32) -> bool {
        self.session_settings.profile.functions == FunctionMode::Blocking
            && self.tools.gated_until(connection, self.now).is_some()
    }

    fn answer(&mut self, connection: u32, answer: ToolAnswer) {
        let outcome = answer.outcome.text();
        let told = words::outcome_in_words(&answer.name, &answer.arguments, outcome);
        self.transcript.add(Role::Tool, &told);
        let late = words::late_answer(&answer.name, &answer.arguments, outcome);
        let id = match answer.to {
            AnswerTarget::Here(id) => id,
            // A fresh session does not know of the call.
            AnswerTarget::Earlier { session, .. } if session != self.sessions => {
                return self.say(late);
            }
            AnswerTarget::Earlier { id, since, .. } => {
                let known = self.handle.as_ref().is_some_and(|handle| handle.at > since);
                if !known {
                    self.doubt = Some(Doubt {
                        words: late,
                        until: self.now + DOUBT,
                    });
                }
                id
            }
        };
        let scheduling = match self.session_settings.profile.functions {
            FunctionMode::Blocking => None,
            FunctionMode::NonBlocking if answer.name == "end_call" => Some("SILENT"),
            FunctionMode::NonBlocking => Some("WHEN_IDLE"),
        };
        self.answering = true;
        let response = FunctionResponse {
            id,
            name: answer.name,
            response: answer.outcome.fields(),
            scheduling,
        };
        self.send(
            connection,
            ClientMessage::ToolResponse(ToolResponse {
                function_responses: vec![response],
            }),
        );
    }

    /// Repeats an answer as text if the model did not react to it.
    pub(super) fn doubt_time(&mut self) {
        let now = self.now;
        if let Some(doubt) = self.doubt.take_if(|doubt| doubt.until <= now) {
            self.say(doubt.words);
        }
    }

    /// The connection was lost after an answer that may not have been understood: it is repeated as text.
    pub(super) fn doubt_lost(&mut self) {
        if let Some(doubt) = self.doubt.take() {
            self.say(doubt.words);
        }
    }

    /// The call is answered.
    pub(super) fn greet(&mut self) {
        let is_first = !std::mem::replace(&mut self.may_speak, true);
        if is_first && self.live().is_some() {
            self.push_greeting();
        }
    }

    fn push_greeting(&mut self) {
        let greeting = words::greeting(&self.session_settings.agent);
        self.words.push_front(greeting);
    }

    /// Sends the first text of a connection. `was_speaking`: the last connection was lost in the middle of an answer.
    pub(super) fn begin(&mut self, connection: u32, fresh: bool, was_speaking: bool) {
        let asked = self.transcript.last_of_caller();
        let goes_on = match was_speaking {
            true => words::say_again(asked),
            false => words::GO_ON.to_owned(),
        };
        if !self.spoke {
            if self.may_speak {
                self.push_greeting();
            }
        } else if fresh {
            match self.session_settings.profile.history {
                History::Turns => {
                    let said = |(role, text): (Role, String)| match role {
                        Role::Agent => turn("model", &text),
                        Role::Caller | Role::Tool => turn("user", &text),
                    };
                    let mut turns: Vec<_> = self.transcript.turns().into_iter().map(said).collect();
                    turns.push(turn("user", &goes_on));
                    self.answering = true;
                    self.send(connection, ClientMessage::turns(turns));
                }
                History::Instruction => self.words.push_front(goes_on),
            }
        } else if was_speaking {
            self.words.push_front(goes_on);
        }
        self.flush();
    }

    pub(super) fn send(&mut self, connection: u32, message: ClientMessage) {
        self.effects.push(SessionEffect::Send {
            connection,
            message,
        });
    }
}
