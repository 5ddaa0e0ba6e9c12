//! What these tests stand on: an edge with a call's task that does as told, and a phone that says what it is told.

mod bench;
mod phone;
mod program;
mod sound;

pub use self::{
    bench::{Bench, Manner, publicly, trunk},
    phone::{Phone, header, offer},
    program::{Running, need, port},
    sound::{Sound, carries},
};

use std::time::Duration;

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until this holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
