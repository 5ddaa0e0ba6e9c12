//! The decisions of the machine, in simulated time.

mod answers;
mod faults;
mod turns;

use std::time::Duration;

use dikala_entities::Speaker;
use dikala_sip::leg::VOICE_HANG_OVER_MS;
use serde_json::{Value, json};

use super::{ChatDelta, PipelineMachine, PipelineReply, PipelineRequest};
use crate::voice::{
    ToolOutcome, Usage, VoiceEvent, VoiceInput,
    common::{CloseReason, SessionEffect, SessionInput, VoiceMachine, tests::agent},
    pipeline::wire::CallDelta,
};

/// After the end of a voice was noticed, the turn is over after this time.
const PAUSE_MS: u64 = 500 - VOICE_HANG_OVER_MS;

/// A machine with its clock, a call that takes everything at once, and the requests that are open.
struct Story {
    machine: PipelineMachine,
    now: Duration,
    told: Vec<VoiceEvent>,
    /// The usage that was told.
    billed: Vec<Usage>,
    open: Vec<(u32, PipelineRequest)>,
    /// All requests so far.
    made: Vec<PipelineRequest>,
    /// The call takes nothing.
    is_blocked: bool,
}

impl Story {
    fn with(is_interruptible: bool, so_far: &[(Speaker, String)]) -> Self {
        let mut story = Self {
            machine: PipelineMachine::new(agent(), "It is noon.", is_interruptible, so_far, false),
            now: Duration::ZERO,
            told: Vec::new(),
            billed: Vec::new(),
            open: Vec::new(),
            made: Vec::new(),
            is_blocked: false,
        };
        story.give(SessionInput::Time);
        story
    }

    /// A machine that has greeted; the caller has heard it.
    fn greeted() -> Self {
        Self::greeted_with(true)
    }

    fn greeted_with(is_interruptible: bool) -> Self {
        let mut story = Self::with(is_interruptible, &[]);
        story.say(VoiceInput::Greet);
        story.speaks(1_000);
        story.pass(2_000);
        story.told.clear();
        story.made.clear();
        story
    }

    fn give(&mut self, input: SessionInput<PipelineReply>) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            for effect in self.machine.step(input, self.now) {
                match effect {
                    SessionEffect::Tell(told) => {
                        match told {
                            VoiceEvent::Usage(usage) => self.billed.push(usage),
                            told => self.told.push(told),
                        }
                        if !self.is_blocked {
                            inputs = vec![SessionInput::Drained];
                        }
                    }
                    SessionEffect::Send {
                        connection,
                        message,
                    } => {
                        self.made.push(message.clone());
                        self.open.push((connection, message));
                    }
                    SessionEffect::Close { connection } => {
                        self.open.retain(|it| it.0 != connection);
                    }
                    SessionEffect::Open { .. } | SessionEffect::Warn(_) => {}
                }
            }
        }
    }

    fn say(&mut self, spoken: VoiceInput) {
        self.give(SessionInput::Spoken(spoken));
    }

    /// Lets time pass, with every deadline in it.
    fn pass(&mut self, milliseconds: u64) {
        let until = self.now + Duration::from_millis(milliseconds);
        while let Some(due) = self.machine.due().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.give(SessionInput::Time);
        }
        self.now = until;
        self.give(SessionInput::Time);
    }

    fn activity(&mut self, speaks: bool) {
        self.say(VoiceInput::Activity { speaks });
    }

    fn audio(&mut self, milliseconds: usize) {
        for _ in 0..milliseconds / 20 {
            self.say(VoiceInput::Audio(vec![1_000; 320]));
            self.pass(20);
        }
    }

    /// Speaks for this long. The end is noticed after the silence of a hang-over, of which this is the moment.
    fn caller_speaks(&mut self, milliseconds: usize) {
        self.activity(true);
        self.audio(milliseconds + VOICE_HANG_OVER_MS as usize);
        self.activity(false);
    }

    /// A whole sentence of the caller, and the request for its answer.
    fn caller_says(&mut self, words: &str) {
        self.caller_speaks(1_000);
        self.pass(PAUSE_MS);
        self.writes_down(words);
    }

    fn first(&self, wanted: fn(&PipelineRequest) -> bool) -> u32 {
        let found = self.open.iter().find(|(_, request)| wanted(request));
        found
            .unwrap_or_else(|| panic!("{:?} are open", self.open))
            .0
    }

    fn reply(&mut self, connection: u32, reply: PipelineReply) {
        let message = Box::new(reply);
        self.give(SessionInput::Message {
            connection,
            message,
        });
    }

    fn writes_down(&mut self, text: &str) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Transcribe(_)));
        self.reply(connection, PipelineReply::Transcript(text.to_owned()));
        self.reply(connection, PipelineReply::Done);
    }

    fn delta(&mut self, delta: ChatDelta) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Chat { .. }));
        self.reply(connection, PipelineReply::Chat(delta));
    }

    fn writes(&mut self, content: &str) {
        let content = content.to_owned();
        self.delta(ChatDelta {
            content,
            ..ChatDelta::default()
        });
    }

    fn ends(&mut self) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Chat { .. }));
        let is_last = true;
        self.delta(ChatDelta {
            is_last,
            ..ChatDelta::default()
        });
        self.reply(connection, PipelineReply::Done);
    }

    fn answers(&mut self, content: &str) {
        self.writes(content);
        self.ends();
    }

    fn calls(&mut self, calls: &[(&str, &str)]) {
        for (index, (name, arguments)) in (0_u32..).zip(calls) {
            let mut call = CallDelta {
                index,
                ..CallDelta::default()
            };
            call.function.name = (*name).to_owned();
            call.function.arguments = (*arguments).to_owned();
            self.delta(ChatDelta {
                calls: vec![call],
                ..ChatDelta::default()
            });
        }
        self.ends();
    }

    /// The first clause that is being made has this sound.
    fn sounds(&mut self, milliseconds: usize) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Speak { .. }));
        self.reply(
            connection,
            PipelineReply::Audio(vec![500; milliseconds * 24]),
        );
    }

    /// The first clause that is being made is complete with this sound.
    fn speaks(&mut self, milliseconds: usize) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Speak { .. }));
        self.sounds(milliseconds);
        self.reply(connection, PipelineReply::Done);
    }

    fn outcome(&mut self, id: &str) {
        let outcome = ToolOutcome::success(json!({"minutes": 20}));
        let id = id.to_owned();
        self.say(VoiceInput::ToolOutcome { id, outcome });
    }

    /// The request that is open has failed.
    fn fails(&mut self, why: CloseReason) {
        let connection = self.open.remove(0).0;
        self.give(SessionInput::Closed { connection, why });
    }

    /// The connection of the first clause that is being made breaks.
    fn clause_fails(&mut self) {
        let connection = self.first(|it| matches!(it, PipelineRequest::Speak { .. }));
        self.open.retain(|it| it.0 != connection);
        let why = CloseReason::gone("the connection broke");
        self.give(SessionInput::Closed { connection, why });
    }

    /// Requests to the language model so far.
    fn asked_times(&self) -> usize {
        let is_chat = |it: &&PipelineRequest| matches!(it, PipelineRequest::Chat { .. });
        self.made.iter().filter(is_chat).count()
    }

    fn is_open(&self, wanted: fn(&PipelineRequest) -> bool) -> bool {
        self.open.iter().any(|(_, request)| wanted(request))
    }

    fn is_thinking(&self) -> bool {
        self.is_open(|it| matches!(it, PipelineRequest::Chat { .. }))
    }

    fn is_hearing(&self) -> bool {
        self.is_open(|it| matches!(it, PipelineRequest::Transcribe(_)))
    }

    /// The clauses that are being made.
    fn clauses(&self) -> Vec<&str> {
        fn text((_, request): &(u32, PipelineRequest)) -> Option<&str> {
            match request {
                PipelineRequest::Speak { text } => Some(text),
                _ => None,
            }
        }
        self.open.iter().filter_map(text).collect()
    }

    /// The messages of the last request to the language model, as `role: content`.
    fn messages(&self) -> Vec<String> {
        let show = |message: &Value| {
            let text = |field: &str| message[field].as_str().unwrap_or_default().to_owned();
            format!("{}: {}", text("role"), text("content"))
        };
        let mut made = self.made.iter().rev();
        let last = made.find_map(|request| match request {
            PipelineRequest::Chat { messages, .. } => Some(messages),
            _ => None,
        });
        last.expect("the model was asked")
            .iter()
            .map(show)
            .collect()
    }

    /// The last message of the last request to the model.
    fn asked(&self) -> String {
        self.messages().pop().unwrap_or_default()
    }

    fn said(&self) -> String {
        crate::voice::common::tests::said(&self.told)
    }

    fn milliseconds(&self) -> usize {
        crate::voice::common::tests::milliseconds(&self.told)
    }

    fn tools(&self) -> Vec<(&str, &str)> {
        fn tool(told: &VoiceEvent) -> Option<(&str, &str)> {
            match told {
                VoiceEvent::Tool { id, name, .. } => Some((id.as_str(), name.as_str())),
                _ => None,
            }
        }
        self.told.iter().filter_map(tool).collect()
    }

    fn lost(&self) -> Option<&str> {
        match self.told.last() {
            Some(VoiceEvent::Lost(words)) => Some(words),
            _ => None,
        }
    }

    fn count(&self, wanted: &VoiceEvent) -> usize {
        self.told.iter().filter(|told| *told == wanted).count()
    }
}
