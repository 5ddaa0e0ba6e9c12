//! The playout queue: speech at 24 kHz in bursts goes in, frames of 20 ms come out.
//!
//! Samples wait at the codec's rate: for G.711 that takes a third of the memory. Speech fades for 5 ms where it breaks off or
//! begins, so that nothing clicks. Silence is frames of zeros.

mod sample_queue;

use std::collections::VecDeque;

use self::sample_queue::SampleQueue;
use super::fir::Resampler;

/// Queued speech from which no more is accepted.
const WAITING_MAX_MS: u64 = 30_000;
/// Marks that wait. All of them may be played in one tick, and their events have to fit into the leg's channel.
pub(crate) const MARKS_MAX: usize = 256;
const FADE_MS: usize = 5;
/// See [`Playout::played`].
pub(crate) const PLAYED_PER_MS: u64 = 48;
/// Live audio that may wait. Beyond this, the oldest is dropped until [`LIVE_KEPT_MS`] are left.
const LIVE_MAX_MS: usize = 120;
const LIVE_KEPT_MS: usize = 40;
/// Frames for which live audio waits after a silence, so that later packets may be less punctual than the first.
const LIVE_PREBUFFER: u8 = 2;

/// The sample rate of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayoutRate {
    /// 8 kHz.
    Narrow,
    /// 16 kHz.
    Wide,
    /// 24 kHz.
    Full,
}

impl PlayoutRate {
    const fn per_ms(self) -> usize {
        match self {
            Self::Narrow => 8,
            Self::Wide => 16,
            Self::Full => 24,
        }
    }

    /// Samples in 20 ms.
    pub const fn frame(self) -> usize {
        self.per_ms() * 20
    }

    const fn fade(self) -> usize {
        self.per_ms() * FADE_MS
    }

    fn resampler(self) -> Option<Resampler> {
        match self {
            Self::Narrow => Some(Resampler::from_24_to_8()),
            Self::Wide => Some(Resampler::from_24_to_16()),
            Self::Full => None,
        }
    }
}

/// The queue of one call.
#[derive(Debug)]
pub struct Playout {
    rate: PlayoutRate,
    resampler: Option<Resampler>,
    scratch: Vec<i16>,
    waiting: SampleQueue,
    /// Samples that have left the queue since the start.
    left: u64,
    /// Marks with their positions, counted like `left`.
    marks: VecDeque<(u64, u64)>,
    /// Speech played since the start, live audio left out, in 48ths of a millisecond: a whole number for a sample of each rate.
    played: u64,
    paused: bool,
    /// Everything that waits is live.
    is_live: bool,
    /// Frames of silence before live audio begins.
    prebuffer: u8,
    /// The faded end of flushed speech.
    tail: Vec<i16>,
    /// The last sample was silence.
    quiet: bool,
}

impl Playout {
    pub fn new(rate: PlayoutRate) -> Self {
        Self {
            rate,
            resampler: rate.resampler(),
            scratch: Vec::new(),
            waiting: SampleQueue::default(),
            left: 0,
            marks: VecDeque::new(),
            played: 0,
            paused: false,
            is_live: false,
            prebuffer: 0,
            tail: Vec::new(),
            quiet: true,
        }
    }

    /// Changes the rate and converts what waits.
    pub fn change(&mut self, rate: PlayoutRate) {
        if rate == self.rate {
            return;
        }
        let convert = |samples: u64| samples * rate.per_ms() as u64 / self.rate.per_ms() as u64;
        for (at, _) in &mut self.marks {
            *at = self.left + convert(*at - self.left);
        }
        let mut resampler = match (self.rate, rate) {
            (PlayoutRate::Narrow, PlayoutRate::Wide) => Resampler::from_8_to_16(),
            (PlayoutRate::Narrow, _) => Resampler::from_8_to_24(),
            (PlayoutRate::Wide, PlayoutRate::Narrow) => Resampler::from_16_to_8(),
            (PlayoutRate::Wide, _) => Resampler::from_16_to_24(),
            (PlayoutRate::Full, PlayoutRate::Wide) => Resampler::from_24_to_16(),
            (PlayoutRate::Full, _) => Resampler::from_24_to_8(),
        };
        let (mut all, mut converted) = (Vec::new(), Vec::new());
        self.waiting.take(usize::MAX, &mut all);
        resampler.run(&all, &mut converted);
        self.waiting.push(&converted);
        self.tail.clear();
        self.rate = rate;
        self.resampler = rate.resampler();
    }

    pub fn wants_more(&self) -> bool {
        let waiting_ms = self.waiting.len() / self.rate.per_ms();
        (waiting_ms as u64) < WAITING_MAX_MS && self.marks.len() < MARKS_MAX
    }

    /// Speech that was played since the start, without live audio, in [`PLAYED_PER_MS`].
    pub fn played(&self) -> u64 {
        self.played
    }

    /// Speech is being played.
    pub fn speaks(&self) -> bool {
        !self.paused && !self.waiting.is_empty()
    }

    /// Queues samples of 24 kHz. They replace live audio that waits, and only they count as played.
    pub fn say(&mut self, samples: &[i16]) {
        if self.is_live {
            self.drop_waiting();
            self.is_live = false;
        }
        self.queue(samples);
    }

    fn queue(&mut self, samples: &[i16]) {
        match &mut self.resampler {
            Some(resampler) => {
                self.scratch.clear();
                resampler.run(samples, &mut self.scratch);
                self.waiting.push(&self.scratch);
            }
            None => self.waiting.push(samples),
        }
    }

    /// Queues live samples of 24 kHz, unless speech is played. If too much waits, the oldest is dropped: a gap is better than a
    /// growing delay.
    pub fn say_live(&mut self, samples: &[i16]) {
        if self.waiting.is_empty() {
            self.is_live = true;
            self.prebuffer = if self.quiet { LIVE_PREBUFFER } else { 0 };
        }
        if !self.is_live {
            return;
        }
        self.queue(samples);
        if self.waiting.len() > LIVE_MAX_MS * self.rate.per_ms() {
            self.drop_late();
        }
    }

    /// Drops the oldest samples, with a cross-fade from them to the rest.
    fn drop_late(&mut self) {
        let mut all = Vec::with_capacity(self.waiting.len());
        self.waiting.take(usize::MAX, &mut all);
        let late = all.len() - LIVE_KEPT_MS * self.rate.per_ms();
        let (dropped, kept) = all.split_at_mut(late);
        let fade = self.rate.fade();
        fade_out(&mut dropped[..fade]);
        fade_in(&mut kept[..fade]);
        for (sample, faded) in kept.iter_mut().zip(&dropped[..fade]) {
            *sample = sample.saturating_add(*faded);
        }
        self.waiting.push(kept);
        self.left += late as u64;
    }

    /// Sets a mark; [`Playout::frame`] reports it once everything before it was played.
    pub fn mark(&mut self, mark: u64) {
        self.marks
            .push_back((self.left + self.waiting.len() as u64, mark));
    }

    /// Pauses and keeps what waits.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    pub fn go_on(&mut self) {
        self.paused = false;
    }

    /// Flushes the queue and returns how many milliseconds of speech were played since the start. Ends a pause.
    pub fn flush(&mut self, mut gone: impl FnMut(u64)) -> u64 {
        self.drop_waiting();
        self.marks.drain(..).for_each(|(_, mark)| gone(mark));
        self.paused = false;
        self.played / PLAYED_PER_MS
    }

    /// Drops what waits, and fades out what is being played.
    fn drop_waiting(&mut self) {
        if !self.paused && !self.quiet && !self.waiting.is_empty() {
            let rest = self.waiting.len().min(self.rate.fade());
            self.tail.clear();
            self.waiting.take(rest, &mut self.tail);
            fade_out(&mut self.tail);
            self.leave(rest);
        }
        self.left += self.waiting.len() as u64;
        self.waiting = SampleQueue::default();
        self.prebuffer = 0;
        if let Some(resampler) = &mut self.resampler {
            resampler.reset();
        }
    }

    /// Puts the next 20 ms into `out`, and reports the marks that are passed.
    pub fn frame(&mut self, out: &mut Vec<i16>, mut passed: impl FnMut(u64)) {
        out.clear();
        let was_quiet = self.quiet;
        if !self.tail.is_empty() {
            out.append(&mut self.tail);
            self.quiet = true;
        } else if self.paused {
            if !was_quiet {
                // These samples stay in the queue, to be heard again after the pause.
                out.extend(self.waiting.first(self.rate.fade()));
                fade_out(out);
            }
            self.quiet = true;
        } else if self.prebuffer > 0 {
            self.prebuffer -= 1;
            self.quiet = true;
        } else {
            self.play(out, was_quiet);
        }
        out.resize(self.rate.frame(), 0);
        while self.marks.front().is_some_and(|(at, _)| *at <= self.left) {
            self.marks
                .pop_front()
                .into_iter()
                .for_each(|(_, mark)| passed(mark));
        }
    }

    /// Counts samples that leave the queue to be played.
    fn leave(&mut self, samples: usize) {
        self.left += samples as u64;
        if !self.is_live {
            self.played += samples as u64 * PLAYED_PER_MS / self.rate.per_ms() as u64;
        }
    }

    fn play(&mut self, out: &mut Vec<i16>, was_quiet: bool) {
        let count = self.waiting.len().min(self.rate.frame());
        self.waiting.take(count, out);
        self.leave(count);
        let fade = self.rate.fade().min(count);
        if was_quiet {
            fade_in(&mut out[..fade]);
        }
        self.quiet = count < self.rate.frame();
        if self.quiet {
            fade_out(&mut out[count - fade..]);
        }
    }
}

fn fade_in(samples: &mut [i16]) {
    let all = samples.len() as i32;
    for (n, sample) in (1..).zip(samples) {
        *sample = (i32::from(*sample) * n / (all + 1)) as i16;
    }
}

fn fade_out(samples: &mut [i16]) {
    let all = samples.len() as i32;
    for (n, sample) in (0..).zip(samples) {
        *sample = (i32::from(*sample) * (all - n) / (all + 1)) as i16;
    }
}

#[cfg(test)]
mod tests;
