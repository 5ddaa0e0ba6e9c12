//! An owner sets up agents, functions and numbers.

use dikala_testkit::ReceivedRequest;

use super::*;
use crate::support::visitor::{HtmlForm, VisitedPage};

const AGENTS: &str = "/dashboard/agents";
const NEW_AGENT: &str = "/dashboard/agents/new";
const NUMBERS: &str = "/dashboard/numbers";
const PROMPT: &str = "You answer for <b>Toko & Co</b>.\n\nBe kind.";

fn agent_page(agent: &str) -> String {
    format!("{AGENTS}/{agent}")
}

/// The path of a page without the confirmation's parameter.
fn path(page: &VisitedPage) -> String {
    page.path.split('?').next().unwrap().to_owned()
}

/// The values of the ticked boxes with this name.
fn ticked(form: &HtmlForm, name: &str) -> Vec<String> {
    let fields = form.fields.iter().filter(|(field, _)| field == name);
    fields.map(|(_, value)| value.clone()).collect()
}

/// A character of three bytes takes nine in a form.
#[rstest]
#[actix_web::test]
async fn the_longest_prompt_can_be_typed_in_any_script(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let owner = owner(&world).await;
    let prompt = "สวัสดี".chars().cycle();
    let typed: String = prompt.clone().take(32_000).collect();
    let form = owner.browser.open(NEW_AGENT).await.form(NEW_AGENT);
    let form = form.set("name", "Sawasdee");
    let made = owner
        .browser
        .submit(&form.clone().set("systemPrompt", &typed))
        .await;
    made.assert_shows("Agent created.");
    assert_eq!(made.form(&path(&made)).value("systemPrompt"), Some(&*typed));
    let longer: String = prompt.take(32_001).collect();
    let refused = owner
        .browser
        .submit(&form.set("systemPrompt", &longer))
        .await;
    assert_eq!(refused.status, 422);
    assert_eq!(
        refused.form(NEW_AGENT).value("systemPrompt"),
        Some(&*longer)
    );
}

#[actix_web::test]
async fn an_agent_is_made_with_errors_on_the_way_and_set() {
    let world = shared_world!(Sqlite);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let form = browser.open(NEW_AGENT).await.form(NEW_AGENT);
    let wrong = form
        .clone()
        .set("systemPrompt", PROMPT)
        .set("maxCallDurationMinutes", "241")
        .set("escalationNumber", "0812 call me")
        .set("conversation.reminderAfterSeconds", "2");
    let page = browser.submit(&wrong).await;
    assert_eq!(page.status, 422);
    for words in [
        "Name: This is required.",
        "Maximum call length (minutes): At most 240.",
        "Transfer to (phone number): This is not a phone number. Type it as 0812 3456 7890",
        "Ask after silence (seconds): At least 3.",
    ] {
        page.assert_shows(words);
    }
    for (field, typed) in [
        ("name", ""),
        ("maxCallDurationMinutes", "241"),
        ("escalationNumber", "0812 call me"),
        ("conversation.reminderAfterSeconds", "2"),
    ] {
        let input = page.input(field);
        assert_eq!((&*input["value"], &*input["aria-invalid"]), (typed, "true"));
        assert!(input["aria-describedby"].contains(&format!("f-{field}-error")));
    }
    assert!(!page.input("systemPrompt").contains_key("aria-invalid"));
    let again = page.form(NEW_AGENT);
    assert_eq!(again.value("systemPrompt"), Some(PROMPT));

    let right = again
        .set("name", "Kasir <Bandung>")
        .set("systemPrompt", PROMPT)
        .set("maxCallDurationMinutes", "25")
        // As people write it.
        .set("escalationNumber", "0812 3456-7890")
        .set("voiceId", "Kore")
        .set("greetingText", "Halo!")
        .set("voiceProvider", "scripted")
        .set("voiceName", "marin")
        .set("timeZone", "Asia/Makassar")
        .set("conversation.reminderAfterSeconds", "20")
        .set("conversation.fillers", "tone")
        .tick("conversation.maskKeys", "on");
    let made = browser.submit(&right).await;
    assert_eq!(made.status, 200);
    made.assert_shows("Agent created.");
    made.assert_shows("No phone number uses this agent yet.");
    let page = path(&made);
    let api = page.replace("/dashboard", "");
    let seen = world.tenant.api.get(&api).await.expect(200);
    for (field, value) in [
        ("name", json!("Kasir <Bandung>")),
        ("systemPrompt", json!(PROMPT)),
        ("voiceId", json!("Kore")),
        ("greetingText", json!("Halo!")),
        ("language", json!("id")),
        ("maxCallDurationMinutes", json!(25)),
        ("escalationNumber", json!("+6281234567890")),
        ("voiceProvider", json!("scripted")),
        ("voiceName", json!("marin")),
        ("timeZone", json!("Asia/Makassar")),
        (
            "conversation",
            json!({"reminderAfterSeconds": 20, "endAfterSilenceSeconds": 45, "fillers": "tone",
                "interruptions": "fast", "maskKeys": true}),
        ),
        ("toolsEnabled", json!(["end_call"])),
        ("isActive", json!(true)),
    ] {
        assert_eq!(seen[field], value, "{field}");
    }

    let form = made.form(&page);
    assert_eq!(ticked(&form, "toolsEnabled"), ["end_call"]);
    let changed = form
        .without("isActive")
        .without("conversation.maskKeys")
        .set("conversation.reminderAfterSeconds", "")
        .set("timeZone", "")
        .set("systemPrompt", "Short.")
        .set("voiceId", "")
        .set("greetingText", " ")
        .set("language", "su")
        .set("maxCallDurationMinutes", "")
        .tick("toolsEnabled", "transfer_to_human");
    let saved = browser.submit(&changed).await;
    saved.assert_shows("Saved.");
    saved.assert_shows("This agent is switched off");
    let seen = world.tenant.api.get(&api).await.expect(200);
    for (field, value) in [
        ("systemPrompt", json!("Short.")),
        ("voiceId", json!(null)),
        ("greetingText", json!(null)),
        ("language", json!("su")),
        ("maxCallDurationMinutes", json!(10)),
        ("toolsEnabled", json!(["end_call", "transfer_to_human"])),
        ("isActive", json!(false)),
        ("timeZone", json!(null)),
        (
            "conversation",
            json!({"reminderAfterSeconds": 10, "endAfterSilenceSeconds": 45, "fillers": "tone",
                "interruptions": "fast", "maskKeys": false}),
        ),
    ] {
        assert_eq!(seen[field], value, "{field}");
    }
    let wrong = saved.form(&page).set("name", " ");
    let refused = browser.submit(&wrong).await;
    assert_eq!((refused.status, path(&refused)), (422, page.clone()));
    refused.assert_shows("Name: This is required.");
    assert_eq!(world.tenant.api.get(&api).await.expect(200), seen);
    browser.open(AGENTS).await.assert_shows("Kasir <Bandung>");
}

#[actix_web::test]
async fn a_copy_has_all_but_the_number_and_what_goes_with_an_agent_is_said_before() {
    let world = shared_world!(Sqlite);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    tenant
        .create_function("check_order", "GET", &world.receiver.url("/f"))
        .await;
    let page = agent_page(&tenant.agent);
    let shown = browser.open(&page).await;
    shown.assert_shows(&tenant.did);
    shown.assert_shows("check_order");
    let copy = browser
        .submit(&shown.form(&format!("{page}/duplicate")))
        .await;
    copy.assert_shows("Agent duplicated.");
    let copied = path(&copy).replace("/dashboard", "");
    let of = async |path: &str| tenant.api.get(path).await.expect(200);
    let (first, second) = (
        of(&format!("/agents/{}", tenant.agent)).await,
        of(&copied).await,
    );
    assert_eq!(second["name"], "Sari (copy)");
    for field in [
        "systemPrompt",
        "voiceId",
        "toolsEnabled",
        "isActive",
        "escalationNumber",
    ] {
        assert_eq!(second[field], first[field], "{field}");
    }
    let functions = of(&format!("{copied}/functions")).await;
    let functions = functions["functions"].as_array().unwrap();
    assert_eq!(functions.len(), 1);
    let like = of(&format!("/agents/{}/functions", tenant.agent)).await;
    for field in ["name", "description", "endpoint", "method", "parameters"] {
        assert_eq!(functions[0][field], like["functions"][0][field], "{field}");
    }

    let question = browser.open(&format!("{page}/delete")).await;
    for words in ["check_order", &tenant.did, "go on to their end"] {
        question.assert_shows(words);
    }
    let bridge = tenant.bridge(Http).await;
    let call = bridge.talk_since(&tenant.did, Moment::ago(5)).await;
    let yes = question.form(&format!("{page}/delete"));
    let deleted = browser.submit(&yes).await;
    deleted.assert_shows("Agent deleted.");
    deleted.assert_shows("Sari (copy)");
    assert_eq!(tenant.call(&call).await["status"], "answered");
    let number = of(&format!("/phone-numbers/{}", tenant.number)).await;
    assert_eq!(number["agentId"], json!(null));
    assert_eq!(browser.open(&page).await.status, 404);
    assert_eq!(browser.submit(&yes).await.status, 404);
    let numbers = browser.open(NUMBERS).await;
    numbers.assert_shows("without agent");
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn what_is_wrong_with_parameters_stands_beside_its_line(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let browser = owner(&world).await.browser;
    let new = format!("{}/functions/new", agent_page(&world.tenant.agent));
    let form = browser
        .open(&new)
        .await
        .form(&new)
        .set("name", "check_stock")
        .set("description", "Counts.")
        .set("endpoint", &world.receiver.url("/stock"));
    for (typed, words, line) in [
        (
            "{\n  \"type\": \"object\"\n  \"properties\": {}\n}",
            "Line 3, column 3: From here on this is not JSON.",
            "   3 │   \"properties\": {}",
        ),
        (
            "{\n \"type\": \"object\",\n \"properties\": {\n  \"a\": {\"type\": \"strin\"}\n }\n}",
            "Line 4, column 9: properties.a.type : This must be one of",
            "   4 │   \"a\": {\"type\": \"strin\"}",
        ),
        (
            "{\"type\": \"object\",\n \"required\": [\"b\"]}",
            "Line 2, column 15: required[0] : \"b\" is not one of the properties",
            "   2 │  \"required\": [\"b\"]}",
        ),
    ] {
        let page = browser.submit(&form.clone().set("parameters", typed)).await;
        assert_eq!(page.status, 422, "{typed}");
        page.assert_shows(words);
        let html = page.html.replace("&quot;", "\"");
        assert!(html.contains(line), "{line:?} is not in {html}");
        assert_eq!(page.form(&new).value("parameters"), Some(typed));
        assert_eq!(page.form(&new).value("name"), Some("check_stock"));
        assert_eq!(page.input("parameters")["aria-invalid"], "true");
    }
    let both = form.clone().set("name", "").set("parameters", "{");
    let page = browser.submit(&both).await;
    assert_eq!(page.status, 422);
    page.assert_shows("Name: This is required.");
    page.assert_shows("Line 1, column 1: From here on this is not JSON.");
    let deep = format!("{}1{}", "{\"a\":".repeat(70), "}".repeat(70));
    let page = browser.submit(&form.clone().set("parameters", &deep)).await;
    assert_eq!(page.status, 422);
    page.assert_shows("nested deeper");
    assert_eq!(page.form(&new).value("parameters"), Some(&*deep));

    let page = browser
        .submit(
            &form
                .clone()
                .set("name", "end_call")
                .set("endpoint", "ftp://a"),
        )
        .await;
    assert_eq!(page.status, 422);
    page.assert_shows("Name: This must not be the name of a built-in tool.");
    assert_eq!(page.input("endpoint")["aria-invalid"], "true");
}

#[actix_web::test]
async fn a_function_is_made_tested_renamed_and_deleted() {
    let world = shared_world!(Sqlite);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    let functions = format!("{}/functions", agent_page(&tenant.agent));
    let new = format!("{functions}/new");
    let of_api = |name: &str| format!("/agents/{}/functions/{name}", tenant.agent);
    let parameters = "{\"type\": \"object\", \"properties\": {\"sku\": {\"type\": \"string\"}}, \"required\": [\"sku\"]}";
    let form = browser
        .open(&new)
        .await
        .form(&new)
        .set("name", "new")
        .set("description", "Counts.")
        .set("endpoint", &world.receiver.url("/stock"))
        .set("parameters", parameters);
    // A function may have the name of the page for new ones.
    let made = browser.submit(&form).await;
    made.assert_shows("Function created");
    let page = path(&made);
    let renamed = browser
        .submit(
            &made
                .form(&page)
                .set("name", "check_stock")
                .set("method", "GET"),
        )
        .await;
    renamed.assert_shows("Saved.");
    let page = format!("{functions}/check_stock");
    assert_eq!(path(&renamed), page);
    let seen = tenant
        .api
        .get(&of_api("check_stock")[..of_api("").len() - 1])
        .await;
    assert_eq!(seen.body["functions"][0]["method"], "GET");
    let taken = browser
        .submit(&form.clone().set("name", "check_stock"))
        .await;
    assert_eq!(taken.status, 422);
    taken.assert_shows("This agent has a function named \"check_stock\" already.");
    assert_eq!(taken.input("name")["aria-invalid"], "true");

    let test = format!("{page}/test");
    let answers = [
        ServerAnswer::Json(json!({"pieces": 12})),
        ServerAnswer::Full(500, "x-a", "b".to_owned(), b"<p>oops".to_vec()),
    ];
    world.receiver.answer("/stock", answers);
    let form = browser.open(&test).await.form(&test);
    let right = form.clone().set("parameters", "{\"sku\": \"A & B\"}");
    let good = browser.submit(&right).await;
    assert_eq!(good.path, test, "it is answered with the way to the page");
    let asked: ReceivedRequest = world.receiver.wait_for("/stock", 1).await.remove(0);
    good.assert_shows("It works.");
    for words in [
        &format!("GET {}?sku=A+%26+B", world.receiver.url("/stock")),
        "Content-Type: application/json",
        &format!(
            "X-Service-Signature: {}",
            asked.header("x-service-signature")
        ),
        "X-Service-Test: true",
        &asked.text(),
        "HMAC-SHA256",
        "\"pieces\": 12",
    ] {
        good.assert_shows(words);
    }
    assert_eq!(
        good.form(&test).value("parameters"),
        Some("{\"sku\": \"A & B\"}")
    );
    let bad = browser.submit(&right).await;
    for words in [
        "Failed",
        "not 2xx",
        "500",
        "<p>oops",
        "\"code\": \"http_status\"",
    ] {
        bad.assert_shows(words);
    }
    let misfit = browser.submit(&form.clone().set("parameters", "{}")).await;
    misfit.assert_shows("Not sent: sku is required.");
    misfit.assert_hides("X-Service-Signature");
    assert_eq!(world.receiver.received("/stock").len(), 2);
    for (typed, words) in [
        ("{\"sku\":", "Line 1, column"),
        ("[1]", "This must be an object"),
    ] {
        let page = browser.submit(&form.clone().set("parameters", typed)).await;
        assert_eq!(page.status, 422);
        page.assert_shows(words);
        assert_eq!(page.form(&test).value("parameters"), Some(typed));
    }
    browser.open(&test).await.assert_hides("http_status");

    let question = browser.open(&format!("{page}/delete")).await;
    question.assert_shows("Sari cannot use it any more");
    let yes = question.form(&format!("{page}/delete"));
    browser.submit(&yes).await.assert_shows("Function deleted.");
    assert_eq!(browser.open(&page).await.status, 404);
    assert_eq!(browser.submit(&yes).await.status, 404);
}

#[actix_web::test]
async fn what_became_of_a_functions_calls_is_told() {
    let world = shared_world!(Sqlite);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    let page = format!("{}/functions/check_order", agent_page(&tenant.agent));
    let figures = |page: &VisitedPage| {
        let text = page.text();
        let (_, rest) = text.split_once("The last 24 hours").unwrap();
        rest.split_once("In calls since")
            .unwrap()
            .0
            .trim()
            .to_owned()
    };
    let none = "Calls 0 Failures 0 Median – 95th percentile – Slowest –";
    assert_eq!(figures(&browser.open(&page).await), none);
    world.receiver.answer(
        "/f",
        [ServerAnswer::Json(json!({})), ServerAnswer::Status(500)],
    );
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk_since(&tenant.did, Moment::ago(1)).await;
    for invocation in ["first", "second"] {
        let invoke = json!({
            "callId": call, "invocationId": invocation, "name": "check_order", "parameters": {"orderId": "7"},
        });
        bridge.ok("call.function", invoke).await;
    }
    let shown = figures(&browser.open(&page).await);
    assert!(shown.starts_with("Calls 2 Failures 1 Median "), "{shown}");
    assert!(shown.ends_with(" ms"), "{shown}");
    bridge.hang_up(&call).await;
}

#[rstest]
#[actix_web::test]
async fn numbers_are_given_to_agents_and_what_nobody_answers_is_marked(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let (tenant, owner) = (&world.tenant, owner(&world).await);
    let browser = &owner.browser;
    let assign = format!("{NUMBERS}/{}/assign-agent", tenant.number);
    let agent_of = async || {
        let path = format!("/phone-numbers/{}", tenant.number);
        tenant.api.get(&path).await.expect(200)["agentId"].clone()
    };
    let form = browser.open(NUMBERS).await.form(&assign);
    assert_eq!(form.value("agentId"), Some(&*tenant.agent));
    let saved = browser.submit(&form.clone().set("agentId", "")).await;
    assert_eq!(path(&saved), NUMBERS);
    saved.assert_shows("without agent");
    assert_eq!(agent_of().await, json!(null));
    let second = tenant
        .create_agent(json!({"name": "Budi", "isActive": false}))
        .await;
    let saved = browser.submit(&form.clone().set("agentId", &second)).await;
    saved.assert_shows("agent inactive");
    assert_eq!(agent_of().await, json!(second));
    let off = format!(
        "UPDATE phone_numbers SET is_active = FALSE WHERE id = '{}'",
        tenant.number
    );
    execute(&world.server, &off).await;
    browser
        .open(NUMBERS)
        .await
        .assert_shows("The operator switched this number off.");

    // Ids of other tenants, and ids that never existed.
    let other = world.another_tenant(0).await;
    for stranger in [
        &*other.agent,
        "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
        "nonsense",
    ] {
        let page = browser.submit(&form.clone().set("agentId", stranger)).await;
        assert_eq!(page.status, 422, "{stranger}");
        page.assert_shows("This must be the id of one of your agents.");
        assert_eq!(page.input("agentId")["aria-invalid"], "true");
    }
    assert_eq!(agent_of().await, json!(second));

    // With many agents, the newest are offered beside each number, and the others on the number's page.
    for n in 0..20 {
        tenant
            .create_agent(json!({"name": format!("Agent {n}")}))
            .await;
    }
    let page = browser.open(NUMBERS).await;
    page.assert_hides("Sari");
    page.assert_shows("Budi (inactive)");
    assert!(page.links().contains(&assign));
    let all = browser.open(&assign).await;
    all.assert_shows("Sari");
    let saved = browser
        .submit(&all.form(&assign).set("agentId", &tenant.agent))
        .await;
    saved.assert_shows("Sari");
    assert_eq!(agent_of().await, json!(tenant.agent));
}

/// All addresses of pages about this agent, function and number.
fn addresses(agent: &str, function: &str, number: &str) -> [Vec<String>; 2] {
    let agent = agent_page(agent);
    let new = format!("{agent}/functions/new");
    let function = format!("{agent}/functions/{function}");
    let number = format!("{NUMBERS}/{number}/assign-agent");
    let verbs = |thing: &str, verbs: &[&str]| {
        let with = verbs.iter().map(|verb| format!("{thing}/{verb}"));
        with.collect::<Vec<_>>()
    };
    let shown = vec![agent.clone(), function.clone()];
    let asked = [
        verbs(&agent, &["delete"]),
        verbs(&function, &["test", "delete"]),
        vec![new, number],
    ];
    let mut posted = [asked.concat(), verbs(&agent, &["duplicate"])].concat();
    posted.extend(shown.clone());
    [[shown, asked.concat()].concat(), posted]
}

fn post_to(action: &str, token: &str) -> HtmlForm {
    let fields = [
        ("_token", token),
        ("name", "planted"),
        ("systemPrompt", "planted"),
        ("description", "planted"),
        ("endpoint", "https://example.com/planted"),
        ("method", "POST"),
    ];
    HtmlForm {
        action: action.to_owned(),
        method: "post".to_owned(),
        fields: fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
    }
}

async fn token(browser: &Visitor) -> String {
    let page = browser.open("/dashboard").await;
    page.form("/dashboard/sign-out")
        .value("_token")
        .unwrap()
        .to_owned()
}

#[actix_web::test]
async fn what_is_others_is_as_if_it_never_was() {
    let world = shared_world!(Sqlite);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    let token = token(&browser).await;
    let other = world.another_tenant(0).await;
    other
        .create_function("secret_work", "POST", &world.receiver.url("/f"))
        .await;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    let of_api = async || {
        let agents = other.api.get("/agents").await.expect(200);
        let functions = other
            .api
            .get(&format!("/agents/{}/functions", other.agent))
            .await;
        let numbers = other.api.get("/phone-numbers").await.expect(200);
        (agents, functions.expect(200), numbers)
    };
    let before = of_api().await;
    for (agent, function, number) in [
        (&*other.agent, "secret_work", &*other.number),
        (
            "agent_01k9zv3m8rj2q4w6y8a0c2e4g6",
            "secret_work",
            "pn_01k9zv3m8rj2q4w6y8a0c2e4g6",
        ),
        ("nonsense", "%00", "nonsense"),
    ] {
        let [read, posted] = addresses(agent, function, number);
        for path in read {
            assert_eq!(browser.open(&path).await.status, 404, "{path}");
        }
        for path in posted {
            let page = browser.post(&post_to(&path, &token)).await;
            assert_eq!(page.status, 404, "{path}");
        }
    }
    // Another tenant's function under an own agent, by name and by id.
    let id = text(&before.1["functions"][0], "id");
    for function in ["secret_work", &id] {
        let path = format!("{}/functions/{function}", agent_page(&tenant.agent));
        assert_eq!(browser.open(&path).await.status, 404, "{path}");
    }
    assert_eq!(of_api().await, before);
    assert_eq!(world.receiver.received("/f").len(), 0);
    for path in [AGENTS, NUMBERS] {
        browser.open(path).await.assert_hides(&other.did);
    }
}

#[rstest]
#[actix_web::test]
async fn a_viewer_sees_all_of_it_and_changes_nothing(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    let owner = fresh_email("owner");
    world.server.cli(&[
        "user", "create", "--tenant", &tenant.id, "--email", &owner, "--role", "owner", "--name",
        "Dewi",
    ]);
    let viewer = somebody(&world.server, &tenant.id, &fresh_email("viewer"), "viewer")
        .await
        .browser;
    let token = token(&viewer).await;
    let agent = agent_page(&tenant.agent);
    let function = format!("{agent}/functions/check_order");
    for (path, words) in [
        (AGENTS, "Sari"),
        (&agent, "Answer kindly."),
        (&function, "Looks an order up."),
        (NUMBERS, &tenant.did),
    ] {
        let page = viewer.open(path).await;
        assert_eq!(page.status, 200, "{path}");
        page.assert_shows(words);
        // Settings are text, with the names of those who may change them.
        if path == agent || path == function {
            page.assert_shows("Ask an owner: Dewi");
        }
        let forms = page.forms();
        assert!(
            forms
                .iter()
                .all(|form| form.action == "/dashboard/sign-out"),
            "{forms:?}"
        );
        let links = page.links();
        let acts = ["/delete", "/test", "/new", "/assign-agent"];
        assert!(
            !links
                .iter()
                .any(|link| acts.iter().any(|act| link.ends_with(act))),
            "{links:?}"
        );
    }
    let [read, mut posted] = addresses(&tenant.agent, "check_order", &tenant.number);
    posted.push(NEW_AGENT.to_owned());
    for path in read
        .iter()
        .filter(|path| **path != agent && **path != function)
    {
        assert_eq!(viewer.open(path).await.status, 403, "{path}");
    }
    assert_eq!(viewer.open(NEW_AGENT).await.status, 403);
    for path in posted {
        assert_eq!(
            viewer.post(&post_to(&path, &token)).await.status,
            403,
            "{path}"
        );
    }
    let agents = tenant.api.get("/agents").await.expect(200);
    assert_eq!(agents["agents"].as_array().unwrap().len(), 1);
    assert_eq!(agents["agents"][0]["name"], "Sari");
    assert_eq!(world.receiver.received("/f").len(), 0);
}

#[rstest]
#[actix_web::test]
async fn many_agents_and_numbers_are_told_in_pages(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let (tenant, browser) = (&world.tenant, owner(&world).await.browser);
    for n in 0..26 {
        tenant
            .create_agent(json!({"name": format!("Nr-{n}-")}))
            .await;
    }
    let first = browser.open(AGENTS).await;
    first.assert_shows("Nr-25-");
    first.assert_shows("Nr-1-");
    first.assert_hides("Nr-0-");
    let older = first
        .links()
        .into_iter()
        .find(|link| link.contains("before="));
    let second = browser.open(&older.unwrap()).await;
    second.assert_shows("Nr-0-");
    second.assert_shows("Sari");
    second.assert_shows(&tenant.did);
    second.assert_hides("Nr-1-");
    assert!(second.links().contains(&AGENTS.to_owned()));
    let wrong = browser.open(&format!("{AGENTS}?before=nonsense")).await;
    assert_eq!(wrong.status, 422);
}

#[rstest]
#[actix_web::test]
async fn all_of_it_is_told_in_indonesian(#[values(Sqlite)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    tenant
        .create_function("check_order", "POST", &world.receiver.url("/f"))
        .await;
    let browser = owner(&world)
        .await
        .browser
        .with("accept-language", "id-ID,id");
    let agent = agent_page(&tenant.agent);
    let function = format!("{agent}/functions/check_order");
    for (path, words) in [
        (AGENTS, "Agen menjawab nomor telepon Anda"),
        (NEW_AGENT, "Instruksi"),
        (&agent, "Simpan"),
        (&format!("{agent}/delete"), "menjadi tanpa agen"),
        (&format!("{agent}/functions/new"), "Fungsi baru"),
        (&function, "24 jam terakhir"),
        (&format!("{function}/test"), "Kirim permintaan"),
        (NUMBERS, "Agen mana yang menjawab"),
    ] {
        let page = browser.open(path).await;
        assert_eq!(page.status, 200);
        page.assert_shows(words);
    }
    let form = browser.open(NEW_AGENT).await.form(NEW_AGENT);
    let page = browser.submit(&form).await;
    assert_eq!(page.status, 422);
    page.assert_shows("Wajib diisi.");
}
