//! Events: the [`payload`] is what they tell, the [`outbox`] writes them and their deliveries in the transaction of what they tell of, the [`followers`] wakes who follows
//! them live.

pub mod elsewhere;
pub mod followers;
pub mod outbox;
pub mod payload;
