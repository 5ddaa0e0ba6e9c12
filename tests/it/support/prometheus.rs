//! A Prometheus that scrapes a server every second, with the shipped rules.
//!
//! Tests of alerts use a copy whose `for` is removed. `ops/prometheus/alerts_test.yml` tests each rule's waiting
//! time.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use dikala_testkit::{eventually, folder, free_port};
use serde_json::Value;
use tempfile::TempDir;
use url::form_urlencoded::byte_serialize;

use super::{rest::Rest, server::Server};

/// A file that is shipped for operators.
pub fn ops(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ops").join(file)
}

/// True if Prometheus is installed; `DIKALA_REQUIRE_PROMETHEUS` makes its absence a failure.
pub fn is_at_hand() -> bool {
    let asked = ["prometheus", "promtool"].map(|name| Command::new(name).arg("--version").output());
    let there = asked.iter().all(Result::is_ok);
    if !there {
        let required = std::env::var_os("DIKALA_REQUIRE_PROMETHEUS").is_some();
        assert!(!required, "there is no prometheus, or no promtool");
        println!("prometheus is not at hand: skipped");
    }
    there
}

macro_rules! alerts {
    ($($name:ident,)*) => {
        /// A shipped alert, without the prefix `Dikala`. Each fires in a test (`faults`): an alert that no test
        /// uses is dead code, which does not compile.
        #[deny(dead_code)]
        #[derive(Clone, Copy, Debug)]
        pub enum Alert {
            $($name,)*
        }

        /// The names of all alerts.
        pub const ALERTS: &[&str] = &[$(concat!("Dikala", stringify!($name)),)*];
    };
}

alerts! {
    Down,
    NotReady,
    LeaseLost,
    ClockOff,
    ActorRestarted,
    ActorBacklog,
    EventLoopBlocked,
    CommitsSlow,
    AcknowledgementsSlow,
    RequestsFail,
    LedgerDifferences,
    DeliveriesLate,
    EndpointsFailing,
    EndpointsHanging,
    BridgesGone,
    Flooded,
}

/// The start of a rule's waiting time.
const WAITS: &str = "\n        for: ";

/// The shipped rules.
pub fn shipped_rules() -> String {
    fs::read_to_string(ops("prometheus/alerts.yml")).unwrap()
}

/// The shipped rules, with the selected alerts firing as soon as their conditions hold.
pub fn rules_that_do_not_wait(such: impl Fn(&str) -> bool) -> String {
    let shipped = shipped_rules();
    let mut rules = shipped.split_inclusive("\n      - alert: ");
    let head = rules.next().unwrap().to_owned();
    rules.fold(head, |text, rule| {
        let (condition, rest) = rule
            .split_once(WAITS)
            .expect("a rule says how long it waits");
        assert!(!rest.contains(WAITS), "twice: {rule}");
        let (waits, rest) = rest.split_once('\n').unwrap();
        let waits = if condition.lines().next().is_some_and(&such) {
            "0s"
        } else {
            waits
        };
        format!("{text}{condition}{WAITS}{waits}\n{rest}")
    })
}

/// A running Prometheus; killed when dropped.
pub struct Prometheus {
    process: Child,
    pub api: Rest,
    // Last: the data folder is removed after the process.
    _folder: TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    /// A Prometheus with the shipped rules.
    pub fn watching(server: &Server) -> Self {
        Self::start(server, &shipped_rules())
    }

    /// A Prometheus whose alerts fire as soon as their conditions hold.
    pub async fn firing_at_once(server: &Server) -> Self {
        let prometheus = Self::start(server, &rules_that_do_not_wait(|_| true));
        let rules = prometheus.rules().await;
        let names: Vec<_> = rules.iter().map(|rule| &rule["name"]).collect();
        assert_eq!(names, ALERTS);
        assert!(rules.iter().all(|rule| rule["duration"] == 0), "{rules:?}");
        prometheus
    }

    fn start(server: &Server, rules: &str) -> Self {
        let folder = folder();
        let path = folder.path();
        fs::write(path.join("alerts.yml"), rules).unwrap();
        let target = server.operator.trim_start_matches("http://");
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [alerts.yml]\n\
             scrape_configs: [{{job_name: dikala, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let file = path.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let log = fs::File::create(path.join("prometheus.log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                path.join("series").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self {
            process: process.unwrap(),
            api: Rest::new(&format!("http://{address}/api/v1")),
            _folder: folder,
        }
    }

    /// Its rules, once each was evaluated without an error.
    pub async fn rules(&self) -> Vec<Value> {
        let rules = eventually("the rules to be looked at", async || {
            let get = awc::http::Method::GET;
            let answer = self.api.try_send(get, "/rules", None).await.ok()?;
            let rules = answer.body["data"]["groups"][0]["rules"].as_array()?;
            let looked = |rule: &Value| rule["health"] != "unknown";
            rules.iter().all(looked).then(|| rules.clone())
        })
        .await;
        assert!(rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");
        rules
    }

    /// The result of a query; `None` while Prometheus does not answer yet. Panics if the query is invalid.
    pub async fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = byte_serialize(query.as_bytes()).collect();
        let get = awc::http::Method::GET;
        let answer = self
            .api
            .try_send(get, &format!("/query?query={encoded}"), None)
            .await;
        let answer = answer.ok().filter(|answer| answer.status != 503)?;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text);
        assert!(
            answer.body["warnings"].is_null(),
            "{query}: {}",
            answer.text
        );
        answer.body["data"]["result"].as_array().cloned()
    }

    /// The labels of firing alerts; pending ones are excluded.
    pub async fn firing(&self) -> Vec<Value> {
        let answer = self.api.get("/alerts").await.expect(200);
        let alerts = answer["data"]["alerts"].as_array().unwrap();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"].clone()).collect()
    }

    /// True if an alert fires with a label.
    pub async fn fires(&self, alert: Alert, label: &str, value: &str) -> bool {
        let firing = self.firing().await;
        let name = format!("Dikala{alert:?}");
        let such = |labels: &Value| labels["alertname"] == name && labels[label] == value;
        firing.iter().any(such)
    }
}
