//! Options of a trunk: its called number and extensions.

use dikala_sip::settings::Trunk;

use crate::support::{CallBehaviour, ScriptedPhone, TestEdge, offer};

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
    called(&bench, "501", "").await.expect("SIP/2.0 484").await;

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
