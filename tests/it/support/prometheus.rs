//! A Prometheus that asks a server every second, with the rules that are shipped.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use dikala_testkit::free_port;
use serde_json::Value;
use url::form_urlencoded::byte_serialize;

use super::{rest::Rest, server::Server};

/// A file of what is shipped for operators.
pub fn ops(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("ops").join(file)
}

/// Whether Prometheus is installed; `DIKALA_REQUIRE_PROMETHEUS` makes its absence a failure.
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

/// A running Prometheus; killed when dropped.
pub struct Prometheus {
    process: Child,
    pub api: Rest,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Prometheus {
    pub fn watching(server: &Server) -> Self {
        let folder = server.installation.folder.path();
        let target = server.operator.trim_start_matches("http://");
        let configuration = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: ['{}']\n\
             scrape_configs: [{{job_name: dikala, static_configs: [{{targets: ['{target}']}}]}}]\n",
            ops("prometheus/alerts.yml").display()
        );
        let file = folder.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let log = fs::File::create(folder.join("prometheus.log")).unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("series").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self {
            process: process.unwrap(),
            api: Rest::new(&format!("http://{address}/api/v1")),
        }
    }

    /// What a query finds; none where Prometheus does not answer yet. Panics where it finds fault with the query.
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

    /// The labels of those alerts of a name that fire, or wait until it has lasted.
    pub async fn alerts(&self, name: &str) -> Vec<Value> {
        let answer = self.api.get("/alerts").await.expect(200);
        let alerts = answer["data"]["alerts"].as_array().unwrap();
        let labels = alerts.iter().map(|alert| alert["labels"].clone());
        labels
            .filter(|labels| labels["alertname"] == name)
            .collect()
    }
}
