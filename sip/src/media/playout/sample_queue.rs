//! A queue of samples in blocks. One contiguous queue doubles as it grows, which was most of a call's memory.

use std::collections::VecDeque;

/// Samples in a block: a quarter of a second of G.711.
const BLOCK: usize = 2_000;

/// First in, first out.
#[derive(Debug, Default)]
pub struct SampleQueue {
    /// No block is empty; all but the last are full.
    blocks: VecDeque<Vec<i16>>,
    /// Samples of the first block that are gone.
    gone: usize,
    len: usize,
}

impl SampleQueue {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, mut samples: &[i16]) {
        self.len += samples.len();
        while !samples.is_empty() {
            if self.blocks.back().is_none_or(|last| last.len() == BLOCK) {
                self.blocks.push_back(Vec::with_capacity(BLOCK));
            }
            if let Some(last) = self.blocks.back_mut() {
                let (now, later) = samples.split_at(samples.len().min(BLOCK - last.len()));
                last.extend_from_slice(now);
                samples = later;
            }
        }
    }

    /// Returns up to `count` first samples without removing them.
    pub fn first(&self, count: usize) -> impl Iterator<Item = i16> {
        let all = self.blocks.iter().flatten().copied();
        all.skip(self.gone).take(count)
    }

    /// Moves up to `count` first samples to the end of `out`.
    pub fn take(&mut self, count: usize, out: &mut Vec<i16>) {
        let mut left = count.min(self.len);
        self.len -= left;
        while left > 0
            && let Some(block) = self.blocks.front()
        {
            let end = block.len().min(self.gone + left);
            out.extend_from_slice(&block[self.gone..end]);
            left -= end - self.gone;
            self.gone = end;
            if end == block.len() {
                self.blocks.pop_front();
                self.gone = 0;
            }
        }
        if self.blocks.is_empty() {
            // A silent call keeps no room for half a minute of blocks.
            self.blocks = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_queue_that_it_stands_for(steps in prop::collection::vec((any::<bool>(), 0..3 * BLOCK), 0..30)) {
            let (mut waiting, mut queue) = (SampleQueue::default(), VecDeque::new());
            let mut next = (0..i16::MAX).cycle();
            for (comes, count) in steps {
                if comes {
                    let samples: Vec<i16> = next.by_ref().take(count).collect();
                    waiting.push(&samples);
                    queue.extend(samples);
                } else {
                    let first: Vec<i16> = waiting.first(count).collect();
                    let mut taken = Vec::new();
                    waiting.take(count, &mut taken);
                    let expected: Vec<i16> = queue.drain(..count.min(queue.len())).collect();
                    prop_assert_eq!(&first, &expected);
                    prop_assert_eq!(taken, expected);
                }
                prop_assert_eq!((waiting.len(), waiting.is_empty()), (queue.len(), queue.is_empty()));
                prop_assert!(waiting.blocks.len() <= queue.len().div_ceil(BLOCK) + 1);
            }
        }
    }
}
