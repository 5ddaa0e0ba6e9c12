//! One connection of the simulated model.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, time::sleep};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
        http::HeaderMap,
    },
};

use super::{
    KEY, RealtimeAct, RealtimeBegin, RealtimeConnection, RealtimeReaction, Shared,
    rules::{ClientInput, RealtimeRules, Refusal},
    speech::ResponseScript,
};
use crate::model_socket::{End, ModelOutput, ModelSocket};

/// Voice that starts a turn, and silence that ends it.
const TURN_MS: u64 = 100;
const SILENCE_MS: u64 = 300;
/// The time from the upgrade to `session.created`.
const CREATED_AFTER: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct RealtimeSession {
    output: ModelOutput,
    number: usize,
    begin: RealtimeBegin,
    shared: Shared,
    rules: RealtimeRules,
    was_refused: bool,
    voice_ms: u64,
    silence_ms: u64,
    is_speaking: bool,
    /// Turns of the caller, and responses.
    turns: u64,
    made: u64,
    /// The response that was last active, and its speech.
    last: Option<(ResponseScript, u64)>,
    /// Texts of the caller's side since the last response.
    said: String,
}

pub(super) async fn serve(
    stream: TcpStream,
    number: usize,
    begin: RealtimeBegin,
    mut acts: mpsc::UnboundedReceiver<RealtimeAct>,
    shared: Shared,
) {
    stream.set_nodelay(true).unwrap();
    let takes_no_key = shared.lock().unwrap().takes_no_key;
    let mut query = String::new();
    #[expect(clippy::result_large_err, reason = "the library wants it so")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        query = request.uri().query().unwrap_or_default().to_owned();
        match refusal(request.headers(), takes_no_key, &begin) {
            Some(status) => {
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = status.try_into().unwrap();
                Err(refusal)
            }
            None => Ok(response),
        }
    };
    if let Ok(socket) = accept_hdr_async(stream, look).await {
        let unsent = {
            let mut state = shared.lock().unwrap();
            state.connections[number].query.clone_from(&query);
            state.connections[number].unsent.clone()
        };
        let mut wire = ModelSocket::new(socket, unsent);
        let mut session = RealtimeSession::new(wire.output(), number, begin, shared.clone());
        let end = match session.create(&mut wire, &query).await {
            Ok(()) => session.run(&mut wire, &mut acts).await,
            Err(end) => end,
        };
        drop(session);
        match end {
            End::Gone => wire.leave().await,
            End::Close(code, reason) => wire.close(code, reason).await,
            End::Broken((code, reason)) => {
                shared.lock().unwrap().connections[number]
                    .broken
                    .push(reason.clone());
                wire.close(code, reason).await;
            }
        }
    }
    shared.lock().unwrap().connections[number].over = Some(Instant::now());
}

/// The status of a request that is refused.
fn refusal(headers: &HeaderMap, takes_no_key: bool, begin: &RealtimeBegin) -> Option<u16> {
    let authorization = headers.get("authorization").and_then(|it| it.to_str().ok());
    let wanted = (!takes_no_key).then(|| format!("Bearer {KEY}"));
    match begin {
        RealtimeBegin::Status(status) => Some(*status),
        // The beta has ended (2026-05-12).
        _ if headers.contains_key("openai-beta") => Some(400),
        _ if authorization != wanted.as_deref() => Some(401),
        _ => None,
    }
}

impl RealtimeSession {
    pub(super) fn new(
        output: ModelOutput,
        number: usize,
        begin: RealtimeBegin,
        shared: Shared,
    ) -> Self {
        Self {
            output,
            number,
            begin,
            shared,
            rules: RealtimeRules::default(),
            was_refused: false,
            voice_ms: 0,
            silence_ms: 0,
            is_speaking: false,
            turns: 0,
            made: 0,
            last: None,
            said: String::new(),
        }
    }

    /// Begins the session. What comes before it has is ignored by the service, and broken here.
    async fn create(&mut self, wire: &mut ModelSocket, query: &str) -> Result<(), End> {
        let model = query.strip_prefix("model=").unwrap_or_default();
        let code = match self.begin {
            RealtimeBegin::Error(code) => Some(code),
            _ if !model.starts_with("gpt-realtime") => Some("model_not_found"),
            _ => None,
        };
        if let Some(code) = code {
            self.error(code, "it was refused", &Value::Null)?;
            return Err(End::Close(3000, format!("invalid_request_error.{code}")));
        }
        let wait = match self.begin {
            RealtimeBegin::Silence => Duration::from_secs(3600),
            _ => CREATED_AFTER,
        };
        tokio::select! {
            () = sleep(wait) => {}
            early = wire.next() => {
                early?;
                return Err(End::Broken((1008, "an event before session.created".to_owned())));
            }
        }
        self.created(model)
    }

    pub(super) fn created(&mut self, model: &str) -> Result<(), End> {
        let session = json!({"id": "sess_1", "type": "realtime", "model": model, "expires_at": 1_800_000_000});
        self.send(&json!({"type": "session.created", "session": session}))
    }

    async fn run(
        &mut self,
        wire: &mut ModelSocket,
        acts: &mut mpsc::UnboundedReceiver<RealtimeAct>,
    ) -> End {
        loop {
            let done = tokio::select! {
                Some(act) = acts.recv() => self.act(act),
                message = wire.next() => match message {
                    Ok(message) => self.take(message),
                    Err(end) => Err(end),
                },
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut RealtimeConnection)) {
        change(&mut self.shared.lock().unwrap().connections[self.number]);
    }

    fn send(&self, event: &Value) -> Result<(), End> {
        let mut event = event.clone();
        event["event_id"] = json!("event_1");
        self.output.send(Message::text(event.to_string()))
    }

    fn send_all(&self, events: Vec<Value>) -> Result<(), End> {
        events.iter().try_for_each(|event| self.send(event))
    }

    fn error(&self, code: &str, message: &str, event_id: &Value) -> Result<(), End> {
        self.send(
            &json!({"type": "error", "error": {"type": "invalid_request_error", "code": code,
            "message": message, "param": null, "event_id": event_id}}),
        )
    }

    pub(super) fn take(&mut self, event: Value) -> Result<(), End> {
        if let RealtimeBegin::RefuseUpdate(code) = self.begin
            && !std::mem::replace(&mut self.was_refused, true)
        {
            return self.error(code, "the update was refused", &event["event_id"]);
        }
        let is_beside = event["response"]["conversation"] == "none";
        if self.begin == RealtimeBegin::OnlyWithin && is_beside {
            return self.error("invalid_value", "conversation is auto", &event["event_id"]);
        }
        let input = match self.rules.take(&event) {
            Ok(input) => input,
            Err((code, message)) => return self.refused((code, message), &event),
        };
        if !matches!(input, ClientInput::Audio { .. } | ClientInput::Updated) {
            self.note(|it| it.events.push(event.clone()));
        }
        match input {
            ClientInput::Updated => {
                self.note(|it| {
                    it.session = event["session"].clone();
                    it.set_up = Some(Instant::now());
                });
                self.send(&json!({"type": "session.updated", "session": event["session"]}))
            }
            ClientInput::Audio {
                milliseconds,
                voice,
            } => self.hear(milliseconds, voice),
            ClientInput::Commit => {
                self.turns += 1;
                self.committed()
            }
            ClientInput::Text(text) => {
                let said = text.rsplit(": ").next().unwrap_or_default();
                self.said = said.trim_end_matches(']').to_owned();
                Ok(())
            }
            ClientInput::History => Ok(()),
            ClientInput::Cut(kind, item_id) => {
                self.send(&json!({"type": kind, "item_id": item_id}))
            }
            ClientInput::Respond(response) => self.respond(&response),
            ClientInput::Cancel => self.end(
                "cancelled",
                &json!({"type": "cancelled", "reason": "client_cancelled"}),
            ),
        }
    }

    /// Most violations leave the session as it is.
    fn refused(&mut self, (code, message): Refusal, event: &Value) -> Result<(), End> {
        // The response may have ended while the cancellation was on its way.
        if code != "response_cancel_not_active" {
            self.note(|it| it.broken.push(format!("{code}: {message}")));
        }
        self.error(code, &message, &event["event_id"])
    }

    /// Silence ends the caller's turn; voice interrupts the model.
    fn hear(&mut self, milliseconds: u64, voice: bool) -> Result<(), End> {
        let voice = voice && !self.shared.lock().unwrap().is_deaf;
        self.note(|it| {
            it.audio_ms += milliseconds;
            it.voice_ms += if voice { milliseconds } else { 0 };
        });
        if voice {
            self.voice_ms += milliseconds;
            self.silence_ms = 0;
            if self.voice_ms >= TURN_MS && self.rules.detects && !self.is_speaking {
                return self.speech_started();
            }
            return Ok(());
        }
        self.silence_ms += milliseconds;
        if self.silence_ms >= SILENCE_MS && self.rules.detects && self.is_speaking {
            return self.speech_stopped();
        }
        Ok(())
    }

    fn speech_started(&mut self) -> Result<(), End> {
        self.is_speaking = true;
        self.turns += 1;
        let item_id = format!("caller-{}", self.turns);
        self.send(&json!({"type": "input_audio_buffer.speech_started", "audio_start_ms": 0, "item_id": item_id}))?;
        match self.rules.interrupts {
            true => self.end(
                "cancelled",
                &json!({"type": "cancelled", "reason": "turn_detected"}),
            ),
            false => Ok(()),
        }
    }

    fn speech_stopped(&mut self) -> Result<(), End> {
        self.is_speaking = false;
        let item_id = format!("caller-{}", self.turns);
        self.send(&json!({"type": "input_audio_buffer.speech_stopped", "audio_end_ms": 0, "item_id": item_id}))?;
        self.committed()?;
        if self.rules.active.is_none() {
            self.respond(&Value::Null)?;
        }
        Ok(())
    }

    /// The caller's turn becomes an item; its transcript comes after the answer has begun.
    fn committed(&mut self) -> Result<(), End> {
        let item_id = format!("caller-{}", self.turns);
        let voice_ms = std::mem::take(&mut self.voice_ms);
        self.said = format!("I heard {voice_ms} ms of voice.");
        self.rules.items.insert(item_id.clone());
        self.send(&json!({"type": "input_audio_buffer.committed", "item_id": item_id, "previous_item_id": null}))
    }

    fn transcribed(&mut self, said: &str) -> Result<(), End> {
        let Some(heard) = said.strip_prefix("I ") else {
            return Ok(());
        };
        let item_id = format!("caller-{}", self.turns);
        self.send(&json!({"type": "conversation.item.input_audio_transcription.completed", "item_id": item_id,
            "content_index": 0, "transcript": heard.trim_end_matches('.'), "usage": {"type": "duration", "seconds": 1.0}}))
    }

    /// Answers what was said since the last response.
    fn respond(&mut self, wanted: &Value) -> Result<(), End> {
        let said = std::mem::take(&mut self.said);
        let told = self.shared.lock().unwrap().answers.pop_front();
        let is_written = wanted["output_modalities"][0] == "text";
        let answer = match told {
            Some(RealtimeReaction::Say { text, .. }) if is_written => RealtimeReaction::Write(text),
            Some(told) => told,
            None => RealtimeReaction::Say {
                text: said.clone(),
                milliseconds: 400,
            },
        };
        self.react(answer, &said)
    }

    fn script(&mut self) -> ResponseScript {
        self.made += 1;
        ResponseScript {
            response_id: format!("response-{}-{}", self.number, self.made),
            item_id: format!("agent-{}-{}", self.number, self.made),
            beta: self.begin == RealtimeBegin::BetaNames,
        }
    }

    fn begin(&mut self) -> Result<ResponseScript, End> {
        let script = self.script();
        self.rules.active = Some(script.response_id.clone());
        self.rules.items.insert(script.item_id.clone());
        self.send_all(script.begin())?;
        self.last = Some((script.clone(), 0));
        Ok(script)
    }

    fn speak(&mut self, milliseconds: u64) -> Result<(), End> {
        let Some((script, spoken)) = &mut self.last else {
            return Ok(());
        };
        *spoken += milliseconds;
        let recording = self.shared.lock().unwrap().recording.clone();
        let events = script.audio(recording.as_deref(), milliseconds);
        let (id, spoken) = (script.item_id.clone(), *spoken);
        self.rules.spoken.insert(id, spoken);
        self.send_all(events)
    }

    fn react(&mut self, reaction: RealtimeReaction, said: &str) -> Result<(), End> {
        match reaction {
            RealtimeReaction::Nothing => return self.transcribed(said),
            RealtimeReaction::Say { text, milliseconds } => {
                let script = self.begin()?;
                self.speak(milliseconds)?;
                self.transcribed(said)?;
                self.send_all(script.transcript(&text))?;
            }
            RealtimeReaction::WordsFirst { text, milliseconds } => {
                let script = self.begin()?;
                self.send_all(script.transcript(&text))?;
                self.speak(milliseconds)?;
                self.transcribed(said)?;
            }
            RealtimeReaction::HangUp { text, milliseconds } => {
                let script = self.begin()?;
                self.speak(milliseconds)?;
                self.transcribed(said)?;
                self.send_all(script.transcript(&text))?;
                let id = format!("call-{}", script.response_id);
                self.rules.pending.insert(id.clone());
                self.send_all(script.call(&id, "end_call", &json!({})))?;
            }
            RealtimeReaction::Stall { text, milliseconds } => {
                let script = self.begin()?;
                self.speak(milliseconds)?;
                self.transcribed(said)?;
                return self.send_all(script.transcript(&text));
            }
            RealtimeReaction::Empty => {
                self.begin()?;
                self.transcribed(said)?;
            }
            RealtimeReaction::Write(text) => {
                let script = self.begin()?;
                self.send_all(script.text(&text))?;
            }
            RealtimeReaction::Fail(code) => {
                self.begin()?;
                let details =
                    json!({"type": "failed", "error": {"type": "server_error", "code": code}});
                return self.end("failed", &details);
            }
            RealtimeReaction::Call(calls) => {
                let script = self.begin()?;
                for (at, (name, arguments)) in calls.iter().enumerate() {
                    let id = format!("call-{}-{at}", script.response_id);
                    self.rules.pending.insert(id.clone());
                    self.send_all(script.call(&id, name, arguments))?;
                }
            }
        }
        self.end("completed", &Value::Null)
    }

    /// Ends the running response, if there is one.
    fn end(&mut self, status: &str, details: &Value) -> Result<(), End> {
        if self.rules.active.take().is_none() {
            return Ok(());
        }
        match &self.last {
            Some((script, spoken)) => self.send(&script.done(status, details, *spoken, &[])),
            None => Ok(()),
        }
    }

    fn act(&mut self, act: RealtimeAct) -> Result<(), End> {
        match act {
            RealtimeAct::Begin { milliseconds } => {
                self.begin()?;
                self.speak(milliseconds)
            }
            RealtimeAct::Late { milliseconds } => self.speak(milliseconds),
            RealtimeAct::End => self.end("completed", &Value::Null),
            RealtimeAct::Answer(reaction) => self.react(reaction, ""),
            RealtimeAct::SpeechStarted => self.speech_started(),
            RealtimeAct::SpeechStopped => self.speech_stopped(),
            RealtimeAct::Error { code } => self.error(code, "as told", &Value::Null),
            RealtimeAct::Close { code, reason } => Err(End::Close(code, reason.to_owned())),
            RealtimeAct::Cut => Err(End::Gone),
            RealtimeAct::Text(text) => self.output.send(Message::text(text)),
            RealtimeAct::Event(event) => self.send(&event),
        }
    }
}
