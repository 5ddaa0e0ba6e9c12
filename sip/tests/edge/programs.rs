//! Calls with phones and proxies from Debian.

use std::{process::Command, time::Duration};

use dikala_sip::{
    settings::{Credentials, RegisterSettings, SipTransport},
    statistics::CallOutcomes,
    try_registrar,
};

use crate::support::{
    CallBehaviour, ChildProgram, TestEdge, USER_AGENT, eventually, need, port, publicly, talks,
};

/// The built-in caller of sipp: INVITE with PCMU, talk, BYE.
fn sipp(bench: &TestEdge, arguments: &[&str]) -> Command {
    let mut sipp = Command::new("sipp");
    sipp.args(["-sn", "uac", "-s", "+622150001000", "-i", "127.0.0.1"])
        .args(["-nostdin", "-timeout_error"])
        .args(arguments)
        .arg(bench.udp().to_string());
    sipp
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_calls_come_twenty_a_second() {
    if !need("sipp") {
        return;
    }
    let bench = TestEdge::new(CallBehaviour::Tone).await;
    let mut calls = sipp(
        &bench,
        &["-m", "100", "-r", "20", "-d", "1000", "-timeout", "40"],
    );
    assert!(
        ChildProgram::start(&mut calls)
            .end(Duration::from_secs(60))
            .await
    );
    eventually("all are over", || bench.edge.statistics().calls == 0).await;
    let statistics = bench.edge.statistics();
    assert_eq!(
        (statistics.invites, statistics.callers.answered),
        (100, 100),
        "{statistics:?}"
    );
    assert_eq!(
        statistics.callers,
        CallOutcomes {
            answered: 100,
            ..CallOutcomes::default()
        }
    );
    let answered: u64 = statistics.answer.counts.iter().sum();
    assert_eq!(answered, 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn baresip_proves_itself() {
    if !need("baresip") || !need("sox") {
        return;
    }
    let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
        sip.trunks = TestEdge::of_users()
    })
    .await;
    let account = "<sip:ayu@127.0.0.1>;regint=0;auth_user=ayu;auth_pass=rahasia;audio_codecs=PCMA";
    talks(&bench, "ayu", account, SipTransport::Udp, "PCMA").await;
}

/// The account is a number, as those of many providers.
const REGISTRAR: &str = r#"modparam("registrar", "min_expires", 60)
request_route {
    if (is_method("REGISTER")) {
        if (!pv_www_authenticate("trunk", "rahasia", "0")) {
            www_challenge("trunk", "1");
            exit;
        }
        save("location");
        exit;
    }
    if (has_totag()) {
        if (loose_route()) {
            t_relay();
        } else if (is_method("ACK")) {
            if (t_check_trans()) t_relay();
        } else {
            sl_send_reply("404", "Not Here");
        }
        exit;
    }
    if (is_method("CANCEL")) {
        if (t_check_trans()) t_relay();
        exit;
    }
    record_route();
    $ru = "sip:6221500100@127.0.0.1";
    if (!lookup("location")) {
        sl_send_reply("404", "Not Registered");
        exit;
    }
    t_relay();
}
"#;

/// A registrar and proxy that records its route, with one account.
pub fn kamailio(folder: &std::path::Path, port: u16) -> ChildProgram {
    kamailio_with(folder, port, REGISTRAR)
}

/// A kamailio with this routing. One process relays all datagrams, so they stay in order.
pub fn kamailio_with(folder: &std::path::Path, port: u16, routing: &str) -> ChildProgram {
    let config = format!(
        r#"#!KAMAILIO
debug=1
log_stderror=yes
fork=no
children=1
disable_tcp=no
auto_aliases=no
listen=udp:127.0.0.1:{port}
listen=tcp:127.0.0.1:{port}
mpath="/usr/lib/x86_64-linux-gnu/kamailio/modules/:/usr/lib/aarch64-linux-gnu/kamailio/modules/"
loadmodule "tm.so"
loadmodule "sl.so"
loadmodule "rr.so"
loadmodule "pv.so"
loadmodule "usrloc.so"
loadmodule "registrar.so"
loadmodule "textops.so"
loadmodule "siputils.so"
loadmodule "auth.so"
{routing}
"#
    );
    let path = folder.join("kamailio.cfg");
    std::fs::write(&path, config).unwrap();
    let mut kamailio = Command::new("kamailio");
    kamailio
        .args([
            "-DD",
            "-E",
            "-m",
            "16",
            "-M",
            "4",
            "-f",
            path.to_str().unwrap(),
            "-Y",
            folder.to_str().unwrap(),
        ])
        .arg("-P")
        .arg(folder.join("pid"))
        .current_dir(folder);
    ChildProgram::start(&mut kamailio)
}

const ROUTED: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="through a proxy, hung up by the other side">
  <send retrans="500"><![CDATA[
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      From: <sip:+62811222333@[local_ip]:[local_port]>;tag=[pid]s[call_number]
      To: <sip:[service]@[remote_ip]:[remote_port]>
      Call-ID: [call_id]
      CSeq: 1 INVITE
      Contact: <sip:1001@[local_ip]:[local_port]>
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
  <recv response="200" rrs="true"></recv>
  <send><![CDATA[
      ACK [next_url] SIP/2.0
      Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
      [routes]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      CSeq: 1 ACK
      Max-Forwards: 70
      Content-Length: 0

  ]]></send>
  <recv request="BYE"></recv>
  <send><![CDATA[
      SIP/2.0 200 OK
      [last_Via:]
      [last_From:]
      [last_To:]
      [last_Call-ID:]
      [last_CSeq:]
      Content-Length: 0

  ]]></send>
</scenario>
"#;

#[tokio::test(flavor = "multi_thread")]
async fn we_register_at_kamailio_and_calls_come_through_it() {
    if !need("kamailio") || !need("sipp") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for transport in ["udp", "tcp"] {
        let at = port();
        let _kamailio = kamailio(folder.path(), at);
        let register = |password: &str| RegisterSettings {
            registrar: format!("sip:127.0.0.1:{at};transport={transport}"),
            credentials: Credentials {
                username: "6221500100".to_owned(),
                password: password.to_owned(),
            },
            expires_seconds: 120,
            ..RegisterSettings::default()
        };
        let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| {
            sip.trunks = TestEdge::of_users();
            sip.trunks[0].credentials = None;
            sip.trunks[0].register = Some(register("rahasia"));
        })
        .await;
        eventually("it is registered", || {
            bench.edge.statistics().registered_trunks == 1
        })
        .await;
        if transport == "udp" {
            try_registrar("jkt", &register("rahasia"), &[], USER_AGENT, publicly())
                .await
                .unwrap();
            let refused = try_registrar("jkt", &register("salah"), &[], USER_AGENT, publicly())
                .await
                .unwrap_err();
            assert!(
                refused.to_string().contains("username or password"),
                "{refused}"
            );
        }
        let scenario = folder.path().join("routed.xml");
        std::fs::write(&scenario, ROUTED).unwrap();
        let mut sipp = Command::new("sipp");
        sipp.current_dir(folder.path())
            .args([
                "-sf",
                scenario.to_str().unwrap(),
                "-m",
                "5",
                "-r",
                "10",
                "-s",
                "+622150001000",
            ])
            .args([
                "-i",
                "127.0.0.1",
                "-timeout",
                "15",
                "-timeout_error",
                "-nostdin",
            ])
            .arg(format!("127.0.0.1:{at}"));
        assert!(
            ChildProgram::start(&mut sipp)
                .end(Duration::from_secs(30))
                .await,
            "{transport}"
        );
        let call = bench.calls().pop().unwrap();
        assert_eq!(
            (call.did.as_str(), call.caller.as_str()),
            ("+622150001000", "+62811222333")
        );
        assert_eq!(bench.calls().len(), 5);
        bench.edge.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sipsak_gets_its_options_answered() {
    if !need("sipsak") {
        return;
    }
    let bench = TestEdge::new(CallBehaviour::Ring).await;
    let uri = format!("sip:+622150001000@{}", bench.udp());
    // The second traces the way: requests with each number of hops, from 0.
    for arguments in [&["-s"][..], &["-T", "-s"]] {
        let mut sipsak = Command::new("sipsak");
        sipsak.args(arguments).arg(&uri);
        let asked = ChildProgram::start(&mut sipsak);
        assert!(asked.end(Duration::from_secs(30)).await, "{arguments:?}");
    }
    assert!(bench.calls().is_empty());
}
