//! Combined filters of the list of calls: exact results, read by the index that leaves the fewest calls.

use dikala_actors::runtime::clock::Clock;
use dikala_entities::{AgentId, CallId, CallStatus, OfTenant, PhoneNumberId, call};
use dikala_testkit::rows;
use sea_orm::{
    ConnectionTrait, DbBackend, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder, QueryTrait,
};
use serde_json::{Map, Value, json};

use super::prelude::*;
use crate::{http::extract::FormFields, operations::calls::filter::CallFilter};

/// Calls of each of two sorts; more than are counted before an index is chosen.
const EACH: i64 = 1_100;

/// A query with several filters, its expected index and result.
struct FilterCase {
    query: Vec<(&'static str, String)>,
    index: &'static str,
    found: usize,
}

impl FilterCase {
    fn filter(&self) -> CallFilter {
        let fields: Map<String, Value> = self
            .query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        CallFilter::read(&FormFields::from_body(fields.into()).expect("a form")).expect("filters")
    }
}

/// Two sorts of calls in turn: one agent's and number's calls end well, the other agent's and number's fail. The last
/// call of the first sort belongs to the other agent.
async fn two_sorts(world: &ApiWorld) -> [(AgentId, PhoneNumberId); 2] {
    let now = world.clock.now();
    let sorts = [(); 2].map(|()| (AgentId::new(now), PhoneNumberId::new(now)));
    let statuses = [CallStatus::Ended, CallStatus::Failed];
    let rows: Vec<call::ActiveModel> = (0..2 * EACH)
        .map(|n| {
            let sort = usize::from(n % 2 == 1);
            let began = now.plus_ms(-60_000 - n);
            let mut row = world.ours.call(CallId::new(began), statuses[sort], began);
            let (agent, number) = sorts[sort];
            row.agent_id = Some(if n == 2 * EACH - 2 { sorts[1].0 } else { agent });
            row.phone_number_id = Some(number);
            row.caller_number = match sort {
                0 => format!("+62812{n:07}"),
                _ => "anonymous".to_owned(),
            }
            .parse()
            .expect("a caller");
            row.into_active_model()
        })
        .collect();
    for some in rows.chunks(100) {
        call::Entity::insert_many(some.to_vec())
            .exec_without_returning(world.store().writer())
            .await
            .expect("calls");
    }
    sorts
}

#[rstest]
#[actix_web::test]
async fn several_filters_find_what_is_wanted_by_the_index_that_leaves_the_fewest(
    #[values(Sqlite, Postgres)] store: StoreKind,
) {
    let world = world!(store);
    let [(well, first), (ill, second)] = two_sorts(&world).await;
    let asked = |query: &[(&'static str, &dyn ToString)], index, found| FilterCase {
        query: query
            .iter()
            .map(|(name, value)| (*name, value.to_string()))
            .collect(),
        index,
        found,
    };
    let recently = world.clock.now().plus_ms(-60_010);
    let cases = [
        asked(
            &[("agentId", &well), ("phoneNumberId", &second)],
            "calls_tenant_agent_number",
            0,
        ),
        asked(
            &[("agentId", &ill), ("phoneNumberId", &first)],
            "calls_tenant_agent_number",
            1,
        ),
        asked(
            &[("agentId", &well), ("status", &"failed")],
            "calls_agent_outcome",
            0,
        ),
        asked(
            &[("phoneNumberId", &first), ("status", &"dropped")],
            "calls_number_outcome",
            0,
        ),
        asked(
            &[("agentId", &well), ("callerNumber", &"+628120000004")],
            "calls_tenant_caller",
            1,
        ),
        asked(
            &[("agentId", &ill), ("callerNumber", &"+628120000004")],
            "calls_tenant_caller",
            0,
        ),
        asked(
            &[("agentId", &well), ("status", &"answered")],
            "calls_tenant_outcome",
            0,
        ),
        asked(
            &[
                ("callerNumber", &"anonymous"),
                ("agentId", &ill),
                ("phoneNumberId", &first),
            ],
            "calls_nameless_number",
            0,
        ),
        asked(
            &[("agentId", &well), ("callerNumber", &"anonymous")],
            "calls_nameless_agent",
            0,
        ),
        asked(
            &[("callerNumber", &"anonymous"), ("status", &"ended")],
            "calls_nameless_outcome",
            0,
        ),
        asked(
            &[("phoneNumberId", &second), ("status", &"ended")],
            "calls_number_outcome",
            0,
        ),
        asked(
            &[("agentId", &ill), ("status", &"ended"), ("from", &recently)],
            "calls_agent_outcome",
            0,
        ),
        asked(
            &[
                ("agentId", &well),
                ("callerNumber", &"+628120000004"),
                ("from", &"2020-01-01"),
                ("to", &"2100-01-01"),
            ],
            "calls_tenant_caller",
            1,
        ),
        // Every candidate index leaves many.
        asked(
            &[
                ("agentId", &ill),
                ("callerNumber", &"anonymous"),
                ("status", &"failed"),
            ],
            "",
            50,
        ),
    ];
    for case in &cases {
        let query: Vec<String> = case
            .query
            .iter()
            .map(|(name, value)| format!("{name}={}", value.replace('+', "%2B")))
            .collect();
        let query = query.join("&");
        let list = world
            .done("calls.list", &format!("/calls?{query}"), None)
            .await
            .json();
        let calls = list["calls"].as_array().expect("calls");
        assert_eq!(calls.len(), case.found, "{query}");
        for (name, value) in &case.query {
            let is_time = ["from", "to"].contains(name);
            let is_so = |call: &Value| is_time || call[*name] == value.as_str();
            assert!(calls.iter().all(is_so), "{query}: {list}");
        }
        assert_eq!(list["hasMore"], case.found == 50, "{query}");
        // PostgreSQL's plan depends on its row estimates.
        if store == Sqlite {
            let plan = plan(&world, &case.filter()).await;
            assert!(plan.contains(case.index), "{query}: {plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{query}: {plan}");
        }
    }
}

/// SQLite's plan for the newest calls that match a filter.
/// A part of the caller's or the called number, written as people write numbers.
#[rstest]
#[actix_web::test]
async fn a_search_finds_parts_of_both_numbers(#[values(Sqlite, Postgres)] store: StoreKind) {
    let world = world!(store);
    let now = world.clock.now();
    for (n, caller) in [(1, "+6281255501"), (2, "+6281355502"), (3, "sip-4711")] {
        let at = now.plus_seconds(-100 * n);
        let mut row = world.ours.call(CallId::new(at), CallStatus::Ended, at);
        row.phone_number_id = None;
        row.caller_number = caller.parse().expect("a caller");
        rows::insert(world.store().writer(), row).await;
    }
    let did = world.ours.did.as_str().to_owned();
    let part_of_did = &did[4..];
    let found = async |query: &str| {
        let path = format!("/calls?{query}");
        let page = world.done("calls.list", &path, None).await.json();
        let calls = page["calls"].as_array().expect("calls").clone();
        let callers = calls.iter().map(|call| call["callerNumber"].clone());
        (callers.collect::<Vec<_>>(), page["hasMore"] == true)
    };
    let (one, two) = (json!("+6281255501"), json!("+6281355502"));
    assert_eq!(found("q=0812555").await, (vec![one.clone()], false));
    assert_eq!(found("q=%2B62812555").await, (vec![one.clone()], false));
    assert_eq!(
        found("q=5550").await,
        (vec![one.clone(), two.clone()], false)
    );
    assert_eq!(found("q=5550&limit=1").await, (vec![one.clone()], true));
    assert_eq!(found("q=5550&limit=1&offset=1").await, (vec![two], false));
    assert_eq!(found("q=sip-4711").await, (vec![json!("sip-4711")], false));
    assert_eq!(found("q=999999999").await, (vec![], false));
    // The two calls of the tenant's own number.
    assert_eq!(found(&format!("q={part_of_did}")).await.0.len(), 2);
    let (all, _) = found("q=%2B62").await;
    assert!(all.len() >= 4, "{all:?}");
    for (query, code) in [
        ("q=08", "too_short"),
        (&*format!("q={}", "1".repeat(65)), "too_long"),
        ("q=5550&offset=1001", "too_large"),
    ] {
        let path = format!("/calls?{query}");
        let refused = world.get(&path).await;
        assert_eq!(refused.status, 422, "{query}");
        assert_eq!(
            refused.json()["error"]["fields"][0]["code"],
            code,
            "{query}"
        );
    }
}

async fn plan(world: &ApiWorld, filter: &CallFilter) -> String {
    let (store, tenant) = (world.store(), world.ours.tenant);
    let wanted = filter.by_index(store.reader(), tenant, None).await;
    let wanted = wanted.expect("an index");
    let select = call::Entity::of(tenant)
        .filter(wanted.calls.clone())
        .order_by_desc(call::Column::StartedAt)
        .order_by_desc(call::Column::Id)
        .build(DbBackend::Sqlite);
    let mut explain = wanted.told(select);
    explain.sql = format!("EXPLAIN QUERY PLAN {}", explain.sql);
    let rows = store.reader().query_all_raw(explain).await;
    let lines: Vec<String> = rows
        .expect("a plan")
        .iter()
        .map(|row| row.try_get("", "detail").expect("a line"))
        .collect();
    lines.join("; ")
}
