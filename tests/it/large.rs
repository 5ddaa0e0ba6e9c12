//! Measures what statements read on large tables: 5,000,000 events, 1,000,000 calls, 1,000,000 pending deliveries. `.ci/faults`
//! runs this with `DIKALA_TEST_TABLES=large`, and the short forms of the fault suite beside it.

use std::collections::BTreeMap;

use dikala_testkit::{OwnPostgres, large, within};
use serde_json::Map;

use crate::{
    reliability::{FaultLoad, Fleet, FleetSettings, Short},
    support::{
        prelude::*,
        statements::{GROWING, VERIFYING},
    },
};

/// Rows that a statement may read of growing tables beside those that it returns or changes.
const ROWS_MAX: u64 = 5_000;
/// Pages of 8 KiB that it may touch.
const PAGES_MAX: u64 = 10_000;
/// For each row that it returns or changes, this many rows and pages more.
const PER_ROW: u64 = 50;

/// An operator's list without an index for its filter scans the newest 100,000 rows of all tenants. These texts identify its
/// statements.
const SEARCHING: [&str; 2] = [r#""id" >= $"#, r#""id" < $1 ORDER BY"#];
const SEARCHED_MAX: u64 = 100_100;

/// The cost of one execution of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    read: u64,
    pages: u64,
    given: u64,
}

impl Cost {
    fn is_too_high(self, text: &str) -> bool {
        let more = self.given * PER_ROW;
        let searches = SEARCHING.iter().any(|part| text.contains(part));
        let rows = if searches { SEARCHED_MAX } else { ROWS_MAX };
        self.read > rows + more || self.pages > PAGES_MAX + more
    }
}

/// A figure of a plan's node. Newer servers report rows with decimals, which are dropped.
fn figure(plan: &Map<String, Value>, name: &str) -> u64 {
    let text = plan.get(name).map(Value::to_string).unwrap_or_default();
    let whole = text.split('.').next().unwrap_or_default();
    whole.parse().unwrap_or_default()
}

/// Adds the rows and pages that a plan's node and its children read, returned and changed.
fn add(plan: &Map<String, Value>, cost: &mut Cost) {
    let text = |name: &str| plan.get(name).and_then(Value::as_str).unwrap_or_default();
    let rows = |name: &str| figure(plan, name) * figure(plan, "Actual Loops");
    if text("Node Type").ends_with("Scan") && GROWING.contains(&text("Relation Name")) {
        cost.read += rows("Actual Rows")
            + rows("Rows Removed by Filter")
            + rows("Rows Removed by Index Recheck");
    }
    let children = plan.get("Plans").and_then(Value::as_array);
    for child in children.into_iter().flatten().filter_map(Value::as_object) {
        if text("Node Type") == "ModifyTable" {
            cost.given += figure(child, "Actual Rows") * figure(child, "Actual Loops");
        }
        add(child, cost);
    }
}

fn cost(plan: &Map<String, Value>) -> Cost {
    let mut cost = Cost {
        pages: figure(plan, "Shared Hit Blocks") + figure(plan, "Shared Read Blocks"),
        given: figure(plan, "Actual Rows"),
        read: 0,
    };
    add(plan, &mut cost);
    cost
}

/// The most expensive execution of each statement in the server's log.
fn dearest(log: &str) -> BTreeMap<String, Cost> {
    let mut found: BTreeMap<String, Cost> = BTreeMap::new();
    // A plan follows the line that announces it, indented.
    for entry in log.split("  plan:\n").skip(1) {
        let plan: String = entry
            .lines()
            .take_while(|line| line.starts_with('\t'))
            .collect();
        let plan: Value = serde_json::from_str(&plan).expect("a plan in JSON");
        let text = plan["Query Text"].as_str().unwrap_or_default().to_owned();
        let cost = cost(plan["Plan"].as_object().expect("the root of a plan"));
        let dearest = found.entry(text).or_default();
        *dearest = (*dearest).max(cost);
    }
    found
}

/// Runs every read path, for the owner of half a million pending deliveries and for an operator.
async fn read_everything(fleet: &Fleet) {
    let key = fleet
        .cli(&[
            "key",
            "create",
            "--tenant",
            &large::tenant(1),
            "--name",
            "large",
        ])
        .await;
    let node = fleet.node(0);
    let tenant = Rest::new(&node.http).with("x-api-key", key["key"].as_str().unwrap());
    let operator = Rest::new(&node.operator);
    let number = large::tenant(1).replace("ten_", "");
    for (description, api) in [
        ("openapi.json", &tenant),
        ("operator/openapi.json", &operator),
    ] {
        let described = match description {
            "openapi.json" => serde_json::from_str(include_str!("../../openapi.json")).unwrap(),
            path => operator.get(&format!("/{path}")).await.expect(200),
        };
        for (path, methods) in described["paths"].as_object().unwrap() {
            if methods.get("get").is_none() || path.ends_with("/stream") {
                continue;
            }
            let path = fill_in(path, &number);
            let queries: &[&str] = match path.rsplit('/').next().unwrap() {
                "calls" => &[
                    "",
                    "?status=ended",
                    "?status=ringing",
                    "?callerNumber=%2B6281200000001",
                    "?offset=5000",
                ],
                "deliveries" => &["", "?status=pending", "?status=failed"],
                "transactions" | "events" | "audit" => &["", "?limit=100&offset=1000"],
                _ => &[""],
            };
            for query in queries {
                let answer = api.get(&format!("{path}{query}")).await;
                assert!(answer.status < 500, "{path}{query}: {}", answer.text);
            }
        }
    }
    for path in ["/health/ready", "/metrics"] {
        operator.get(path).await;
    }
}

fn fill_in(path: &str, number: &str) -> String {
    let newest = format!("01k{:023}", 999_999);
    path.split('/')
        .scan("", |before, part| {
            let filled = match (*before, part) {
                ("agents", "{id}") => format!("agent_{number}"),
                ("tenants", "{id}") => format!("ten_{number}"),
                ("webhooks", "{id}") => format!("wh_{number}"),
                ("phone-numbers" | "numbers", "{id}") => format!("pn_{number}"),
                ("calls", "{id}") => format!("call_{newest}"),
                ("deliveries", "{id}") => format!("dlv_{newest}"),
                (_, "{type}") => "call".to_owned(),
                (_, "{version}") => "1".to_owned(),
                (_, part) => part.trim_matches(['{', '}']).to_owned(),
            };
            *before = part;
            Some(filled)
        })
        .collect::<Vec<_>>()
        .join("/")
}

/// Runs calls, functions, writes, reads, every sweep, and kills a node with its calls. Each statement meanwhile reads rows in
/// proportion to what it returns or changes.
#[actix_web::test]
#[ignore = "large tables"]
async fn statements_read_what_they_return_however_large_tables_are() {
    assert!(large::wanted(), "set DIKALA_TEST_TABLES=large");
    let Some(postgres) = OwnPostgres::start() else {
        return;
    };
    let place = postgres.explained_place(postgres.port);
    let mut fleet = Fleet::on(
        Installation::at(place),
        FleetSettings::nodes(2).set("retention.sweep_seconds", 1),
    )
    .await;
    fleet.postgres = Some(postgres.clone());
    let load = FaultLoad::begin(&fleet, Short.rate());
    load.goes_on_for(100).await;
    read_everything(&fleet).await;
    let killed = fleet.id_of(1).await;
    fleet.kill(1);
    let of_the_killed = format!("calls WHERE owner = '{killed}' AND outcome IS NULL");
    within(
        Duration::from_secs(60),
        "its calls to be taken over",
        async || (fleet.count(&of_the_killed).await == 0).then_some(()),
    )
    .await;
    fleet.restart(1).await;
    load.goes_on_for(500).await;
    load.end().await;
    let log = actix_web::rt::task::spawn_blocking(move || postgres.log())
        .await
        .unwrap();
    let dearest = dearest(&log);
    assert!(
        dearest.len() > 100,
        "{} statements left plans",
        dearest.len()
    );
    let bad: Vec<_> = dearest
        .iter()
        .filter(|(text, cost)| {
            cost.is_too_high(text) && !VERIFYING.iter().any(|part| text.contains(part))
        })
        .map(|(text, cost)| format!("{cost:?} in {text}"))
        .collect();
    assert!(
        bad.is_empty(),
        "statements that read more than they give:\n{}",
        bad.join("\n\n")
    );
}
