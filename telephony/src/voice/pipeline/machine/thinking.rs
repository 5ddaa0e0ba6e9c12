//! The language model's answer: its text becomes clauses, its calls are carried out.

use std::time::Duration;

use serde_json::Value;

use super::{
    ChatDelta, PipelineMachine, PipelineRequest, VoiceEvent, history::ChatCall, requests::Stage,
};
use crate::voice::{
    ToolOutcome,
    common::{
        AnswerTarget, BillDecision, RequestedCall, SessionEffect, SummaryRequest, ToolRequestFault,
        words,
    },
    pipeline::wire::{ANSWER_MOST, CallDelta, PARTING, add_piece, tools},
};

/// There is one conversation, and no connection that its calls would depend on.
const ONLY: u32 = 1;

#[derive(Debug, Default)]
pub(super) struct ChatAnswer {
    /// The model has something to answer.
    is_wanted: bool,
    /// Outcomes of functions came, which the model has not answered.
    has_outcomes: bool,
    request: Option<u32>,
    /// The same request once more, because nothing has come of the first. The one that answers first counts.
    second: Option<u32>,
    /// The request for whose answer the caller waits.
    hurried: Option<u32>,
    /// The calls so far, as they come in pieces.
    calls: Vec<CallDelta>,
    /// Complete calls that wait for the end of the speech.
    parting: Vec<CallDelta>,
    characters: usize,
    /// Calls made so far.
    made: u64,
}

impl ChatAnswer {
    pub(super) fn want(&mut self) {
        self.is_wanted = true;
    }

    pub(super) fn is_running(&self) -> bool {
        self.request.is_some()
    }

    /// Calls wait for the end of the speech.
    pub(super) fn is_parting(&self) -> bool {
        !self.parting.is_empty()
    }

    /// The request may bring the answer that is wanted.
    pub(super) fn is_from(&self, connection: u32) -> bool {
        [self.request, self.second].contains(&Some(connection))
    }

    /// One of two requests has failed or brought nothing. True if the other one is left.
    pub(super) fn one_is_left(&mut self, gone: u32) -> bool {
        let Some(second) = self.second.take() else {
            return false;
        };
        if self.request == Some(gone) {
            self.request = Some(second);
        }
        true
    }
}

impl PipelineMachine {
    /// Asks the model, once there is something to answer and nobody speaks.
    pub(super) fn think(&mut self) {
        if self.is_answering() {
            return;
        }
        for answer in self.tools.answers(ONLY) {
            if let AnswerTarget::Here(Some(id)) = &answer.to {
                self.history.outcome(id, answer.outcome);
                // Nothing is to be said after the goodbye.
                self.answer.has_outcomes |= answer.name != "end_call";
            }
        }
        if self.answer.has_outcomes && !self.tools.open(ONLY) {
            self.answer.has_outcomes = false;
            self.answer.want();
        }
        let is_free = self.may_speak && !self.turn.is_open(self.now);
        if self.answer.is_wanted && is_free && self.requests.may_start(self.now) {
            self.ask();
        }
    }

    /// The caller waits for an answer. One that has stopped before anything of it was spoken is broken off, and the model asked to
    /// go on. A request that has brought nothing is made once more ([`PipelineMachine::ask_beside`]).
    pub(super) fn hurry(&mut self) {
        self.answer.hurried = self.answer.request;
        let is_bare = self.speech.is_empty() && self.answer.calls.is_empty();
        let is_unspoken = is_bare && !self.speech.has_begun();
        let stopped = self.answer.request.filter(|_| is_unspoken);
        if let Some(stopped) = stopped.filter(|it| self.requests.has_stopped(*it, self.now)) {
            self.requests.cancel(stopped, &mut self.effects);
            self.thinking_failed(true);
        }
    }

    /// When the hurried request is to be made once more.
    pub(super) fn beside_due(&self) -> Option<Duration> {
        let hurried = self.answer.request.filter(|_| self.answer.second.is_none());
        let hurried = hurried.filter(|it| self.answer.hurried == Some(*it))?;
        self.requests.waited_enough_at(hurried)
    }

    /// Makes a hurried request once more beside the first, which a slow server may still answer.
    pub(super) fn ask_beside(&mut self) {
        let is_due = self.beside_due().is_some_and(|at| at <= self.now);
        if is_due && self.requests.may_start(self.now) {
            self.answer.hurried = None;
            let request = self.chat(self.tool_declarations());
            self.answer.second = Some(self.start(Stage::Thinking, request));
        }
    }

    /// The answer comes from this request. Another one is cancelled.
    fn choose(&mut self, connection: u32) {
        if let Some(second) = self.answer.second.take() {
            let other = match connection == second {
                true => self.answer.request.replace(second),
                false => Some(second),
            };
            if let Some(other) = other {
                self.requests.cancel(other, &mut self.effects);
            }
        }
    }

    pub(super) fn ask(&mut self) {
        while let Some(note) = self.notes.pop() {
            self.history.note(&note);
        }
        let tools = match self.summary {
            None => self.tool_declarations(),
            Some(_) => {
                let request = words::SUMMARISE.trim_matches(['[', ']']);
                self.history.note(request);
                Vec::new()
            }
        };
        let request = self.chat(tools);
        let connection = self.start(Stage::Thinking, request);
        self.answer.is_wanted = false;
        self.answer.request = Some(connection);
        self.answer.calls.clear();
        self.answer.characters = 0;
    }

    fn chat(&mut self, tools: Vec<Value>) -> PipelineRequest {
        PipelineRequest::Chat {
            messages: self.history.messages(&self.instruction),
            tools,
            is_plain: self.requests.is_plain,
        }
    }

    fn tool_declarations(&self) -> Vec<Value> {
        tools(words::declarations(&self.agent))
    }

    /// A part of an answer.
    pub(super) fn thought(&mut self, connection: u32, delta: ChatDelta) {
        if let Some(usage) = delta.usage {
            self.requests.used(connection, usage);
        }
        if !self.answer.is_from(connection) {
            return;
        }
        let is_content = !delta.content.is_empty() || !delta.calls.is_empty();
        if is_content {
            self.choose(connection);
        }
        if is_content || delta.is_thinking || delta.is_last {
            self.brought(connection);
        }
        if let Some(summary) = &mut self.summary {
            summary.push(&delta.content);
            if summary.begins() {
                self.tell(VoiceEvent::Summarising);
            }
            return;
        }
        self.answer.characters += delta.content.chars().count();
        let is_endless = self.answer.characters > ANSWER_MOST;
        if !is_endless {
            self.write(&delta.content);
        }
        for call in delta.calls {
            add_piece(&mut self.answer.calls, call);
        }
        if is_endless {
            self.requests.cancel(connection, &mut self.effects);
            self.effects.push(SessionEffect::Warn(
                "the language model writes without end; its answer is cut",
            ));
        }
        if is_endless || delta.is_last {
            self.thought_over(connection);
        }
    }

    /// Bills the requests that have ended, each once.
    pub(super) fn bill_ended(&mut self) {
        for usage in self.requests.take_unbilled() {
            match self.bill.add(usage, self.now) {
                BillDecision::Believed(usage) => self.tell(VoiceEvent::Usage(usage)),
                BillDecision::Absurd { is_first: true } => self.effects.push(SessionEffect::Warn(
                    "the model bills more tokens than a call of this length can use; they are not counted",
                )),
                BillDecision::Absurd { is_first: false } => {}
            }
        }
    }

    /// The answer is complete. Its usage may follow.
    pub(super) fn thought_over(&mut self, connection: u32) {
        // Of two requests, one has ended without an answer.
        if !self.answer.is_from(connection) || self.answer.one_is_left(connection) {
            return;
        }
        self.answer.request = None;
        if self.summary.is_some() {
            return self.summed_up();
        }
        self.written();
        let calls = std::mem::take(&mut self.answer.calls).into_iter();
        let (parting, calls) = calls
            .filter(|call| !call.function.name.is_empty())
            .partition(|call| PARTING.contains(&call.function.name.as_str()));
        self.answer.parting = parting;
        self.call(calls);
    }

    /// Makes the calls that were to wait for the end of the speech.
    pub(super) fn part(&mut self) {
        let parting = std::mem::take(&mut self.answer.parting);
        self.call(parting);
    }

    fn call(&mut self, calls: Vec<CallDelta>) {
        if calls.is_empty() {
            return;
        }
        let mut recorded = Vec::new();
        let mut requested = Vec::new();
        for CallDelta { function, .. } in calls {
            self.answer.made += 1;
            // The model's own ids are not unique at every server.
            let id = format!("call-{}", self.answer.made);
            let (name, arguments) = (function.plain_name(), function.object());
            let known = Value::Object(arguments.clone().unwrap_or_default()).to_string();
            recorded.push(ChatCall {
                id: id.clone(),
                name: name.clone(),
                arguments: known,
                ..ChatCall::default()
            });
            requested.push((id, name, arguments));
        }
        self.history.called(recorded);
        for (id, name, arguments) in requested {
            let is_readable = arguments.is_some();
            let call = RequestedCall {
                id: Some(id),
                name,
                arguments: arguments.unwrap_or_default(),
            };
            match self.tools.request(call, ONLY, ONLY, self.now) {
                Ok(Some(VoiceEvent::Tool { id, .. })) if !is_readable => {
                    let words = "The arguments are no JSON object.";
                    let outcome = ToolOutcome::failure("invalid_arguments", words);
                    self.tools.came(&id, outcome, self.now);
                }
                Ok(Some(wish)) => self.tell(wish),
                Ok(None) | Err(ToolRequestFault::Unreadable) => {}
                Err(ToolRequestFault::TooMany) => {
                    return self
                        .lost("the language model calls functions without a pause".to_owned());
                }
            }
        }
    }

    /// The model has to be asked once more.
    pub(super) fn thinking_failed(&mut self, has_begun: bool) {
        self.answer.request = None;
        self.answer.calls.clear();
        if has_begun {
            self.written();
            self.history.note(words::GO_ON.trim_matches(['[', ']']));
        }
        self.answer.want();
    }

    /// Ends the answer: the caller speaks, or the call is over.
    pub(super) fn stop_answer(&mut self) {
        let requests = [self.answer.request.take(), self.answer.second.take()];
        for connection in requests.into_iter().flatten() {
            self.requests.cancel(connection, &mut self.effects);
        }
        self.answer.calls.clear();
        self.answer.parting.clear();
        self.stop_speech();
    }

    /// Ends the summary with what has come so far.
    pub(super) fn summed_up(&mut self) {
        let summary = self.summary.as_mut();
        if let Some(text) = summary.and_then(SummaryRequest::finish) {
            self.tell(VoiceEvent::Summary(text));
        }
    }
}
