//! Limits for strangers, and the peers that are exempt from them.

pub mod address_holder;
pub mod guesses;
pub mod known_peers;
pub mod rate_limit;
