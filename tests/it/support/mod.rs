//! Helpers beside the test kit: the real program, a bridge, a REST client.

pub mod bridge;
pub mod browser;
pub mod clock;
pub mod deaf;
pub mod event_stream;
pub mod late;
pub mod link;
pub mod moment;
pub mod otlp;
pub mod prometheus;
pub mod raw_socket;
pub mod rest;
pub mod scrape;
pub mod server;
pub mod shared;
pub mod statements;
pub mod tenant;
pub mod terminal;
pub mod visitor;
pub mod web_call;
pub mod world;

/// Everything that most tests need.
pub mod prelude {
    pub use std::time::Duration;

    pub use dikala_testkit::{
        ReceivedEvent, ReceivedRequest, ServerAnswer,
        StoreKind::{self, *},
        TenantServer, eventually,
    };
    pub use rstest::rstest;
    pub use serde_json::{Value, json};

    pub use super::{
        bridge::{BridgeTransport, BridgeTransport::*, TestBridge},
        moment::Moment,
        rest::Rest,
        server::{Installation, Server},
        world::{SECRET, TestWorld, WorldSetup},
    };
    pub(crate) use crate::support::world::{shared_world, world};
}
