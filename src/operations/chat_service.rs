//! The language model of chats, shared by all requests of this process.

use dikala_actors::runtime::shared_limit::SharedLimit;
use dikala_entities::TenantId;
use dikala_telephony::voice::pipeline::TextModel;

/// Answers under way in this process, and for each tenant. Functions have as many permits for the tests of a tenant.
const ANSWERS_MAX: usize = 64;
const ANSWERS_OF_TENANT_MAX: usize = 4;

/// The language model of chats, and what it needs beside the agent.
#[derive(Debug)]
pub struct ChatService {
    pub(super) model: TextModel,
    /// The zone of agents without one.
    pub(super) default_time_zone: String,
    /// Chats that a tenant can begin within an hour.
    pub(super) per_hour: u64,
    /// Answers that can be under way.
    pub(super) places: SharedLimit<TenantId>,
}

impl ChatService {
    pub fn new(model: TextModel, default_time_zone: &str, per_hour: u64) -> Self {
        Self {
            model,
            default_time_zone: default_time_zone.to_owned(),
            per_hour,
            places: SharedLimit::new(ANSWERS_MAX, ANSWERS_OF_TENANT_MAX),
        }
    }
}
