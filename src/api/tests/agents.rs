//! Agents over HTTP.

use dikala_entities::function;
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};

use super::prelude::*;

#[rstest]
#[actix_web::test]
async fn an_agent_is_made_with_defaults_read_changed_and_deleted(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let made = world
        .done(
            "agents.create",
            "/agents",
            Some(json!({"name": " Reception ", "systemPrompt": " Be kind. "})),
        )
        .await;
    let agent = made.json();
    assert_eq!(
        made.header("location"),
        format!("/api/v1/agents/{}", made.id())
    );
    let expected = json!({
        "id": made.id(), "name": "Reception", "systemPrompt": " Be kind. ", "voiceId": null, "greetingText": null, "language": "id",
        "maxCallDurationMinutes": 10, "escalationNumber": null, "toolsEnabled": ["end_call"], "isActive": true,
        "agentVersion": 1, "createdAt": "2026-01-15T03:30:00.000Z", "updatedAt": "2026-01-15T03:30:00.000Z"
    });
    for (field, value) in expected.as_object().expect("an object") {
        assert_eq!(agent[field], *value, "{field}");
    }
    let path = format!("/agents/{}", made.id());
    assert_eq!(world.done("agents.get", &path, None).await.json(), agent);

    world.clock.advance_ms(1_500);
    let change = json!({"voiceId": "Puck", "escalationNumber": "+6281234567890", "maxCallDurationMinutes": 240, "greetingText": "Halo"});
    let changed = world
        .done("agents.update", &path, Some(change))
        .await
        .json();
    assert_eq!(changed["updatedAt"], "2026-01-15T03:30:01.500Z");
    assert_eq!(
        (&changed["voiceId"], &changed["name"]),
        (&json!("Puck"), &json!("Reception"))
    );
    let back = json!({"voiceId": null, "maxCallDurationMinutes": null, "language": null, "toolsEnabled": null, "isActive": null, "greetingText": null});
    let back = world.done("agents.update", &path, Some(back)).await.json();
    assert_eq!(
        (
            &back["voiceId"],
            &back["maxCallDurationMinutes"],
            &back["escalationNumber"]
        ),
        (&Value::Null, &json!(10), &json!("+6281234567890"))
    );
    // A client may send back what it read.
    assert_eq!(
        world
            .done("agents.update", &path, Some(back.clone()))
            .await
            .json(),
        back
    );

    let list = world.done("agents.list", "/agents", None).await.json();
    let listed = list["agents"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|a| a["id"] == agent["id"])
        .expect("listed");
    assert_eq!(listed.get("escalationNumber"), None);
    assert_eq!(
        listed.as_object().map(|l| l.len()),
        back.as_object().map(|b| b.len() - 1)
    );

    let gone = world.done("agents.delete", &path, None).await;
    assert_eq!((gone.text.as_str(), gone.header("content-type")), ("", ""));
    assert_eq!(world.delete(&path).await.code(), "agent_not_found");
}

#[rstest]
#[actix_web::test]
async fn all_wrong_fields_at_once(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let wrong = json!({
        "name": "  ", "voiceId": "puck", "language": "Bahasa Indonesia", "maxCallDurationMinutes": 0, "greetingText": "",
        "escalationNumber": "0812", "toolsEnabled": ["end_call", "end_call", "fly", 7], "isActive": "yes", "systemPrmpt": "x"
    });
    let reply = world.post("/agents", wrong).await;
    assert_eq!(reply.status, 422);
    assert_eq!(
        reply.fields(),
        [
            "name required",
            "systemPrompt required",
            "voiceId not_allowed",
            "greetingText too_short",
            "language invalid_format",
            "maxCallDurationMinutes too_small",
            "escalationNumber invalid_format",
            "toolsEnabled[1] duplicate",
            "toolsEnabled[2] not_allowed",
            "toolsEnabled[3] invalid_type",
            "isActive invalid_type",
            "systemPrmpt unknown_field"
        ]
    );
    assert_eq!(
        reply.json()["error"]["fields"][2]["allowed"],
        json!(["Puck", "Charon", "Kore", "Fenrir", "Aoede"])
    );
    assert!(reply.text.contains("did you mean \\\"systemPrompt\\\"?"));
    let long = json!({"name": "n".repeat(121), "systemPrompt": "s".repeat(32_001), "greetingText": "g".repeat(1_001), "maxCallDurationMinutes": 241});
    assert_eq!(
        world.post("/agents", long).await.fields(),
        [
            "name too_long",
            "systemPrompt too_long",
            "greetingText too_long",
            "maxCallDurationMinutes too_large"
        ]
    );
    let right = json!({"name": "n".repeat(120), "systemPrompt": "s".repeat(32_000), "greetingText": "ä".repeat(1_000), "maxCallDurationMinutes": 1.0});
    assert_eq!(world.post("/agents", right).await.status, 201);
}

#[rstest]
#[actix_web::test]
async fn a_text_that_nobody_can_see_is_missing(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}", world.ours.agent);
    for blank in [
        "",
        "  \n",
        "\u{200b}\u{feff}",
        "\u{ad}\u{2060}",
        "\u{3164}\u{2800}",
    ] {
        let body = json!({"name": blank, "systemPrompt": blank});
        let missing = ["name required", "systemPrompt required"];
        let made = world.post("/agents", body.clone()).await;
        assert_eq!(made.fields(), missing, "{blank:?}");
        assert_eq!(
            world.patch(&path, body).await.fields(),
            missing,
            "{blank:?}"
        );
        let function =
            json!({"name": "f", "description": blank, "endpoint": "https://example.com/"});
        let made = world.post(&format!("{path}/functions"), function).await;
        assert_eq!(made.fields(), ["description required"], "{blank:?}");
    }
}

#[rstest]
#[actix_web::test]
async fn a_patch_cannot_take_what_is_required(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}", world.ours.agent);
    let before = world.get(&path).await.text;
    let reply = world
        .patch(
            &path,
            json!({"name": null, "systemPrompt": null, "isActive": false}),
        )
        .await;
    assert_eq!(reply.fields(), ["name required", "systemPrompt required"]);
    assert_eq!(world.patch(&path, json!({})).await.text, before);
    assert_eq!(world.get(&path).await.text, before);
}

#[rstest]
#[actix_web::test]
async fn tools_are_built_in_or_the_agents_own(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let path = format!("/agents/{}", world.ours.agent);
    let tools = json!(["transfer_to_human", "check_stock"]);
    let reply = world.patch(&path, json!({"toolsEnabled": tools})).await;
    assert_eq!(reply.json()["toolsEnabled"], tools);
    let reply = world
        .patch(&path, json!({"toolsEnabled": ["check_stok"]}))
        .await;
    assert!(
        reply.text.contains("did you mean \\\"check_stock\\\"?"),
        "{}",
        reply.text
    );
    assert_eq!(
        world.patch(&path, json!({"toolsEnabled": []})).await.json()["toolsEnabled"],
        json!([])
    );
}

#[rstest]
#[actix_web::test]
async fn a_deleted_agent_leaves_its_numbers_and_its_calls(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    assert_eq!(
        world
            .delete(&format!("/agents/{}", world.ours.agent))
            .await
            .status,
        204
    );
    let number = world
        .get(&format!("/phone-numbers/{}", world.ours.number))
        .await
        .json();
    assert_eq!(number["agentId"], Value::Null);
    let call = world
        .get(&format!("/calls/{}", world.ours.ended))
        .await
        .json();
    assert_eq!(call["agentId"], world.ours.agent.to_string());
    let functions = function::Entity::find()
        .count(world.store().reader())
        .await
        .expect("counts");
    assert_eq!(functions, 1, "only the other tenant's function is left");
}

#[rstest]
#[actix_web::test]
async fn a_voice_and_a_conversation_are_kept_merged_and_reset(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let default = json!({"reminderAfterSeconds": 10, "endAfterSilenceSeconds": 45, "fillers": "words",
        "interruptions": "fast", "maskKeys": false});
    let agent = json!({
        "name": "Reception", "systemPrompt": "Be kind.", "voiceProvider": "scripted", "voiceName": " marin ",
        "timeZone": "Asia/Makassar", "conversation": {"reminderAfterSeconds": 3, "fillers": "tone"}
    });
    let made = world.done("agents.create", "/agents", Some(agent)).await;
    let path = format!("/agents/{}", made.id());
    let shown = |agent: &Value| {
        let fields = ["voiceProvider", "voiceName", "timeZone"].map(|name| agent[name].clone());
        (json!(fields), agent["conversation"].clone())
    };
    let mut expected = default.clone();
    expected["reminderAfterSeconds"] = json!(3);
    expected["fillers"] = json!("tone");
    let voice = json!(["scripted", "marin", "Asia/Makassar"]);
    assert_eq!(shown(&made.json()), (voice.clone(), expected.clone()));

    let change = json!({"conversation": {"fillers": null, "maskKeys": true}});
    let merged = world.done("agents.update", &path, Some(change)).await;
    expected["fillers"] = json!("words");
    expected["maskKeys"] = json!(true);
    assert_eq!(shown(&merged.json()), (voice, expected.clone()));
    assert_eq!(merged.json()["agentVersion"], 2);
    let version = world
        .done("agents.version", &format!("{path}/versions/2"), None)
        .await;
    assert_eq!(version.json()["conversation"], expected);

    let nothing =
        json!({"voiceProvider": null, "voiceName": null, "timeZone": null, "conversation": null});
    let reset = world.done("agents.update", &path, Some(nothing)).await;
    assert_eq!(shown(&reset.json()), (json!([null, null, null]), default));
}

#[rstest]
#[actix_web::test]
async fn a_voice_and_a_conversation_have_limits(#[values(Sqlite)] store: StoreKind) {
    let world = world!(store);
    let with = |fields: Value| {
        let mut agent = json!({"name": "A", "systemPrompt": "Be kind."});
        let fields = fields.as_object().cloned().expect("an object");
        agent.as_object_mut().expect("an object").extend(fields);
        world.post("/agents", agent)
    };
    for (fields, expected) in [
        (
            json!({"voiceProvider": "parrot", "voiceName": ""}),
            &["voiceProvider not_allowed", "voiceName required"][..],
        ),
        (
            json!({"voiceProvider": 7, "voiceName": "n".repeat(65)}),
            &["voiceProvider invalid_type", "voiceName too_long"],
        ),
        (
            json!({"timeZone": "Mars/Olympus", "conversation": []}),
            &["timeZone not_allowed", "conversation invalid_type"],
        ),
        (json!({"timeZone": "+07:00"}), &["timeZone not_allowed"]),
        (
            json!({"conversation": {"reminderAfterSeconds": 2, "endAfterSilenceSeconds": 4, "fillers": "poems",
                "interruptions": true, "maskKeys": "yes", "mood": 1}}),
            &[
                "conversation.reminderAfterSeconds too_small",
                "conversation.endAfterSilenceSeconds too_small",
                "conversation.fillers not_allowed",
                "conversation.interruptions invalid_type",
                "conversation.maskKeys invalid_type",
                "conversation.mood unknown_field",
            ],
        ),
        (
            json!({"conversation": {"reminderAfterSeconds": 121, "endAfterSilenceSeconds": 601}}),
            &[
                "conversation.reminderAfterSeconds too_large",
                "conversation.endAfterSilenceSeconds too_large",
            ],
        ),
    ] {
        let reply = with(fields).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, expected.iter().map(ToString::to_string).collect())
        );
    }
    // A provider that is built in, but not configured here.
    let reply = with(json!({"voiceProvider": "openai"})).await;
    let fault = &reply.json()["error"]["fields"][0];
    assert_eq!(
        json!([fault["code"], fault["allowed"]]),
        json!(["not_allowed", ["scripted"]])
    );
    for right in [
        json!({"conversation": {"reminderAfterSeconds": 3, "endAfterSilenceSeconds": 600}, "voiceName": "n".repeat(64)}),
        json!({"conversation": {"reminderAfterSeconds": 120, "endAfterSilenceSeconds": 5}, "timeZone": "UTC"}),
    ] {
        assert_eq!(with(right).await.status, 201);
    }
    let voices = world.done("voices.list", "/voices", None).await.json();
    let voices = voices["voices"].as_array().expect("a list").clone();
    let shown: Vec<Value> = voices
        .iter()
        .map(|voice| json!([voice["provider"], voice["available"], voice["default"]]))
        .collect();
    assert_eq!(
        json!(shown),
        json!([
            ["gemini", false, false],
            ["openai", false, false],
            ["pipeline", false, false],
            ["scripted", true, true]
        ])
    );
    assert_eq!(voices[0]["names"].as_array().map(Vec::len), Some(30));
}
