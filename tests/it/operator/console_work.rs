//! An operator's work on running things in the console: calls, webhooks, ledger, bridges. Effects are read through
//! the operators' API.

use super::{console::signed_in, console_lists::form, *};
use crate::support::tenant::text;

#[actix_web::test]
async fn a_call_is_ended_after_a_question() {
    let world = world!(Postgres, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let browser = signed_in(&world.server, FULL).await;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;

    let list = browser.open("/calls").await;
    list.assert_shows("+62*****7890");
    let end = format!("/calls/{call}/hangup");
    assert!(list.links().contains(&end), "{:?}", list.links());
    let shown = browser.open(&format!("/calls/{call}")).await;
    for words in ["answered", "Credit", "call.started", "main"] {
        shown.assert_shows(words);
    }
    let question = browser.open(&end).await;
    question.assert_shows("operator");
    let page = browser.submit(&question.form(&end)).await;
    assert_eq!(
        (page.status, page.path.split('?').next()),
        (200, Some(&*format!("/calls/{call}")))
    );
    page.assert_shows("told to hang up");
    bridge.command("hangup", &call).await;
    let ended = json!({"callId": call, "reason": "operator", "voiceProvider": "gemini", "stalls": 17, "interruptions": 3});
    bridge.ok("call.hangup", ended).await;
    let shown = browser.open(&format!("/calls/{call}")).await;
    for words in ["gemini", "Long pauses", "17", "Interruptions by the caller"] {
        shown.assert_shows(words);
    }
    let over = api.get(&format!("/calls/{call}")).await.expect(200);
    assert_eq!(
        [&over["status"], &over["hangupReason"]],
        ["ended", "operator"]
    );
    let entries = api.get("/audit?action=call.hangup").await.expect(200);
    assert_eq!(entries["entries"][0]["target"], call);
    assert_eq!(entries["entries"][0]["actor"], "operator");

    // A second hang-up fails, because the call is over.
    let page = browser.submit(&question.form(&end)).await;
    assert_eq!(page.status, 422);
    page.assert_shows("The call has ended already.");
    assert!(!browser.open("/calls").await.links().contains(&end));
}

#[rstest]
#[actix_web::test]
async fn a_webhook_is_paused_resumed_and_recovered(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    world.receiver.answer(
        "/gone",
        [ServerAnswer::Status(410), ServerAnswer::Status(204)],
    );
    let url = world.receiver.url("/gone");
    let hook = tenant.subscribe(&url, &["call.started"], SECRET).await;
    let browser = signed_in(&world.server, FULL).await;
    let path = format!("/webhooks/{hook}");
    let press = async |verb: &str| {
        let page = browser.open(&path).await;
        browser.submit(&page.form(&format!("{path}/{verb}"))).await
    };
    let of = async || {
        let listed = api.get("/webhooks").await.expect(200);
        let rows = listed["webhooks"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["id"] == *hook).unwrap()
    };
    press("pause").await.assert_shows("wait");
    assert!(of().await["pausedAt"].is_string());
    browser.open("/webhooks").await.assert_shows("paused");
    press("resume").await.assert_shows("continue");
    assert!(of().await["pausedAt"].is_null());

    let bridge = tenant.bridge(Http).await;
    let call = bridge.ring(&tenant.did).await;
    eventually("the webhook to be switched off", async || {
        (of().await["isActive"] == false).then_some(())
    })
    .await;
    let switched_on = json!({"isActive": true});
    tenant.api.patch(&path, switched_on).await.expect(200);
    let recover = format!("{path}/recover");
    let wrong = browser
        .fill(&recover, &recover, &[("since", "yesterday"), ("until", "")])
        .await;
    assert_eq!(wrong.status, 422);
    assert_eq!(wrong.input("since")["aria-invalid"], "true");
    assert_eq!(wrong.form(&recover).value("since"), Some("yesterday"));
    let since = Moment::ago(600).text();
    let page = browser.fill(&recover, &recover, &[("since", &since)]).await;
    page.assert_shows("are resent in the background");
    world.receiver.wait_for("/gone", 2).await;

    // Resends a single delivery.
    let page = eventually("it to be delivered", async || {
        let page = browser.open(&path).await;
        page.text().contains("succeeded").then_some(page)
    })
    .await;
    page.assert_shows("204");
    let deliveries = api
        .get(&format!("/deliveries?webhookId={hook}"))
        .await
        .expect(200);
    let delivery = text(&deliveries["deliveries"][0], "id");
    let resent = browser
        .submit(&page.form(&format!("/deliveries/{delivery}/resend")))
        .await;
    let its_own = format!("/deliveries/{delivery}");
    assert_eq!(resent.path.split('?').next(), Some(&*its_own));
    resent.assert_shows("Delivery resent.");
    world.receiver.wait_for("/gone", 3).await;
    let entries = api.get("/audit?actor=operator").await.expect(200);
    let done: Vec<String> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| text(entry, "action"))
        .collect();
    assert_eq!(
        done[..4],
        [
            "delivery.resend",
            "webhook.recover",
            "webhook.resume",
            "webhook.pause"
        ]
    );
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn the_books_are_verified_from_the_page(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store, guarded());
    let browser = signed_in(&world.server, FULL).await;
    let verify = "/ledger/verify";
    browser
        .open("/ledger")
        .await
        .assert_shows("None since this node started");
    let page = browser.fill("/ledger", verify, &[("tenantId", "")]).await;
    page.assert_shows("the books are right");
    let page = browser
        .fill("/ledger", verify, &[("tenantId", &world.tenant.id)])
        .await;
    page.assert_shows("The books of this tenant are right: 1 transactions.");
    assert!(
        !browser
            .open("/ledger")
            .await
            .text()
            .contains("The books of this tenant")
    );
    for wrong in [nobody("ten"), "<script>".to_owned()] {
        let page = browser
            .fill("/ledger", verify, &[("tenantId", &wrong)])
            .await;
        assert_eq!(page.status, 422);
        assert_eq!(page.input("tenantId")["aria-invalid"], "true");
        page.assert_hides("<script>");
        assert_eq!(page.form(verify).value("tenantId"), Some(wrong.as_str()));
    }
}

#[actix_web::test]
async fn a_bridge_is_made_shown_once_and_revoked() {
    let world = world!(Postgres, guarded());
    let (browser, api) = (
        signed_in(&world.server, FULL).await,
        with(&world.server, READ),
    );
    for (name, code) in [
        ("", "required"),
        ("a\u{5}b", "control"),
        (&*"x".repeat(121), "120"),
    ] {
        let page = browser
            .fill("/bridges", "/bridges", &[("name", name)])
            .await;
        assert_eq!(page.status, 422, "{name:?}");
        assert_eq!(page.input("name")["aria-invalid"], "true");
        page.assert_shows(code);
    }
    let made = browser
        .fill("/bridges", "/bridges", &[("name", "<b>sip-7</b>")])
        .await;
    made.assert_shows("not shown again");
    made.assert_hides("<b>sip-7");
    let token = made.element("token");
    let path = made.path.split('?').next().unwrap().to_owned();
    for page in [browser.open(&path).await, browser.open("/bridges").await] {
        page.assert_hides(&token);
    }
    let bridge = TestBridge::open(&world.server.http, &token, Socket).await;
    eventually("it to be connected", async || {
        let page = browser.open(&path).await;
        (!page.text().contains("not connected")).then_some(())
    })
    .await;
    let revoke = format!("{path}/revoke");
    let question = browser.open(&revoke).await;
    browser
        .submit(&question.form(&revoke))
        .await
        .assert_shows("revoked");
    bridge.closed().await;
    let listed = api.get("/bridges").await.expect(200);
    let bridges = listed["bridges"].as_array().unwrap();
    let ours = bridges
        .iter()
        .find(|of| path.ends_with(of["id"].as_str().unwrap()));
    assert!(ours.unwrap()["revokedAt"].is_string(), "{listed}");
    // A second revocation finds no bridge.
    let token = browser.open("/bridges").await.form("/bridges");
    let again = form(&revoke, token.value("_token").unwrap());
    assert_eq!(browser.post(&again).await.status, 404);
}

#[actix_web::test]
async fn what_runs_is_shown() {
    let world = world!(Postgres, guarded());
    let (tenant, api) = (&world.tenant, with(&world.server, READ));
    let browser = signed_in(&world.server, READ).await;
    tenant
        .create_function("find", "POST", &world.receiver.url("/find"))
        .await;
    world.receiver.answer("/find", [ServerAnswer::Status(500)]);
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    let invoke = json!({"callId": call, "invocationId": "i", "name": "find", "parameters": {"orderId": "A-1"}});
    bridge.ok("call.function", invoke).await;

    let functions = browser.open("/functions").await;
    for words in [
        "find",
        "http_status",
        "1 failed",
        "closed",
        &world.receiver.url(""),
    ] {
        functions.assert_shows(words);
    }
    let database = browser.open("/database").await;
    let found = api.get("/database").await.expect(200);
    for words in [
        text(&found, "kind"),
        text(&found, "version"),
        "api_reader".to_owned(),
    ] {
        database.assert_shows(&words);
    }
    browser
        .open("/http?sort=p99")
        .await
        .assert_shows("/api/v1/agents/{id}/functions");
    let ledger = browser.open("/ledger").await;
    ledger.assert_shows(&call);
    browser.open("/nodes").await.assert_shows("main");
    let configuration = browser.open("/configuration?key=OPERATOR.").await;
    configuration.assert_shows("operator.read_token");
    configuration.assert_hides(READ);
    browser
        .open("/configuration?key=nonsense")
        .await
        .assert_shows("No keys match");
    let audit = browser
        .open(&format!("/audit?tenantId={}", tenant.id))
        .await;
    audit.assert_shows("agent.create");
    audit.assert_shows(&tenant.agent);
    bridge.hang_up(&call).await;
}
