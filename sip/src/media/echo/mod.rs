//! The echo guard: tells the caller's voice from the agent's own speech that phone or network returns 0 to 600 ms later.
//!
//! It compares envelopes, the loudness of slots of 10 ms. A return has the envelope of what was sent, later and weaker: both
//! correlate by 0.9 and more. A caller's words correlate by 0.7 at most, once there is half a second of them. A delay that keeps
//! correlating becomes the measured return. From then on, voice below the return that is due at this moment is echo, and louder
//! voice is the caller's. Before, and after the return has changed, the correlation alone decides.
//!
//! The envelope is the fourth root of the energy: loud vowels count little more than soft ones, and line noise little.
#![expect(
    clippy::float_arithmetic,
    reason = "correlations of rounded integers would need 64 bits a sum"
)]

/// A frame is two slots.
const SLOT_MS: u64 = 10;
/// Delays of a return: 0 to 600 ms.
const DELAYS: usize = 61;
/// Sent slots that are kept: the longest delay, and 670 ms for packets that come late.
const KEPT: usize = 128;
/// The envelope at −50 dBFS, the softest that is taken for voice.
const LOUD: f32 = 10.2;
/// The factor of a slot's weight in the sums with each later slot: half of it is gone after 0.7 s.
const FADE: f32 = 0.99;
/// Variances below this are rounding errors.
const VARIANCE_MIN: f32 = 10.0;
/// The correlation from which voice is echo while no return is measured, and the correlation of a return.
const ECHO: f32 = 0.8;
const RETURN: f32 = 0.85;
/// Both with few slots, which correlate by chance.
const WITH_FEW: f32 = 0.9;
/// The weight of the slots up to which they are few; reached after 0.9 s.
const FEW: f32 = 60.0;
/// The loud slots for which one delay has to correlate to be measured.
const RETURN_SLOTS: u32 = 40;
/// The slots of the agent's speech within which a return is looked for; without one, the line is taken for one without echo.
const LEARNING: u32 = 300;
/// A measured return that is not seen again for this many slots of the agent's speech is forgotten.
const FORGOTTEN: u32 = 300;
/// The factor of envelopes by which echo may exceed the measured return: 4.5 dB.
const MARGIN: f32 = 1.3;
/// The slots by which echo may come before or after the measured delay.
const SPREAD: usize = 2;
/// A room's reverberation: the factor by which an echo's envelope falls at least in a frame (3.9 dB).
const REVERBERATION: f32 = 0.8;

/// The guard of one call.
#[derive(Debug)]
pub struct EchoGuard {
    /// Envelopes of sent slots, by slot number.
    sent: [f32; KEPT],
    /// The number of the next slot to be sent.
    next: u64,
    /// The last loud slot that was sent.
    last_loud: Option<u64>,
    /// Slots that were compared with the agent's speech.
    compared: u32,
    /// The agent's speech may be in the last frame.
    may_return: bool,
    sums: DelaySums,
    weight: f32,
    heard: f32,
    heard_squares: f32,
    candidate: Candidate,
    measured: Option<MeasuredReturn>,
    /// The envelope of the echo that was due last, with its reverberation.
    due: f32,
}

/// For each delay, in slots: faded sums over what was sent this long before each heard slot.
#[derive(Debug)]
struct DelaySums {
    sent: [f32; DELAYS],
    squares: [f32; DELAYS],
    products: [f32; DELAYS],
}

/// A delay that correlates, and the loud slots for which it did.
#[derive(Debug, Clone, Copy, Default)]
struct Candidate {
    delay: usize,
    slots: u32,
}

#[derive(Debug, Clone, Copy)]
struct MeasuredReturn {
    delay: usize,
    /// The factor between the envelopes sent and returned.
    gain: f32,
    /// Slots since it was last seen.
    unseen: u32,
}

impl Default for EchoGuard {
    fn default() -> Self {
        Self {
            sent: [0.0; KEPT],
            next: 0,
            last_loud: None,
            compared: 0,
            may_return: false,
            sums: DelaySums {
                sent: [0.0; DELAYS],
                squares: [0.0; DELAYS],
                products: [0.0; DELAYS],
            },
            weight: 0.0,
            heard: 0.0,
            heard_squares: 0.0,
            candidate: Candidate::default(),
            measured: None,
            due: 0.0,
        }
    }
}

impl EchoGuard {
    /// Adds a frame of 20 ms that is sent from `at_ms` on, at any rate. Times never decrease.
    pub fn sent(&mut self, frame: &[i16], at_ms: u64) {
        let first = at_ms / SLOT_MS;
        for skipped in (self.next..first).take(KEPT) {
            self.sent[skipped as usize % KEPT] = 0.0;
        }
        for (slot, half) in (first..).zip(halves(frame)) {
            let envelope = envelope(half);
            self.sent[slot as usize % KEPT] = envelope;
            if envelope > LOUD {
                self.last_loud = Some(slot);
            }
            self.next = slot + 1;
        }
    }

    /// Adds a frame of 20 ms that would have come at `at_ms` without jitter. True if voice in it is echo.
    pub fn heard(&mut self, frame: &[i16], at_ms: u64) -> bool {
        let first = at_ms / SLOT_MS;
        let may_return = |loud| first <= loud + DELAYS as u64;
        self.may_return = self.last_loud.is_some_and(may_return);
        if !self.may_return {
            self.due = 0.0;
            return false;
        }
        let mut loud = 0;
        for (slot, half) in (first..).zip(halves(frame)) {
            let envelope = envelope(half);
            self.add(slot, envelope);
            loud += u32::from(envelope > LOUD);
        }
        let (delay, correlation) = self.most_alike();
        self.measure(delay, correlation, loud);
        let Some(measured) = self.measured else {
            return self.correlates(correlation, ECHO);
        };
        let delays = measured.delay.saturating_sub(SPREAD)..=measured.delay + SPREAD + 1;
        let loudest = delays.fold(0.0, |all: f32, delay| {
            all.max(self.sent_before(first + 1, delay))
        });
        self.due = (self.due * REVERBERATION).max(loudest * measured.gain);
        envelope(frame) <= self.due * MARGIN
    }

    /// The line returns the agent's speech, and how much of it is known.
    pub fn is_measured(&self) -> bool {
        self.measured.is_some()
    }

    /// The last frame may have the agent's speech in it, and whether the line returns any is not known yet.
    pub fn is_learning(&self) -> bool {
        self.may_return && !self.is_measured() && self.compared < LEARNING
    }

    /// The envelope that was sent this many slots before; 0 for one that is not kept.
    fn sent_before(&self, slot: u64, delay: usize) -> f32 {
        let sent = slot.checked_sub(delay as u64);
        let is_kept = |slot: &u64| *slot < self.next && self.next - slot <= KEPT as u64;
        sent.filter(is_kept)
            .map_or(0.0, |slot| self.sent[slot as usize % KEPT])
    }

    fn add(&mut self, slot: u64, heard: f32) {
        self.compared = self.compared.saturating_add(1);
        self.weight = self.weight * FADE + 1.0;
        self.heard = self.heard * FADE + heard;
        self.heard_squares = self.heard_squares * FADE + heard * heard;
        let sent: [f32; DELAYS] = std::array::from_fn(|delay| self.sent_before(slot, delay));
        let sums = &mut self.sums;
        for (sum, sent) in sums.sent.iter_mut().zip(&sent) {
            *sum = *sum * FADE + sent;
        }
        for (sum, sent) in sums.squares.iter_mut().zip(&sent) {
            *sum = *sum * FADE + sent * sent;
        }
        for (sum, sent) in sums.products.iter_mut().zip(&sent) {
            *sum = *sum * FADE + sent * heard;
        }
    }

    /// The delay with the strongest correlation (Pearson's), and this.
    fn most_alike(&self) -> (usize, f32) {
        let share = 1.0 / self.weight;
        let spread = |sum: f32, squares: f32| squares - sum * sum * share;
        let heard = spread(self.heard, self.heard_squares);
        let (mut best, mut strongest) = (0, 0.0);
        for delay in 0..DELAYS {
            let sent = spread(self.sums.sent[delay], self.sums.squares[delay]);
            let both = self.sums.products[delay] - self.sums.sent[delay] * self.heard * share;
            if sent < VARIANCE_MIN || heard < VARIANCE_MIN || both < 0.0 {
                continue;
            }
            let explained = both * both / (sent * heard);
            if explained > strongest {
                (best, strongest) = (delay, explained);
            }
        }
        (best, strongest.sqrt())
    }

    fn correlates(&self, correlation: f32, enough: f32) -> bool {
        let is_few = self.weight < FEW;
        correlation >= if is_few { WITH_FEW } else { enough }
    }

    /// Measures the return once one delay has correlated for long enough, and forgets one that is not seen again.
    fn measure(&mut self, delay: usize, correlation: f32, loud: u32) {
        let correlates = self.correlates(correlation, RETURN);
        let lasts = correlates && delay.abs_diff(self.candidate.delay) <= 1;
        self.candidate.slots = match (correlates, lasts) {
            (_, true) => self.candidate.slots.saturating_add(loud),
            (true, false) => loud,
            (false, _) => 0,
        };
        self.candidate.delay = delay;
        if self.candidate.slots >= RETURN_SLOTS {
            self.measured = Some(MeasuredReturn {
                delay,
                gain: self.sums.products[delay] / self.sums.squares[delay],
                unseen: 0,
            });
        } else if let Some(measured) = &mut self.measured {
            measured.unseen += 2;
            self.measured.take_if(|it| it.unseen > FORGOTTEN);
        }
    }
}

fn halves(frame: &[i16]) -> impl Iterator<Item = &[i16]> {
    let (first, second) = frame.split_at(frame.len() / 2);
    [first, second].into_iter()
}

/// The fourth root of the mean square.
fn envelope(samples: &[i16]) -> f32 {
    let square = |sample: &i16| i64::from(i32::from(*sample).pow(2));
    let energy: i64 = samples.iter().map(square).sum();
    (energy as f32 / samples.len().max(1) as f32).sqrt().sqrt()
}

#[cfg(test)]
mod tests;
