//! The calls to place and their random course.

use std::time::Duration;

use dikala_entities::PhoneNumber;

/// The kind and number of calls to place.
#[derive(Clone, Debug)]
pub struct CallScenario {
    /// The numbers to call, in turn.
    pub dids: Vec<PhoneNumber>,
    /// Number of calls; unlimited if `None`.
    pub calls: Option<u64>,
    /// Maximum number of concurrent calls.
    pub concurrency: usize,
    /// Interval between the starts of calls; 0 starts one as soon as another has ended.
    pub interval: Duration,
    /// Minimum and maximum ringing time, and talk time, drawn for each call.
    pub ring_ms: (u64, u64),
    pub talk_ms: (u64, u64),
    /// Of 1,000 calls, the number in which the AI invokes a function.
    pub functions_per_mille: u64,
    /// Of 1,000 calls, the number whose caller hangs up while it rings.
    pub abandon_per_mille: u64,
    /// The first call is answered and invokes a function, because somebody watches.
    pub shows_first: bool,
    /// Reports at the first connection that this bridge has no calls, so that the service drops those of an earlier
    /// run. Not for bridges that share their token.
    pub forgets_earlier_calls: bool,
}

/// The course of an undisturbed call, drawn before it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallScript {
    /// Time from the acceptance to the answer, or until the caller gives up.
    pub ring_ms: u64,
    pub talk_ms: u64,
    /// The caller hangs up while it rings.
    pub abandons: bool,
    /// The AI invokes a function half-way, if the agent has any.
    pub asks: bool,
    /// The agent hangs up, not the caller.
    pub agent_ends: bool,
    /// Selects the function and the topic.
    pub choice: usize,
}
