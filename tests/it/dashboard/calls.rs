//! Calls: an owner follows, searches, ends, transfers and erases them.

use awc::{Client, http::header::COOKIE};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::*;
use crate::support::visitor::HtmlForm;

const CALLS: &str = "/dashboard/calls";
const CALLER: &str = "+6281234567890";

fn page_of(call: &str) -> String {
    format!("{CALLS}/{call}")
}

/// The ids of the calls in a page's rows, in order.
fn rows(html: &str) -> Vec<String> {
    let rows = html.split("<tr role=\"row\" id=\"").skip(1);
    rows.map(|row| row.split('"').next().unwrap().to_owned())
        .collect()
}

#[rstest]
#[actix_web::test]
async fn calls_are_listed_newest_first_page_by_page_and_found_again(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let none = browser.open(CALLS).await;
    none.assert_shows("No calls yet");
    // Filters are not marked as optional.
    none.input("callerNumber");
    none.assert_hides("(optional)");

    let bridge = world.tenant.bridge(Http).await;
    let mut calls = Vec::new();
    for _ in 0..27 {
        let call = bridge.ring(&world.tenant.did).await;
        bridge.hang_up(&call).await;
        calls.push(call);
    }
    let talk = bridge.talk(&world.tenant.did).await;
    calls.push(talk.clone());
    calls.reverse();

    let first = browser.open(CALLS).await;
    assert_eq!(rows(&first.html), calls[..25]);
    let older = first
        .links()
        .into_iter()
        .find(|link| link.contains("before="))
        .expect("a way to older calls");
    let second = browser.open(&older).await;
    assert_eq!(rows(&second.html), calls[25..]);
    assert!(second.links().contains(&CALLS.to_owned()));

    for (query, expected) in [
        ("status=answered", 1),
        ("state=answered", 1),
        ("status=ended", 0),
        ("to=2020-01-01", 0),
        ("from=2020-01-01&status=answered", 1),
        (
            &*format!("agentId={}&status=answered", world.tenant.agent),
            1,
        ),
        (
            &*format!("phoneNumberId={}&status=answered", world.tenant.number),
            1,
        ),
        ("callerNumber=%2B62+812-3456-7890&status=answered", 1),
        ("callerNumber=%2B6280000000000", 0),
        ("caller=0812-3456&status=answered", 1),
        ("caller=67890&state=answered", 1),
        ("caller=67899", 0),
        ("status=&from=&callerNumber=&unknown=1", 25),
    ] {
        let page = browser.open(&format!("{CALLS}?{query}")).await;
        assert_eq!(page.status, 200, "{query}");
        assert_eq!(rows(&page.html).len(), expected, "{query}");
    }
    browser
        .open(&format!("{CALLS}?status=ended"))
        .await
        .assert_shows("No calls match");

    let counted = browser.open(&format!("{CALLS}?caller=456")).await;
    counted.assert_shows("28 calls, 1 answered, 0 min of talk");
    let short = browser.open(&format!("{CALLS}?caller=08")).await;
    assert_eq!(short.status, 422);
    assert_eq!(short.input("callerNumber")["value"], "08");
    let today = format!("{CALLS}?callerNumber=456&from=");
    let is_today = |link: &String| link.starts_with(&today);
    assert!(counted.links().iter().any(is_today), "keeps the digits");

    let wrong = browser
        .open(&format!("{CALLS}?status=busy&from=soon"))
        .await;
    assert_eq!(wrong.status, 422);
    for field in ["status", "from"] {
        let input = wrong.input(field);
        assert_eq!(input["aria-invalid"], "true");
        assert!(input["aria-describedby"].contains(&format!("f-{field}-error")));
    }
    assert_eq!(wrong.input("from")["value"], "soon");
}

#[rstest]
#[actix_web::test]
async fn a_file_has_what_the_filters_let_through_and_no_formula(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let bridge = world.tenant.bridge(Http).await;
    let missed = bridge.ring(&world.tenant.did).await;
    bridge.hang_up(&missed).await;
    let talk = bridge.talk(&world.tenant.did).await;
    world.tenant.change_agent(json!({"name": "=1+1"})).await;

    let file = owner.browser.open(&format!("{CALLS}.csv")).await;
    assert_eq!(file.status, 200);
    assert_eq!(file.header("content-type"), Some("text/csv; charset=utf-8"));
    let named = file.header("content-disposition").unwrap();
    assert!(
        named.starts_with("attachment; filename=\"calls-"),
        "{named}"
    );
    let lines: Vec<&str> = file.html.split_terminator("\r\n").collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].starts_with("id,startedAt,"));
    assert!(lines[1].starts_with(&talk) && lines[2].starts_with(&missed));
    assert!(lines[1].contains(&format!(",'{CALLER},")), "{}", lines[1]);
    assert!(lines[1].contains(",'=1+1,"), "{}", lines[1]);

    let some = owner
        .browser
        .open(&format!("{CALLS}.csv?status=answered"))
        .await;
    assert_eq!(some.html.lines().count(), 2);
    let wrong = owner
        .browser
        .open(&format!("{CALLS}.csv?status=busy"))
        .await;
    assert_eq!(wrong.status, 422);
}

#[rstest]
#[actix_web::test]
async fn a_call_tells_everything_from_ring_to_hang_up(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let owner = owner(&world).await;
    world
        .receiver
        .answer("/order", [ServerAnswer::Json(json!({"days": "<2>"}))]);
    let endpoint = world.receiver.url("/order");
    tenant
        .create_function("check_order", "POST", &endpoint)
        .await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk_since(&tenant.did, Moment::ago(61)).await;

    let running = owner.browser.open(&page_of(&call)).await;
    for words in [
        CALLER,
        "in progress",
        "The call came in",
        "The agent answered",
        "End call",
        "Transfer",
    ] {
        running.assert_shows(words);
    }
    let asked = json!({"callId": call, "invocationId": "one", "name": "check_order", "parameters": {"orderId": "A <b>7</b>"}});
    bridge.ok("call.function", asked).await;
    let said = json!({
        "callId": call, "summary": "About an order.",
        "turns": [
            {"role": "agent", "text": "Halo?", "latencyMs": 640, "interrupted": true},
            {"role": "caller", "text": "Where is <it>?"},
        ],
    });
    bridge.ok("call.transcript", said).await;
    let over = json!({"callId": call, "voiceProvider": "openai", "stalls": 1, "interruptions": 2});
    bridge.ok("call.hangup", over).await;
    world.event("call.ended", &call).await;

    let page = eventually("every delivery to be told", async || {
        let page = owner.browser.open(&page_of(&call)).await;
        page.text()
            .contains("Webhooks: 5 delivered")
            .then_some(page)
    })
    .await;
    page.assert_shows("+62 812-3456-7890 · 1 min ");
    let text = page.text();
    let mut rest = text.as_str();
    for words in [
        "Summary About an order.",
        "The call came in",
        "The agent answered",
        "640 ms interrupted Halo?",
        "Where is <it>?",
        "Function check_order",
        "\"orderId\": \"A <b>7</b>\"",
        "\"days\": \"<2>\"",
        "Status ended",
        CALLER,
        "OpenAI Realtime · answers in 640 ms, 95 % in 640 ms · 2 interruptions · 1 long pause",
        "2 used",
        "Delete personal data",
    ] {
        let at = rest.find(words);
        let at = at.unwrap_or_else(|| panic!("{words} is not next in {text}"));
        rest = &rest[at + words.len()..];
    }
    page.assert_shows("The call ended: Caller hung up");
    page.assert_hides("End call");
    // The caller leads to all calls from there.
    let of_caller = page.links().into_iter();
    let of_caller = of_caller.filter(|link| link.starts_with("/dashboard/calls?callerNumber="));
    for link in of_caller.collect::<Vec<_>>() {
        assert_eq!(rows(&owner.browser.open(&link).await.html), [&*call]);
    }
    assert!(
        page.links()
            .iter()
            .any(|link| link.starts_with("/dashboard/deliveries/dlv_"))
    );
}

#[rstest]
#[actix_web::test]
async fn a_running_call_is_transferred_and_ended_and_then_erased(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let (page, transfer) = (page_of(&call), format!("{}/transfer", page_of(&call)));

    let form = browser.open(&transfer).await.form(&transfer);
    let wrong = browser.submit(&form.clone().set("to", "0812 x")).await;
    assert_eq!(wrong.status, 422);
    assert_eq!(
        (
            &*wrong.input("to")["value"],
            &*wrong.input("to")["aria-invalid"]
        ),
        ("0812 x", "true")
    );
    let refused = browser
        .submit(&form.clone().set("to", "+19005550100"))
        .await;
    assert_eq!(refused.status, 422, "a premium number");
    let early = browser.open(&format!("{page}/erase")).await;
    assert_eq!(early.status, 409);
    early.assert_shows("still in progress");
    let bare = HtmlForm {
        action: format!("{page}/erase"),
        ..form.clone()
    };
    let early = browser.submit(&bare).await;
    assert_eq!(early.status, 422);
    early.assert_shows("still in progress");
    let form = form.set("to", "0812 9876-5432");
    let told = browser.submit(&form).await;
    assert_eq!(told.status, 200);
    told.assert_shows("Transferring the call");
    assert_eq!(
        bridge.command("transfer", &call).await["to"],
        "+6281298765432"
    );

    let hangup = format!("{page}/hangup");
    let question = browser.open(&hangup).await;
    question.assert_shows("End this call?");
    browser
        .submit(&question.form(&hangup))
        .await
        .assert_shows("Ending the call");
    bridge.command("hangup", &call).await;
    let ended = json!({"callId": call, "reason": "requested", "initiator": "bridge"});
    bridge.ok("call.hangup", ended).await;
    for path in [&*page, CALLS] {
        let told = browser.open(path).await;
        told.assert_shows("Ended by ");
        told.assert_hides("Ending the call");
    }
    let over = browser.submit(&question.form(&hangup)).await;
    assert_eq!(over.status, 422);
    over.assert_shows("The call has ended already.");
    let over = browser.submit(&form).await;
    assert_eq!(over.status, 422);
    over.assert_shows("The call has ended already.");
    assert_eq!(over.form(&transfer).value("to"), Some("0812 9876-5432"));

    let erase = format!("{page}/erase");
    let question = browser.open(&erase).await;
    question.assert_shows("You cannot undo this.");
    let erased = browser.submit(&question.form(&erase)).await;
    assert_eq!(erased.status, 200);
    erased.assert_shows("Personal data deleted from this call.");
    for path in [&*page, CALLS] {
        browser.open(path).await.assert_hides(CALLER);
    }
}

#[rstest]
#[actix_web::test]
async fn viewers_look_and_strangers_find_nothing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let bridge = world.tenant.bridge(Http).await;
    let call = bridge.talk(&world.tenant.did).await;
    let paths = ["hangup", "transfer", "erase"].map(|act| format!("{}/{act}", page_of(&call)));

    let id = &world.tenant.id;
    let viewer = somebody(&world.server, id, &fresh_email("viewer"), "viewer").await;
    let page = viewer.browser.open(&page_of(&call)).await;
    page.assert_shows(CALLER);
    page.assert_hides("End call");
    let bare = |form: &HtmlForm, action: &str| HtmlForm {
        action: action.to_owned(),
        ..form.clone()
    };
    let token = page.form("/dashboard/sign-out");
    for path in &paths {
        assert_eq!(viewer.browser.open(path).await.status, 403, "{path}");
        assert_eq!(
            viewer.browser.submit(&bare(&token, path)).await.status,
            403,
            "{path}"
        );
    }

    let other = world.another_tenant(10).await;
    let stranger = somebody(&world.server, &other.id, &fresh_email("stranger"), "owner").await;
    let token = stranger
        .browser
        .open("/dashboard")
        .await
        .form("/dashboard/sign-out");
    for call in [&*call, "call_01k9zv3m8rj2q4w6y8a0c2e4g6", "call_x"] {
        assert_eq!(stranger.browser.open(&page_of(call)).await.status, 404);
        assert_eq!(
            stranger
                .browser
                .open(&format!("/dashboard/live?of={call}"))
                .await
                .status,
            404
        );
        for act in ["hangup", "transfer", "erase"] {
            let path = format!("{}/{act}", page_of(call));
            assert_eq!(stranger.browser.open(&path).await.status, 404, "{path}");
            let posted = stranger.browser.submit(&bare(&token, &path)).await;
            assert_eq!(posted.status, 404, "{path}");
        }
    }
    stranger
        .browser
        .open(CALLS)
        .await
        .assert_shows("No calls yet");
    for filter in [
        format!("agentId={}", world.tenant.agent),
        format!("phoneNumberId={}", world.tenant.number),
    ] {
        let page = stranger.browser.open(&format!("{CALLS}?{filter}")).await;
        page.assert_shows("No calls match");
        page.assert_hides("Sari</option><option");
        page.assert_hides(&world.tenant.did);
    }
    let file = stranger.browser.open(&format!("{CALLS}.csv")).await;
    assert_eq!(file.html.lines().count(), 1);
    assert_eq!(world.tenant.call(&call).await["status"], "answered");
}

/// Reads a stream until it contains all of these words. `None` if it ends before.
async fn heard<S, E>(stream: &mut S, words: &[&str]) -> Option<String>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut text = String::new();
    let listen = async {
        while !words.iter().all(|word| text.contains(word)) {
            let chunk = stream.next().await?.ok()?;
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
        Some(())
    };
    let done = tokio::time::timeout(Duration::from_secs(30), listen).await;
    done.unwrap_or_else(|_| panic!("{words:?} did not come"))?;
    Some(text)
}

#[rstest]
#[actix_web::test]
async fn what_somebody_looks_at_changes_until_he_is_signed_out(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let owner = owner(&world).await;
    let bridge = world.tenant.bridge(Http).await;
    let before = bridge.ring(&world.tenant.did).await;
    let list = owner.browser.open(CALLS).await;
    let place = list.html.split("data-live=\"").nth(1).unwrap();
    let place = place.split('"').next().unwrap().replace("&amp;", "&");
    let after = list.html.split("data-after=\"").nth(1).unwrap();
    let after = after.split('"').next().unwrap();
    let follow = async |path: &str| {
        let cookies = owner.browser.cookies();
        let cookies: Vec<String> = cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let url = format!("{}{path}", world.server.http);
        let request = Client::builder()
            .disable_redirects()
            .finish()
            .get(url)
            .insert_header((COOKIE, cookies.join("; ")));
        request.send().await.expect("is answered")
    };
    // An event between the page and its stream is sent as well.
    bridge.ok("call.answered", json!({"callId": before})).await;
    let mut rows = follow(&format!("{place}&after={after}")).await;
    // In a list filtered by status, a call appears when it reaches the status.
    let mut over = follow(&format!("{place}&status=dropped")).await;
    heard(&mut over, &["id: "]).await.expect("goes on");
    assert_eq!(rows.status().as_u16(), 200);
    heard(&mut rows, &["event: row", &before, "in progress"])
        .await
        .expect("goes on");
    let call = bridge.ring(&world.tenant.did).await;
    let new = heard(&mut rows, &["event: new", &call])
        .await
        .expect("goes on");
    assert!(
        new.contains("<tr role=\"row\"") && new.contains("data-day-name="),
        "{new}"
    );

    let mut part = follow(&format!("/dashboard/live?of={call}")).await;
    bridge.hang_up(&call).await;
    heard(&mut part, &["event: part", "id=\"part\"", "The call ended"])
        .await
        .expect("goes on");
    heard(&mut rows, &["event: row", "Caller hung up while it rang"])
        .await
        .expect("goes on");
    heard(&mut over, &["event: new", &call])
        .await
        .expect("goes on");

    let out = list.form("/dashboard/sign-out");
    owner.browser.submit(&out).await;
    for stream in [&mut rows, &mut part] {
        assert_eq!(heard(stream, &["this never comes"]).await, None);
    }
    assert_ne!(follow(&place).await.status().as_u16(), 200);
}

#[rstest]
#[actix_web::test]
async fn the_first_page_tells_how_today_goes_and_what_is_wrong(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let setup = WorldSetup::new().minutes(20).low_threshold(30);
    let world = world!(store, setup);
    let tenant = &world.tenant;
    let owner = owner(&world).await;
    let new = owner.browser.open("/dashboard").await;
    new.assert_shows(&format!("Call {} and talk to your agent.", tenant.did));
    assert!(new.links().contains(&format!("tel:{}", tenant.did)));
    new.assert_shows("Minutes (done)");
    new.assert_shows("Only 20 minutes are left.");
    for alarm in ["Calls per hour", "No agent answers", "API key to work"] {
        new.assert_hides(alarm);
    }

    world.receiver.answer("/fails", [ServerAnswer::Status(500)]);
    tenant
        .create_function("fails", "POST", &world.receiver.url("/fails"))
        .await;
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk(&tenant.did).await;
    for one in ["a", "b", "c"] {
        let asked = json!({"callId": call, "invocationId": one, "name": "fails", "parameters": {"orderId": "1"}});
        bridge.ok("call.function", asked).await;
    }
    bridge.hang_up(&call).await;
    let missed = bridge.ring(&tenant.did).await;
    bridge.hang_up(&missed).await;
    let api = format!("/phone-numbers/{}/assign-agent", tenant.number);
    tenant
        .api
        .post(&api, json!({"agentId": null}))
        .await
        .expect(200);

    let page = owner.browser.open("/dashboard").await;
    for words in [
        "Calls 2",
        "Answered 50%",
        "Minutes used 1 minute",
        "Balance 19 minutes",
        "Only 19 minutes are left.",
        "The function fails failed in 3 of its latest calls.",
        &format!("No agent answers {}.", tenant.did),
        "an estimate appears three days after your first call",
        "Calls per hour",
        "2 in total",
        "Why a call was not answered",
        "1 Caller hung up while it rang",
    ] {
        page.assert_shows(words);
    }
    for days in [7, 30] {
        let path = format!("/dashboard?days={days}");
        assert!(page.links().contains(&path));
        let page = owner.browser.open(&path).await;
        for words in ["Calls 2", "Calls per day", "Busiest hours", "Why a call"] {
            page.assert_shows(words);
        }
        assert!(
            page.html.contains(&format!("of=home&amp;days={days}")),
            "it stays at it"
        );
    }
    page.assert_hides("talk to your agent.");
    assert_eq!(rows(&page.html), [missed, call]);
    for cure in ["/dashboard/credits", "/dashboard/numbers"] {
        assert!(page.links().contains(&cure.to_owned()), "{cure}");
    }
    let function = format!("/dashboard/agents/{}/functions/fails", tenant.agent);
    assert!(page.links().contains(&function));
}

/// Whoever looks at a long call sees what is said now, and can go back to its beginning.
#[actix_web::test]
async fn a_call_that_goes_on_is_followed_at_its_end() {
    let world = shared_world!(Sqlite, WorldSetup::new().minutes(10));
    let owner = owner(&world).await;
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    let tell = async |n: u64| {
        let words = format!("Kalimat nomor {n}. {}", "Dan seterusnya. ".repeat(10));
        let turn =
            json!({"n": n, "role": "agent", "text": words, "at": "2026-01-15T03:30:05.000Z"});
        bridge
            .ok("call.turn", json!({"callId": call, "turn": turn}))
            .await;
    };
    for begin in [1, 31, 61] {
        futures_util::future::join_all((begin..begin + 30).map(tell)).await;
    }
    let has = |html: &str, n: u64| html.contains(&format!("Kalimat nomor {n}."));
    let page = owner.browser.open(&page_of(&call)).await.html;
    assert!(has(&page, 90) && !has(&page, 1));
    let first = format!("{}?from=0", page_of(&call));
    assert!(page.contains(&format!("{first}#timeline")));
    let page = owner.browser.open(&first).await.html;
    assert!(has(&page, 1) && !has(&page, 90));
    bridge.hang_up(&call).await;
    let page = owner.browser.open(&page_of(&call)).await.html;
    assert!(has(&page, 1) && !has(&page, 90));
}
