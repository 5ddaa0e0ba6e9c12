//! Events to the model: the caller's audio, texts, outcomes of functions, and how much was heard.

use super::{RealtimeMachine, SessionEffect, answers::Unanswered};
use crate::voice::{
    common::{AnswerTarget, CutItem, Role, ToolAnswer, words},
    openai::wire::client::{
        RealtimeRequest, RequestKind, agent_text, append, function_output, user_text,
    },
};

impl RealtimeMachine {
    /// Sends the caller's audio. After the end of the call it is dropped.
    pub(super) fn caller(&mut self, samples: Vec<i16>) {
        if self.summary.is_some() {
            return;
        }
        let samples = match &mut self.own_turns {
            None => samples,
            Some(turns) => turns.hear(&samples),
        };
        self.held_audio.push(&samples);
        self.flush_audio();
    }

    /// Sends what waits, and requests an answer to it.
    pub(super) fn flush(&mut self) {
        let Some(connection) = self.live() else {
            return;
        };
        // A function's outcome follows the response that called it.
        if !self.answers.is_running() {
            for answer in self.tools.answers(connection) {
                self.answer(connection, answer);
            }
        }
        while let Some(words) = self.words.pop() {
            self.send(connection, user_text(&words));
            self.answers.want();
        }
        self.flush_audio();
        if std::mem::take(&mut self.commits) {
            self.send(connection, RequestKind::CommitAudio.into());
        }
        self.respond(connection);
    }

    fn flush_audio(&mut self) {
        let Some(connection) = self.live() else {
            return;
        };
        for step in self.held_audio.take() {
            let mut resampled = Vec::new();
            self.resampler.run(&step, &mut resampled);
            self.send(connection, append(&resampled));
        }
    }

    fn answer(&mut self, connection: u32, answer: ToolAnswer) {
        let outcome = answer.outcome.text();
        let told = words::outcome_in_words(&answer.name, &answer.arguments, outcome);
        self.record.add(Role::Tool, &told);
        match answer.to {
            AnswerTarget::Here(Some(id)) => {
                self.send(connection, function_output(&id, outcome));
                // Nothing is to be said after the goodbye.
                if answer.name != "end_call" {
                    self.answers.has_outcome();
                }
            }
            // This session does not know of the call.
            AnswerTarget::Here(None) | AnswerTarget::Earlier { .. } => {
                let late = words::late_answer(&answer.name, &answer.arguments, outcome);
                self.words.push(late);
            }
        }
    }

    /// The call has played this much of the agent's speech until it was interrupted: the model's own record ends there, too.
    pub(super) fn heard(&mut self, played_ms: u64) {
        for item in self.playback.played(played_ms) {
            let CutItem {
                id,
                content_index,
                heard_ms,
                length_ms,
            } = item;
            let request = if heard_ms == 0 {
                // An item that was not heard cannot be truncated (livekit#6158).
                self.record.remove(&id);
                RequestKind::DeleteItem { item_id: id }
            } else {
                self.record.keep(&id, heard_ms, length_ms);
                RequestKind::TruncateItem {
                    item_id: id,
                    content_index,
                    audio_end_ms: heard_ms,
                }
            };
            if let Some(connection) = self.live() {
                self.send(connection, request.into());
            }
        }
    }

    /// Gives a new session the conversation so far. `rest`: what the last one owed the caller.
    pub(super) fn begin(&mut self, connection: u32, rest: Unanswered) {
        if self.spoke {
            for (role, text) in self.record.turns() {
                // An item without text is refused, or empties the history (livekit#5887).
                if text.is_empty() {
                    continue;
                }
                let item = match role {
                    Role::Agent => agent_text(&text),
                    Role::Caller | Role::Tool => user_text(&text),
                };
                self.send(connection, item);
            }
            match rest {
                Unanswered::Nothing => {}
                Unanswered::Caller => self.words.push_front(words::GO_ON.to_owned()),
                Unanswered::RestOfAnswer => {
                    let again = words::say_again(self.record.last_of_caller());
                    self.words.push_front(again);
                }
            }
        } else if self.may_speak {
            self.push_greeting();
        }
        self.flush();
    }

    /// The call is answered.
    pub(super) fn greet(&mut self) {
        let is_first = !std::mem::replace(&mut self.may_speak, true);
        if is_first && self.live().is_some() {
            self.push_greeting();
        }
    }

    fn push_greeting(&mut self) {
        self.words.push_front(words::greeting(&self.terms.agent));
    }

    pub(super) fn send(&mut self, connection: u32, message: RealtimeRequest) {
        self.effects.push(SessionEffect::Send {
            connection,
            message,
        });
    }
}
