//! Calls of Twinkle: talk, hold, and keys as events and as tones.

use dikala_sip::leg::LegEvent;
use rstest::rstest;

use crate::support::{CallBehaviour, TestEdge, Twinkle, both_hear, eventually, need, urged};

const CALLER: &str = "+6281234567890";
const RATE: usize = 8_000;

/// For keys as tones it offers no events.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn twinkle_talks_holds_and_presses_keys(#[values("rfc2833", "inband")] keys: &str) {
    let programs = ["twinkle-console", "pulseaudio", "paplay", "parec", "sox"];
    if !programs.into_iter().all(need) {
        return;
    }
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    let mut phone = Twinkle::new(CALLER, keys).await;
    phone.command(&format!("call sip:+622150001000@{}", bench.udp()));
    eventually("the call is answered", || bench.saw(&LegEvent::Answered)).await;
    both_hear(&bench, CALLER, &phone.heard, RATE).await;
    let held = || bench.saw(&LegEvent::Held(true));
    urged("the call is held", held, || phone.command("hold")).await;
    let resumed = || bench.saw(&LegEvent::Held(false));
    urged("the call is resumed", resumed, || phone.command("retrieve")).await;
    both_hear(&bench, CALLER, &phone.heard, RATE).await;
    phone.command("dtmf 427");
    for key in ['4', '2', '7'] {
        eventually("the key comes", || bench.saw(&LegEvent::Key(key))).await;
    }
    phone.command("bye");
    eventually("the call is over", || bench.call().over).await;
    assert!(bench.saw(&LegEvent::HungUp));
    let agent = bench.call().user_agent.unwrap_or_default();
    assert!(agent.starts_with("Twinkle"), "{agent}");
}
