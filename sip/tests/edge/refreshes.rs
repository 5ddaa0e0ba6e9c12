//! Session refreshes (RFC 4028) that show that a caller has left.

use dikala_sip::leg::LegEvent;

use crate::{
    changes::pcma,
    support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header},
};

/// A call with a session timer of 90 s that is joined to a person, who answers at the same phone.
async fn joined(refresher: &str) -> (TestEdge, ScriptedPhone, String) {
    let bench = TestEdge::new(CallBehaviour::Transfer("+62811111".to_owned())).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    // Held, so that missing media does not end the call.
    let held = pcma(40_000).replace("sendrecv", "inactive");
    let extra = format!("Supported: timer\r\nSession-Expires: 90;refresher={refresher}\r\n");
    phone.call(&extra, &held).await;
    let invite = phone.expect("INVITE ").await;
    let accepted = phone.response(&invite, "200 OK", "person", &held);
    phone.send(&accepted).await;
    phone.expect("ACK ").await;
    eventually("it stands", || bench.is_joined()).await;
    (bench, phone, header(&invite, "Call-ID").unwrap().to_owned())
}

/// Both legs are hung up, the caller's with these words, and the task hears that the caller has left.
async fn has_left(bench: &TestEdge, phone: &mut ScriptedPhone, person: &str, words: &str) {
    let mut legs = Vec::new();
    while legs.len() < 2 {
        let bye = phone.within(80, "BYE ").await;
        let call = header(&bye, "Call-ID").unwrap().to_owned();
        if call != person {
            let reason = header(&bye, "Reason").unwrap();
            assert!(reason.contains(words), "{reason}");
        }
        phone.answer(&bye, "200 OK").await;
        if !legs.contains(&call) {
            legs.push(call);
        }
    }
    eventually("the task hears", || bench.call().over).await;
    let events = bench.call().events;
    assert!(events.contains(&LegEvent::HungUp), "{events:?}");
    let is_fault = |event: &LegEvent| matches!(event, LegEvent::Failed(_) | LegEvent::MediaLost);
    assert!(!events.iter().any(is_fault), "{events:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute and a half"]
async fn a_joined_caller_whose_phone_is_gone_has_left() {
    let unknown = async {
        let (bench, mut phone, person) = joined("uas").await;
        let refresh = phone.within(60, "INVITE ").await;
        phone.answer(&refresh, "481 Gone").await;
        has_left(&bench, &mut phone, &person, "knows nothing").await;
    };
    let silent = async {
        let (bench, mut phone, person) = joined("uas").await;
        phone.within(60, "INVITE ").await;
        has_left(&bench, &mut phone, &person, "does not answer").await;
    };
    let never_refreshes = async {
        let (bench, mut phone, person) = joined("uac").await;
        has_left(&bench, &mut phone, &person, "was not refreshed").await;
    };
    tokio::join!(unknown, silent, never_refreshes);
}

/// A server that is busy, or wants a longer interval, lets the session be refreshed before it ends.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_refused_refresh_is_tried_again() {
    let busy = async {
        let (_bench, mut phone, _) = joined("uas").await;
        let refresh = phone.within(60, "INVITE ").await;
        let refused = phone.response(&refresh, "503 Service Unavailable", "", "");
        let refused = refused.replace("Contact:", "Retry-After: 3\r\nContact:");
        phone.send(&refused).await;
        let refresh = again(&mut phone, &refresh, 3).await;
        phone.answer(&refresh, "500 Server Error").await;
        again(&mut phone, &refresh, 1).await;
    };
    let longer = async {
        let (_bench, mut phone, _) = joined("uas").await;
        let refresh = phone.within(60, "INVITE ").await;
        assert_eq!(header(&refresh, "Min-SE"), None);
        let refused = phone.response(&refresh, "422 Session Interval Too Small", "", "");
        let refused = refused.replace("Contact:", "Min-SE: 300\r\nContact:");
        phone.send(&refused).await;
        let refresh = again(&mut phone, &refresh, 1).await;
        assert_eq!(header(&refresh, "Min-SE"), Some("300"));
        let interval = header(&refresh, "Session-Expires").unwrap();
        assert!(interval.starts_with("300;"), "{interval}");
    };
    tokio::join!(busy, longer);
}

/// The next refresh after a refused one. It does not come before this many seconds, less the way of the refusal.
async fn again(phone: &mut ScriptedPhone, refused: &str, seconds: u64) -> String {
    let begun = tokio::time::Instant::now();
    loop {
        let refresh = phone.within(seconds + 5, "INVITE ").await;
        if header(&refresh, "CSeq") != header(refused, "CSeq") {
            let waited = begun.elapsed().as_millis();
            assert!(waited >= u128::from(seconds) * 900, "{waited} ms");
            return refresh;
        }
    }
}
