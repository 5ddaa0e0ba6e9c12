//! Calls with sipp as the carrier, whose scenarios check what the edge sends.

use std::net::SocketAddr;

use dikala_sip::{
    leg::{HangupNote, LegEvent, Order},
    settings::{Credentials, RegisterSettings, SipSettings, Trunk},
};
use tokio::{net::UdpSocket, time::timeout};

use crate::{
    changes::pcma,
    servers::Servers,
    support::{
        CallBehaviour, ObservedCall, PATIENCE, PhoneMedia, ScriptedPhone, TestEdge, eventually,
        header, need, offer,
        sipp::{
            ALAW, Sipp, calls, challenge, is_left, leaves, place, receive, request, response,
            rings, tagged,
        },
        trunk,
    },
};

const DID: &str = "+622150001000";
const REFERS: &str = "Allow: INVITE, REFER, NOTIFY\n";

fn credentials(username: &str) -> Credentials {
    Credentials {
        username: username.to_owned(),
        password: "rahasia".to_owned(),
    }
}

/// An edge that registers at a sipp, which challenges it and expects these header values. It hangs up on callers.
async fn registered(
    at: SocketAddr,
    register: RegisterSettings,
    checks: &[(&str, &str)],
) -> TestEdge {
    let user = &register.credentials.username;
    let uri = &register.registrar;
    let (asks, proof) = challenge("WWW-Authenticate", "r", user, "REGISTER", uri);
    let header = [("Authorization", &*proof), ("!", "Proxy-Authorization")];
    let is_proven = [checks, &header].concat();
    let granted = "Contact: <sip:edge@127.0.0.1>;expires=600\n";
    let steps = [
        receive("REGISTER", checks),
        tagged("401 Unauthorized", &asks, ""),
        receive("REGISTER", &is_proven),
        tagged("200 OK", granted, ""),
    ];
    let registrar = Sipp::serves(at, &steps.concat()).await;
    let trunk = Trunk {
        addresses: Vec::new(),
        register: Some(RegisterSettings {
            expires_seconds: 600,
            ..register
        }),
        ..trunk()
    };
    let bench = TestEdge::with(CallBehaviour::HangUp, 10, |sip| sip.trunks = vec![trunk]).await;
    eventually("it is registered", || {
        bench.edge.statistics().registered_trunks == 1
    })
    .await;
    registrar.succeeds().await;
    bench
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numeric_account_is_called_under_its_numbers() {
    if !need("sipp") {
        return;
    }
    let at = place();
    let register = RegisterSettings {
        registrar: format!("sip:{at}"),
        credentials: credentials("123456"),
        ..RegisterSettings::default()
    };
    let bench = registered(
        at,
        register,
        &[("To", "<sip:123456@127"), ("Contact", "<sip:123456@")],
    )
    .await;
    let account = "To: <sip:[service]@";
    let called = "P-Called-Party-ID: <sip:+622150002000@carrier.example>\n";
    for (more, to, did) in [
        ("", "To: <sip:021-5000-1000@", DID),
        (called, account, "+622150002000"),
    ] {
        let steps = (calls(more) + &is_left()).replace(account, to);
        let carrier = Sipp::dials(at, &bench, "123456", &steps);
        carrier.succeeds().await;
        assert_eq!(bench.calls().pop().unwrap().did, did);
    }
    assert_eq!(bench.edge.statistics().callers.answered, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_asked_to_register_at_the_domain() {
    if !need("sipp") {
        return;
    }
    let at = place();
    let register = RegisterSettings {
        registrar: "sip:registrar.invalid".to_owned(),
        proxy: Some(format!("sip:{at}")),
        credentials: credentials("dikala"),
        ..RegisterSettings::default()
    };
    let route = format!("<sip:{at};lr>");
    let checks = [
        ("", "^REGISTER sip:registrar.invalid SIP/2.0"),
        ("To", "<sip:dikala@registrar.invalid>"),
        ("Route", &route),
    ];
    registered(at, register, &checks).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_digest_has_a_user_of_its_own() {
    if !need("sipp") {
        return;
    }
    let at = place();
    let register = RegisterSettings {
        registrar: format!("sip:{at}"),
        account: Some(DID.to_owned()),
        credentials: credentials("auth-77"),
        ..RegisterSettings::default()
    };
    let checks = [
        ("To", "<sip:.622150001000@"),
        ("From", "<sip:.622150001000@"),
        ("!", "username=\"[^a]"),
    ];
    registered(at, register, &checks).await;
}

/// The person answers, and is left.
fn person(checks: &[(&str, &str)], more: &str) -> String {
    receive("INVITE", checks)
        + &tagged("200 OK", more, ALAW)
        + &receive("ACK", &[("CSeq", "INVITE|ACK")])
        + &is_left()
}

/// The person is not called here.
fn refuses(status: &str, more: &str) -> String {
    receive("INVITE", &[]) + &tagged(status, more, "") + &receive("ACK", &[])
}

fn transferring() -> CallBehaviour {
    CallBehaviour::Transfer("+62811111".to_owned())
}

async fn hang_up(bench: &TestEdge) {
    let words = "enough said".to_owned();
    bench.order(Order::Hangup(HangupNote { words })).await;
}

/// Joins a caller to a person, who is called at the first server, and hangs up. The caller takes part in the transfer with
/// these steps.
async fn joins(
    caller: &str,
    servers: &[(SocketAddr, String)],
    change: impl FnOnce(&mut SipSettings),
) -> TestEdge {
    let mut carriers = Vec::new();
    for (at, steps) in servers {
        carriers.push(Sipp::serves(*at, steps).await);
    }
    let bench = TestEdge::with(transferring(), 10, |sip| {
        sip.trunks[0].outbound.uri = Some(format!("sip:{}", servers[0].0));
        change(sip);
    })
    .await;
    let steps = calls(REFERS) + caller + &is_left();
    carriers.push(Sipp::dials(place(), &bench, DID, &steps));
    eventually("both are joined", || bench.is_joined()).await;
    hang_up(&bench).await;
    for carrier in carriers {
        carrier.succeeds().await;
    }
    let persons = bench.edge.statistics().persons;
    assert_eq!((persons.answered, persons.refused), (1, 0));
    bench
}

/// The trunk calls persons itself.
fn bridges(sip: &mut SipSettings) {
    sip.trunks[0].transfer = dikala_sip::settings::TransferMethod::Bridge;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirection_is_followed_to_another_carrier() {
    if !need("sipp") {
        return;
    }
    let (first, second) = (place(), place());
    let there = format!("Contact: <sip:+62811111@{second}>\n");
    let named = format!("^INVITE sip:.62811111@{second} ");
    let servers = [
        (first, refuses("302 Moved Temporarily", &there)),
        (second, person(&[("", &named), ("CSeq", " 2 INVITE")], "")),
    ];
    joins("", &servers, bridges).await;
}

/// The ACK cannot be challenged.
#[tokio::test(flavor = "multi_thread")]
async fn every_challenge_of_a_second_leg_is_answered() {
    if !need("sipp") {
        return;
    }
    const WANTS: &str = "407 Proxy Authentication Required";
    let at = place();
    let asks = |method, user| {
        let uri = format!("sip:{user}@{at}");
        challenge("Proxy-Authenticate", method, "dikala", method, &uri)
    };
    let (invited, proof) = asks("INVITE", "+62811111");
    let (left, last_proof) = asks("BYE", "person");
    let unproven = [("!", "Proxy-Authorization")];
    let proven = [("Proxy-Authorization", &*proof), ("CSeq", " 2 INVITE")];
    let steps = [
        receive("INVITE", &unproven),
        tagged(WANTS, &invited, ""),
        receive("ACK", &[]),
        receive("INVITE", &proven),
        tagged("200 OK", "", ALAW),
        receive("ACK", &[("CSeq", " 2 ACK")]),
        receive("BYE", &unproven),
        response(WANTS, &left, ""),
        receive("BYE", &[("Proxy-Authorization", &last_proof)]),
        response("200 OK", "", ""),
    ];
    joins("", &[(at, steps.concat())], |sip| {
        bridges(sip);
        sip.trunks[0].outbound.credentials = Some(credentials("dikala"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_is_called_after_a_503() {
    if !need("sipp") {
        return;
    }
    let dns = Servers::new(false).await;
    let servers = [
        (place(), refuses("503 Service Unavailable", "")),
        (
            place(),
            person(&[("", "^INVITE sip:.62811111@trunk.example ")], ""),
        ),
    ];
    *dns.named.lock().unwrap() = servers.iter().map(|(at, _)| *at).collect();
    joins("", &servers, |sip| {
        bridges(sip);
        sip.nameservers = vec![dns.nameserver];
        sip.trunks[0].outbound.uri = Some("sip:trunk.example".to_owned());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_longer_session_timer_is_offered_again() {
    if !need("sipp") {
        return;
    }
    let again = [
        ("Session-Expires", "^ *3600"),
        ("Min-SE", "^ *3600"),
        ("CSeq", " 2 INVITE"),
    ];
    let agreed = "Require: timer\nSession-Expires: 3600;refresher=uas\n";
    let steps =
        refuses("422 Session Interval Too Small", "Min-SE: 3600\n") + &person(&again, agreed);
    joins("", &[(place(), steps)], bridges).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_leg_follows_a_refer_that_is_refused() {
    if !need("sipp") {
        return;
    }
    let event = "Event: refer\nSubscription-State: terminated;reason=noresource\n";
    let fails =
        request("NOTIFY", 2, event, "SIP/2.0 503 Service Unavailable") + &receive("200", &[]);
    for (status, notified) in [
        ("405 Method Not Allowed", ""),
        ("501 Not Implemented", ""),
        ("603 Decline", ""),
        ("403 Forbidden", ""),
        ("481 Call/Transaction Does Not Exist", ""),
        ("202 Accepted", &fails),
    ] {
        let at = place();
        let refer = receive("REFER", &[("Refer-To", &format!("<sip:.62811111@{at}>"))]);
        let caller = refer + &response(status, "", "") + notified;
        let bench = joins(&caller, &[(at, person(&[], ""))], |_| {}).await;
        let call = bench.call();
        let told = |event: &LegEvent| matches!(event, LegEvent::Transfer(_));
        assert!(!call.events.iter().any(told), "{status}");
        let refused = bench.edge.statistics().refused;
        let counted = refused.iter().find(|one| one.reason == "refer");
        assert_eq!(counted.unwrap().count, 1, "{status}");
    }
}

/// Sends the INVITE of a call again as another request, for which a scenario waits. Its headers fit a response to the INVITE.
async fn urge(at: SocketAddr, invite: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let urged = invite.replacen("INVITE ", "INFO ", 1);
    socket.send_to(urged.as_bytes(), at).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn early_media_is_heard_before_the_answer() {
    if !need("sipp") {
        return;
    }
    let at = place();
    let steps = [
        receive("INVITE", &[]),
        tagged("183 Session Progress", "", ALAW),
        r#"<nop><action><exec rtp_stream="tone.al,-1,8"/></action></nop>"#.to_owned(),
        receive("INFO", &[]),
        tagged("200 OK", "", ALAW),
        receive("ACK", &[]),
        is_left(),
    ];
    let carrier = Sipp::serves(at, &steps.concat()).await;
    let bench = TestEdge::with(transferring(), 10, |sip| {
        bridges(sip);
        sip.trunks[0].outbound.uri = Some(format!("sip:{at}"));
    })
    .await;
    let mut phone = ScriptedPhone::udp(bench.udp()).await;
    let sound = PhoneMedia::new().await;
    phone.call("", &pcma(sound.port())).await;
    // 16 periods of the carrier's tone are in a packet, 9 of the ring tone.
    let heard = async || while sound.pitch_of(1).await < 12 {};
    timeout(PATIENCE, heard()).await.unwrap();
    assert!(!bench.is_joined());
    let invite = bench.messages(&bench.call(), true, "INVITE ").remove(0);
    urge(at, &invite).await;
    eventually("both are joined", || bench.is_joined()).await;
    sound.forgets();
    timeout(PATIENCE, heard()).await.unwrap();
    hang_up(&bench).await;
    carrier.succeeds().await;
}

/// The line is released without an ACK, and may be taken by another call until it comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_ack_takes_a_line_again_or_ends_the_call() {
    if !need("sipp") {
        return;
    }
    for is_taken in [false, true] {
        let bench = TestEdge::with(CallBehaviour::Echo, 10, |sip| {
            sip.trunks[0].max_calls = Some(1);
        })
        .await;
        let at = place();
        let ends = match is_taken {
            true => receive("BYE", &[("Reason", "cause=503")]) + &response("200 OK", "", ""),
            false => is_left(),
        };
        let steps = rings("") + &receive("INFO", &[]) + &request("ACK", 1, "", "") + &ends;
        let carrier = Sipp::dials(at, &bench, DID, &steps);
        let lines = |so_many| bench.edge.statistics().calls == so_many;
        eventually("it is offered", || !bench.calls().is_empty()).await;
        eventually("the line is released", || lines(0)).await;
        let call = bench.call();
        assert!(!bench.saw(&LegEvent::Answered));
        let mut other = ScriptedPhone::udp(bench.udp()).await;
        if is_taken {
            other.call("", &offer(40_000)).await;
        }
        urge(at, &bench.messages(&call, false, "INVITE ")[0]).await;
        let first = || bench.calls().remove(0).events;
        if is_taken {
            let failed = LegEvent::Failed("all lines are taken".to_owned());
            eventually("it ends", || first().contains(&failed)).await;
            carrier.succeeds().await;
            other.hang_up().await;
        } else {
            eventually("it goes on", || first().contains(&LegEvent::Answered)).await;
            assert!(lines(1));
            hang_up(&bench).await;
            carrier.succeeds().await;
        }
    }
}

/// No answer to the INVITE was sent after its ACK.
fn is_not_repeated(bench: &TestEdge, call: &ObservedCall) {
    let ladder = bench.edge.ladder(&call.id).unwrap().messages;
    let acknowledged = ladder.iter().position(|one| one.method() == Some("ACK"));
    for later in &ladder[acknowledged.unwrap()..] {
        let number = header(&later.text, "CSeq").unwrap();
        let is_answer = later.is_sent && number.ends_with(" INVITE");
        assert!(!is_answer, "{}", later.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ack_with_the_branch_of_its_invite_is_one() {
    if !need("sipp") {
        return;
    }
    let bench = TestEdge::new(CallBehaviour::Echo).await;
    // The 200 would be repeated after 0.5 s and 1.5 s.
    let lasts = r#"<pause milliseconds="2000"/>"#;
    let steps = (calls("") + lasts + &leaves()).replace("1-ACK", "1-INVITE");
    let carrier = Sipp::dials(place(), &bench, DID, &steps);
    carrier.succeeds().await;
    assert!(bench.saw(&LegEvent::Answered) && bench.saw(&LegEvent::HungUp));
    is_not_repeated(&bench, &bench.call());
}

/// Peers of RFC 2543 have no tag in From, and no branch or the same in all requests. Some have no Contact.
#[tokio::test(flavor = "multi_thread")]
async fn peers_of_the_older_standard_call_and_hang_up() {
    if !need("sipp") {
        return;
    }
    let contact = "Contact: <sip:caller@[local_ip]:[local_port]>\n";
    for branch in ["", ";branch=1"] {
        for (behaviour, ends, kept) in [
            (CallBehaviour::Echo, leaves(), contact),
            (CallBehaviour::HangUp, is_left(), contact),
            (CallBehaviour::HangUp, is_left(), ""),
        ] {
            let bench = TestEdge::new(behaviour).await;
            let mut steps = (calls("") + &ends).replace(";tag=caller", "");
            for (number, method) in [(1, "INVITE"), (1, "ACK"), (2, "BYE")] {
                let own = format!(";branch=z9hG4bK-[pid]-{number}-{method}");
                steps = steps.replace(&own, branch);
            }
            let steps = steps.replace(contact, kept);
            let carrier = Sipp::dials(place(), &bench, DID, &steps);
            carrier.succeeds().await;
            let call = bench.call();
            assert!(call.events.contains(&LegEvent::Answered), "{call:?}");
            is_not_repeated(&bench, &call);
        }
    }
}
