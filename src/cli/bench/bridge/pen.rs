//! Writes the messages of a call.

use std::rc::Rc;

use dikala_entities::{CallerNumber, HangupInitiator, HangupReason, Millis, PhoneNumber, Speaker};
use dikala_protocol::{
    BridgeMessage, CallMessage, CallReport, IncomingCall, MessageContent, SpokenTurn, VoiceReport,
};
use serde_json::{Map, json};
use tokio_tungstenite::tungstenite::Message as Frame;

/// The messages of a call, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LifecycleStep {
    Ring,
    Answer,
    Transcript,
    HangUp,
}

impl LifecycleStep {
    /// The next step; `None` after the hang-up.
    pub fn next(self) -> Option<Self> {
        match self {
            Self::Ring => Some(Self::Answer),
            Self::Answer => Some(Self::Transcript),
            Self::Transcript => Some(Self::HangUp),
            Self::HangUp => None,
        }
    }

    /// The webhook event that this step causes.
    pub fn event(self) -> &'static str {
        match self {
            Self::Ring => "call.started",
            Self::Answer => "call.answered",
            Self::Transcript => "call.transcript",
            Self::HangUp => "call.ended",
        }
    }
}

/// Writes the messages of one socket.
#[derive(Debug)]
pub struct MessageWriter {
    dids: Rc<[PhoneNumber]>,
    caller: CallerNumber,
    /// Prefix of this bridge's call ids; it makes them unique across runs.
    prefix: String,
    placed: usize,
}

impl MessageWriter {
    /// Calls the numbers in turn, beginning with the one at `first`.
    pub fn new(dids: Rc<[PhoneNumber]>, first: usize) -> Self {
        Self {
            dids,
            caller: "+6281234567890".parse().expect("a number"),
            prefix: format!("{:08x}", rand::random::<u32>()),
            placed: first,
        }
    }

    /// Appends a message. A ring needs no `call`. `at` is the time of the event; if it is `None`, the current time
    /// is sent.
    pub fn write(
        &mut self,
        out: &mut Vec<Frame>,
        id: u64,
        step: LifecycleStep,
        call: &[u8],
        at: Option<Millis>,
    ) {
        let about = |report| {
            let call = std::str::from_utf8(call)
                .ok()
                .and_then(|id| id.parse().ok());
            let call = call.expect("the service's own id");
            MessageContent::Call(CallMessage { call, at, report })
        };
        let content = match step {
            LifecycleStep::Ring => MessageContent::Incoming(self.ring(at)),
            LifecycleStep::Answer => about(CallReport::Answered),
            LifecycleStep::Transcript => about(transcript()),
            LifecycleStep::HangUp => about(CallReport::Hangup {
                reason: HangupReason::Normal,
                initiator: HangupInitiator::Caller,
                ai_cost_idr: Some(450),
                voice: VoiceReport::default(),
            }),
        };
        let id = id.to_string();
        out.push(Frame::text(BridgeMessage { id, content }.to_text()));
    }

    fn ring(&mut self, at: Option<Millis>) -> IncomingCall {
        let did = self.dids[self.placed % self.dids.len()].clone();
        self.placed += 1;
        IncomingCall {
            bridge_call_id: format!("{}-{}", self.prefix, self.placed),
            called: did.into(),
            caller_number: self.caller.clone(),
            channel: None,
            draft: None,
            metadata: Some(Map::from_iter([("trunk".to_owned(), json!("jkt-2"))])),
            at,
            trace: None,
        }
    }
}

fn transcript() -> CallReport {
    let turn = |role, text: &str| SpokenTurn::new(role, text.to_owned(), None);
    CallReport::Transcript {
        summary: "The caller asked for order 1001; it comes in 20 minutes.".to_owned(),
        turns: vec![
            turn(Speaker::Caller, "Where is my order?"),
            turn(Speaker::Agent, "It comes in 20 minutes."),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: &str = "call_01k9zv3m8rj2q4w6y8a0c2e4g6";

    #[test]
    fn every_message_is_one_object_with_its_id_and_its_call() {
        let did: PhoneNumber = "+622150001000".parse().expect("a number");
        let mut pen = MessageWriter::new([did].into(), 0);
        let mut step = Some(LifecycleStep::Ring);
        while let Some(now) = step {
            for at in [None, Some(Millis::from_i64(1_768_448_340_000))] {
                let mut out = Vec::new();
                pen.write(&mut out, 7, now, CALL.as_bytes(), at);
                let text = out[0].to_text().expect("a text");
                let message: serde_json::Value = serde_json::from_str(text).expect("JSON");
                assert_eq!(message["id"], "7");
                assert_eq!(message.get("at"), at.map(|at| json!(at)).as_ref());
                let is_ring = now == LifecycleStep::Ring;
                assert_eq!(message["callId"].as_str(), (!is_ring).then_some(CALL));
            }
            step = now.next();
        }
    }

    #[test]
    fn no_two_calls_have_the_same_id_and_numbers_take_turns() {
        let dids = ["+62215000100", "+62215000200"];
        let dids = dids.map(|did| did.parse().expect("a number"));
        let mut pen = MessageWriter::new(dids.into(), 0);
        let mut out = Vec::new();
        for _ in 0..2 {
            pen.write(&mut out, 1, LifecycleStep::Ring, b"", None);
        }
        let said: Vec<&str> = out.iter().filter_map(|said| said.to_text().ok()).collect();
        assert!(said[0].contains("+62215000100") && said[1].contains("+62215000200"));
        assert_ne!(said[0].replace("100", ""), said[1].replace("200", ""));
    }
}
