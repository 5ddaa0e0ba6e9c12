//! Events: the [`outbox`] writes them and their deliveries in the transaction of what they tell of, the [`followers`] wakes who follows
//! them live.

pub mod followers;
pub mod outbox;
