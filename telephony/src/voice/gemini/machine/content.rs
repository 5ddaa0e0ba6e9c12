//! The model's messages.

use std::time::Duration;

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde_json::Value;

use super::{
    super::wire::server::{
        InlineData, ModelFunctionCall, ServerContent, ServerMessage, SessionResumptionUpdate,
        UsageMetadata,
    },
    Handle, SessionEffect, SessionMachine,
    billing::{BillDecision, by_modality},
    tools::RequestMeaning,
    transcript::Role,
};
use crate::voice::{ToolOutcome, VoiceEvent};

/// Unreadable messages on one connection before it is given up.
const RUBBISH_MOST: u32 = 16;
/// Bytes of a tool call's name and arguments. The service accepts no more arguments.
const TOOL_BYTES_MOST: usize = 64 * 1024;
/// The longest id of a tool call, in bytes.
const TOOL_ID_BYTES_MOST: usize = 1024;
/// Tool calls that a model may make at once.
const TOOLS_AT_ONCE: u32 = 32;
/// The time for each further tool call.
const TOOL_EVERY: Duration = Duration::from_millis(200);
/// The longest handle of a session, in bytes. Real ones have a few hundred.
const HANDLE_MOST: usize = 8 * 1024;
/// Assumed time left, in ms, if `goAway` does not contain one.
const TIME_LEFT: u64 = 5_000;

/// 100 ms. A message may hold a minute, and the channels to the phone count pieces.
const PIECE_SAMPLES: usize = dikala_sip::leg::SPEECH_RATE as usize / 10;

/// Base64 with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

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
        if message.server_content.is_some()
            || message.tool_call.is_some()
            || update.is_some_and(|update| update.resumable)
        {
            self.brought_something();
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
                "the model bills more tokens than a call of this length can use; they are not counted",
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
            self.answering = false;
        }
        if content.turn_complete == Some(true) {
            self.turn_over();
        }
    }

    fn interrupted(&mut self) {
        self.answering = false;
        self.half_sample = None;
        self.transcript.turn_over();
        match &mut self.summary {
            // Speech from before the interruption is not part of the summary.
            Some(summary) => summary.text.clear(),
            None => self.tell(VoiceEvent::Interrupted),
        }
    }

    fn agent_audio(&mut self, blob: &InlineData) {
        let mut bytes = Vec::from_iter(self.half_sample.take());
        // Other rates and media types were never seen, and cannot be played.
        if rate(&blob.mime_type) == Some(dikala_sip::leg::SPEECH_RATE) {
            bytes.extend(BASE64.decode(&blob.data).unwrap_or_default());
        }
        let (pairs, half) = bytes.as_chunks();
        self.half_sample = half.first().copied();
        let samples: Vec<i16> = pairs.iter().map(|two| i16::from_le_bytes(*two)).collect();
        if samples.is_empty() {
            return;
        }
        self.answering = true;
        self.doubt = None;
        if self.summary.is_none() {
            self.spoke = true;
            for piece in samples.chunks(PIECE_SAMPLES) {
                self.tell_audio(piece);
            }
        } else {
            self.sums_up();
        }
    }

    /// Joins what one message has in many parts, since each piece is work for the call.
    fn tell_audio(&mut self, piece: &[i16]) {
        match self.effects.last_mut() {
            Some(SessionEffect::Tell(VoiceEvent::Audio(last)))
                if last.len() + piece.len() <= PIECE_SAMPLES =>
            {
                last.extend_from_slice(piece);
            }
            _ => self.tell(VoiceEvent::Audio(piece.to_vec())),
        }
    }

    fn agent_words(&mut self, text: String) {
        self.sums_up();
        match &mut self.summary {
            Some(summary) if summary.text.len() < SUMMARY_MOST => summary.text.push_str(&text),
            Some(_) => {}
            None => {
                self.transcript.add(Role::Agent, &text);
                self.tell(VoiceEvent::AgentSaid(text));
            }
        }
    }

    fn turn_over(&mut self) {
        self.answering = false;
        self.half_sample = None;
        self.transcript.turn_over();
        match &self.summary {
            Some(summary) if !summary.text.trim().is_empty() => self.summed_up(),
            _ => self.tell(VoiceEvent::TurnOver),
        }
    }

    fn wish(&mut self, connection: u32, mut call: ModelFunctionCall) {
        self.doubt = None;
        self.answering = true;
        if self.live() != Some(connection) || self.summary.is_some() || call.name.is_empty() {
            return;
        }
        // The answer has to repeat the id.
        if call
            .id
            .as_ref()
            .is_some_and(|id| id.len() > TOOL_ID_BYTES_MOST)
        {
            return self.rubbish(connection);
        }
        if !self.admit_tool_call() {
            self.give_up_connection(connection, "it calls functions without a pause");
            return;
        }
        let arguments = Value::Object(call.args.clone()).to_string();
        let is_too_large = call.name.len() + arguments.len() > TOOL_BYTES_MOST;
        if is_too_large {
            call.name = call.name.chars().take(64).collect();
            call.args.clear();
        }
        let (name, arguments) = (call.name.clone(), call.args.clone());
        let meaning = self.tools.asked(call, connection, self.sessions, self.now);
        match meaning {
            RequestMeaning::New(id) if is_too_large => {
                let outcome = ToolOutcome::failure("too_large", "Arguments have at most 64 KiB.");
                self.tools.came(&id, outcome, self.now);
            }
            RequestMeaning::New(id) => self.tell(VoiceEvent::Tool {
                id,
                name,
                arguments,
            }),
            RequestMeaning::Again | RequestMeaning::Repeat => {}
        }
    }

    /// A token bucket over all connections of the session: a model that is answered at once could call for ever.
    fn admit_tool_call(&mut self) -> bool {
        let next = self.tools_paid_until.max(self.now) + TOOL_EVERY;
        let is_admitted = next <= self.now + TOOL_EVERY * TOOLS_AT_ONCE;
        if is_admitted {
            self.tools_paid_until = next;
        }
        is_admitted
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

/// The service accepts a summary four times as long.
const SUMMARY_MOST: usize = 4_000;

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
