//! Support for the SIP tests: an edge with scripted call tasks, and a scripted phone.

mod baresip;
mod bench;
mod conversation;
mod lab;
mod linphone;
mod phone;
mod pjsip;
mod program;
mod secure;
pub mod sipp;
mod sound;
mod turn;
mod twinkle;

pub use self::{
    baresip::talks,
    bench::{CallBehaviour, ObservedCall, TestEdge, USER_AGENT, trunk},
    conversation::{both_hear, hears_the_tone, urged},
    lab::{EDGE, NatBehaviour, NatLab, ROUTER, STRANGER},
    linphone::{Linphone, LinphoneSettings},
    phone::{ScriptedPhone, flood, header, offer},
    pjsip::{PJSIP_RATE, PjsipPhone, PjsipSettings, need_pjsip},
    program::{ChildProgram, make_tone, need, port, skip},
    secure::{Certificate, privately, publicly},
    sound::{PhoneMedia, Recording, carries, pitch},
    turn::wait_for_most_turns,
    twinkle::Twinkle,
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
