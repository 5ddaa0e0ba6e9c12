//! Between the messages of `dikala.bridge.v1` and the calls: refusals, replies and ordering queues. Pure.

mod queue_key;
mod refusal;
mod reply;

pub use self::{
    queue_key::QueueKey,
    refusal::{MessageRefusal, id_alone, parse_text, reply_error},
    reply::{Success, reply},
};
