//! The shipped files for Prometheus and Grafana, on a real Prometheus: each rule waits as long as it says, and each
//! query finds data while calls run. That each alert fires for its fault is tested in `faults`.
//!
//! Skipped without Prometheus; `DIKALA_REQUIRE_PROMETHEUS` makes its absence a failure.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use dikala_testkit::folder;

use crate::support::{
    prelude::*,
    prometheus::{ALERTS, Prometheus, is_at_hand, ops, rules_that_do_not_wait, shipped_rules},
    scrape::Scrape,
};

/// Grafana's rate interval for a scrape interval of a second.
const RATE_INTERVAL: &str = "10s";

fn promtool(arguments: &[&str], input: Stdio) -> Output {
    let mut command = Command::new("promtool");
    command
        .args(arguments)
        .current_dir(ops("prometheus"))
        .stdin(input);
    command.output().unwrap()
}

#[track_caller]
fn assert_silent(output: &Output) {
    let said =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
    assert!(output.status.success(), "{}", said.concat());
}

/// The names of the alerts.
fn alerts() -> Vec<String> {
    let rules = shipped_rules();
    let named = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    named.map(str::to_owned).collect()
}

#[test]
fn each_alert_fires_in_a_test_and_has_its_part_of_the_runbook() {
    let (alerts, tests) = (
        alerts(),
        fs::read_to_string(ops("prometheus/alerts_test.yml")).unwrap(),
    );
    assert_eq!(alerts, ALERTS, "each fires on a real Prometheus (`faults`)");
    let runbook = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/runbook.md");
    let runbook = fs::read_to_string(runbook).unwrap();
    let sections: Vec<&str> = runbook.split("\n## ").skip(1).collect();
    for alert in &alerts {
        let fires = format!("alertname: {alert}\n        exp_alerts:\n          - exp_labels:");
        assert!(tests.contains(&fires), "{alert} fires in no test");
        let section = sections
            .iter()
            .find(|section| section.lines().next() == Some(alert));
        let section = section.unwrap_or_else(|| panic!("nothing about {alert} in the runbook"));
        for part in ["**Means:**", "**Look at:**", "**Do:**"] {
            assert!(section.contains(part), "{part} of {alert}");
        }
    }
    assert_eq!(
        sections.len(),
        alerts.len(),
        "the runbook tells of other alerts"
    );
    if is_at_hand() {
        assert_silent(&promtool(&["check", "rules", "alerts.yml"], Stdio::null()));
        assert_silent(&promtool(
            &["test", "rules", "alerts_test.yml"],
            Stdio::null(),
        ));
    }
}

/// A rule with another waiting time fails its test.
#[test]
fn a_rule_that_does_not_wait_as_it_says_is_noticed() {
    if !is_at_hand() {
        return;
    }
    let (folder, shipped) = (folder(), shipped_rules());
    let [rules, tests] = ["alerts.yml", "alerts_test.yml"].map(|name| folder.path().join(name));
    fs::copy(ops("prometheus/alerts_test.yml"), &tests).unwrap();
    let mut waiting = 0;
    for alert in ALERTS {
        let hasty = rules_that_do_not_wait(|name| name == *alert);
        let waits = hasty.replace("for: 0s", "for: 0m") != shipped;
        fs::write(&rules, hasty).unwrap();
        let tested = promtool(&["test", "rules", tests.to_str().unwrap()], Stdio::null());
        assert_eq!(tested.status.success(), !waits, "{alert}");
        waiting += usize::from(waits);
    }
    assert!(waiting > 0);
}

/// A Prometheus that scrapes a server every second, and a simulation on that server.
struct WatchedServer {
    prometheus: Prometheus,
    simulation: Child,
}

impl Drop for WatchedServer {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.simulation.kill();
        let _ = self.simulation.wait();
    }
}

impl WatchedServer {
    fn start(world: &TestWorld) -> Self {
        let tenant = &world.tenant;
        let simulation = world
            .server
            .installation
            .command(&[
                "simulate",
                "--url",
                &world.server.http,
                "--token",
                &tenant.token,
                "--did",
                &tenant.did,
                "--calls",
                "1000000",
                "--concurrency",
                "4",
                "--rate",
                "4",
                "--talk-seconds",
                "0.5",
                "--functions",
                "0.5",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Self {
            prometheus: Prometheus::watching(&world.server),
            simulation: simulation.unwrap(),
        }
    }

    /// The choices of the dashboard's node variable: the values of a metric's label.
    async fn nodes_to_choose(&self, dashboard: &Value) -> Value {
        let lists = dashboard["templating"]["list"].as_array().unwrap();
        let queried: Vec<_> = lists.iter().filter(|of| of["type"] == "query").collect();
        let [list] = queried[..] else {
            panic!("{queried:?}");
        };
        assert_eq!(list["name"], "instance");
        let query = list["query"]["query"].as_str().unwrap();
        let within = query.strip_prefix("label_values(");
        let within = within.and_then(|rest| rest.strip_suffix(")"));
        let (metric, label) = within.and_then(|rest| rest.split_once(", ")).unwrap();
        let path = format!("/label/{label}/values?match%5B%5D={metric}");
        self.prometheus.api.get(&path).await.expect(200)["data"].take()
    }

    async fn finds(&self, query: &str) {
        eventually(query, async || {
            let found = self.prometheus.query(query).await?;
            // The quantile of an empty histogram is NaN.
            let is_a_number = |found: &Value| found["value"][1] != "NaN";
            found.iter().any(is_a_number).then_some(())
        })
        .await;
    }
}

fn dashboard() -> Value {
    let text = fs::read_to_string(ops("grafana/dikala.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Every query of panels, including nested ones.
fn queries(panels: &Value) -> Vec<String> {
    let of_panel = |panel: &Value| {
        let targets = panel["targets"].as_array().into_iter().flatten();
        let own = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
        let mut found: Vec<String> = own.collect();
        assert_eq!(found.is_empty(), panel["type"] == "row", "{panel}");
        found.extend(queries(&panel["panels"]));
        found
    };
    let panels = panels.as_array().into_iter().flatten();
    panels.flat_map(of_panel).collect()
}

/// The metrics in a query.
fn named(query: &str) -> BTreeSet<String> {
    let words = query.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = words.filter(|word| word.starts_with("dikala_") || *word == "up");
    ours.map(str::to_owned).collect()
}

#[actix_web::test]
async fn every_query_finds_something_while_calls_run() {
    if !is_at_hand() {
        return;
    }
    let world = world!(Sqlite);
    world
        .receiver
        .answer("/function", [ServerAnswer::Json(json!({"stock": 3}))]);
    let endpoint = world.receiver.url("/function");
    world
        .tenant
        .create_function("find_order", "POST", &endpoint)
        .await;
    let watched = WatchedServer::start(&world);
    watched.finds("up{job=\"dikala\"} == 1").await;
    let dashboard = dashboard();
    let nodes = watched.nodes_to_choose(&dashboard).await;
    let node = world.server.operator.trim_start_matches("http://");
    assert_eq!(nodes, json!([node]));
    let queries = queries(&dashboard["panels"]);
    assert!(queries.len() > 20);
    for query in &queries {
        let query = query.replace("$__rate_interval", RATE_INTERVAL);
        // As Grafana sends it, for the selected node and for all nodes.
        watched.finds(&query.replace("$instance", node)).await;
        watched.finds(&query.replace("$instance", ".*")).await;
    }
    let rules = watched.prometheus.rules().await;
    assert_eq!(rules.len(), ALERTS.len());
    for rule in &rules {
        let query = rule["query"].as_str().unwrap();
        eventually(query, async || watched.prometheus.query(query).await).await;
        for name in named(query) {
            watched.finds(&name).await;
        }
        for annotation in ["summary", "action", "runbook_url"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{annotation} of {rule}");
        }
    }
    // Prometheus's own linter.
    let scrape = Scrape::of(&world.server.operator).await;
    let file = world.server.installation.folder.path().join("metrics.txt");
    fs::write(&file, &scrape.text).unwrap();
    let linted = promtool(&["check", "metrics"], fs::File::open(&file).unwrap().into());
    assert_silent(&linted);
}
