//! The pages of widgets.

use super::*;

const PATH: &str = "/dashboard/widgets";

#[actix_web::test]
async fn an_owner_makes_a_button_for_a_website() {
    let world = shared_world!(Sqlite);
    let owner = owner(&world).await;
    let agent = format!("/dashboard/agents/{}", world.tenant.agent);
    owner
        .browser
        .open(&agent)
        .await
        .assert_shows("Put a button for this agent on your website");
    owner
        .browser
        .open(PATH)
        .await
        .assert_shows("No buttons yet");
    let new = format!("{PATH}/new");
    let page = owner
        .browser
        .open(&format!("{new}?agentId={}", world.tenant.agent))
        .await;
    let form = page.form(&new);
    assert_eq!(form.value("agentId"), Some(world.tenant.agent.as_str()));
    let wrong = form
        .set("name", "Shop")
        .set(
            "origins",
            "https://shop.example.com\r\nhttp://example.com\r\n",
        )
        .set("texts.start", "Ask us")
        .set("color", "green");
    let refused = owner.browser.post(&wrong).await;
    assert_eq!(refused.status, 422);
    refused.assert_shows("Fix 2 fields to continue");
    let again = refused.form(&new);
    assert_eq!(again.value("texts.start"), Some("Ask us"));
    let good = again
        .set(
            "origins",
            "shop.example.com\r\n\r\nhttps://www.example.com/menu\r\n",
        )
        .set("color", "");
    let page = owner.browser.submit(&good).await;
    page.assert_shows("Button created");
    let listed = world.tenant.api.get("/widgets").await.expect(200);
    let widget = &listed["widgets"][0];
    assert_eq!(
        widget["origins"],
        json!(["https://shop.example.com", "https://www.example.com"])
    );
    assert_eq!(widget["texts"], json!({"start": "Ask us"}));
    let line = format!(
        "/widget.js\" data-key=\"{}\" async></script>",
        text(widget, "key")
    );
    page.assert_shows(&line);
    let path = format!("{PATH}/{}", text(widget, "id"));
    let form = owner
        .browser
        .open(&path)
        .await
        .form(&path)
        .set("texts.start", "");
    owner.browser.submit(&form).await.assert_shows("Saved");
    let api = format!("/widgets/{}", text(widget, "id"));
    assert_eq!(
        world.tenant.api.get(&api).await.expect(200)["texts"],
        json!({})
    );
    owner
        .browser
        .open(PATH)
        .await
        .assert_shows("https://www.example.com");
    owner
        .browser
        .open("/dashboard/audit")
        .await
        .assert_shows("Button changed");

    let viewer = somebody(
        &world.server,
        &world.tenant.id,
        &fresh_email("viewer"),
        "viewer",
    )
    .await;
    let seen = viewer.browser.open(&path).await;
    seen.assert_shows("https://shop.example.com");
    assert!(!seen.text().contains("Create button"));
    assert_eq!(
        viewer.browser.open(&format!("{path}/delete")).await.status,
        403
    );

    let delete = format!("{path}/delete");
    let form = owner.browser.open(&delete).await.form(&delete);
    owner
        .browser
        .submit(&form)
        .await
        .assert_shows("Button deleted");
    world.tenant.api.get(&api).await.expect(404);

    let path = format!("/agents/{}", world.tenant.agent);
    world.tenant.api.delete(&path).await.expect(204);
    let page = owner.browser.open(&new).await;
    page.assert_shows("Create an agent first");
    assert!(page.links().contains(&"/dashboard/agents/new".to_owned()));
}
