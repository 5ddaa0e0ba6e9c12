//! The language model of chats, shared by all requests of this process.

use std::sync::Arc;

use dikala_telephony::voice::pipeline::TextModel;
use tokio::sync::Semaphore;

/// Answers under way in this process.
const ANSWERS_MAX: usize = 64;

/// The language model of chats, and what it needs beside the agent.
#[derive(Debug)]
pub struct ChatService {
    pub(super) model: TextModel,
    /// The zone of agents without one.
    pub(super) default_time_zone: String,
    /// Answers that can be under way in this process.
    pub(super) places: Arc<Semaphore>,
}

impl ChatService {
    pub fn new(model: TextModel, default_time_zone: &str) -> Self {
        Self {
            model,
            default_time_zone: default_time_zone.to_owned(),
            places: Arc::new(Semaphore::new(ANSWERS_MAX)),
        }
    }
}
