//! Second legs and transfers with a dishonest peer.

use std::{collections::HashSet, time::Duration};

use dikala_sip::leg::LegEvent;

use crate::{
    digests::call_by_digest,
    hops::Inner,
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer},
};

/// Longer than any retransmission interval.
const QUIET: Duration = Duration::from_secs(1);

fn is_transfer(happening: &LegEvent) -> bool {
    matches!(happening, LegEvent::Transfer(_) | LegEvent::Joined { .. })
}

/// A phone that gets its own second leg, and the INVITE of that leg.
async fn handing_over() -> (TestEdge, ScriptedPhone, String) {
    let manner = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(manner, 10, |sip| sip.trunks = TestEdge::of_users()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    call_by_digest(&mut phone, |invite| invite, &offer(40_000)).await;
    let invite = phone.expect("INVITE ").await;
    (bench, phone, invite)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_answers_as_a_hundred_is_hung_up_a_few_times() {
    let (bench, mut phone, invite) = handing_over().await;
    for _ in 0..2 {
        for person in 0..100 {
            let tag = format!("person-{person}");
            let accepted = phone.response(&invite, "200 OK", &tag, &offer(40_002));
            phone.send(&accepted).await;
            // Sent as fast as they are read, because excess ones are dropped.
            tokio::task::yield_now().await;
        }
    }
    let mut ended = HashSet::new();
    let mut heard = Some(phone.expect("BYE ").await);
    while let Some(message) = heard {
        if message.starts_with("BYE ") {
            phone.answer(&message, "200 OK").await;
            ended.insert(header(&message, "To").unwrap().to_owned());
        }
        heard = phone.hears(QUIET).await;
    }
    assert!((1..=16).contains(&ended.len()), "{}", ended.len());
    eventually("the first stands", || bench.is_joined()).await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_who_names_another_way_is_not_followed() {
    let inner = Inner::new().await;
    for named in inner.named() {
        for (status, line) in [
            ("200 OK", format!("Contact: <sip:person@{named}>")),
            (
                "200 OK",
                format!("Record-Route: <sip:{named};lr>\r\nContact: <sip:p@{named}>"),
            ),
            ("302 Moved", format!("Contact: <sip:person@{named}>")),
        ] {
            let (bench, mut phone, invite) = handing_over().await;
            let contact = format!("Contact: <sip:budi@{}>", phone.local);
            let answer = phone.response(&invite, status, "person", &offer(40_002));
            phone.send(&answer.replace(&contact, &line)).await;
            phone.expect("ACK ").await;
            let taken = status.starts_with("200");
            eventually("the task hears", || {
                let happened = bench.call().events;
                let told = happened.into_iter().find(is_transfer);
                told.is_some_and(|it| matches!(it, LegEvent::Joined { .. }) == taken)
            })
            .await;
            phone.ask("BYE", "", "").await;
            if taken {
                // The BYE of the person's leg goes to the source of its answer.
                let bye = phone.expect("BYE ").await;
                phone.answer(&bye, "200 OK").await;
            }
        }
        inner.hears_nothing(&named).await;
    }
}

/// Otherwise the call would end as transferred, although no one was called.
#[tokio::test(flavor = "multi_thread")]
async fn a_notify_that_nobody_asked_for_hands_nobody_over() {
    let (bench, mut phone, invite) = handing_over().await;
    let notify = |phone: &mut ScriptedPhone, event: &str, body: &str| {
        phone.cseq += 1;
        let event = format!("Event: {event}\r\nSubscription-State: terminated\r\n");
        let notify = phone.request("NOTIFY", &event, body);
        notify.replace("application/sdp", "message/sipfrag")
    };
    for event in ["refer", "refer;id=1", "dialog"] {
        let forged = notify(&mut phone, event, "SIP/2.0 200 OK\r\n");
        phone.send(&forged).await;
        phone.answered("SIP/2.0 481").await;
    }
    assert!(!bench.call().events.iter().any(is_transfer));
    let busy = phone.response(&invite, "486 Busy Here", "person", "");
    phone.send(&busy).await;
    eventually("the task hears", || {
        bench.call().events.iter().any(is_transfer)
    })
    .await;
    assert!(!bench.is_joined());
    phone.hang_up().await;
}

/// A phone that was asked to call the person reports arbitrary progress.
#[tokio::test(flavor = "multi_thread")]
async fn rubbish_in_a_notify_neither_ends_a_transfer_nor_the_call() {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone
        .call("Allow: INVITE, REFER, NOTIFY\r\n", &offer(40_000))
        .await;
    let refer = phone.expect("REFER ").await;
    phone.answer(&refer, "202 Accepted").await;
    let long = format!("SIP/2.0 {} OK\r\n", "9".repeat(30_000));
    for body in [
        "x",
        "SIP/2.0",
        "SIP/2.0 0 Zero",
        "SIP/2.0 99999 Many",
        "SIP/2.0 -1 No",
        &long,
    ] {
        phone.cseq += 1;
        let event = "Event: refer\r\nSubscription-State: active\r\n";
        let notify = phone.request("NOTIFY", event, body);
        let notify = notify.replace("application/sdp", "message/sipfrag");
        phone.send(&notify).await;
        phone.answered("SIP/2.0 200").await;
    }
    assert!(!bench.call().events.iter().any(is_transfer));
    phone.hang_up().await;
    eventually("the task hears", || bench.saw(&LegEvent::HungUp)).await;
}
