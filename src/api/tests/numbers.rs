//! Phone numbers over HTTP.

use serde_json::{Value, json};

use super::prelude::*;

#[rstest]
#[actix_web::test]
async fn numbers_are_listed_and_pointed_at_agents(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let list = world
        .done("phoneNumbers.list", "/phone-numbers", None)
        .await
        .json();
    assert_eq!(list["phoneNumbers"].as_array().map(Vec::len), Some(1));
    let path = format!("/phone-numbers/{}", world.ours.number);
    let number = world.done("phoneNumbers.get", &path, None).await.json();
    assert_eq!(number, list["phoneNumbers"][0]);
    assert_eq!(number.as_object().map(|n| n.len()), Some(5));

    let assign = format!("{path}/assign-agent");
    let off = world
        .done(
            "phoneNumbers.assignAgent",
            &assign,
            Some(json!({"agentId": null})),
        )
        .await
        .json();
    assert_eq!(off["agentId"], Value::Null);
    let agent = world.ours.agent.to_string();
    let on = world
        .done(
            "phoneNumbers.assignAgent",
            &assign,
            Some(json!({"agentId": agent})),
        )
        .await
        .json();
    assert_eq!(on["agentId"], agent);
}

#[rstest]
#[actix_web::test]
async fn an_agent_that_is_not_there_is_a_wrong_field(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let assign = format!("/phone-numbers/{}/assign-agent", world.ours.number);
    for (body, wrong) in [
        (json!({}), "agentId required"),
        (json!({"agentId": 5}), "agentId invalid_type"),
        (json!({"agentId": "nonsense"}), "agentId not_found"),
        (json!({"agentId": "a\u{0}"}), "agentId invalid_format"),
        (json!({"agentId": world.theirs.agent}), "agentId not_found"),
        (
            json!({"agentId": super::world::nobody()}),
            "agentId not_found",
        ),
    ] {
        let reply = world.post(&assign, body).await;
        assert_eq!(
            (reply.status, reply.fields()),
            (422, vec![wrong.to_owned()])
        );
    }
    assert_eq!(
        world.post(&assign, json!({"agentID": null})).await.fields(),
        ["agentId required", "agentID unknown_field"]
    );
}
