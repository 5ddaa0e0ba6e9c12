//! Sends messages at a steady rate, however fast the server answers.

use std::time::Duration;

use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message as Frame;

use super::{
    pen::{LifecycleStep, MessageWriter},
    reply::BenchReply,
    socket::SocketScript,
    tally::{AfterReply, Tally},
};

/// Number of interleaved calls. Messages of one call are that many ticks apart.
const LANES: usize = 16;

/// The messages of one socket. At the end, active calls are completed at the same rate.
#[derive(Debug)]
pub struct PacedMessages {
    pen: MessageWriter,
    every: Duration,
    next: Instant,
    until: Instant,
    turn: usize,
    lanes: Vec<PacedCall>,
    messages: u64,
    waiting: usize,
    pub tally: Tally,
    pub acknowledged: Vec<Acknowledgement>,
}

#[derive(Debug)]
pub struct Acknowledgement {
    pub call: Vec<u8>,
    pub step: LifecycleStep,
    /// The time at which the message was due. Its acknowledgement came `at`.
    pub sent: Instant,
    pub at: Instant,
}

#[derive(Debug)]
struct PacedCall {
    call: Vec<u8>,
    step: LifecycleStep,
    /// The due time of the unacknowledged message.
    sent: Option<Instant>,
    /// The due time of the next message, while the one before it is unacknowledged. This wait counts as latency.
    owed: Option<Instant>,
}

impl PacedMessages {
    /// Sends `rate` messages a second from now until `until`.
    pub fn new(pen: MessageWriter, rate: u32, until: Instant) -> Self {
        let lane = |_| PacedCall {
            call: Vec::new(),
            step: LifecycleStep::Ring,
            sent: None,
            owed: None,
        };
        Self {
            pen,
            every: Duration::from_secs(1) / rate,
            next: Instant::now(),
            until,
            turn: 0,
            lanes: (0..LANES).map(lane).collect(),
            messages: 0,
            waiting: 0,
            tally: Tally::default(),
            acknowledged: Vec::new(),
        }
    }

    fn send(&mut self, place: usize, due: Instant, out: &mut Vec<Frame>) {
        let id = self.messages * LANES as u64 + place as u64;
        let lane = &mut self.lanes[place];
        lane.sent = Some(due);
        self.pen.write(out, id, lane.step, &lane.call, None);
        self.messages += 1;
        self.waiting += 1;
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Frame>) {
        let place = self.turn % LANES;
        self.turn += 1;
        let lane = &mut self.lanes[place];
        if lane.step == LifecycleStep::Ring && lane.sent.is_none() && now >= self.until {
            return;
        }
        match lane.sent {
            Some(_) => lane.owed = lane.owed.or(Some(now)),
            None => self.send(place, now, out),
        }
    }
}

impl SocketScript for PacedMessages {
    /// A message is due when the timer fires: the timer's lateness must not count as the server's.
    fn due(&mut self, now: Instant, out: &mut Vec<Frame>) -> Option<Instant> {
        while self.next <= now {
            self.tick(now, out);
            self.next += self.every;
        }
        Some(self.next)
    }

    fn reply(&mut self, reply: &BenchReply<'_>, now: Instant, out: &mut Vec<Frame>) {
        let place = usize::try_from(reply.id % LANES as u64).unwrap_or(0);
        let lane = &mut self.lanes[place];
        let Some(sent) = lane.sent.take() else {
            return;
        };
        self.waiting -= 1;
        let step = lane.step;
        match self
            .tally
            .count(reply, step == LifecycleStep::Ring, sent, now)
        {
            AfterReply::Again => return self.send(place, sent, out),
            AfterReply::Refused => lane.step = LifecycleStep::Ring,
            AfterReply::Done => {
                if step == LifecycleStep::Ring {
                    lane.call = reply.call.unwrap_or_default().to_vec();
                }
                self.acknowledged.push(Acknowledgement {
                    call: lane.call.clone(),
                    step,
                    sent,
                    at: now,
                });
                self.tally.calls += u64::from(step == LifecycleStep::HangUp);
                lane.step = step.next().unwrap_or(LifecycleStep::Ring);
            }
        }
        if let Some(due) = self.lanes[place].owed.take() {
            self.send(place, due, out);
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn is_over(&self) -> bool {
        let idle = |lane: &PacedCall| lane.step == LifecycleStep::Ring && lane.sent.is_none();
        Instant::now() >= self.until && self.lanes.iter().all(idle)
    }

    fn give_up(&mut self) {
        self.tally.faults.missing += self.waiting as u64;
    }
}
