//! Which calls are placed, and how each will go.

use dikala_entities::PhoneNumber;

/// What kind of calls are placed, and how many.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The numbers that are called, in turn.
    pub dids: Vec<PhoneNumber>,
    /// Calls in all; none: until it is stopped.
    pub calls: Option<u64>,
    /// Calls at the same time.
    pub concurrency: usize,
    /// Between the starts of two calls; 0: as soon as another is over.
    pub interval_us: i64,
    /// The shortest and the longest time that a call rings, and talks; drawn anew for each.
    pub ring_ms: (u64, u64),
    pub talk_ms: (u64, u64),
    /// Of a thousand calls, those in which the AI calls a function.
    pub functions_per_mille: u64,
    /// Of a thousand calls, those whose caller hangs up while it rings.
    pub abandon_per_mille: u64,
    /// The first call is answered, and its AI calls a function: somebody watches.
    pub shows_first: bool,
    /// Tells the engine at the first connection that this bridge holds no calls, so that those of an earlier run are dropped.
    /// Not for bridges that share their token with another.
    pub forgets_earlier_calls: bool,
}

/// How a call will go if nobody interferes; drawn before it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// From the acceptance to the answer, or to the moment the caller gives up.
    pub ring_ms: u64,
    pub talk_ms: u64,
    /// The caller hangs up while it rings.
    pub abandons: bool,
    /// The AI calls a function half-way, if the agent has any.
    pub asks: bool,
    /// The agent hangs up, not the caller.
    pub agent_ends: bool,
    /// Chooses the function and the topic.
    pub choice: usize,
}
