//! The audit: every change leaves exactly one entry, and nothing else leaves one.

use std::collections::BTreeSet;

use actix_web::http::Method;
use dikala_entities::{
    Actor, ApiKeyId, AuditAction, AuditId, CallId, Millis, UserId, agent, agent_version, audit,
    call, delivery, erasure, function, phone_number, recovery, webhook,
};
use sea_orm::{ConnectionTrait, EntityTrait, QueryOrder};
use serde_json::{Value, json};

use super::prelude::*;
use super::world::{ApiReply, nobody};
use crate::{
    audit::{AuditChange, AuditQuery, ChangeOrigin},
    http::route::BASE,
    openapi::ApiRoute,
    routes::ROUTES,
};

/// Texts that must be in no entry.
const HIDDEN: [&str; 4] = [
    "a prompt of ours",
    "a-secret-of-ours",
    "+6281277777777",
    "a-path-with-a-token",
];

/// A request that changes something.
struct Step {
    route: &'static ApiRoute,
    path: String,
    body: Option<Value>,
}

fn step(id: &str, path: String, body: impl Into<Option<Value>>) -> Step {
    let route = ROUTES.iter().find(|route| route.id == id);
    Step {
        route: route.expect("a route"),
        path,
        body: body.into(),
    }
}

/// One step for every route that changes something of the tenant's, in an order in which all succeed.
fn steps(world: &ApiWorld, live: CallId) -> Vec<Step> {
    let (agent, number) = (world.ours.agent, world.ours.number);
    let (hook, call) = (world.ours.webhook, world.ours.ended);
    let function = format!("/agents/{agent}/functions/check_stock");
    let new = json!({"name": "book", "description": "Books", "endpoint": "https://example.com/a-path-with-a-token"});
    let other = json!({"url": "https://example.com/a-path-with-a-token", "events": ["call.ended"], "secret": "a-secret-of-ours"});
    let secret = json!({"secret": "a-secret-of-ours"});
    let prompt = json!({"name": "B", "systemPrompt": "a prompt of ours"});
    let escalation = json!({"escalationNumber": "+6281277777777", "isActive": false});
    let to = json!({"to": "+6281277777777"});
    let widget = json!({"name": "W", "agentId": agent, "origins": ["https://example.com"]});
    let draft = json!({"draft": {"systemPrompt": "a prompt of ours"}});
    vec![
        step("calls.transfer", format!("/calls/{live}/transfer"), to),
        step("calls.hangup", format!("/calls/{live}/hangup"), None),
        step("calls.delete", format!("/calls/{call}"), None),
        step("agents.create", "/agents".into(), prompt),
        step("agents.update", format!("/agents/{agent}"), escalation),
        step(
            "functions.create",
            format!("/agents/{agent}/functions"),
            new,
        ),
        step(
            "functions.update",
            function.clone(),
            json!({"description": "More"}),
        ),
        step("functions.delete", function, None),
        step(
            "phoneNumbers.assignAgent",
            format!("/phone-numbers/{number}/assign-agent"),
            json!({"agentId": null}),
        ),
        step("chats.create", format!("/agents/{agent}/chats"), draft),
        step("widgets.create", "/widgets".into(), widget),
        step(
            "widgets.update",
            format!("/widgets/{}", world.ours.widget),
            json!({"maxConcurrent": 3}),
        ),
        step(
            "widgets.delete",
            format!("/widgets/{}", world.ours.widget),
            None,
        ),
        step("agents.delete", format!("/agents/{agent}"), None),
        step("webhooks.create", "/webhooks".into(), other),
        step(
            "webhooks.update",
            format!("/webhooks/{hook}"),
            json!({"events": ["call.ended"]}),
        ),
        step(
            "webhooks.rotateSecret",
            format!("/webhooks/{hook}/rotate-secret"),
            secret,
        ),
        step(
            "webhooks.recover",
            format!("/webhooks/{hook}/recover"),
            json!({"since": "2026-01-15T00:00:00Z"}),
        ),
        step(
            "deliveries.resend",
            format!("/deliveries/{}/resend", world.ours.delivery),
            None,
        ),
        step("webhooks.delete", format!("/webhooks/{hook}"), None),
    ]
}

async fn ask(world: &ApiWorld, step: &Step, key: Option<&str>) -> ApiReply {
    let mut headers = vec![
        ("x-api-key", world.ours.key.as_str()),
        ("content-type", "application/json"),
        ("x-request-id", "ours-1"),
    ];
    headers.extend(key.map(|key| ("idempotency-key", key)));
    let body = step.body.as_ref().map(Value::to_string).unwrap_or_default();
    let path = format!("{BASE}{}", step.path);
    world
        .send(step.route.method, &path, &headers, body.into_bytes())
        .await
}

async fn entries(world: &ApiWorld) -> Vec<audit::Model> {
    audit::Entity::find()
        .order_by_asc(audit::Column::Id)
        .all(world.store().reader())
        .await
        .expect("reads")
}

#[test]
fn every_route_that_writes_says_what_it_leaves() {
    let silent: BTreeSet<&str> = ROUTES
        .iter()
        .filter(|route| *route.method != Method::GET && route.audit.is_none())
        .map(|route| route.id)
        .collect();
    // These try something out and change nothing.
    let tries = BTreeSet::from([
        "agents.webCall",
        "chats.send",
        "events.sample",
        "functions.test",
        "webhooks.test",
    ]);
    assert_eq!(silent, tries);
    assert!(
        ROUTES
            .iter()
            .all(|route| *route.method != Method::GET || route.audit.is_none())
    );
}

#[rstest]
#[actix_web::test]
async fn every_change_leaves_one_entry_and_a_failed_or_repeated_one_none(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let (_, live) = world.talk().await;
    let mut done = BTreeSet::new();
    for step in steps(&world, live) {
        let before = entries(&world).await.len();
        fails(&world, &step).await;
        assert_eq!(
            entries(&world).await.len(),
            before,
            "{} failed",
            step.route.id
        );
        let key = step.route.is_post().then_some(step.route.id);
        let reply = ask(&world, &step, key).await;
        assert_eq!(
            reply.status, step.route.status,
            "{}: {reply:?}",
            step.route.id
        );
        if key.is_some() {
            let again = ask(&world, &step, key).await;
            assert_eq!(again.header("idempotent-replayed"), "true", "{again:?}");
        }
        let now = entries(&world).await;
        assert_eq!(now.len(), before + 1, "{}", step.route.id);
        let entry = &now[before];
        assert_eq!(Some(entry.action), step.route.audit, "{}", step.route.id);
        assert_is_ours(&world, entry);
        // Ids of created objects and of functions are not in the path.
        let untold = step.route.status == 201 || step.route.path.contains("{name}");
        assert!(untold || step.path.contains(&entry.target), "{entry:?}");
        done.insert(step.route.id);
    }
    let all: BTreeSet<&str> = ROUTES
        .iter()
        .filter(|route| route.audit.is_some())
        .map(|route| route.id)
        .collect();
    assert_eq!(done, all);
    let text = format!("{:?}", entries(&world).await);
    for hidden in HIDDEN {
        assert!(!text.contains(hidden), "{hidden} in {text}");
    }
    for told in [
        "escalationNumber, isActive=false",
        "+62*****7777",
        "check_stock of agent_",
    ] {
        assert!(text.contains(told), "no {told} in {text}");
    }
}

/// Sends the step to an unknown id and with an invalid body.
async fn fails(world: &ApiWorld, step: &Step) {
    let id = step.path.split('/').nth(2).unwrap_or_default();
    if !id.is_empty() {
        let (kind, _) = id.split_once('_').expect("an id");
        let (_, unknown) = nobody()
            .to_string()
            .split_once('_')
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .expect("an id");
        let path = step.path.replace(id, &format!("{kind}_{unknown}"));
        let reply = world
            .ask(step.route.method, &path, step.body.as_ref())
            .await;
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
    }
    if step.body.is_some() {
        let wrong = json!({"nonsense": 1});
        let reply = world.ask(step.route.method, &step.path, Some(&wrong)).await;
        assert_eq!(reply.status, 422, "{}: {reply:?}", step.path);
    }
}

fn assert_is_ours(world: &ApiWorld, entry: &audit::Model) {
    assert_eq!(entry.tenant_id, Some(world.ours.tenant));
    assert_eq!(entry.actor, Actor::Key(world.ours.key_id));
    assert_eq!(entry.address.as_deref(), Some("127.0.0.1"));
    assert_eq!(entry.request_id.as_deref(), Some("ours-1"));
    assert_eq!(
        (entry.node.as_str(), entry.at),
        ("main", world.services.clock.now())
    );
}

#[rstest]
#[actix_web::test]
async fn what_changes_nothing_leaves_no_entry(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let (_, live) = world.talk().await;
    let (agent, hook) = (world.ours.agent, world.ours.webhook);
    world
        .done("calls.hangup", &format!("/calls/{live}/hangup"), None)
        .await;
    let before = entries(&world).await;
    assert_eq!(before.len(), 1);
    world
        .done("calls.hangup", &format!("/calls/{live}/hangup"), None)
        .await;
    let same = json!({"name": "Front desk", "isActive": true});
    world
        .done("agents.update", &format!("/agents/{agent}"), Some(same))
        .await;
    let path = format!("/agents/{agent}/functions/check_stock");
    world
        .done(
            "functions.update",
            &path,
            Some(json!({"description": "Stock"})),
        )
        .await;
    let path = format!("/phone-numbers/{}/assign-agent", world.ours.number);
    world
        .done(
            "phoneNumbers.assignAgent",
            &path,
            Some(json!({"agentId": agent})),
        )
        .await;
    world
        .done(
            "webhooks.update",
            &format!("/webhooks/{hook}"),
            Some(json!({"isActive": true})),
        )
        .await;
    let never = json!({"since": "2020-01-15T00:00:00Z", "until": "2020-01-16T00:00:00Z"});
    world
        .done(
            "webhooks.recover",
            &format!("/webhooks/{hook}/recover"),
            Some(never),
        )
        .await;
    assert_eq!(entries(&world).await, before);
}

#[rstest]
#[actix_web::test]
async fn without_its_entry_nothing_is_changed(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    world.nothing_is_sent().await;
    let (_, live) = world.talk().await;
    let refuse = match store {
        Sqlite => {
            "CREATE TRIGGER refused BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'refused'); END"
        }
        Postgres => "ALTER TABLE audit ADD CONSTRAINT refused CHECK (false) NOT VALID",
    };
    let run = world.store().writer().execute_unprepared(refuse).await;
    run.expect("runs");
    let before = everything(&world).await;
    for step in steps(&world, live) {
        let reply = ask(&world, &step, None).await;
        assert!(reply.status >= 500, "{}: {reply:?}", step.route.id);
        assert_eq!(everything(&world).await, before, "{}", step.route.id);
    }
}

/// All rows that a tenant can change.
async fn everything(world: &ApiWorld) -> Vec<String> {
    let db = world.store().reader();
    let mut rows = Vec::new();
    macro_rules! read {
        ($($table:ident)*) => {$({
            let all = $table::Entity::find().all(db).await.expect("reads");
            rows.extend(all.iter().map(|row| format!("{row:?}")));
        })*};
    }
    read!(agent agent_version function phone_number webhook delivery recovery call erasure audit);
    rows.sort();
    rows
}

#[rstest]
#[actix_web::test]
async fn entries_are_found_by_actor_action_and_time_newest_first(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let now = world.services.clock.now();
    let at = |minute: i64| now.plus_ms(minute * 60_000);
    let (user, key) = (
        Actor::User(UserId::new(now)),
        Actor::Key(ApiKeyId::new(now)),
    );
    let mut written = Vec::new();
    for minute in 0..6 {
        let origin = ChangeOrigin {
            actor: if minute % 2 == 0 { user } else { key },
            ..ChangeOrigin::cli("n")
        };
        let action = match minute {
            0..3 => AuditAction::AgentCreate,
            _ => AuditAction::AgentDelete,
        };
        let change = AuditChange::new(action, format!("target {minute}"));
        // Ids order entries of the same moment.
        let at = at(minute / 2 * 2);
        let written_to = world.store().writer();
        origin
            .write(written_to, world.ours.tenant, change.clone(), at)
            .await
            .expect("writes");
        origin
            .write(written_to, world.theirs.tenant, change, at)
            .await
            .expect("writes");
        written.push(format!("target {minute}"));
    }
    written.reverse();
    let targets = |page: Vec<audit::Model>| -> Vec<String> {
        page.into_iter().map(|entry| entry.target).collect()
    };
    let db = world.store().reader();
    let of = |tenant| AuditQuery {
        tenant: Some(tenant),
        ..AuditQuery::default()
    };
    let all = of(world.ours.tenant);
    let (mut paged, mut before) = (Vec::new(), None);
    loop {
        let page = all.page(db, before, 2).await.expect("reads");
        let Some(last) = page.last() else { break };
        before = Some(last.id);
        paged.extend(targets(page));
    }
    assert_eq!(paged, written);
    let found = async |change: &dyn Fn(&mut AuditQuery)| {
        let mut some = of(world.ours.tenant);
        change(&mut some);
        targets(some.page(db, None, 100).await.expect("reads"))
    };
    let of_user = found(&|some| some.actor = Some(user)).await;
    assert_eq!(of_user, ["target 4", "target 2", "target 0"]);
    let deleted = found(&|some| some.action = Some(AuditAction::AgentDelete)).await;
    assert_eq!(deleted, ["target 5", "target 4", "target 3"]);
    let between = found(&|some| (some.from, some.to) = (Some(at(2)), Some(at(4)))).await;
    assert_eq!(between, ["target 3", "target 2"]);
    let both = found(&|some| {
        (some.actor, some.action) = (Some(key), Some(AuditAction::AgentCreate));
    })
    .await;
    assert_eq!(both, ["target 1"]);
    let theirs = of(world.theirs.tenant)
        .page(db, None, 1)
        .await
        .expect("reads");
    let nothing = all.page(db, Some(theirs[0].id), 9).await.expect("reads");
    assert_eq!(nothing, []);
    let unknown = AuditId::new(Millis::from_i64(1));
    assert_eq!(all.page(db, Some(unknown), 9).await.expect("reads"), []);
}
