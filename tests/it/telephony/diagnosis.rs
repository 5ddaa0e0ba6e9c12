//! Diagnosis of a call by an operator: the quality of its media, its SIP ladder, and a capture of it.

use super::*;
use crate::support::server::assert_fails;

/// The caller's number, and as it is masked.
const CALLER: &str = "+6281234567890";
const MASKED: &str = "+62xxxxxxx7890";

/// A service with its bridge, and a call that is over.
async fn one_call() -> Option<(TestWorld, String)> {
    let mut installation = Installation::migrated(Sqlite)?;
    let port = free_port();
    let file = trunk(&installation);
    installation.set("config", &file);
    installation.set("telephony.enabled", "true");
    installation.set("telephony.voice.provider", "scripted");
    installation.set("telephony.sip.listen", &format!("udp://127.0.0.1:{port}"));
    let world = TestWorld::on(installation, WorldSetup::new()).await;
    rings(&world, SocketAddr::from(([127, 0, 0, 1], port))).await;
    let calls = world.tenant.calls().await;
    let id = calls[0]["id"].as_str().unwrap().to_owned();
    // The media ends beside the signalling.
    eventually("the quality of the media", async || {
        let api = world.server.operator_api();
        let call = api.get(&format!("/calls/{id}")).await.expect(200);
        call["media"]["connection"].is_string().then_some(())
    })
    .await;
    Some((world, id))
}

fn steps(ladder: &Value) -> Vec<String> {
    let step = |message: &Value| {
        let what = message["method"].as_str().map(str::to_owned);
        format!(
            "{} {}",
            message["direction"].as_str().unwrap(),
            what.unwrap_or_else(|| message["status"].to_string())
        )
    };
    ladder["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(step)
        .collect()
}

#[actix_web::test]
async fn an_operator_sees_how_a_call_sounded_and_what_was_signalled() {
    let Some((world, id)) = one_call().await else {
        return;
    };
    let api = world.server.operator_api();
    let call = api.get(&format!("/calls/{id}")).await.expect(200);
    let media = &call["media"];
    assert_eq!(
        (&media["codec"], &media["connection"], &media["person"]),
        (&json!("PCMA"), &json!("good"), &Value::Null),
        "{media}"
    );
    assert!(media["sent"]["packets"].as_u64().unwrap() > 0, "{media}");
    assert!(
        media["received"]["mos"]
            .as_f64()
            .is_some_and(|mos| mos > 4.0),
        "{media}"
    );

    let path = format!("/calls/{id}/sip");
    let ladder = api.get(&path).await.expect(200);
    let expected = [
        "received INVITE",
        "sent 100",
        "sent 180",
        "sent 200",
        "received ACK",
        "received BYE",
        "sent 200",
    ];
    assert_eq!(steps(&ladder), expected);
    let invite = &ladder["messages"][0];
    let text = invite["text"].as_str().unwrap();
    assert!(
        text.contains(MASKED) && !ladder.to_string().contains(CALLER),
        "{ladder}"
    );
    assert!(invite["sdp"].as_str().unwrap().contains("PCMA"), "{invite}");
    assert_eq!(invite["transport"], "udp");
    api.get(&format!("{path}?numbers=some")).await.expect(422);
    let entries = async || {
        let page = api.get("/audit?action=call.show_numbers").await.expect(200);
        let entries = page["entries"].as_array().unwrap().clone();
        entries
            .iter()
            .map(|entry| entry["target"].clone())
            .collect::<Vec<_>>()
    };
    assert!(entries().await.is_empty());
    let whole = api.get(&format!("{path}?numbers=full")).await.expect(200);
    assert!(
        whole["messages"][0]["text"]
            .as_str()
            .unwrap()
            .contains(CALLER),
        "{whole}"
    );
    assert_eq!(entries().await, [id.as_str()]);

    let page = Visitor::new(&world.server.operator)
        .open(&format!("/calls/{id}"))
        .await;
    page.assert_shows("SIP/2.0 200 OK");
    page.assert_shows("RTP/AVP PCMA");
    page.assert_hides(CALLER);
    // The SIP messages stand among everything else.
    let text = page.text();
    let place = |words: &str| {
        text.find(words)
            .unwrap_or_else(|| panic!("{words}: {text}"))
    };
    // Both round to milliseconds by clocks of their own, so the order of what happens within one is open.
    let order = ["INVITE sip:", "Bridge call.answered", "Bridge call.hangup"];
    assert!(order.map(place).is_sorted(), "{text}");
    assert!(place("Bridge call.incoming") < place("Bridge call.answered"));
    assert!(place("Bridge call.answered") < place("BYE sip:"));
}

#[actix_web::test]
async fn a_call_is_traced_into_a_capture() {
    let Some((world, id)) = one_call().await else {
        return;
    };
    let file = world.server.installation.log().with_file_name("call.pcap");
    let name = file.display().to_string();
    let installation = &world.server.installation;
    let told = installation.run(&["call", "trace", &id, "--pcap", &name]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.stdout.contains("INVITE sip:") && told.stdout.contains(MASKED),
        "{told:?}"
    );
    assert!(!told.stdout.contains(CALLER), "{told:?}");
    let capture = std::fs::read(&file).unwrap();
    let mut rest = &capture[24..];
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        // After the record's header, and those of IPv4 and UDP.
        packets.push(String::from_utf8_lossy(&rest[16 + 28..16 + length]).into_owned());
        rest = &rest[16 + length..];
    }
    let first_words: Vec<_> = packets
        .iter()
        .map(|text| text.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        first_words,
        [
            "INVITE", "SIP/2.0", "SIP/2.0", "SIP/2.0", "ACK", "BYE", "SIP/2.0"
        ]
    );
    let whole = world.server.cli(&["call", "trace", &id, "--numbers"]);
    assert!(whole.to_string().contains(CALLER), "{whole}");
    for (wrong, code, words) in [
        (&["call", "trace", "x"][..], 2, "no call"),
        (&["call", "trace", &id, "--pcap", "/nowhere/x"], 1, "--pcap"),
    ] {
        assert_fails(&installation.run(wrong), &[code], words);
    }
}

#[actix_web::test]
async fn what_this_process_does_not_know_of_a_call_is_said() {
    let Some((mut world, id)) = one_call().await else {
        return;
    };
    let api = world.server.operator_api();
    // A bridge that runs elsewhere.
    let bridge = world.tenant.bridge(Http).await;
    // It may give its call the same id as ours has.
    let ours = api.get(&format!("/calls/{id}")).await.expect(200);
    let fields = json!({
        "bridgeCallId": ours["bridgeCallId"], "did": world.tenant.did, "callerNumber": CALLER,
    });
    let rung = bridge.ok("call.incoming", fields).await;
    let foreign = rung["callId"].as_str().unwrap().to_owned();
    assert_ne!(foreign, id);
    bridge.hang_up(&foreign).await;
    let unknown = async |api: &Rest, id: &str| {
        let found = api.get(&format!("/calls/{id}/sip")).await.expect(404);
        assert_eq!(found["error"]["code"], "sip_messages_not_found", "{found}");
        let words = found["error"]["message"].as_str().unwrap();
        assert!(words.contains("runs elsewhere"), "{words}");
    };
    unknown(&api, &foreign).await;
    let call = api.get(&format!("/calls/{foreign}")).await.expect(200);
    assert_eq!(call["media"], Value::Null);
    let page = Visitor::new(&world.server.operator)
        .open(&format!("/calls/{foreign}"))
        .await;
    page.assert_shows("runs elsewhere");
    let nobody = api
        .get("/calls/call_01k9zv3m8rj2q4w6y8a0c2e4g6/sip")
        .await
        .expect(404);
    assert_eq!(nobody["error"]["code"], "call_not_found");

    // Erasing the other bridge's call leaves the messages of ours.
    world
        .tenant
        .api
        .delete(&format!("/calls/{foreign}"))
        .await
        .expect(204);
    // An erased call: its messages hold the caller's number.
    api.get(&format!("/calls/{id}/sip")).await.expect(200);
    world
        .tenant
        .api
        .delete(&format!("/calls/{id}"))
        .await
        .expect(204);
    unknown(&api, &id).await;

    // A restart forgets everything.
    assert_eq!(world.server.terminate().await, 0);
    world.server.restart();
    let api = world.server.operator_api();
    let call = api.get(&format!("/calls/{id}")).await.expect(200);
    assert_eq!(call["media"], Value::Null);
    unknown(&api, &id).await;
}

#[actix_web::test]
async fn a_tenant_sees_whether_the_connection_was_good() {
    let Some((world, id)) = one_call().await else {
        return;
    };
    let tenant = world.tenant.id.clone();
    let made = world.server.cli(&[
        "user",
        "create",
        "--tenant",
        &tenant,
        "--email",
        "owner@example.com",
        "--role",
        "owner",
    ]);
    let link = made["url"].as_str().unwrap();
    let browser = Visitor::new(&world.server.http);
    let page = browser.open(link).await;
    let path = link.split_once("/dashboard").unwrap().1;
    let page = browser
        .submit(&page.form(&format!("/dashboard{path}")))
        .await;
    let password = page
        .form("/dashboard/password")
        .set("password", "seven purple teapots");
    browser.submit(&password).await;
    for (language, words) in [("en", "Connection Good"), ("id", "Koneksi Baik")] {
        let browser = browser.clone().with("accept-language", language);
        let page = browser.open(&format!("/dashboard/calls/{id}")).await;
        let shown = page.text().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains(words), "{shown}");
    }
}
