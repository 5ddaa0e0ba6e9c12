//! A bounded channel to a receiver that may be slow.

use std::collections::VecDeque;

use tokio::sync::mpsc;

/// A receiver that is this far behind counts as gone; further values are dropped.
const WAITING_MAX: usize = 1_024;

/// A bounded channel and the values that wait for room in it.
#[derive(Debug)]
pub(super) struct Outlet<T> {
    channel: mpsc::Sender<T>,
    waiting: VecDeque<T>,
}

impl<T> Outlet<T> {
    pub(super) fn new(channel: mpsc::Sender<T>) -> Self {
        Self {
            channel,
            waiting: VecDeque::new(),
        }
    }

    pub(super) fn send(&mut self, value: T) {
        if !self.is_idle() {
            if self.waiting.len() < WAITING_MAX {
                self.waiting.push_back(value);
            }
            return;
        }
        if let Err(mpsc::error::TrySendError::Full(value)) = self.channel.try_send(value) {
            self.waiting.push_back(value);
        }
    }

    /// Sends a value that is useless later: without room it is dropped.
    pub(super) fn send_now(&mut self, value: T) {
        if self.is_idle() {
            let _ = self.channel.try_send(value);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The value that waits behind all others.
    pub(super) fn last_waiting(&mut self) -> Option<&mut T> {
        self.waiting.back_mut()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(keep);
    }

    /// Sends the first waiting value once there is room. Cancel-safe.
    pub(super) async fn pass(&mut self) {
        match self.channel.reserve().await {
            Ok(permit) => {
                if let Some(value) = self.waiting.pop_front() {
                    permit.send(value);
                }
            }
            Err(_) => self.waiting.clear(),
        }
    }
}
