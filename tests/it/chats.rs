//! Conversations in writing with an agent: over the API, and from its page.

use std::sync::Arc;

use actix_web::http::Method;
use dikala_testkit::pipeline::{Endpoint, FakePipeline, KEY, MODEL, ServerReaction};

use tokio::sync::Semaphore;

use crate::{
    dashboard::{execute, owner},
    support::{prelude::*, rest::RestResponse, tenant::text, visitor::HtmlForm},
    telephony::with_a_function,
};

/// A server with a language model and prices, and an agent with a function.
async fn world(store: StoreKind, server: &FakePipeline) -> Option<TestWorld> {
    let mut installation = Installation::migrated(store)?;
    // Beside a bridge with another voice.
    installation.set("telephony.enabled", "true");
    installation.set("telephony.voice.provider", "scripted");
    installation.set("telephony.sip.listen", "udp://127.0.0.1:0");
    for (key, value) in [
        ("llm.url", &server.url()[..]),
        ("llm.api_key", KEY),
        ("llm.model", MODEL),
        ("idr_per_million.text_in", "1000000"),
        ("idr_per_million.cached_in", "500000"),
        ("idr_per_million.text_out", "2000000"),
    ] {
        installation.set(&format!("telephony.pipeline.{key}"), value);
    }
    let world = TestWorld::on(installation, WorldSetup::new().minutes(1)).await;
    with_a_function(&world).await;
    let agent = json!({"greetingText": "Good day, Senja coffee."});
    world.tenant.change_agent(agent).await;
    Some(world)
}

async fn begin(world: &TestWorld, fields: Value) -> String {
    let path = format!("/agents/{}/chats", world.tenant.agent);
    let made = world.tenant.api.post(&path, fields).await.expect(201);
    text(&made, "chatId")
}

async fn send(world: &TestWorld, chat: &str, words: &str) -> RestResponse {
    let path = format!("/chats/{chat}/messages");
    world.tenant.api.post(&path, json!({"text": words})).await
}

/// The events of a streamed answer.
fn events(answer: &RestResponse) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let events = answer.text.split("\n\n").filter(|event| !event.is_empty());
    let event = |event: &str| {
        let (name, data) = event.split_once("\ndata: ").expect("data");
        let data: Value = serde_json::from_str(data).unwrap();
        assert_eq!(name, format!("event: {}", text(&data, "type")));
        data
    };
    events.map(event).collect()
}

/// The answer to a message, without what was said before a turn was over.
async fn answer(world: &TestWorld, chat: &str, words: &str) -> Vec<Value> {
    let all = events(&send(world, chat, words).await);
    all.into_iter().filter(|it| it["final"] != false).collect()
}

fn order() -> ServerReaction {
    let order = vec![("check_order", json!({"orderId": "427"}))];
    ServerReaction::Call("One moment.", order)
}

#[rstest]
#[actix_web::test]
async fn an_agent_answers_in_writing_and_calls_its_functions(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let server = FakePipeline::start();
    let Some(world) = world(store, &server).await else {
        return;
    };
    server.react(
        Endpoint::Llm,
        [order(), ServerReaction::Text("It arrives in 25 minutes.")],
    );
    let chat = begin(&world, json!({})).await;
    let told = events(&send(&world, &chat, "Where is my order 427?").await);
    // Words are told while they are written.
    let (unfinished, told): (Vec<Value>, Vec<Value>) =
        told.into_iter().partition(|it| it["final"] == false);
    let last = unfinished.last().expect("words on their way");
    assert!("It arrives in 25 minutes.".starts_with(last["text"].as_str().unwrap()));
    let parts = told.iter().map(|it| {
        let part = match it["status"].is_null() {
            true => &it["text"],
            false => &it["status"],
        };
        (text(it, "type"), part.clone())
    });
    let parts: Vec<(String, Value)> = parts.collect();
    let said = |text: &str| ("turn".to_owned(), json!(text));
    let ran = |status: &str| ("function".to_owned(), json!(status));
    assert_eq!(
        parts,
        [
            said("One moment."),
            ran("running"),
            ran("ok"),
            said("It arrives in 25 minutes."),
            ("done".to_owned(), Value::Null),
        ]
    );
    assert_eq!(told[1]["parameters"], json!({"orderId": "427"}));
    assert_eq!(told[2]["result"], json!({"arrivesInMinutes": 25}));
    // Twice: 36 tokens, 64 from the cache at half the price, and 10 at twice the price.
    assert_eq!(
        told[4],
        json!({"type": "done", "messagesLeft": 49, "costIdr": 176})
    );
    let asked = world.receiver.wait_for("/order", 1).await;
    assert_eq!(asked[0].header("x-service-test"), "true");

    server.react(Endpoint::Llm, [ServerReaction::Text("You are welcome.")]);
    let told = answer(&world, &chat, "Thanks").await;
    assert_eq!(told[0]["text"], "You are welcome.");
    let requests = server.calls(Endpoint::Llm);
    let messages = requests.last().unwrap().body["messages"]
        .as_array()
        .unwrap();
    let roles: Vec<String> = messages.iter().map(|it| text(it, "role")).collect();
    let expected = [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ];
    assert_eq!(roles, expected);
    assert_eq!(messages[2]["content"], "Good day, Senja coffee.");
    assert_eq!(server.broken_rules(), Vec::<String>::new());
    // It was no call, and cost no minutes.
    assert_eq!(world.tenant.calls().await, Vec::<Value>::new());
    let balance = world.tenant.api.get("/credits").await.expect(200);
    assert_eq!(balance["balanceMinutes"], 1, "{balance}");
}

#[actix_web::test]
async fn a_draft_is_tried_and_not_saved() {
    let server = FakePipeline::start();
    let Some(world) = world(Sqlite, &server).await else {
        return;
    };
    let draft = json!({"draft": {"systemPrompt": "You sell umbrellas.", "greetingText": null}});
    let chat = begin(&world, draft).await;
    server.react(Endpoint::Llm, [ServerReaction::Text("Umbrellas!")]);
    answer(&world, &chat, "What do you sell?").await;
    let requests = server.calls(Endpoint::Llm);
    let instruction = requests[0].body["messages"][0]["content"].as_str().unwrap();
    assert!(
        instruction.starts_with("You sell umbrellas."),
        "{instruction}"
    );
    let path = format!("/agents/{}", world.tenant.agent);
    let agent = world.tenant.api.get(&path).await.expect(200);
    assert_ne!(agent["systemPrompt"], "You sell umbrellas.");
    let wrong = json!({"draft": {"name": ""}});
    let refused = world.tenant.api.post(&format!("{path}/chats"), wrong).await;
    let refused = refused.expect(422);
    assert_eq!(refused["error"]["fields"][0]["field"], "draft.name");
}

#[actix_web::test]
async fn a_model_that_fails_is_told_and_the_chat_goes_on() {
    let server = FakePipeline::start();
    let Some(world) = world(Sqlite, &server).await else {
        return;
    };
    let chat = begin(&world, json!({})).await;
    for (reaction, code) in [
        (ServerReaction::Status(500, "", None), "no_answer"),
        (ServerReaction::Cut, "no_answer"),
        (ServerReaction::Text(""), "empty"),
    ] {
        server.react(Endpoint::Llm, [reaction]);
        let told = answer(&world, &chat, "Hello?").await;
        let fault = told.iter().find(|it| it["type"] == "error");
        let fault = fault.unwrap_or_else(|| panic!("{code}: {told:?}"));
        assert_eq!(fault["code"], code, "{fault}");
        assert!(text(fault, "message").contains("Send the message again"));
        assert_eq!(told.last().unwrap()["type"], "done");
    }
    // A function that was called must not be called a second time.
    let fails = ServerReaction::Status(500, "", None);
    server.react(Endpoint::Llm, [order(), fails]);
    let told = answer(&world, &chat, "Where is it?").await;
    let fault = told.iter().find(|it| it["type"] == "error").unwrap();
    assert!(!text(fault, "message").contains("again"), "{fault}");
    // A model that calls functions without end, and one of an unknown name.
    server.react(Endpoint::Llm, std::iter::repeat_n(order(), 8));
    let told = answer(&world, &chat, "Where is it?").await;
    let fault = told.iter().find(|it| it["type"] == "error").unwrap();
    assert_eq!(fault["code"], "endless");
    server.react(
        Endpoint::Llm,
        [
            ServerReaction::Call("", vec![("open_door", json!({}))]),
            ServerReaction::Call("Goodbye!", vec![("end_call", json!({}))]),
        ],
    );
    let told = answer(&world, &chat, "Open the door").await;
    assert_eq!(told[1]["code"], "unknown_function", "{told:?}");
    assert_eq!(told[2]["text"], "Goodbye!");
    assert_eq!(told[4]["status"], "ok");
    server.refuses_usage();
    server.react(Endpoint::Llm, [ServerReaction::Text("Yes?")]);
    let told = answer(&world, &chat, "Are you there?").await;
    assert_eq!(told[0]["text"], "Yes?");
    // Messages that were not answered are to be sent again, so they are no part of the chat.
    let requests = server.calls(Endpoint::Llm);
    let messages = requests.last().unwrap().body["messages"].to_string();
    assert!(!messages.contains("Hello?"), "{messages}");
    assert!(messages.contains("Open the door"), "{messages}");
}

#[actix_web::test]
async fn chats_are_limited_and_another_tenants_are_not_found() {
    let server = FakePipeline::start();
    let Some(world) = world(Sqlite, &server).await else {
        return;
    };
    let chat = begin(&world, json!({})).await;
    let path = format!("/chats/{chat}/messages");
    let other = world.another_tenant(1).await;
    for text in ["", " ", &"x".repeat(2_001)] {
        let refused = send(&world, &chat, text).await.expect(422);
        assert_eq!(refused["error"]["fields"][0]["field"], "text");
    }
    let message = json!({"text": "Hello"});
    other.api.post(&path, message.clone()).await.expect(404);
    // A repeated message is sent once.
    let keyed = world.tenant.api.clone().with("idempotency-key", "once");
    server.react(Endpoint::Llm, [ServerReaction::Text("Hello!")]);
    let first = keyed.post(&path, message.clone()).await;
    let again = keyed.post(&path, message.clone()).await;
    assert_eq!(events(&first), events(&again));
    assert_eq!(server.calls(Endpoint::Llm).len(), 1);

    server.react(Endpoint::Llm, [ServerReaction::Silence]);
    let waiting = actix_web::rt::spawn({
        let (api, path) = (world.tenant.api.clone(), path.clone());
        async move {
            api.try_send(Method::POST, &path, Some(json!({"text": "Wait"})))
                .await
        }
    });
    server
        .wait("the request", Endpoint::Llm, |calls| {
            (calls.len() == 2).then_some(())
        })
        .await;
    let busy = send(&world, &chat, "Again").await.expect(409);
    assert_eq!(busy["error"]["code"], "chat_answering");
    waiting.abort();
    let server_of = &world.server;
    execute(
        server_of,
        "UPDATE chats SET messages = 50, answering_until = NULL",
    )
    .await;
    let full = send(&world, &chat, "Again").await.expect(409);
    assert!(text(&full["error"], "message").contains("50"), "{full}");
    execute(server_of, "UPDATE chats SET messages = 0, expires_at = 1").await;
    send(&world, &chat, "Again").await.expect(404);

    for _ in 0..20 {
        begin(&world, json!({})).await;
    }
    let path = format!("/agents/{}/chats", world.tenant.agent);
    let refused = world.tenant.api.post(&path, json!({})).await;
    assert!(refused.header("retry-after").is_some());
    refused.expect(429);
    let audited = world
        .server
        .cli(&["audit", "list", "--action", "chat.create"]);
    assert!(audited.to_string().contains(&chat), "{audited}");
}

/// The client is gone before the model answers.
#[actix_web::test]
async fn an_answer_is_kept_though_nobody_waits_for_it() {
    let server = FakePipeline::start();
    let Some(world) = world(Sqlite, &server).await else {
        return;
    };
    let chat = begin(&world, json!({})).await;
    let may = Arc::new(Semaphore::new(0));
    let found = ServerAnswer::Json(json!({"arrivesInMinutes": 25}));
    let waits = ServerAnswer::When(Arc::clone(&may), Box::new(found));
    world.receiver.answer("/order", [waits]);
    server.react(
        Endpoint::Llm,
        [order(), ServerReaction::Text("It arrives in 25 minutes.")],
    );
    let (api, path) = (world.tenant.api.clone(), format!("/chats/{chat}/messages"));
    let asked = json!({"text": "Where is it?"});
    let leaving =
        actix_web::rt::spawn(async move { api.try_send(Method::POST, &path, Some(asked)).await });
    world.receiver.wait_for("/order", 1).await;
    leaving.abort();
    may.add_permits(1);
    server
        .wait("the answer", Endpoint::Llm, |calls| {
            (calls.len() == 2).then_some(())
        })
        .await;
    server.react(Endpoint::Llm, [ServerReaction::Text("You are welcome.")]);
    let told = eventually("the chat to be free", async || {
        let told = send(&world, &chat, "Thanks").await;
        (told.status == 200).then_some(told)
    })
    .await;
    assert_eq!(events(&told).last().unwrap()["messagesLeft"], 48);
    let requests = server.calls(Endpoint::Llm);
    let last = requests.last().unwrap().body["messages"].to_string();
    assert!(last.contains("It arrives in 25 minutes."), "{last}");
}

#[actix_web::test]
async fn without_a_language_model_chats_are_refused_in_words() {
    let world = shared_world!(Sqlite);
    let path = format!("/agents/{}/chats", world.tenant.agent);
    let refused = world.tenant.api.post(&path, json!({})).await;
    assert_eq!(refused.header("retry-after"), Some("3600"));
    let refused = refused.expect(503);
    assert_eq!(refused["error"]["code"], "no_text_model");
    let message = text(&refused["error"], "message");
    assert!(message.contains("telephony.pipeline.llm"), "{message}");
    let owner = owner(&world).await;
    let page = format!("/dashboard/agents/{}", world.tenant.agent);
    let page = owner.browser.open(&page).await;
    assert!(!page.text().contains("Type to it"));
}

#[actix_web::test]
async fn the_check_asks_the_language_model() {
    let server = FakePipeline::start();
    let Some(mut installation) = Installation::migrated(Sqlite) else {
        return;
    };
    let nowhere = format!("http://127.0.0.1:{}", dikala_testkit::free_port());
    for (url, detail) in [
        (&server.url(), "telephony.pipeline.llm answers in chats"),
        (&nowhere, "look at telephony.pipeline.llm.url"),
    ] {
        installation.set("telephony.pipeline.llm.url", url);
        installation.set("telephony.pipeline.llm.api_key", KEY);
        installation.set("telephony.pipeline.llm.model", MODEL);
        let checked = installation.run(&["check", "--json"]).json();
        let checks = checked["checks"].as_array().unwrap();
        let chats = checks.iter().find(|check| check["name"] == "chats");
        let chats = chats.unwrap_or_else(|| panic!("{checked}"));
        assert_eq!(chats["ok"], detail.contains("answers"), "{chats}");
        assert!(text(chats, "detail").contains(detail), "{chats}");
    }
}

#[actix_web::test]
async fn an_owner_writes_to_an_agent_whose_settings_are_not_saved() {
    let server = FakePipeline::start();
    let Some(world) = world(Sqlite, &server).await else {
        return;
    };
    let owner = owner(&world).await;
    let path = format!("/dashboard/agents/{}", world.tenant.agent);
    let form = owner.browser.open(&path).await.form(&path);
    let form = form.set("systemPrompt", "You sell umbrellas.");
    let begins = HtmlForm {
        action: format!("{path}/chats"),
        ..form
    };
    let page = owner.browser.submit(&begins).await;
    for words in [
        "settings that are not saved",
        "Good day, Senja coffee.",
        "50 messages are left",
    ] {
        page.assert_shows(words);
    }
    let chat = page
        .forms()
        .into_iter()
        .find(|it| it.action.starts_with("/dashboard/chats/"));
    let chat = chat.expect("a form");
    server.react(
        Endpoint::Llm,
        [order(), ServerReaction::Text("It arrives in 25 minutes.")],
    );
    let page = owner
        .browser
        .submit(&chat.clone().set("text", "Where is order 427?"))
        .await;
    for words in [
        "Where is order 427?",
        "check_order",
        "It arrives in 25 minutes.",
        "49 messages are left",
    ] {
        page.assert_shows(words);
    }
    server.react(Endpoint::Llm, [ServerReaction::Status(500, "", None)]);
    let page = owner
        .browser
        .submit(&chat.clone().set("text", "Thanks"))
        .await;
    page.assert_shows("The language model did not answer.");
    assert_eq!(page.form(&chat.action).value("text"), Some("Thanks"));
    // The focus scrolls a long chat to its end, where the reason is.
    let field = page.input("text");
    assert!(field.contains_key("autofocus"), "{field:?}");
    assert_eq!(field["aria-describedby"], "f-text-error");
    let refused = owner.browser.submit(&chat.clone().set("text", "")).await;
    assert_eq!(refused.status, 422);
    // A form with a fault is shown again, with the fault.
    let refused = owner.browser.submit(&begins.set("name", "")).await;
    assert_eq!(refused.status, 422);
    refused.assert_shows("required");
}
