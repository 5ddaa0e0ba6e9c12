//! One connection of the simulated model.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::mpsc, time::sleep};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{ErrorResponse, Request, Response},
    },
};

use super::{
    Act, Begin, KEY, ModelConnection, ModelReaction, Shared,
    rules::{ModelInput, ProtocolRules},
    speech::{fragments, silent, spoken},
};
use crate::model_socket::{End, ModelOutput, ModelSocket, until};

/// Voice that starts a turn, silence that ends it, and voice that interrupts the model.
const TURN_MS: u64 = 200;
const SILENCE_MS: u64 = 300;
const INTERRUPTS_MS: u64 = 100;
/// Voice without a pause that some models take for a whole turn (js-genai#1467).
const SPLITS_MS: u64 = 2_000;
/// Length of one piece of outgoing audio.
const PIECE_MS: u64 = 100;

#[derive(Debug)]
pub(super) struct ModelSession {
    output: ModelOutput,
    number: usize,
    shared: Shared,
    rules: ProtocolRules,
    handles: bool,
    voice_ms: u64,
    silence_ms: u64,
    /// The time since the beginning of the connection.
    pub(super) now: Duration,
    /// The caller hears the model until this time.
    speaking_until: Duration,
    calls: u64,
    script: VecDeque<ModelReaction>,
    closes: Option<Instant>,
}

pub(super) async fn serve(
    stream: TcpStream,
    number: usize,
    begin: Begin,
    mut acts: mpsc::UnboundedReceiver<Act>,
    shared: Shared,
) {
    stream.set_nodelay(true).unwrap();
    let mut key = String::new();
    #[expect(clippy::result_large_err, reason = "the library wants it so")]
    let look = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
        key = request.uri().query().unwrap_or_default().to_owned();
        match begin {
            Begin::Status(status) => {
                let mut refusal = ErrorResponse::new(None);
                *refusal.status_mut() = status.try_into().unwrap();
                Err(refusal)
            }
            _ => Ok(response),
        }
    };
    if let Ok(socket) = accept_hdr_async(stream, look).await {
        let unsent = shared.lock().unwrap().connections[number].unsent.clone();
        let mut wire = ModelSocket::new(socket, unsent);
        let wanted = match shared.lock().unwrap().takes_no_key {
            true => String::new(),
            false => format!("key={KEY}"),
        };
        let taken = match key == wanted {
            true => set_up(&mut wire, number, &begin, &shared).await,
            false => Err(End::Close(
                1007,
                "API key not valid. Please pass a valid API key.".to_owned(),
            )),
        };
        let (wire, end) = match taken {
            Err(end) => (wire, end),
            Ok(rules) => {
                let output = wire.output();
                let mut live = ModelSession::new(output, number, shared.clone(), rules);
                live.handles = begin != Begin::WithoutHandles;
                let end = live.run(&mut wire, &mut acts).await;
                (wire, end)
            }
        };
        finish(wire, number, end, &shared).await;
    }
    over(number, &shared);
}

/// The connection is closed, and its session may be resumed.
pub(super) fn over(number: usize, shared: &Shared) {
    let mut state = shared.lock().unwrap();
    state.connections[number].over = Some(Instant::now());
    state.taken.retain(|_, by| *by != number);
}

/// Ends the connection in the given way.
async fn finish(wire: ModelSocket, number: usize, end: End, shared: &Shared) {
    match end {
        End::Gone => wire.leave().await,
        End::Close(code, reason) => wire.close(code, reason).await,
        End::Broken((code, reason)) => {
            shared.lock().unwrap().connections[number].broken = Some(reason.clone());
            wire.close(code, reason).await;
        }
    }
}

/// Checks the setup against the rules and accepts it.
async fn set_up(
    wire: &mut ModelSocket,
    number: usize,
    begin: &Begin,
    shared: &Shared,
) -> Result<ProtocolRules, End> {
    let message = wire.next().await?;
    let rules = check_setup(&message, number, shared)?;
    match begin {
        Begin::Close(code, reason) => return Err(End::Close(*code, (*reason).to_owned())),
        Begin::Slowly(time) => {
            // No message may come before `setupComplete` (the service's protocol description).
            tokio::select! {
                () = sleep(*time) => {}
                early = wire.next() => {
                    early?;
                    return Err(End::Broken((1007, "a message before setupComplete".to_owned())));
                }
            }
        }
        Begin::Silence => {
            while wire.next().await.is_ok() {}
            return Err(End::Gone);
        }
        Begin::Normally | Begin::Status(_) | Begin::WithoutHandles => {}
    }
    begin_session(&message, number, shared, rules, &wire.output())
}

/// The rules of a session with this setup.
pub(super) fn check_setup(
    message: &Value,
    number: usize,
    shared: &Shared,
) -> Result<ProtocolRules, End> {
    shared.lock().unwrap().connections[number].setup = message["setup"].clone();
    ProtocolRules::set_up(message).map_err(End::Broken)
}

/// Begins or resumes the session of a setup, and says so.
pub(super) fn begin_session(
    message: &Value,
    number: usize,
    shared: &Shared,
    mut rules: ProtocolRules,
    output: &ModelOutput,
) -> Result<ProtocolRules, End> {
    {
        let mut state = shared.lock().unwrap();
        match message["setup"]["sessionResumption"]["handle"].as_str() {
            Some(handle) => match state.handles.get(handle).cloned() {
                None => return Err(End::Close(1007, "Session not found".to_owned())),
                // aicc2025/sip-to-ai#14, September 2026.
                Some(memory) if state.taken.contains_key(&memory.session) => {
                    let reason = "a socket of this session is still open".to_owned();
                    return Err(End::Broken((1011, reason)));
                }
                Some(memory) => rules.memory = memory,
            },
            None => {
                state.sessions += 1;
                rules.memory.session = state.sessions;
            }
        }
        state.taken.insert(rules.memory.session, number);
        state.connections[number].set_up = Some(Instant::now());
    }
    // Like the real service: JSON in a binary frame.
    let complete = json!({"setupComplete": {}}).to_string();
    output.send(Message::binary(complete.into_bytes()))?;
    Ok(rules)
}

impl ModelSession {
    pub(super) fn new(
        output: ModelOutput,
        number: usize,
        shared: Shared,
        rules: ProtocolRules,
    ) -> Self {
        let script = shared.lock().unwrap().script.clone().into();
        Self {
            output,
            number,
            shared,
            rules,
            handles: true,
            voice_ms: 0,
            silence_ms: 0,
            now: Duration::ZERO,
            speaking_until: Duration::ZERO,
            calls: 0,
            script,
            closes: None,
        }
    }

    async fn run(
        &mut self,
        wire: &mut ModelSocket,
        acts: &mut mpsc::UnboundedReceiver<Act>,
    ) -> End {
        if let Err(end) = self.give_handle() {
            return end;
        }
        let began = Instant::now();
        loop {
            let closes = self.closes;
            let done = tokio::select! {
                Some(act) = acts.recv() => {
                    self.now = began.elapsed();
                    self.act(act)
                }
                message = wire.next() => match message {
                    Ok(message) => {
                        self.now = began.elapsed();
                        self.take(message)
                    }
                    Err(end) => Err(end),
                },
                () = until(closes) => Err(End::Close(1011, "Deadline expired before operation could complete.".to_owned())),
            };
            if let Err(end) = done {
                return end;
            }
        }
    }

    fn note(&self, change: impl FnOnce(&mut ModelConnection)) {
        change(&mut self.shared.lock().unwrap().connections[self.number]);
    }

    fn send(&self, message: &Value) -> Result<(), End> {
        let bytes = message.to_string().into_bytes();
        self.output.send(Message::binary(bytes))
    }

    /// Sends a resumption handle for the current state.
    pub(super) fn give_handle(&mut self) -> Result<(), End> {
        if !self.handles {
            return Ok(());
        }
        let handle = {
            let mut state = self.shared.lock().unwrap();
            state.given += 1;
            let handle = format!("handle-{}", state.given);
            state
                .handles
                .insert(handle.clone(), self.rules.memory.clone());
            handle
        };
        let update = json!({"sessionResumptionUpdate": {"newHandle": handle, "resumable": true}});
        self.send(&update)
    }

    pub(super) fn take(&mut self, message: Value) -> Result<(), End> {
        let came = self.rules.take(&message).map_err(End::Broken)?;
        if !matches!(came, ModelInput::Audio { .. }) {
            self.note(|it| it.messages.push(message));
        }
        match came {
            ModelInput::Quiet => Ok(()),
            ModelInput::Audio {
                milliseconds,
                voice,
            } => self.hear(milliseconds, voice),
            ModelInput::Text(text) => {
                let said = text.rsplit(": ").next().unwrap_or_default();
                let said = said.trim_end_matches(']').to_owned();
                self.answer(said)
            }
            ModelInput::Answers(answers) => {
                self.give_handle()?;
                for (name, response, spoken) in answers {
                    if spoken {
                        self.answer(format!("{name} gave {response}"))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// Silence ends the caller's turn; voice interrupts the model.
    fn hear(&mut self, milliseconds: u64, voice: bool) -> Result<(), End> {
        let voice = voice && !self.shared.lock().unwrap().is_deaf;
        self.note(|it| {
            it.audio_ms += milliseconds;
            it.voice_ms += if voice { milliseconds } else { 0 };
            it.longest_ms = it.longest_ms.max(milliseconds);
            it.shortest_ms = match it.shortest_ms {
                0 => milliseconds,
                shortest => shortest.min(milliseconds),
            };
        });
        if voice {
            self.voice_ms += milliseconds;
            self.silence_ms = 0;
            if self.voice_ms >= INTERRUPTS_MS && self.now < self.speaking_until {
                self.interrupt()?;
            }
            let splits = self.shared.lock().unwrap().splits_turns;
            return match splits && self.voice_ms >= SPLITS_MS {
                true => self.caller_turn(),
                false => Ok(()),
            };
        }
        self.silence_ms += milliseconds;
        if self.silence_ms < SILENCE_MS || self.voice_ms == 0 {
            return Ok(());
        }
        self.caller_turn()
    }

    fn caller_turn(&mut self) -> Result<(), End> {
        let voice_ms = std::mem::take(&mut self.voice_ms);
        if voice_ms < TURN_MS {
            return Ok(());
        }
        let heard = format!("heard {voice_ms} ms of voice");
        let transcription = json!({"text": heard, "finished": true});
        self.send(&json!({"serverContent": {"inputTranscription": transcription}}))?;
        self.answer(format!("I {heard}."))
    }

    fn interrupt(&mut self) -> Result<(), End> {
        self.speaking_until = self.now;
        self.send(&json!({"serverContent": {"interrupted": true}}))?;
        self.turn_complete()
    }

    fn turn_complete(&mut self) -> Result<(), End> {
        self.send(&json!({"serverContent": {"turnComplete": true}}))
    }

    fn answer(&mut self, otherwise: String) -> Result<(), End> {
        let told = self.shared.lock().unwrap().answers.pop_front();
        match told.or_else(|| self.script.pop_front()) {
            None => self.say(&otherwise, 400),
            Some(ModelReaction::Say { text, milliseconds }) => self.say(&text, milliseconds),
            Some(ModelReaction::Call { name, arguments }) => self.call(None, &name, &arguments),
            Some(ModelReaction::Nothing) => Ok(()),
            Some(ModelReaction::Empty) => self.turn_complete(),
            Some(ModelReaction::Write(text)) => {
                self.words(&text)?;
                self.turn_complete()
            }
            Some(ModelReaction::Hush { text, milliseconds }) => {
                self.output.send(Message::binary(silent(milliseconds)))?;
                self.words(&text)?;
                self.turn_complete()
            }
            Some(ModelReaction::Stall { text, milliseconds }) => {
                self.begin(milliseconds, PIECE_MS)?;
                self.words(&text)
            }
            Some(ModelReaction::EndEarly {
                halves: [first, second],
                milliseconds,
            }) => {
                self.begin(milliseconds / 2, PIECE_MS)?;
                self.words(&first)?;
                self.turn_complete()?;
                self.say(&second, milliseconds / 2)
            }
            Some(ModelReaction::HangUp { text, milliseconds }) => {
                self.begin(milliseconds, PIECE_MS)?;
                self.words(&text)?;
                self.call(None, "end_call", &json!({}))?;
                self.over(milliseconds)
            }
        }
    }

    /// Sends audio faster than it is spoken, like the real service.
    fn begin(&mut self, milliseconds: u64, piece_ms: u64) -> Result<(), End> {
        let update = json!({"sessionResumptionUpdate": {"newHandle": "", "resumable": false}});
        if self.handles {
            self.send(&update)?;
        }
        self.speaking_until = self.now + Duration::from_millis(milliseconds);
        let recording = self.shared.lock().unwrap().recording.clone();
        let mut pieces = spoken(recording.as_deref(), milliseconds, piece_ms).into_iter();
        pieces.try_for_each(|piece| self.output.send(Message::binary(piece)))
    }

    fn say(&mut self, text: &str, milliseconds: u64) -> Result<(), End> {
        self.begin(milliseconds, PIECE_MS)?;
        self.words(text)?;
        self.over(milliseconds)
    }

    fn words(&self, text: &str) -> Result<(), End> {
        for piece in text.split_inclusive(' ') {
            let piece = json!({"text": piece});
            self.send(&json!({"serverContent": {"outputTranscription": piece}}))?;
        }
        Ok(())
    }

    /// Ends a turn with this much speech.
    fn over(&mut self, milliseconds: u64) -> Result<(), End> {
        self.send(&json!({"serverContent": {"generationComplete": true}}))?;
        // The real service counts 25 tokens per second of audio, and bills the whole context with every turn.
        let audio = milliseconds / 40;
        let usage = json!({"promptTokenCount": 120, "responseTokenCount": audio, "totalTokenCount": 120 + audio,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}, {"modality": "AUDIO", "tokenCount": 20}],
            "responseTokensDetails": [{"modality": "AUDIO", "tokenCount": audio}]});
        self.send(&json!({"serverContent": {"turnComplete": true}, "usageMetadata": usage}))?;
        self.give_handle()
    }

    fn call(&mut self, id: Option<String>, name: &str, arguments: &Value) -> Result<(), End> {
        self.calls += 1;
        let id = id.unwrap_or_else(|| format!("call-{}-{}", self.number, self.calls));
        self.rules.called(&id, name);
        let call = json!({"id": id, "name": name, "args": arguments});
        if self.handles {
            let update = json!({"sessionResumptionUpdate": {"resumable": false}});
            self.send(&update)?;
        }
        self.send(&json!({"toolCall": {"functionCalls": [call]}}))
    }

    fn act(&mut self, act: Act) -> Result<(), End> {
        match act {
            Act::Say { text, milliseconds } => self.say(&text, milliseconds),
            Act::Begin { milliseconds } => self.begin(milliseconds, PIECE_MS),
            Act::BeginIn {
                milliseconds,
                piece_ms,
            } => self.begin(milliseconds, piece_ms),
            Act::Call {
                id,
                name,
                arguments,
            } => self.call(id, &name, &arguments),
            Act::Cancel { id } => {
                self.rules.memory.pending.remove(&id);
                self.send(&json!({"toolCallCancellation": {"ids": [id]}}))
            }
            Act::Interrupted => self.interrupt(),
            Act::GoAway { time_left } => {
                self.closes = Some(Instant::now() + time_left);
                let left = format!("{}.{:03}s", time_left.as_secs(), time_left.subsec_millis());
                self.send(&json!({"goAway": {"timeLeft": left}}))
            }
            Act::Unresumable => {
                let update = json!({"newHandle": "", "resumable": false});
                self.send(&json!({"sessionResumptionUpdate": update}))
            }
            Act::Forget => {
                self.shared.lock().unwrap().handles.clear();
                Ok(())
            }
            Act::Close { code, reason } => Err(End::Close(code, reason.to_owned())),
            Act::Cut => Err(End::Gone),
            Act::Text(text) => self.output.send(Message::text(text)),
            Act::Binary(bytes) => self.output.send(Message::binary(bytes)),
            Act::Fragments { message, bytes } => {
                let mut frames = fragments(&message, bytes).into_iter();
                frames.try_for_each(|frame| self.output.send(frame))
            }
            Act::Message(message) => self.send(&message),
        }
    }
}
