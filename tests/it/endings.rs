//! Refused calls, and every way in which a call ends.

use crate::support::{prelude::*, tenant::text};

/// A reason for refusing a call.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    NoAgent,
    AgentInactive,
    InsufficientCredits,
    ConcurrencyLimit,
    TenantSuspended,
}

impl Refusal {
    fn setup(self) -> WorldSetup {
        match self {
            Self::InsufficientCredits => WorldSetup::new().minutes(0),
            Self::ConcurrencyLimit => WorldSetup::new().concurrent_calls(1),
            _ => WorldSetup::new(),
        }
    }

    async fn arrange(self, world: &TestWorld, bridge: &TestBridge) {
        let tenant = &world.tenant;
        match self {
            Self::NoAgent => {
                let path = format!("/phone-numbers/{}/assign-agent", tenant.number);
                tenant
                    .api
                    .post(&path, json!({"agentId": null}))
                    .await
                    .expect(200);
            }
            Self::AgentInactive => tenant.change_agent(json!({"isActive": false})).await,
            Self::InsufficientCredits => {}
            Self::ConcurrencyLimit => drop(bridge.ring(&tenant.did).await),
            Self::TenantSuspended => {
                world.server.cli(&["tenant", "suspend", &tenant.id]);
                eventually("403", async || {
                    let answer = tenant.api.get("/credits").await;
                    (answer.status == 403).then(|| {
                        assert_eq!(answer.body["error"]["code"], "tenant_suspended");
                    })
                })
                .await;
            }
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::NoAgent => "no_agent",
            Self::AgentInactive => "agent_inactive",
            Self::InsufficientCredits => "insufficient_credits",
            Self::ConcurrencyLimit => "concurrency_limit",
            Self::TenantSuspended => "tenant_suspended",
        }
    }
}

#[rstest]
#[actix_web::test]
async fn a_call_that_cannot_be_served_is_refused_stored_and_free(
    #[values(Sqlite, Postgres)] store: StoreKind,
    #[values(
        Refusal::NoAgent,
        Refusal::AgentInactive,
        Refusal::InsufficientCredits,
        Refusal::ConcurrencyLimit,
        Refusal::TenantSuspended
    )]
    refusal: Refusal,
) {
    let world = shared_world!(store, refusal.setup());
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Http).await;
    refusal.arrange(&world, &bridge).await;

    let reply = bridge.incoming(&tenant.did, None).await;
    assert_eq!(
        (&reply["action"], &reply["reason"]),
        (&json!("reject"), &json!(refusal.reason()))
    );
    let id = text(&reply, "callId");
    if matches!(refusal, Refusal::TenantSuspended) {
        world.server.cli(&["tenant", "resume", &tenant.id]);
        eventually("the tenant back", async || {
            (tenant.api.get("/credits").await.status == 200).then_some(())
        })
        .await;
    }
    let call = tenant.call_over(&id).await;
    let seen = [
        "status",
        "hangupReason",
        "hangupInitiator",
        "answeredAt",
        "talkTimeSeconds",
    ];
    let seen = seen.map(|field| call[field].clone());
    assert_eq!(
        json!(seen[..4]),
        json!(["failed", refusal.reason(), "system", null])
    );
    assert_eq!(seen[4].as_i64().unwrap_or(0), 0, "nobody talked");
    assert_eq!(
        world.kinds(&id, "call.ended").await,
        ["call.started", "call.ended"]
    );
    assert_eq!(tenant.billed(&id).await, None);
    // A refused call is over: later messages of the bridge change nothing.
    bridge.hang_up(&id).await;
    assert_eq!(tenant.call(&id).await, call);
    world.assert_ledger_is_exact();
}

#[rstest]
#[actix_web::test]
async fn a_refusal_is_not_forever(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store, WorldSetup::new().concurrent_calls(1));
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let first = bridge.ring(&tenant.did).await;
    let message = bridge.message(
        "call.incoming",
        json!({"bridgeCallId": "second", "did": tenant.did, "callerNumber": "anonymous"}),
    );
    let refused = bridge.send(&message).await;
    assert_eq!(refused["reason"], "concurrency_limit");
    bridge.hang_up(&first).await;
    assert_eq!(
        bridge.send(&message).await,
        refused,
        "the same call stays refused"
    );
    bridge.ring(&tenant.did).await;
}

/// `(answered before, message, reason, initiator, status, hangupReason, hangupInitiator)`; an empty text is left
/// out.
type Ending = (
    bool,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const ENDINGS: [Ending; 17] = [
    (
        false,
        "call.hangup",
        "",
        "",
        "dropped",
        "abandoned",
        "caller",
    ),
    (
        false,
        "call.hangup",
        "normal",
        "caller",
        "dropped",
        "abandoned",
        "caller",
    ),
    (
        false,
        "call.hangup",
        "",
        "agent",
        "failed",
        "rejected",
        "agent",
    ),
    (
        false,
        "call.hangup",
        "",
        "bridge",
        "failed",
        "rejected",
        "bridge",
    ),
    (false, "call.failed", "", "", "failed", "bridge_error", ""),
    (
        false,
        "call.failed",
        "ai_error",
        "",
        "failed",
        "ai_error",
        "",
    ),
    (
        false,
        "call.failed",
        "rejected",
        "",
        "failed",
        "rejected",
        "",
    ),
    (true, "call.hangup", "", "", "ended", "normal", "caller"),
    (
        true,
        "call.hangup",
        "normal",
        "agent",
        "ended",
        "normal",
        "agent",
    ),
    (
        true,
        "call.hangup",
        "normal",
        "bridge",
        "ended",
        "normal",
        "bridge",
    ),
    (
        true,
        "call.hangup",
        "silence",
        "agent",
        "ended",
        "silence",
        "agent",
    ),
    (
        true,
        "call.hangup",
        "media_lost",
        "bridge",
        "dropped",
        "media_lost",
        "bridge",
    ),
    (
        true,
        "call.hangup",
        "ai_error",
        "bridge",
        "dropped",
        "ai_error",
        "bridge",
    ),
    (true, "call.failed", "", "", "dropped", "bridge_error", ""),
    (
        true,
        "call.failed",
        "media_lost",
        "",
        "dropped",
        "media_lost",
        "",
    ),
    (
        true,
        "call.failed",
        "ai_error",
        "",
        "dropped",
        "ai_error",
        "",
    ),
    (
        true,
        "call.failed",
        "bridge_error",
        "",
        "dropped",
        "bridge_error",
        "",
    ),
];

#[rstest]
#[actix_web::test]
async fn each_way_to_end_has_its_status_and_reason(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = shared_world!(store);
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    for ending in ENDINGS {
        let (after_answer, kind, given_reason, given_initiator, status, reason, initiator) = ending;
        let id = bridge.ring(&tenant.did).await;
        if after_answer {
            bridge.ok("call.answered", json!({"callId": id})).await;
        }
        let mut message = json!({"callId": id});
        for (field, value) in [("reason", given_reason), ("initiator", given_initiator)] {
            if !value.is_empty() {
                message[field] = json!(value);
            }
        }
        if kind == "call.failed" {
            message["detail"] = json!("the codec gave up");
        }
        bridge.ok(kind, message).await;
        let call = tenant.call(&id).await;
        assert_eq!(
            [&call["status"], &call["hangupReason"]],
            [status, reason],
            "{ending:?}"
        );
        if !initiator.is_empty() {
            assert_eq!(call["hangupInitiator"], initiator, "{ending:?}");
        }
        let ended = world.event("call.ended", &id).await;
        assert_eq!(ended.data["hangupReason"], reason, "{ending:?}");
        assert_eq!(
            tenant.billed(&id).await,
            after_answer.then_some(1),
            "{ending:?}"
        );
    }
    let id = bridge.talk(&tenant.did).await;
    for kind in ["call.hangup", "call.failed"] {
        let error = bridge
            .refused(kind, json!({"callId": id, "reason": "bored"}))
            .await;
        assert_eq!(error["code"], "invalid_message");
        assert!(
            text(&error, "message").contains("media_lost"),
            "names the list: {error}"
        );
    }
    world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn transfers_are_few_and_never_to_numbers_that_pay_who_is_called() {
    let world = world!(
        Postgres,
        WorldSetup::new().set("calls.transfer_prefixes", "+62,+65")
    );
    let tenant = &world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    let path = format!("/calls/{call}/transfer");
    for (to, status) in [
        ("+6281234567890", 202),
        ("+62809123456", 422),
        ("+12125551234", 422),
        ("+8811234567", 422),
        ("+6598765432", 202),
        ("+6598765432", 202),
        ("+6598765432", 202),
        ("+6598765432", 202),
        ("+6598765432", 422),
    ] {
        let answer = tenant.api.post(&path, json!({"to": to})).await;
        assert_eq!(answer.status, status, "{to}: {}", answer.text);
        if status == 422 {
            let field = &answer.body["error"]["fields"][0];
            assert_eq!(
                (&field["field"], &field["code"]),
                (&json!("to"), &json!("not_allowed"))
            );
        }
    }
    eventually("five commands", async || {
        let sent = bridge.commands().into_iter();
        let count = sent.filter(|sent| sent["command"] == "transfer").count();
        assert!(count <= 5, "{count} commands");
        (count == 5).then_some(())
    })
    .await;
    let ended = json!({"callId": call, "reason": "transferred", "initiator": "bridge"});
    bridge.ok("call.hangup", ended).await;
    assert_eq!(tenant.call(&call).await["hangupReason"], "transferred");
}
