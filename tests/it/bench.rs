//! `dikala bench` measures what it promises. No test asserts a speed.

use std::path::Path;

use dikala_testkit::postgres;

use crate::support::{prelude::*, server::installation};

/// The figures that each scenario must report.
const FIGURES: &[(&str, &[&str])] = &[
    (
        "lifecycles",
        &[
            "lifecycles_64",
            "lifecycles_512",
            "lifecycles_2000",
            "lifecycles_2000_to_512",
        ],
    ),
    ("pipelined", &["rings", "answers", "hang_ups"]),
    ("webhooks", &["lifecycles_webhooks", "deliveries"]),
    ("delivery", &["webhook_from_message_p50"]),
    (
        "acks",
        &[
            "ack_alone_p50",
            "ack_alone_p99",
            "ack_200_p50",
            "ack_200_p99",
        ],
    ),
    (
        "ledger",
        &["ledger_hot", "ledger_spread", "ledger_hot_to_spread"],
    ),
    ("memory", &["memory_1000"]),
    ("ticks", &["ticks_20_p99"]),
    ("start", &["start_20", "start_empty"]),
    (
        "api",
        &[
            "api_call_50",
            "api_calls_50",
            "api_credits_50",
            "api_call_100",
            "api_calls_100",
            "api_credits_100",
            "api_call_flat",
            "api_calls_flat",
            "api_credits_flat",
        ],
    ),
    (
        "pages",
        &[
            "page_home",
            "page_home_bytes",
            "page_calls",
            "page_calls_of_agent",
            "page_calls_of_part",
            "page_calls_of_many",
            "page_call",
            "page_agents",
            "page_agent",
            "page_numbers",
            "page_credits",
            "page_webhooks",
            "page_keys",
            "page_members",
            "page_audit",
        ],
    ),
];

fn names() -> Vec<&'static str> {
    FIGURES.iter().map(|(scenario, _)| *scenario).collect()
}

/// Runs the smallest measurement of these scenarios. Its temporary folder must be empty afterwards.
fn measured(installation: &Installation, store: &str, scenarios: &str) -> Value {
    let temporary = installation.folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    open_to_all(&temporary);
    let output = installation
        .command(&[
            "bench",
            "--smallest",
            "--json",
            "--store",
            store,
            "--only",
            scenarios,
        ])
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_nothing_is_left(&temporary);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Asserts that no files are left, nor processes that work in the folder.
#[track_caller]
fn assert_nothing_is_left(folder: &Path) {
    let left: Vec<_> = std::fs::read_dir(folder).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let working =
        processes.filter_map(|process| std::fs::read_link(process.path().join("cwd")).ok());
    let left: Vec<_> = working.filter(|place| place.starts_with(folder)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// PostgreSQL runs as another user if the tests run as root.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for folder in [folder, folder.parent().unwrap()] {
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
}

fn assert_complete(document: &Value, expected: &[&str]) {
    for part in ["cores", "memoryBytes"] {
        assert!(document["machine"][part].as_u64() > Some(0), "{document}");
    }
    assert_eq!(document["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["faults"]["refused"], 0, "{document}");
    assert_eq!(document["faults"]["missing"], 0, "{document}");
    let figures = document["scenarios"].as_array().unwrap();
    for name in expected {
        let figure = figures.iter().find(|figure| figure["name"] == *name);
        let figure = figure.unwrap_or_else(|| panic!("{name} is missing: {document}"));
        assert!(figure["value"].as_f64() > Some(0.0), "{figure}");
        if !figure["goal"].is_null() {
            assert!(figure["reached"].is_boolean(), "{figure}");
        }
        if !figure["limit"].is_null() {
            assert!(figure["limit"].as_f64() > Some(0.0), "{figure}");
        }
    }
}

fn figures() -> Vec<&'static str> {
    FIGURES
        .iter()
        .flat_map(|(_, figures)| *figures)
        .copied()
        .collect()
}

#[ignore = "measures for minutes; .ci/slow runs it"]
#[actix_web::test]
async fn every_scenario_is_measured_on_sqlite_and_leaves_nothing_behind() {
    let installation = installation!(Sqlite);
    let document = measured(&installation, "sqlite", &names().join(","));
    assert_complete(&document, &figures());
    assert_eq!(document["store"], "sqlite");
}

#[ignore = "measures for minutes; .ci/slow runs it"]
#[actix_web::test]
async fn every_scenario_is_measured_on_postgres_which_it_starts_by_itself() {
    let installation = installation!(Sqlite);
    if postgres::TestDatabase::create().is_none() {
        return;
    }
    let scenarios = format!("{},distance,nodes", names().join(","));
    let document = measured(&installation, "postgres", &scenarios);
    let of_postgres = [
        "away_ack_p50",
        "away_lifecycles_512",
        "wal_per_call",
        "nodes_1",
        "nodes_2",
        "nodes_apart_1",
        "nodes_apart_2",
        "nodes_one_tenant_1",
        "nodes_one_tenant_2",
    ];
    let expected = [figures(), of_postgres.to_vec()].concat();
    assert_complete(&document, &expected);
    assert_eq!(document["store"], "postgres");
}

#[actix_web::test]
async fn a_measurement_that_is_interrupted_leaves_nothing_behind() {
    let installation = installation!(Sqlite);
    let temporary = installation.folder.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let mut child = installation
        .command(&["bench", "--only", "lifecycles"])
        .env("TMPDIR", &temporary)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("a server's log", async || {
        let folder = std::fs::read_dir(&temporary).unwrap().flatten().next()?;
        folder.path().join("b0/serve.log").exists().then_some(())
    })
    .await;
    crate::support::server::interrupt(&child);
    let status = eventually("the measurement to end", async || child.try_wait().unwrap()).await;
    assert_eq!(status.code(), Some(1));
    assert_nothing_is_left(&temporary);
}

#[actix_web::test]
async fn what_cannot_be_measured_is_refused_by_name() {
    let installation = installation!(Sqlite);
    for (arguments, said) in [
        (&["bench", "--only", "sprint"][..], "lifecycles"),
        (&["bench", "--only", "distance"], "--store postgres"),
        (&["bench", "--store", "oracle"], "sqlite"),
    ] {
        let finished = installation.run(arguments);
        assert_eq!(finished.code, Some(2), "{arguments:?}: {finished:?}");
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
}
