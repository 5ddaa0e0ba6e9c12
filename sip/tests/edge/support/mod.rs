//! Support for the SIP tests: an edge with scripted call tasks, and a scripted phone.

mod baresip;
mod bench;
mod lab;
mod linphone;
mod phone;
mod program;
mod secure;
mod sound;
mod turn;

pub use self::{
    baresip::talks,
    bench::{CallBehaviour, ObservedCall, TestEdge, USER_AGENT, trunk},
    lab::{EDGE, NatLab, PHONE, ROUTER, STRANGER},
    linphone::Linphone,
    phone::{ScriptedPhone, flood, header, offer},
    program::{ChildProgram, need, port},
    secure::{Certificate, privately, publicly},
    sound::{PhoneMedia, carries, pitch},
};

use std::time::Duration;

/// The longest wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until this holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < until, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
