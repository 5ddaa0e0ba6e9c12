//! Access control, and the trunk and number of a call.

use std::{process::Command, time::Duration};

use crate::support::{CallBehaviour, ChildProgram, ScriptedPhone, TestEdge, header, need, offer};

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_nothing_is_kept_of_them() {
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks[0].addresses = vec!["192.0.2.0/24".parse().unwrap()];
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let invite = phone.request("INVITE", "", &offer(40_000));
    phone.send(&invite).await;
    let first = phone.expect("SIP/2.0 403").await;
    assert_eq!(
        header(&first, "Server"),
        Some("Dikala"),
        "without a version"
    );
    // Without a transaction nothing is retransmitted, and the same request gets the same answer.
    assert_eq!(phone.hears(Duration::from_millis(900)).await, None);
    phone.send(&invite).await;
    assert_eq!(phone.expect("SIP/2.0 403").await, first);
    assert_eq!(bench.calls().len(), 0);
    assert_eq!(bench.edge.statistics().invites, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sipp_proves_itself_with_md5() {
    if !need("sipp") {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("auth.xml");
    std::fs::write(&scenario, AUTHENTICATED).unwrap();
    for (password, content) in [("rahasia", true), ("salah", false)] {
        let mut sipp = Command::new("sipp");
        sipp.current_dir(folder.path())
            .args(["-sf", scenario.to_str().unwrap(), "-m", "12", "-r", "20"])
            .args(["-au", "ayu", "-ap", password, "-s", "+622150001000"])
            .args([
                "-i",
                "127.0.0.1",
                "-timeout",
                "15",
                "-timeout_error",
                "-nostdin",
            ])
            .arg(bench.udp().to_string());
        assert_eq!(
            ChildProgram::start(&mut sipp)
                .end(Duration::from_secs(30))
                .await,
            content
        );
    }
    assert_eq!(bench.calls().len(), 12);
    let call = bench.calls().swap_remove(0);
    assert_eq!(call.trunk, "users");
    assert_eq!(
        call.caller, "1001",
        "users are not trusted to assert who calls"
    );
}

const AUTHENTICATED: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="digest">
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:1001@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
  <recv response="407" auth="true"></recv>
  <send><![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 1 ACK
      Content-Length: 0

  ]]></send>
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:1001@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 2 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
      [authentication]
      P-Asserted-Identity: <sip:+62811999999@trunk>
      Max-Forwards: 70
      Content-Type: application/sdp
      Content-Length: [len]

      v=0
      o=- 1 1 IN IP4 [local_ip]
      s=-
      c=IN IP4 [media_ip]
      t=0 0
      m=audio [media_port] RTP/AVP 0
      a=rtpmap:0 PCMU/8000

  ]]></send>
  <recv response="100" optional="true"></recv>
  <recv response="180" optional="true"></recv>
  <recv response="200"></recv>
  <send><![CDATA[
      ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 2 ACK
      Content-Length: 0

  ]]></send>
  <pause milliseconds="100"/>
  <send retrans="500"><![CDATA[
      BYE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 3 BYE
      Content-Length: 0

  ]]></send>
  <recv response="200"></recv>
</scenario>
"#;

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_made_e164_and_only_trusted_trunks_assert_who_calls() {
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let asserted =
        "P-Asserted-Identity: \"Shop, \\\"A\\\"\" <sip:02150009999@trunk>, <tel:+622150009999>\r\n";
    let withheld = format!("{asserted}Privacy: id\r\n");
    for (did, from, extra, expected) in [
        (
            "021-5000-1000",
            "08123456789",
            "",
            ("+622150001000", "+628123456789"),
        ),
        (
            "622150001000",
            "anonymous",
            "",
            ("+622150001000", "anonymous"),
        ),
        (
            "+622150001000",
            "anonymous",
            asserted,
            ("+622150001000", "+622150009999"),
        ),
        (
            "+622150001000",
            "08123456789",
            withheld.as_str(),
            ("+622150001000", "anonymous"),
        ),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.did = did.to_owned();
        let invite = phone
            .request("INVITE", extra, &offer(40_000))
            .replace("08123456789", from);
        phone.send(&invite).await;
        phone.expect("SIP/2.0 180").await;
        let calls = bench.calls();
        let call = calls.last().unwrap();
        assert_eq!((call.did.as_str(), call.caller.as_str()), expected);
    }
    for (did, to, status) in [
        ("12", "12", 404),
        ("+6221", "+6221", 484),
        ("ayu", "ayu", 404),
        ("ayu", "021 5000 1001", 180),
    ] {
        let mut phone = ScriptedPhone::udp(bench.udp()).await;
        phone.to = format!("<sip:{}@{}>", to.replace(' ', "-"), phone.edge);
        phone.did = did.to_owned();
        let invite = phone.request("INVITE", "", &offer(40_000));
        phone.send(&invite).await;
        phone.expect(&format!("SIP/2.0 {status}")).await;
    }
    assert_eq!(bench.calls().last().unwrap().did, "+622150001001");
}
