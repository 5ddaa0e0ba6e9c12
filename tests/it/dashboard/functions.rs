//! Functions without JSON: parameters as rows, arguments as fields, and the last calls.

use super::*;

fn page_of(world: &TestWorld, function: &str) -> String {
    let agent = &world.tenant.agent;
    format!("/dashboard/agents/{agent}/functions/{function}")
}

/// The buttons of the form that change it without saving.
fn press(form: &HtmlForm, button: &str) -> HtmlForm {
    let mut form = form.clone();
    form.fields.push(("act".to_owned(), button.to_owned()));
    form
}

/// The function as the API shows it, as text: its order matters.
async fn text_of(world: &TestWorld, name: &str) -> String {
    let path = format!("/agents/{}/functions", world.tenant.agent);
    let text = world.tenant.api.get(&path).await.text;
    let (_, of_it) = text.split_once(&format!("\"name\":\"{name}\"")).unwrap();
    of_it.split_once("\"createdAt\"").unwrap().0.to_owned()
}

#[rstest]
#[actix_web::test]
async fn rows_write_the_schema_in_their_order(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let browser = owner(&world).await.browser;
    let new = page_of(&world, "new");
    let form = browser.open(&new).await.form(&new);
    let form = form
        .set("name", "reserve_table")
        .set("description", "Reserves a table.")
        .set("endpoint", &world.receiver.url("/table"))
        .set("row0-name", "when")
        .set("row0-ask", "Day and time")
        .set("row1-name", "people")
        .set("row1-kind", "integer");

    // More rows keep what was typed.
    let page = browser.submit(&press(&form, "add")).await;
    assert_eq!(page.status, 200);
    let form = page.form(&new);
    assert_eq!(form.value("row0-ask"), Some("Day and time"));
    assert_eq!(form.value("endpoint"), Some(&*world.receiver.url("/table")));
    let form = form
        .set("row2-name", "area")
        .set("row2-kind", "choice")
        .set("row2-choices", "Inside, Garden,Inside")
        .without("row2-required");
    let page = browser.submit(&press(&form, "add")).await;
    let made = browser.submit(&page.form(&new)).await;
    made.assert_shows("Function created");
    made.assert_shows("reserve_table");

    let stored = concat!(
        r#"{"type":"object","properties":{"#,
        r#""when":{"description":"Day and time","type":"string"},"#,
        r#""people":{"type":"integer"},"#,
        r#""area":{"enum":["Inside","Garden"],"type":"string"}},"required":["when","people"]}"#
    );
    let shown = text_of(&world, "reserve_table").await;
    assert!(shown.contains(stored), "{shown}");

    // The page shows the rows again; a row can be removed, and what was not changed stays.
    let path = page_of(&world, "reserve_table");
    let form = browser.open(&path).await.form(&path);
    assert_eq!(form.value("row2-choices"), Some("Inside, Garden"));
    assert_eq!(form.value("row2-required"), None);
    let saved = browser
        .submit(&form.clone().set("description", "Books."))
        .await;
    saved.assert_shows("Saved.");
    let shown = text_of(&world, "reserve_table").await;
    assert!(shown.contains(stored), "{shown}");
    let page = browser.submit(&press(&form, "remove-1")).await;
    let form = page.form(&path);
    assert_eq!(form.value("row1-name"), Some("area"));
    let json = browser.submit(&press(&form, "json")).await.form(&path);
    let text = json.value("parameters").unwrap();
    assert!(text.find("when") < text.find("area"), "{text}");
    assert!(!text.contains("people"), "{text}");
    let list = browser.submit(&press(&json, "list")).await.form(&path);
    assert_eq!(list.value("row1-choices"), Some("Inside, Garden"));
    browser.submit(&list).await.assert_shows("Saved.");
    let shown = text_of(&world, "reserve_table").await;
    assert!(!shown.contains("people"), "{shown}");
}

#[actix_web::test]
async fn all_that_is_wrong_with_rows_stands_beside_them() {
    let world = shared_world!(Sqlite);
    let browser = owner(&world).await.browser;
    let new = page_of(&world, "new");
    let form = browser.open(&new).await.form(&new);
    let form = form
        .set("name", "take order")
        .set("description", "Takes.")
        .set("endpoint", &world.receiver.url("/order"))
        .set("row0-name", "size")
        .set("row0-kind", "choice")
        .set("row1-name", "size");
    let page = browser.submit(&form).await;
    assert_eq!(page.status, 422);
    page.assert_shows("Fix 3 fields to continue:");
    page.assert_shows("Name: This must begin with a letter");
    page.assert_shows("Parameter 1: Choices, separated by commas: This is required.");
    page.assert_shows("Parameter 2: Name: Another row has this name.");
    for wrong in ["name", "row0-choices", "row1-name"] {
        assert_eq!(page.input(wrong)["aria-invalid"], "true", "{wrong}");
    }
    assert_eq!(page.form(&new).value("row1-name"), Some("size"));
}

#[actix_web::test]
async fn a_schema_that_rows_cannot_show_keeps_its_order_as_json() {
    let world = shared_world!(Sqlite);
    let browser = owner(&world).await.browser;
    let new = page_of(&world, "new");
    let schema = r#"{"type":"object","required":["b"],"properties":{"b":{"type":"string","pattern":"^B"},"a":{"type":"array","items":{"type":"string"}}}}"#;
    let values = [
        ("name", "deep"),
        ("description", "Nests."),
        ("endpoint", &world.receiver.url("/deep")),
        ("parameters", schema),
    ];
    let made = browser.fill(&new, &new, &values).await;
    made.assert_shows("Function created");
    made.assert_shows("they can only be edited as JSON");
    let path = page_of(&world, "deep");
    let form = made.form(&path);
    let text: String = form
        .value("parameters")
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(text, schema);
    assert!(form.fields.iter().all(|(name, _)| !name.starts_with("row")));
    let shown = text_of(&world, "deep").await;
    assert!(shown.contains(schema), "{shown}");
    // Its test has JSON, too.
    let test = format!("{path}/test");
    let form = browser.open(&test).await.form(&test);
    assert!(form.value("parameters").unwrap().contains("\"b\""));
    // Another order is a change.
    let api = format!("/agents/{}/functions/deep", world.tenant.agent);
    let other = r#"{"parameters": {"required": ["b"], "properties": {"b": {}, "a": {}}, "type": "object"}}"#;
    let body: serde_json::Value = serde_json::from_str(other).unwrap();
    world.tenant.api.patch(&api, body).await.expect(200);
}

#[actix_web::test]
async fn a_test_has_a_field_for_each_argument_and_says_why_one_was_not_sent() {
    let world = shared_world!(Sqlite);
    let browser = owner(&world).await.browser;
    let new = page_of(&world, "new");
    let form = browser.open(&new).await.form(&new);
    let form = form
        .set("name", "count")
        .set("description", "Counts.")
        .set("endpoint", &world.receiver.url("/count"))
        .set("row0-name", "orderId")
        .set("row0-ask", "The number on the receipt")
        .set("row1-name", "people")
        .set("row1-kind", "integer");
    browser.submit(&form).await.assert_shows("Function created");
    let test = format!("{}/test", page_of(&world, "count"));
    let page = browser.open(&test).await;
    page.assert_shows("Agents Sari count Test count");
    page.assert_shows("The number on the receipt");
    let form = page.form(&test);
    for (fields, words) in [
        (["", "4"], "Not sent: orderId is required."),
        (["7", "four"], "Not sent: people must be a whole number."),
    ] {
        let form = form.clone().set("argument0", fields[0]);
        let page = browser.submit(&form.set("argument1", fields[1])).await;
        assert_eq!(page.status, 422);
        page.assert_shows(words);
        page.assert_hides("X-Service-Signature:");
        page.assert_hides("Failed after");
        assert_eq!(page.form(&test).value("argument1"), Some(fields[1]));
    }
    let json = r#"{"orderId": 7, "people": 4}"#;
    let page = browser.submit(&form.clone().set("parameters", json)).await;
    page.assert_shows("Not sent: orderId must be text.");
    assert_eq!(page.form(&test).value("parameters"), Some(json));
    assert!(world.receiver.received("/count").is_empty());

    let answer = ServerAnswer::Json(json!({"count": 3}));
    world.receiver.answer("/count", [answer]);
    let form = form.set("argument0", "7").set("argument1", "4");
    browser.submit(&form).await.assert_shows("It works.");
    let asked = world.receiver.wait_for("/count", 1).await.remove(0);
    assert_eq!(
        asked.json()["parameters"],
        json!({"orderId": "7", "people": 4})
    );
}

#[rstest]
#[actix_web::test]
async fn a_functions_page_shows_its_last_calls_and_marks_silence(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = shared_world!(store);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    let answers = [ServerAnswer::Json(json!({})), ServerAnswer::Status(500)];
    world.receiver.answer("/f", answers);
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk_since(&tenant.did, Moment::ago(1)).await;
    let run = async |id: &str| {
        let invoke = json!({
            "callId": call, "invocationId": id, "name": "check_order", "parameters": {"orderId": "7"},
        });
        bridge.ok("call.function", invoke).await;
    };
    let path = page_of(&world, "check_order");
    browser.open(&path).await.assert_hides("Last calls");
    run("first").await;
    run("second").await;
    let page = browser.open(&path).await;
    page.assert_shows("Agents Sari check_order check_order");
    page.assert_shows("Last calls Time Caller Outcome Took");
    page.assert_shows("http_status");
    page.assert_hides("hears silence");
    let of_call = format!("/dashboard/calls/{call}");
    let shown = |page: &VisitedPage| page.links().iter().filter(|link| **link == of_call).count();
    assert_eq!(shown(&page), 2);

    let slow = format!("UPDATE invocations SET duration_ms = 1830 WHERE call_id = '{call}'");
    execute(&world.server, &slow).await;
    for n in 3..=12 {
        run(&format!("run{n}")).await;
    }
    let page = browser.open(&path).await;
    assert_eq!(shown(&page), 10, "only the last ten");
    page.assert_shows("takes 1,830 ms or longer. The caller hears silence for that long.");
    bridge.hang_up(&call).await;
}

/// The service may not ask itself here, so its examples cannot be functions. `dev.rs` has those that answer.
#[actix_web::test]
async fn a_template_comes_without_functions_if_the_service_cannot_be_asked() {
    let world = shared_world!(Sqlite);
    let browser = owner(&world).await.browser;
    let new = "/dashboard/agents/new";
    let page = browser.open(&format!("{new}?template=courier")).await;
    page.assert_shows("It comes without functions");
    let form = page.form(new);
    // A refused form keeps the template.
    let refused = browser.submit(&form.clone().set("name", "")).await;
    assert_eq!(refused.form(new).value("template"), Some("courier"));
    let made = browser.submit(&form).await;
    made.assert_shows("Agent created");
    made.assert_shows("No functions yet");
}

#[actix_web::test]
async fn an_example_takes_small_requests_only() {
    let world = shared_world!(Sqlite);
    let api = Rest::new(&format!("{}/examples/functions", world.server.http));
    let asked = |size: usize| json!({"parameters": {"article": "x".repeat(size)}});
    let answer = api.post("/check_stock", asked(100)).await.expect(200);
    assert_eq!(answer["article"], json!("x".repeat(80)));
    assert_eq!(api.post("/check_stock", asked(100)).await.body, answer);
    api.post("/check_stock", asked(20_000)).await.expect(413);
    api.post("/check_stock", json!([])).await.expect(400);
    api.post("/nothing", asked(1)).await.expect(404);
    assert_eq!(api.get("/check_stock").await.status, 405);
}
