//! Sends the same message for many calls, pipelined.

use std::collections::VecDeque;

use dikala_entities::Millis;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::{
    pen::{LifecycleStep, MessageWriter},
    reply::BenchReply,
    socket::SocketScript,
    tally::{AfterReply, REST, Tally},
};

/// Unacknowledged messages per socket; the protocol allows no more.
const WINDOW: usize = 1_000;

/// Pipelines one step for each call of one socket.
#[derive(Debug)]
pub struct Burst<'a> {
    pen: &'a mut MessageWriter,
    step: LifecycleStep,
    /// Ids of the calls. [`LifecycleStep::Ring`] fills them in.
    calls: &'a mut [Vec<u8>],
    /// Time at which the step happened, one per call; the current time if empty.
    at: &'a [Millis],
    sent: Vec<Instant>,
    resting: VecDeque<(Instant, usize)>,
    waiting: usize,
    pub tally: Tally,
}

impl<'a> Burst<'a> {
    pub fn new(
        pen: &'a mut MessageWriter,
        step: LifecycleStep,
        calls: &'a mut [Vec<u8>],
        at: &'a [Millis],
    ) -> Self {
        Self {
            pen,
            step,
            sent: Vec::with_capacity(calls.len()),
            calls,
            at,
            resting: VecDeque::new(),
            waiting: 0,
            tally: Tally::default(),
        }
    }

    fn send(&mut self, index: usize, out: &mut Vec<Frame>) {
        let at = self.at.get(index).copied();
        let call = &self.calls[index];
        self.pen.write(out, index as u64, self.step, call, at);
        self.waiting += 1;
    }
}

impl SocketScript for Burst<'_> {
    fn due(&mut self, now: Instant, out: &mut Vec<Frame>) -> Option<Instant> {
        while self.waiting < WINDOW && self.sent.len() < self.calls.len() {
            self.sent.push(now);
            self.send(self.sent.len() - 1, out);
        }
        while let Some(&(at, index)) = self.resting.front() {
            if at > now {
                return Some(at);
            }
            self.resting.pop_front();
            self.send(index, out);
        }
        None
    }

    fn reply(&mut self, reply: &BenchReply<'_>, now: Instant, _: &mut Vec<Frame>) {
        let index = usize::try_from(reply.id).unwrap_or(usize::MAX);
        let Some(&sent) = self.sent.get(index) else {
            return;
        };
        self.waiting -= 1;
        let is_ring = self.step == LifecycleStep::Ring;
        match self.tally.count(reply, is_ring, sent, now) {
            AfterReply::Again => self.resting.push_back((now + REST, index)),
            AfterReply::Refused => {}
            AfterReply::Done if is_ring => {
                self.calls[index].extend_from_slice(reply.call.unwrap_or_default());
            }
            AfterReply::Done => self.tally.calls += u64::from(self.step == LifecycleStep::HangUp),
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn is_over(&self) -> bool {
        self.sent.len() == self.calls.len() && self.waiting == 0 && self.resting.is_empty()
    }

    fn give_up(&mut self) {
        self.tally.faults.missing += self.waiting as u64;
    }
}
