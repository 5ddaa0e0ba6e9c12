//! A call with a simulated model, for tests of sessions over real sockets.

use std::time::Duration;

use dikala_protocol::CallAgent;
use dikala_testkit::PATIENCE;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    trust::Trust,
    voice::{Provider, ToolOutcome, VoiceEvent, VoiceInput, VoiceSession, VoiceSetup},
};

pub(in crate::voice) fn agent() -> CallAgent {
    serde_json::from_value(json!({"id": "agent_1", "name": "Ayu", "systemPrompt": "You answer for Kopi Senja.", "voiceId": "Kore",
        "greetingText": "Kopi Senja, selamat pagi!", "language": "id", "maxCallDurationMinutes": 10,
        "escalationNumber": "+622150009999", "tools": ["end_call", "transfer_to_human"],
        "functions": [{"name": "check_order", "description": "Looks an order up.", "parameters":
            {"type": "object", "properties": {"orderId": {"type": "string"}}, "required": ["orderId"]}}]}))
    .unwrap()
}

/// The public authorities alone.
pub(in crate::voice) fn publicly() -> Trust {
    Trust::new(None).unwrap()
}

/// A call with the fake, and what it has heard so far.
pub(in crate::voice) struct Call {
    pub session: VoiceSession,
    pub heard: Vec<VoiceEvent>,
}

impl Call {
    pub(in crate::voice) fn with(provider: &dyn Provider) -> Self {
        let setup = VoiceSetup {
            call_id: "call_test".to_owned(),
            agent: agent(),
            circumstances: String::new(),
            so_far: Vec::new(),
            is_answer_cut: false,
        };
        let session = provider.open(setup);
        let greets = session.spoken.try_send(VoiceInput::Greet);
        greets.expect("there is room");
        Self {
            session,
            heard: Vec::new(),
        }
    }

    pub(in crate::voice) async fn until_turn_over(&mut self, what: &str) -> Vec<VoiceEvent> {
        self.until(what, |it| *it == VoiceEvent::TurnOver).await
    }

    /// Listens until a message matches, and returns the messages since the last call.
    pub(in crate::voice) async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&VoiceEvent) -> bool,
    ) -> Vec<VoiceEvent> {
        let listening = async {
            let mut since = Vec::new();
            loop {
                let Some(heard) = self.session.heard.recv().await else {
                    panic!("the session ended after {:?}", shown(&self.heard));
                };
                self.heard.push(heard.clone());
                since.push(heard.clone());
                if wanted(&heard) {
                    return since;
                }
            }
        };
        match timeout(PATIENCE, listening).await {
            Ok(since) => since,
            Err(_) => panic!("no {what}; there was {:?}", shown(&self.heard)),
        }
    }

    /// The next turn with words. A caller who speaks into the greeting ends it, and its turn has none.
    pub(in crate::voice) async fn answer(&mut self) -> String {
        loop {
            let since = self
                .until("an answer", |it| *it == VoiceEvent::TurnOver)
                .await;
            let words = said(&since);
            if !words.is_empty() {
                return words;
            }
        }
    }

    pub(in crate::voice) async fn say(&self, spoken: VoiceInput) {
        self.session.spoken.send(spoken).await.unwrap();
    }

    /// Sends this much audio of constant level, as fast as it is accepted.
    pub(in crate::voice) async fn audio(&self, milliseconds: u64, sample: i16) {
        for _ in 0..milliseconds / 20 {
            self.say(VoiceInput::Audio(vec![sample; 320])).await;
        }
    }

    /// Speaks, with the silence that ends a turn.
    pub(in crate::voice) async fn speak(&self, milliseconds: u64) {
        self.audio(milliseconds, 3_000).await;
        self.audio(300, 0).await;
    }

    pub(in crate::voice) async fn outcome(&self, id: &str, output: Value) {
        let outcome = ToolOutcome::success(output);
        let id = id.to_owned();
        self.say(VoiceInput::ToolOutcome { id, outcome }).await;
    }

    /// The id of the next tool call.
    pub(in crate::voice) async fn wish(&mut self) -> String {
        let since = self
            .until("a wish", |it| matches!(it, VoiceEvent::Tool { .. }))
            .await;
        match since.last() {
            Some(VoiceEvent::Tool { id, .. }) => id.clone(),
            other => panic!("{other:?}"),
        }
    }
}

/// Messages without their samples.
pub(in crate::voice) fn shown(heard: &[VoiceEvent]) -> Vec<String> {
    let show = |one: &VoiceEvent| match one {
        VoiceEvent::Audio(samples) => format!("Audio({})", samples.len()),
        other => format!("{other:?}"),
    };
    heard.iter().map(show).collect()
}

pub(in crate::voice) fn said(heard: &[VoiceEvent]) -> String {
    let piece = |one: &VoiceEvent| match one {
        VoiceEvent::AgentSaid(piece) => Some(piece.clone()),
        _ => None,
    };
    heard.iter().filter_map(piece).collect()
}

pub(in crate::voice) fn milliseconds(heard: &[VoiceEvent]) -> usize {
    let of = |one: &VoiceEvent| match one {
        VoiceEvent::Audio(samples) => samples.len() / 24,
        _ => 0,
    };
    heard.iter().map(of).sum()
}

pub(in crate::voice) fn order(number: &str) -> Value {
    json!({"orderId": number})
}

pub(in crate::voice) const NEVER: Duration = Duration::from_millis(300);
