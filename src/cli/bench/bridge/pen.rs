//! Writes the messages of a call straight into a socket's buffer.

use std::{io::Write, rc::Rc};

use super::frames::{TEXT, write_masked};

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
    dids: Rc<[String]>,
    /// Prefix of this bridge's call ids; it makes them unique across runs.
    prefix: String,
    placed: usize,
    text: Vec<u8>,
}

impl MessageWriter {
    /// Calls the numbers in turn, beginning with the one at `first`.
    pub fn new(dids: Rc<[String]>, first: usize) -> Self {
        Self {
            dids,
            prefix: format!("{:08x}", rand::random::<u32>()),
            placed: first,
            text: Vec::with_capacity(1_024),
        }
    }

    /// Appends a message. A ring needs no `call`. `at` is the time of the event; if it is `None`, the current time
    /// is sent.
    pub fn write(
        &mut self,
        out: &mut Vec<u8>,
        id: u64,
        step: LifecycleStep,
        call: &[u8],
        at: Option<&str>,
    ) {
        self.text.clear();
        let call = std::str::from_utf8(call).unwrap_or_default();
        let text = &mut self.text;
        let written = match step {
            LifecycleStep::Ring => {
                let did = &self.dids[self.placed % self.dids.len()];
                self.placed += 1;
                write!(
                    text,
                    r#"{{"id":"{id}","type":"call.incoming","bridgeCallId":"{}-{}","did":"{did}","callerNumber":"+6281234567890","metadata":{{"trunk":"jkt-2"}}"#,
                    self.prefix, self.placed
                )
            }
            LifecycleStep::Answer => write!(
                text,
                r#"{{"id":"{id}","type":"call.answered","callId":"{call}""#
            ),
            LifecycleStep::Transcript => write!(
                text,
                r#"{{"id":"{id}","type":"call.transcript","callId":"{call}","summary":"The caller asked for order 1001; it comes in 20 minutes.","turns":[{{"role":"caller","text":"Where is my order?"}},{{"role":"agent","text":"It comes in 20 minutes."}}]"#
            ),
            LifecycleStep::HangUp => write!(
                text,
                r#"{{"id":"{id}","type":"call.hangup","callId":"{call}","reason":"normal","initiator":"caller","aiCostIdr":450"#
            ),
        };
        written.expect("memory takes all that is written");
        if let Some(at) = at {
            write!(text, r#","at":"{at}""#).expect("memory takes all that is written");
        }
        text.push(b'}');
        write_masked(out, TEXT, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::bench::bridge::frames::frame_at;

    #[test]
    fn every_message_is_one_object_with_its_id_and_its_call() {
        let mut pen = MessageWriter::new(vec!["+622150001000".to_owned()].into(), 0);
        let mut step = Some(LifecycleStep::Ring);
        while let Some(now) = step {
            for at in [None, Some("2026-01-15T03:39:00Z")] {
                let mut out = Vec::new();
                pen.write(&mut out, 7, now, b"call_1", at);
                let frame = frame_at(&out, 0).expect("a frame");
                let message: serde_json::Value =
                    serde_json::from_slice(&out[frame.payload]).expect("JSON");
                assert_eq!(message["id"], "7");
                assert_eq!(message["at"].as_str(), at);
                let is_ring = now == LifecycleStep::Ring;
                assert_eq!(message["callId"].as_str(), (!is_ring).then_some("call_1"));
            }
            step = now.next();
        }
    }

    #[test]
    fn no_two_calls_have_the_same_id_and_numbers_take_turns() {
        let dids = ["+62215000100", "+62215000200"].map(str::to_owned);
        let mut pen = MessageWriter::new(dids.to_vec().into(), 0);
        let mut said = Vec::new();
        for _ in 0..2 {
            let mut out = Vec::new();
            pen.write(&mut out, 1, LifecycleStep::Ring, b"", None);
            said.push(String::from_utf8_lossy(&out[8..]).into_owned());
        }
        assert!(said[0].contains("+62215000100") && said[1].contains("+62215000200"));
        assert_ne!(said[0].replace("100", ""), said[1].replace("200", ""));
    }
}
