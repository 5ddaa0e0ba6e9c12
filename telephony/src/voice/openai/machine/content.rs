//! The model's events.

use super::{RealtimeMachine, SessionEffect, VoiceEvent, answers::SUMMARY_ID, billing};
use crate::voice::{
    ToolOutcome, Usage,
    common::{
        BillDecision, ModelError, RequestedCall, Role, ToolRequestFault, is_fatal, tell_audio,
    },
    openai::wire::server::{ContentDelta, OutputItem, RealtimeEvent, Transcript},
};

impl RealtimeMachine {
    pub(super) fn event(&mut self, connection: u32, event: RealtimeEvent) {
        match &event {
            RealtimeEvent::SessionCreated => return self.session_created(connection),
            RealtimeEvent::SessionUpdated => return self.session_updated(connection),
            RealtimeEvent::Error(event) => return self.error(connection, &event.error),
            RealtimeEvent::ResponseDone(done) => {
                if let Some(usage) = &done.response.usage {
                    self.billed(billing::by_kind(usage));
                }
            }
            RealtimeEvent::Transcribed(said) => self.billed(billing::of_transcription(&said.usage)),
            _ => {}
        }
        if self.live() != Some(connection) {
            return;
        }
        match event {
            RealtimeEvent::SpeechStarted(turn) => {
                self.record.begin(Role::Caller, &turn.item_id);
                self.caller_starts(false);
            }
            RealtimeEvent::SpeechStopped => self.caller_stops(),
            RealtimeEvent::Committed(turn) => {
                self.record.begin(Role::Caller, &turn.item_id);
                self.turn_committed();
            }
            RealtimeEvent::Transcribed(said) => self.caller_words(&said),
            RealtimeEvent::ResponseCreated(event) => {
                self.response_created(connection, event.response.id);
            }
            RealtimeEvent::ResponseDone(event) => self.response_done(connection, event.response),
            RealtimeEvent::Audio(delta) => self.agent_audio(&delta),
            RealtimeEvent::AudioTranscript(delta) => self.agent_words(&delta),
            RealtimeEvent::Text(delta) => self.agent_text(delta),
            RealtimeEvent::OutputDone(event) => {
                if self.answers.is_valid(&event.response_id) {
                    self.wish(connection, event.item);
                }
            }
            RealtimeEvent::CallArguments(call) => {
                if self.answers.is_valid(&call.response_id) {
                    self.wish(connection, call);
                }
            }
            RealtimeEvent::SessionCreated
            | RealtimeEvent::SessionUpdated
            | RealtimeEvent::Error(_)
            | RealtimeEvent::Unknown => {}
        }
    }

    fn billed(&mut self, usage: Usage) {
        if usage == Usage::default() {
            return;
        }
        match self.bill.add(usage, self.now) {
            BillDecision::Believed(usage) => self.tell(VoiceEvent::Usage(usage)),
            BillDecision::Absurd { is_first: true } => self
                .warn("the model bills more than a call of this length can use; it is not counted"),
            BillDecision::Absurd { is_first: false } => {}
        }
    }

    /// The transcript comes after the answer, and belongs where the caller began to speak.
    fn caller_words(&mut self, said: &Transcript) {
        self.brought_something();
        let words = said.transcript.trim();
        if !words.is_empty() {
            self.record.add_to(Role::Caller, &said.item_id, words);
            self.tell(VoiceEvent::CallerSaid(format!("{words} ")));
        }
    }

    fn agent_audio(&mut self, delta: &ContentDelta) {
        if !self.answers.is_valid(&delta.response_id) {
            return;
        }
        let samples = self.speech.decode(&delta.delta);
        if samples.is_empty() {
            return;
        }
        self.brought_something();
        self.answers.brought_audio(&delta.response_id);
        if self.summary.is_some() {
            return self.sums_up("");
        }
        self.spoke = true;
        let length = samples.len();
        self.playback
            .add(&delta.item_id, delta.content_index, length);
        if let Some(turns) = &mut self.own_turns {
            turns.agent_says(length, self.now);
        }
        tell_audio(&samples, &mut self.effects);
    }

    fn agent_words(&mut self, delta: &ContentDelta) {
        if delta.delta.is_empty() || !self.answers.is_valid(&delta.response_id) {
            return;
        }
        if self.summary.is_some() {
            return self.sums_up(&delta.delta);
        }
        self.record
            .add_to(Role::Agent, &delta.item_id, &delta.delta);
        self.tell(VoiceEvent::AgentSaid(delta.delta.clone()));
    }

    /// Text in place of speech: the summary, or an answer that nobody hears.
    fn agent_text(&mut self, delta: ContentDelta) {
        if !self.answers.is_valid(&delta.response_id) {
            return;
        }
        match self.summary {
            Some(_) => self.sums_up(&delta.delta),
            None => self.answers.brought_text(&delta.response_id, delta.item_id),
        }
    }

    /// A function call, which may be told up to three times.
    pub(super) fn wish(&mut self, connection: u32, item: OutputItem) {
        let is_call = matches!(item.kind.as_str(), "function_call" | "");
        let is_whole = item.status != "incomplete";
        let is_named = !item.name.is_empty() && !item.call_id.is_empty();
        if !(is_call && is_whole && is_named)
            || self.summary.is_some()
            || self.live() != Some(connection)
        {
            return;
        }
        self.brought_something();
        let arguments = item.arguments();
        let is_readable = arguments.is_some();
        let call = RequestedCall {
            id: Some(item.call_id),
            name: item.name,
            arguments: arguments.unwrap_or_default(),
        };
        match self.tools.request(call, connection, connection, self.now) {
            Ok(Some(VoiceEvent::Tool { id, .. })) if !is_readable => {
                let words = "The arguments are no JSON object.";
                let outcome = ToolOutcome::failure("invalid_arguments", words);
                self.tools.came(&id, outcome, self.now);
            }
            Ok(Some(wish)) => self.tell(wish),
            Ok(None) => {}
            Err(ToolRequestFault::Unreadable) => self.rubbish(connection),
            Err(ToolRequestFault::TooMany) => {
                self.give_up(connection, "it calls functions without a pause");
            }
        }
    }

    fn error(&mut self, connection: u32, error: &ModelError) {
        let code = error.shown();
        if self.live() != Some(connection) {
            return self.setup_refused(connection, &code);
        }
        if is_fatal(&code) {
            return self.fail(connection, &code);
        }
        if error.event_id == SUMMARY_ID && !self.answers.has_begun() {
            return self.summarise_within(connection);
        }
        match code.as_str() {
            // The response was over before it could be cancelled, or the turn was committed.
            "response_cancel_not_active" | "input_audio_buffer_commit_empty" => return,
            "conversation_already_has_active_response" => self.answers.was_refused(self.now),
            _ if code == "session_expired" || error.kind == "server_error" => {
                return self.fail(connection, &code);
            }
            // After this the model is silent for the rest of the session (pipecat#3677, twilio-python#22).
            _ if error.message.contains("already shorter than") => {
                return self.fail(connection, "a truncation that went too far");
            }
            // A server that refuses the same again does so in every session.
            _ if error.has_code() && self.connections.ends_with(&code) => {
                return self.fail(connection, &code);
            }
            _ => {}
        }
        if self.counts_fault(connection) {
            return self.give_up(connection, "it answers with errors only");
        }
        self.effects.push(SessionEffect::Warn(
            "the model refuses an event of this side, and goes on",
        ));
    }

    /// The live connection is of no more use: the next one may be, unless the error would meet it, too.
    pub(super) fn fail(&mut self, connection: u32, words: &str) {
        self.give_up(connection, words);
    }
}
