//! What a call has to send, where the receiver may be slow.

use std::collections::VecDeque;

use tokio::sync::mpsc;

/// A receiver that is so far behind is not there any more.
const WAITING_MAX: usize = 1_024;

/// A bounded channel, and what waits for room in it.
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

    /// Sends what has no worth later: where there is no room, it is lost.
    pub(super) fn send_now(&mut self, value: T) {
        if self.is_idle() {
            let _ = self.channel.try_send(value);
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.waiting.retain(keep);
    }

    /// Sends the first that waits, once there is room. May be given up at any time.
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
