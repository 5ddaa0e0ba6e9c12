//! The model's messages.

use std::time::Duration;

use super::{
    super::wire::server::{
        InlineData, ModelFunctionCall, ServerContent, ServerMessage, SessionResumptionUpdate,
        UsageMetadata,
    },
    Handle, SessionMachine,
    billing::by_modality,
};
use crate::voice::{
    VoiceEvent,
    common::{BillDecision, RequestedCall, Role, SessionEffect, ToolRequestFault, tell_audio},
};

/// Unreadable messages on one connection before it is given up.
const RUBBISH_MOST: u32 = 16;
/// The longest handle of a session, in bytes. Real ones have a few hundred.
const HANDLE_MOST: usize = 8 * 1024;
/// Assumed time left, in ms, if `goAway` does not contain one.
const TIME_LEFT: u64 = 5_000;

impl SessionMachine {
    pub(super) fn message(&mut self, connection: u32, message: ServerMessage) {
        if message.setup_complete {
            self.set_up(connection);
        }
        if let Some(usage) = message.usage_metadata {
            self.billed(&usage);
        }
        if self.live() != Some(connection) {
            return;
        }
        let update = message.session_resumption_update.as_ref();
        let has_content = message.server_content.is_some() || message.tool_call.is_some();
        if has_content || update.is_some_and(|update| update.resumable) {
            self.brought_something(has_content);
        }
        if let Some(content) = message.server_content {
            self.content(content);
        }
        if let Some(cancelled) = message.tool_call_cancellation {
            self.cancelled(connection, &cancelled.ids);
        }
        for call in message
            .tool_call
            .into_iter()
            .flat_map(|it| it.function_calls)
        {
            self.wish(connection, call);
        }
        if let Some(update) = message.session_resumption_update {
            self.resumption(update);
        }
        if let Some(away) = message.go_away {
            let left = away.milliseconds_left().unwrap_or(TIME_LEFT);
            self.leave(Duration::from_millis(left));
        }
    }

    fn billed(&mut self, usage: &UsageMetadata) {
        match self.bill.add(by_modality(usage), self.now) {
            BillDecision::Believed(usage) => self.tell(VoiceEvent::Usage(usage)),
            BillDecision::Absurd { is_first: true } => self.effects.push(SessionEffect::Warn(
                "the model bills more than a call of this length can use; it is not counted",
            )),
            BillDecision::Absurd { is_first: false } => {}
        }
    }

    /// Skips an unreadable message; too many are a fault of the connection.
    pub(super) fn rubbish(&mut self, connection: u32) {
        self.rubbish += 1;
        if self.rubbish > RUBBISH_MOST {
            self.rubbish = 0;
            self.give_up_connection(connection, "it sent messages that cannot be read");
        }
    }

    fn content(&mut self, content: ServerContent) {
        if let Some(said) = content.input_transcription.filter(|it| !it.text.is_empty()) {
            self.transcript.add(Role::Caller, &said.text);
            self.tell(VoiceEvent::CallerSaid(said.text));
        }
        for part in content.model_turn.into_iter().flat_map(|turn| turn.parts) {
            if let Some(blob) = part.inline_data {
                self.agent_audio(&blob);
            }
        }
        if let Some(said) = content
            .output_transcription
            .filter(|it| !it.text.is_empty())
        {
            self.agent_words(said.text);
        }
        // Other content of the same message came before the interruption.
        if content.interrupted == Some(true) {
            self.interrupted();
        }
        if content.generation_complete == Some(true) {
            self.has_generated = self.speaking;
            self.answer_over();
        }
        if content.turn_complete == Some(true) {
            self.turn_over();
        }
    }

    fn answer_over(&mut self) {
        self.answering = false;
        self.speaking = false;
    }

    fn interrupted(&mut self) {
        self.answer_over();
        self.has_generated = false;
        self.speech.forget();
        self.transcript.turn_over();
        match &mut self.summary {
            // Speech from before the interruption is not part of the summary.
            Some(summary) => summary.clear(),
            None => self.tell(VoiceEvent::Interrupted),
        }
    }

    fn agent_audio(&mut self, blob: &InlineData) {
        // Other rates and media types were never seen, and cannot be played.
        if rate(&blob.mime_type) != Some(dikala_sip::leg::SPEECH_RATE) {
            return;
        }
        let samples = self.speech.decode(&blob.data);
        if samples.is_empty() {
            return;
        }
        self.answering = true;
        self.doubt = None;
        if self.summary.is_none() {
            self.spoke = true;
            self.speaking = true;
            self.has_generated = false;
            tell_audio(&samples, &mut self.effects);
        } else {
            self.sums_up();
        }
    }

    fn agent_words(&mut self, text: String) {
        self.sums_up();
        match &mut self.summary {
            Some(summary) => summary.push(&text),
            None => {
                self.transcript.add(Role::Agent, &text);
                self.tell(VoiceEvent::AgentSaid(text));
            }
        }
    }

    pub(super) fn turn_over(&mut self) {
        self.answer_over();
        self.has_generated = false;
        self.speech.forget();
        self.transcript.turn_over();
        match &self.summary {
            Some(summary) if summary.has_text() => self.summed_up(),
            _ => self.tell(VoiceEvent::TurnOver),
        }
    }

    fn wish(&mut self, connection: u32, call: ModelFunctionCall) {
        self.doubt = None;
        self.answering = true;
        if self.live() != Some(connection) || self.summary.is_some() || call.name.is_empty() {
            return;
        }
        let call = RequestedCall {
            id: call.id,
            name: call.name,
            arguments: call.args,
        };
        match self
            .tools
            .request(call, connection, self.sessions, self.now)
        {
            Ok(Some(wish)) => self.tell(wish),
            Ok(None) => {}
            Err(ToolRequestFault::Unreadable) => self.rubbish(connection),
            Err(ToolRequestFault::TooMany) => {
                self.give_up_connection(connection, "it calls functions without a pause");
            }
        }
    }

    fn cancelled(&mut self, connection: u32, ids: &[String]) {
        let ids = self.tools.cancel(ids, connection);
        if !ids.is_empty() {
            self.answering = false;
            self.tell(VoiceEvent::ToolCancelled { ids });
        }
    }

    /// Keeps the newest handle. While the model is at work there may be none; an older one loses a little of the conversation.
    fn resumption(&mut self, update: SessionResumptionUpdate) {
        let is_usable = (1..=HANDLE_MOST).contains(&update.new_handle.len());
        if update.resumable && is_usable {
            self.handle = Some(Handle {
                text: update.new_handle,
                at: self.now,
                newest: true,
            });
        } else if let Some(handle) = &mut self.handle {
            handle.newest = false;
        }
    }
}

/// Sample rate of raw audio; `None` for anything else.
fn rate(mime_type: &str) -> Option<u32> {
    let mut parameters = mime_type.split(';').map(str::trim);
    if !matches!(parameters.next()?, "audio/pcm" | "audio/l16") {
        return None;
    }
    match parameters.find_map(|one| one.strip_prefix("rate=")) {
        Some(rate) => rate.parse().ok(),
        None => Some(dikala_sip::leg::SPEECH_RATE),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::rate;

    #[rstest]
    #[case("audio/pcm;rate=24000", Some(24_000))]
    #[case("audio/pcm; rate=16000", Some(16_000))]
    #[case("audio/pcm", Some(24_000))]
    #[case("audio/pcm;rate=fast", None)]
    #[case("image/png", None)]
    #[case("", None)]
    fn the_rate_stands_in_the_type(#[case] mime: &str, #[case] expected: Option<u32>) {
        assert_eq!(rate(mime), expected);
    }
}
