//! What the tests stand on: throw-away stores, the real program, a bridge, a receiver, a REST client.

pub mod answer;
pub mod bomb;
pub mod bridge;
pub mod deaf;
pub mod link;
pub mod moment;
pub mod postgres;
pub mod raw_socket;
pub mod receiver;
pub mod rest;
pub mod server;
pub mod signature;
pub mod statements;
pub mod store;
pub mod tenant;
pub mod wait;
pub mod world;

/// What nearly every test needs.
pub mod prelude {
    pub use std::time::Duration;

    pub use rstest::rstest;
    pub use serde_json::{Value, json};

    pub use super::{
        answer::Answer,
        bridge::{Bridge, Transport, Transport::*},
        moment::Moment,
        receiver::{Event, Received, Receiver},
        rest::Rest,
        server::{Installation, Server},
        store::{StoreKind, StoreKind::*},
        wait::eventually,
        world::{SECRET, Setup, World},
    };
    pub(crate) use crate::support::world::world;
}
