//! API keys and the function secret, as an owner makes, reads and replaces them.

use super::*;

#[actix_web::test]
async fn a_key_is_made_shown_once_used_and_revoked() {
    let world = shared_world!(Sqlite);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let form = browser.open(KEYS).await.form(KEYS);
    for (wrong, words) in [
        ("", "This is required."),
        (" \u{200b} ", "This is required."),
        (&"x".repeat(121), "At most 120 characters."),
        (
            "Till \u{202e}lliT",
            "This must not contain control characters.",
        ),
    ] {
        let page = browser.submit(&form.clone().set("name", wrong)).await;
        assert_eq!(page.status, 422);
        page.assert_shows(words);
        assert_eq!(page.input("name")["value"], wrong, "what was typed is kept");
        assert_eq!(page.input("name")["aria-invalid"], "true");
    }
    let made = browser
        .submit(&form.set("name", "Till <b>in</b> Bandung"))
        .await;
    assert_eq!(made.status, 200);
    made.assert_shows("API key created.");
    made.assert_shows("Till <b>in</b> Bandung");
    let key = made.element("key");
    assert!(key.starts_with("dkl_") && key.len() == 40, "{key}");
    let line = made.element("line");
    let ran = std::process::Command::new("sh")
        .args(["-c", &line])
        .output();
    let ran = String::from_utf8(ran.unwrap().stdout).unwrap();
    assert!(ran.contains("\"agents\""), "{line}: {ran}");

    let path = made.path.split('?').next().unwrap().to_owned();
    for again in [&*path, KEYS, &made.path] {
        let page = browser.open(again).await;
        page.assert_hides(&key);
        page.assert_shows(&key[..12]);
    }
    assert!(!server.log().contains(&key), "it is not logged");
    let list = browser.open(KEYS).await;
    for words in ["Till <b>in</b> Bandung", "owner", "the operator"] {
        list.assert_shows(words);
    }

    let question = browser.open(&format!("{path}/revoke")).await;
    question.assert_shows("are refused from the next request on");
    question.assert_shows(&key[..12]);
    let api = Rest::new(&format!("{}/api/v1", server.http)).with("x-api-key", &key);
    api.get("/agents").await.expect(200);
    let yes = question.form(&format!("{path}/revoke"));
    for _ in 0..2 {
        let revoked = browser.submit(&yes).await;
        assert_eq!(revoked.status, 200);
        revoked.assert_shows("API key revoked.");
    }
    assert_eq!(
        api.get("/agents").await.body["error"]["code"],
        "revoked_api_key"
    );
    let keys = server.cli(&["key", "list", "--tenant", tenant]);
    let of_hers = keys["keys"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["name"] == "Till <b>in</b> Bandung");
    assert_eq!(of_hers.unwrap()["madeBy"], owner.id);
}

#[actix_web::test]
async fn the_function_secret_is_shown_for_the_password_and_replaced() {
    let world = shared_world!(Sqlite);
    let (server, tenant) = (&world.server, &world.tenant.id);
    let stored = || {
        text(
            &server.cli(&["function-secret", "show", "--tenant", tenant]),
            "secret",
        )
    };
    let owner = owner(&world).await;
    let browser = &owner.browser;
    let show = format!("{SECRET_PAGE}/show");
    let first = stored();
    let page = browser.open(SECRET_PAGE).await;
    page.assert_hides(&first);
    let wrong = browser
        .submit(&page.form(&show).set("password", "not the password"))
        .await;
    assert_eq!(wrong.status, 422);
    wrong.assert_shows("This is not your password.");
    wrong.assert_hides(&first);
    let shown = browser
        .submit(&page.form(&show).set("password", PASSWORD))
        .await;
    assert_eq!(shown.element("secret"), first);
    browser.open(SECRET_PAGE).await.assert_hides(&first);

    let question = browser.open(&format!("{SECRET_PAGE}/rotate")).await;
    question.assert_shows("functions fail in calls until the servers");
    assert_eq!(stored(), first, "a question changes nothing");
    let done = browser
        .submit(&question.form(&format!("{SECRET_PAGE}/rotate")))
        .await;
    done.assert_shows("Secret replaced.");
    let second = stored();
    assert_ne!(first, second);
    done.assert_hides(&second);
    let shown = browser
        .submit(&done.form(&show).set("password", PASSWORD))
        .await;
    assert_eq!(shown.element("secret"), second);

    // The password cannot be guessed here either.
    for _ in 0..9 {
        browser
            .submit(&done.form(&show).set("password", "not the password"))
            .await;
    }
    assert_eq!(
        browser
            .submit(&done.form(&show).set("password", PASSWORD))
            .await
            .status,
        429
    );
}
