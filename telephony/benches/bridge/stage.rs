//! State shared by phones and model: what they send, and when a mark was sent at one end of a call, until the other end finds it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use crate::figures::MeasuredTimes;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrafficMode {
    /// The model speaks without pause, and the caller sends noise.
    Talk,
    Quiet,
    /// Each end sends a mark every second.
    Marks,
    /// The calls end.
    Over,
}

/// The direction of a mark.
#[derive(Debug, Clone, Copy)]
pub enum MarkDirection {
    ToModel,
    ToPhone,
    /// The agent's first sound, from the answer on.
    FirstWords,
}

#[derive(Debug)]
pub struct TrafficState {
    begun: Instant,
    manner: AtomicU8,
    /// Per call and direction, the microsecond in which a mark was sent that is not found yet, or 0.
    marks: Vec<[AtomicU64; 3]>,
    delays: [Mutex<MeasuredTimes>; 3],
}

impl TrafficState {
    pub fn new(calls: usize) -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            manner: AtomicU8::new(TrafficMode::Quiet as u8),
            marks: (0..calls).map(|_| Default::default()).collect(),
            delays: Default::default(),
        })
    }

    pub fn calls(&self) -> usize {
        self.marks.len()
    }

    pub fn be(&self, manner: TrafficMode) {
        self.manner.store(manner as u8, Relaxed);
    }

    pub fn is(&self, manner: TrafficMode) -> bool {
        self.manner.load(Relaxed) == manner as u8
    }

    pub fn now_us(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_micros()).unwrap()
    }

    pub fn mark(&self, call: usize, way: MarkDirection) {
        self.marks[call][way as usize].store(self.now_us(), Relaxed);
    }

    /// Records a loud packet: the mark, if one is on its way.
    pub fn found(&self, call: usize, way: MarkDirection) {
        let made = self.marks[call][way as usize].swap(0, Relaxed);
        if made > 0 {
            let delay = self.now_us() - made;
            self.delays[way as usize].lock().unwrap().add_us(delay);
        }
    }

    /// The delays of marks in a direction.
    pub fn delays(&self, way: MarkDirection) -> MeasuredTimes {
        self.delays[way as usize].lock().unwrap().clone()
    }
}
