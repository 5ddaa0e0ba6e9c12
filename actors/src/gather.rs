//! Group commit: while one batch is in flight the next one gathers. Nothing waits for a batch to fill up, so under light
//! load a batch is one item and under heavy load batches grow by themselves.

use std::collections::VecDeque;

/// The queue of a group commit: bounded, with at most one batch in flight.
#[derive(Debug)]
pub struct Gather<T> {
    queue: VecDeque<T>,
    batch_max: usize,
    queue_max: usize,
    in_flight: bool,
}

impl<T> Gather<T> {
    /// An empty queue. `batch_max` items go at once; more than `queue_max` are refused.
    pub fn new(batch_max: usize, queue_max: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            batch_max,
            queue_max,
            in_flight: false,
        }
    }

    /// Queues an item, or gives it back if the queue is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.queue.len() >= self.queue_max {
            return Err(item);
        }
        self.queue.push_back(item);
        Ok(())
    }

    /// The next batch, if none is in flight and something waits. [`finished`](Self::finished) must follow.
    pub fn take(&mut self) -> Option<Vec<T>> {
        if self.in_flight || self.queue.is_empty() {
            return None;
        }
        self.in_flight = true;
        let size = self.queue.len().min(self.batch_max);
        Some(self.queue.drain(..size).collect())
    }

    /// The batch that [`take`](Self::take) gave is done.
    pub fn finished(&mut self) {
        self.in_flight = false;
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing waits and nothing is in flight.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_batch_at_a_time_and_no_more_than_fit() {
        let mut gather = Gather::new(2, 3);
        assert_eq!(gather.take(), None);
        assert!((1..=3).all(|n| gather.push(n).is_ok()));
        assert_eq!(gather.push(4), Err(4));
        assert_eq!(gather.take(), Some(vec![1, 2]));
        assert_eq!(gather.take(), None);
        gather.finished();
        assert_eq!(gather.take(), Some(vec![3]));
        gather.finished();
        assert!(gather.is_idle());
    }
}
