//! The API over real HTTP, with the actors behind it, on both stores. A test takes the store as a value of rstest and
//! begins with `world!(store)`; the clock stands still until a test moves it.

mod again;
mod agents;
mod audit;
mod call_filters;
mod calls;
mod credits;
mod deliveries;
mod description;
mod events;
mod functions;
mod gate;
mod idempotency;
mod lists;
mod numbers;
mod seed;
mod stats;
mod transport;
mod versions;
mod webhooks;
mod world;

/// Common imports of the tests.
mod prelude {
    pub use dikala_testkit::StoreKind::{self, *};
    pub use rstest::rstest;

    pub use super::world::ApiWorld;
    pub(crate) use super::world::world;
}
