//! Options of a trunk: its called number, extensions, session timer and limits.

use dikala_sip::{
    leg::LegEvent,
    settings::{OutboundSettings, SessionTimer, Trunk},
};
use tokio::net::UdpSocket;

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, eventually, header, offer};

async fn with(behaviour: CallBehaviour, change: impl FnOnce(&mut Trunk)) -> TestEdge {
    TestEdge::with(behaviour, 10, |sip| change(&mut sip.trunks[0])).await
}

/// A phone that has sent an INVITE to this number.
async fn called(bench: &TestEdge, did: &str, extra: &str) -> ScriptedPhone {
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.did = did.to_owned();
    phone.to = format!("<sip:{did}@{}>", phone.edge);
    let invite = phone.request("INVITE", extra, &offer(40_000));
    phone.send(&invite).await;
    phone
}

#[tokio::test(flavor = "multi_thread")]
async fn extensions_and_a_single_number_are_called_numbers() {
    let bench = with(CallBehaviour::Ring, |trunk| {
        trunk.extensions = [("500".to_owned(), "+622150001500".to_owned())].into();
    })
    .await;
    called(&bench, "500", "").await.expect("SIP/2.0 180").await;
    assert_eq!(bench.call().did, "+622150001500");
    for unmapped in ["501", "123456"] {
        let mut phone = called(&bench, unmapped, "").await;
        let refused = phone.expect("SIP/2.0 4").await;
        assert!(refused.starts_with("SIP/2.0 404"), "{refused}");
        let reason = header(&refused, "Reason").unwrap();
        assert!(
            reason.contains("`number`") && reason.contains("`extensions`"),
            "{reason}"
        );
    }

    let bench = with(CallBehaviour::Ring, |trunk| {
        trunk.number = Some("+622150001000".to_owned());
    })
    .await;
    called(&bench, "acme-1", "")
        .await
        .expect("SIP/2.0 180")
        .await;
    assert_eq!(bench.call().did, "+622150001000");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_session_timer_is_agreed_on_where_it_is_off() {
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = with(transferring, |trunk| {
        trunk.session_timer = SessionTimer::Off;
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let timer = "Supported: timer\r\nSession-Expires: 60;refresher=uas\r\n";
    let answer = phone.call(timer, &offer(40_000)).await;
    assert_eq!(header(&answer, "Session-Expires"), None);
    let invite = phone.expect("INVITE ").await;
    assert_eq!(header(&invite, "Session-Expires"), None);
    let refused = phone.response(&invite, "422 Session Interval Too Small", "person", "");
    let refused = refused.replace("Contact:", "Min-SE: 3600\r\nContact:");
    phone.send(&refused).await;
    let why = "the other side did not take the call (status 422)".to_owned();
    let failed = LegEvent::Transfer(Err(why));
    eventually("the transfer fails", || bench.saw(&failed)).await;
    phone.hang_up().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trunk_has_so_many_calls_and_begins_so_many_a_second() {
    let did = "+622150001000";
    let bench = with(CallBehaviour::Ring, |trunk| trunk.max_calls = Some(1)).await;
    called(&bench, did, "").await.expect("SIP/2.0 180").await;
    let refused = called(&bench, did, "").await.expect("SIP/2.0 503").await;
    assert!(header(&refused, "Retry-After").is_some(), "{refused}");
    assert_eq!(bench.calls().len(), 1);

    let bench = with(CallBehaviour::Ring, |trunk| {
        trunk.calls_per_second = Some(1)
    })
    .await;
    // Both are sent before the first is answered.
    let (mut first, mut second) = (called(&bench, did, "").await, called(&bench, did, "").await);
    first.expect("SIP/2.0 180").await;
    let refused = second.expect("SIP/2.0 503").await;
    assert!(header(&refused, "Retry-After").is_some(), "{refused}");
    let counted = bench.edge.statistics().refused;
    assert!(
        counted
            .iter()
            .any(|one| one.reason == "rate" && one.count == 1),
        "{counted:?}"
    );
}

/// A person is called over the carrier's trunk, which has one line.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_another_trunk_counts_against_its_limits() {
    let carrier = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let address = carrier.local_addr().unwrap();
    let transferring = CallBehaviour::Transfer("+62811111".to_owned());
    let bench = TestEdge::with(transferring, 10, |sip| {
        sip.trunks[0].addresses = vec!["127.0.0.1/32".parse().unwrap()];
        sip.trunks[0].transfer_trunk = Some("carrier".to_owned());
        sip.trunks.push(Trunk {
            name: "carrier".to_owned(),
            addresses: vec!["127.0.0.3/32".parse().unwrap()],
            max_calls: Some(1),
            outbound: OutboundSettings {
                uri: Some(format!("sip:{address}")),
                ..OutboundSettings::default()
            },
            ..Trunk::default()
        });
    })
    .await;
    let mut person = ScriptedPhone::at(carrier, bench.udp()).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let invite = person.expect("INVITE ").await;
    let accepted = person.response(&invite, "200 OK", "person", &offer(40_002));
    person.send(&accepted).await;
    person.expect("ACK ").await;
    eventually("both are joined", || bench.is_joined()).await;
    let mut caller = ScriptedPhone::udp_from("127.0.0.3", bench.udp()).await;
    let invite = caller.request("INVITE", "", &offer(40_004));
    caller.send(&invite).await;
    caller.expect("SIP/2.0 503").await;
    phone.hang_up().await;
    let bye = person.expect("BYE ").await;
    person.answer(&bye, "200 OK").await;

    // The line was released before the BYE.
    let mut caller = ScriptedPhone::udp_from("127.0.0.3", bench.udp()).await;
    caller.call("", &offer(40_004)).await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    phone.call("", &offer(40_000)).await;
    let why = LegEvent::Transfer(Err("all lines are taken".to_owned()));
    eventually("the agent hears why", || bench.saw(&why)).await;
    phone.hang_up().await;
}
