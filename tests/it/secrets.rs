//! Rotation of `secrets.key` while the service runs.

use base64::{Engine, engine::general_purpose::STANDARD};

use crate::support::{
    prelude::*,
    server::{assert_fails, installation},
    tenant::text,
    world::HOOK,
};

fn new_key() -> String {
    STANDARD.encode(rand::random::<[u8; 32]>())
}

fn key_of(world: &TestWorld) -> String {
    let settings = &world.server.installation.settings;
    let key = settings
        .iter()
        .find(|(name, _)| name == "DIKALA_SECRETS__KEY");
    key.expect("a key is set").1.clone()
}

/// All sealed values as `row value`.
async fn sealed(world: &TestWorld) -> Vec<[String; 2]> {
    let all = "SELECT id, function_secret FROM tenants UNION ALL SELECT id, secret FROM webhooks \
               UNION ALL SELECT id, previous_secret FROM webhooks WHERE previous_secret IS NOT NULL";
    world.server.installation.store.rows::<2>(all).await
}

#[rstest]
#[actix_web::test]
async fn a_key_is_changed_under_a_running_server(#[values(Sqlite, Postgres)] store: StoreKind) {
    let mut world = world!(store);
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap().to_owned();
    // Previous secrets are stored and sealed, too.
    let rotation = json!({"secret": "the-second-secret"});
    world
        .tenant
        .api
        .post(&format!("/webhooks/{webhook}/rotate-secret"), rotation)
        .await
        .expect(200);
    for name in ["Toko Dua", "Toko Tiga"] {
        world.server.cli(&["tenant", "create", "--name", name]);
    }
    let shown = [
        "function-secret",
        "show",
        "--tenant",
        &world.tenant.id.clone(),
    ];
    let signs_functions = world.server.cli(&shown);
    let before = sealed(&world).await;
    assert_eq!(before.len(), 5);
    let (old, new) = (key_of(&world), new_key());

    // With only the new key the start fails. With both keys everything works, and new values are sealed with the
    // new key.
    world.server.terminate().await;
    let installation = &mut world.server.installation;
    installation.set("secrets.key", &new);
    assert_eq!(installation.run(&["serve"]).code, Some(3));
    installation.set("secrets.old_keys", &old);
    world.server.restart();
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world
        .receiver
        .wait_for_event(HOOK, "the-second-secret", "call.answered", &call)
        .await;
    assert_eq!(sealed(&world).await, before, "reading changes nothing");

    let rotated = world.server.cli(&["secrets", "rotate"]);
    assert_eq!(rotated["sealed"], 5, "{rotated}");
    let after = sealed(&world).await;
    for ([id, was], [same, is]) in before.iter().zip(&after) {
        assert_eq!(id, same);
        assert_ne!(was, is);
    }
    let again = world.server.cli(&["secrets", "rotate"]);
    assert_eq!(
        (&again["sealed"], &again["current"]),
        (&json!(0), &json!(5))
    );
    // The server reads the resealed secrets.
    bridge.hang_up(&call).await;
    world
        .receiver
        .wait_for_event(HOOK, "the-second-secret", "call.ended", &call)
        .await;

    // The old key is no longer needed.
    world.server.terminate().await;
    world.server.installation.unset("secrets.old_keys");
    world.server.restart();
    assert_eq!(world.server.cli(&shown), signs_functions);
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    world
        .receiver
        .wait_for_event(HOOK, "the-second-secret", "call.answered", &call)
        .await;
    let config = world.server.installation.run(&["config", "show"]);
    assert!(!config.stdout.contains(&new) && !config.stdout.contains(&old));
}

#[rstest]
#[actix_web::test]
async fn a_rotation_counts_what_opens_and_asks_for_the_key_that_was_used(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let mut installation = installation!(store);
    let mut tenants = Vec::new();
    for name in ["Toko Satu", "Toko Dua", "Toko Tiga"] {
        let created = installation.cli(&["tenant", "create", "--name", name]);
        tenants.push(text(&created, "id"));
    }
    // Sealed for another row: it names the current key, but cannot be opened.
    let (one, other) = (&tenants[0], &tenants[1]);
    installation
        .store
        .execute(&format!(
            "UPDATE tenants SET function_secret = (SELECT function_secret FROM tenants WHERE id = '{one}') WHERE id = '{other}'"
        ))
        .await;
    let rotated = installation.run(&["secrets", "rotate", "--json"]);
    assert_eq!(rotated.code, Some(1), "{rotated:?}");
    assert!(rotated.stderr.contains(other), "{rotated:?}");
    assert_eq!(
        rotated.json(),
        json!({"sealed": 0, "current": 2, "unreadable": 1})
    );
    installation.unset("secrets.key");
    let keyless = installation.run(&["secrets", "rotate"]);
    assert_fails(&keyless, &[3], "holds secrets that do not open without");
}
