//! Keeps a fixed number of calls active, each from ring to hang-up; a new call replaces each that ends.

use std::collections::VecDeque;

use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::{
    pen::{LifecycleStep, MessageWriter},
    reply::BenchReply,
    socket::SocketScript,
    tally::{AfterReply, REST, Tally},
};

/// The calls of one socket. No call begins after the deadline; calls that are active by then are completed.
#[derive(Debug)]
pub struct WholeCalls {
    pen: MessageWriter,
    until: Instant,
    slots: Vec<Slot>,
    /// Slots whose message was answered `busy`, with the time of the retry.
    resting: VecDeque<(Instant, usize)>,
    running: usize,
    waiting: usize,
    begun: bool,
    messages: u64,
    pub tally: Tally,
}

#[derive(Debug)]
struct Slot {
    step: LifecycleStep,
    call: Vec<u8>,
    sent: Instant,
}

impl WholeCalls {
    pub fn new(pen: MessageWriter, at_once: usize, until: Instant) -> Self {
        let slot = |_| Slot {
            step: LifecycleStep::Ring,
            call: Vec::new(),
            sent: until,
        };
        Self {
            pen,
            until,
            slots: (0..at_once).map(slot).collect(),
            resting: VecDeque::new(),
            running: 0,
            waiting: 0,
            begun: false,
            messages: 0,
            tally: Tally::default(),
        }
    }

    /// The id encodes the slot, so that a reply can be assigned to it.
    fn send(&mut self, place: usize, out: &mut Vec<Frame>) {
        let id = self.messages * self.slots.len() as u64 + place as u64;
        let slot = &self.slots[place];
        self.pen.write(out, id, slot.step, &slot.call, None);
        self.messages += 1;
        self.waiting += 1;
    }

    fn begin(&mut self, place: usize, now: Instant, out: &mut Vec<Frame>) {
        let slot = &mut self.slots[place];
        (slot.step, slot.sent) = (LifecycleStep::Ring, now);
        self.running += 1;
        self.send(place, out);
    }

    fn over(&mut self, place: usize, now: Instant, out: &mut Vec<Frame>) {
        self.running -= 1;
        if now < self.until {
            self.begin(place, now, out);
        }
    }
}

impl SocketScript for WholeCalls {
    fn due(&mut self, now: Instant, out: &mut Vec<Frame>) -> Option<Instant> {
        if !self.begun {
            self.begun = true;
            for place in 0..self.slots.len() {
                self.begin(place, now, out);
            }
        }
        while let Some(&(at, place)) = self.resting.front() {
            if at > now {
                return Some(at);
            }
            self.resting.pop_front();
            self.send(place, out);
        }
        None
    }

    fn reply(&mut self, reply: &BenchReply<'_>, now: Instant, out: &mut Vec<Frame>) {
        let place = usize::try_from(reply.id % self.slots.len() as u64).unwrap_or(0);
        let slot = &mut self.slots[place];
        self.waiting -= 1;
        let is_ring = slot.step == LifecycleStep::Ring;
        match self.tally.count(reply, is_ring, slot.sent, now) {
            AfterReply::Again => self.resting.push_back((now + REST, place)),
            AfterReply::Refused => self.over(place, now, out),
            AfterReply::Done => {
                if is_ring {
                    slot.call.clear();
                    slot.call.extend_from_slice(reply.call.unwrap_or_default());
                }
                match slot.step.next() {
                    Some(step) => {
                        (slot.step, slot.sent) = (step, now);
                        self.send(place, out);
                    }
                    None => {
                        self.tally.calls += 1;
                        self.over(place, now, out);
                    }
                }
            }
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn is_over(&self) -> bool {
        self.begun && self.running == 0
    }

    fn give_up(&mut self) {
        self.tally.faults.missing += self.waiting as u64;
    }
}
