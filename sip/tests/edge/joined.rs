//! Audio between two joined legs, and the ring tone that the caller hears while the person's phone rings.

use dikala_sip::leg::LegEvent;

use crate::{
    changes::{joined, pcma},
    support::{CallBehaviour, PhoneMedia, ScriptedPhone, TestEdge, carries, eventually},
};

async fn transfers() -> (TestEdge, ScriptedPhone) {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let phone = ScriptedPhone::udp(bench.udp()).await;
    (bench, phone)
}

/// Carriers play ringing and announcements as early media.
#[tokio::test(flavor = "multi_thread")]
async fn early_media_is_heard_at_once_and_never_later() {
    for early in [true, false] {
        let (bench, mut phone) = transfers().await;
        let mut caller = PhoneMedia::new().await;
        let mut person = PhoneMedia::new().await.higher();
        let answer = phone.call("", &pcma(caller.port())).await;
        let invite = phone.expect("INVITE ").await;
        if early {
            let sdp = pcma(person.port());
            let progress = phone.response(&invite, "183 Session Progress", "person", &sdp);
            phone.send(&progress).await;
            // 16 periods of the person's tone are in a packet, 9 of the ring tone.
            let mut sent = 0;
            while caller.pitch_of(1).await < 12 {
                person.send(&invite).await;
                sent += 1;
                assert!(sent < 500, "the caller hears no early media");
            }
        }
        for _ in 0..100 {
            person.send(&invite).await;
        }
        let accepted = phone.response(&invite, "200 OK", "person", &pcma(person.port()));
        phone.send(&accepted).await;
        phone.expect("ACK ").await;
        eventually("it stands", || bench.is_joined()).await;
        caller.forgets();
        let mut late = 0;
        for _ in 0..120 {
            late += usize::from(caller.pitch_of(1).await > 12);
        }
        // On a busy machine what was sent at once is received over a while.
        assert!(late <= if early { 50 } else { 0 }, "{late} packets");
        // Afterwards both are heard.
        carries(&mut person, &invite, &caller).await;
        carries(&mut caller, &answer, &person).await;
        phone.hang_up().await;
    }
}

/// The person's side may take its time to answer the CANCEL.
#[tokio::test(flavor = "multi_thread")]
async fn early_media_ends_with_the_call_of_the_caller() {
    let (_bench, mut phone) = transfers().await;
    let (caller, person) = (PhoneMedia::new().await, PhoneMedia::new().await);
    phone.call("", &pcma(caller.port())).await;
    let invite = phone.expect("INVITE ").await;
    let sdp = pcma(person.port());
    let progress = phone.response(&invite, "183 Session Progress", "person", &sdp);
    phone.send(&progress).await;
    person.pitch_of(1).await;
    phone.hang_up().await;
    tokio::join!(caller.ends(), person.ends());
}

/// One stray packet must not take the ring tone away for the rest of the ringing.
#[tokio::test(flavor = "multi_thread")]
async fn the_ring_tone_returns_when_early_media_ends() {
    let (_bench, mut phone) = transfers().await;
    let caller = PhoneMedia::new().await;
    let mut person = PhoneMedia::new().await.higher();
    phone.call("", &pcma(caller.port())).await;
    let invite = phone.expect("INVITE ").await;
    let sdp = pcma(person.port());
    let progress = phone.response(&invite, "183 Session Progress", "person", &sdp);
    phone.send(&progress).await;
    while caller.pitch_of(1).await < 12 {
        person.send(&invite).await;
    }
    caller.falls_silent().await;
    caller.forgets();
    caller.hears_a_tone(425).await;
    phone.hang_up().await;
}

/// A proxy that tries one phone after the other passes on the 183 of each.
#[tokio::test(flavor = "multi_thread")]
async fn early_media_goes_to_the_phone_that_rang_last() {
    let (_bench, mut phone) = transfers().await;
    let caller = PhoneMedia::new().await;
    phone.call("", &pcma(caller.port())).await;
    let invite = phone.expect("INVITE ").await;
    for tag in ["first", "second"] {
        let person = PhoneMedia::new().await;
        let sdp = pcma(person.port());
        let progress = phone.response(&invite, "183 Session Progress", tag, &sdp);
        phone.send(&progress).await;
        person.pitch_of(1).await;
    }
    phone.hang_up().await;
}

/// A stall of the line would otherwise delay the rest of the call.
#[tokio::test(flavor = "multi_thread")]
async fn packets_that_come_late_all_at_once_are_dropped() {
    let (bench, mut phone) = transfers().await;
    let (mut caller, answer, mut person, invite, _) = joined(&bench, &mut phone).await;
    is_bounded(&mut person, &invite, &caller).await;
    is_bounded(&mut caller, &answer, &person).await;
    phone.hang_up().await;
}

async fn is_bounded(from: &mut PhoneMedia, sdp: &str, to: &PhoneMedia) {
    carries(from, sdp, to).await;
    to.falls_silent().await;
    for _ in 0..100 {
        from.send(sdp).await;
    }
    let heard = to.loud_until_silence().await;
    // On a busy machine what was sent at once is received over a while.
    assert!((1..=50).contains(&heard), "{heard} packets");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_hears_ringing_until_the_person_answers_or_refuses() {
    for (status, answers) in [("486 Busy Here", false), ("200 OK", true)] {
        let (bench, mut phone) = transfers().await;
        let (caller, person) = (PhoneMedia::new().await, PhoneMedia::new().await);
        phone.call("", &pcma(caller.port())).await;
        let invite = phone.expect("INVITE ").await;
        phone.answer(&invite, "180 Ringing").await;
        caller.hears_a_tone(425).await;
        let sdp = if answers {
            pcma(person.port())
        } else {
            String::new()
        };
        let response = phone.response(&invite, status, "person", &sdp);
        phone.send(&response).await;
        eventually("the task hears", || {
            let events = bench.call().events;
            let told = |event: &LegEvent| match answers {
                true => matches!(event, LegEvent::Joined { .. }),
                false => matches!(event, LegEvent::Transfer(Err(_))),
            };
            events.iter().any(told)
        })
        .await;
        caller.falls_silent().await;
        // The tone would come again within 5 s.
        assert_eq!(caller.pitch_of(260).await, 0, "{status}");
        phone.hang_up().await;
    }
}
