//! Nodes under test, with tenants and a receiver of their events; run as in production, without logged statements.

use std::{cell::Cell, rc::Rc};

use dikala_testkit::OwnPostgres;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::spawn_blocking,
};

use super::proxy::{Balancer, ServedProtocol};
use crate::support::{
    prelude::*,
    tenant::{Tenant, TenantPlan, text},
    world::ALL_EVENTS,
};

/// Limit of fleets at the same time. Their load takes most of two cores, and an overloaded machine fails for reasons of its own.
const FLEETS_MAX: usize = 2;
static ROOM: Semaphore = Semaphore::const_new(FLEETS_MAX);

/// Nodes on one store.
pub struct Fleet {
    nodes: Vec<Option<Server>>,
    pub tenants: Vec<Rc<Tenant>>,
    pub receiver: TenantServer,
    /// Addresses for clients: of each node, or of the balancer in front of all.
    pub addresses: Rc<[String]>,
    pub balancer: Option<Balancer>,
    /// Owns the store, unless it is on the shared server.
    pub postgres: Option<OwnPostgres>,
    _room: SemaphorePermit<'static>,
}

impl Drop for Fleet {
    fn drop(&mut self) {
        // The first node owns the store, so it is dropped last.
        while self.nodes.pop().is_some() {}
    }
}

/// Settings of a fleet.
#[derive(Clone, Debug)]
pub struct FleetSettings {
    pub nodes: usize,
    pub tenants: usize,
    pub minutes: u32,
    pub settings: Vec<(&'static str, String)>,
}

impl FleetSettings {
    pub fn nodes(nodes: usize) -> Self {
        let tenants = 4;
        let settings = vec![("log.level", "info".to_owned())];
        Self {
            nodes,
            tenants,
            minutes: 10_000_000,
            settings,
        }
    }

    pub fn tenants(mut self, tenants: usize, minutes: u32) -> Self {
        (self.tenants, self.minutes) = (tenants, minutes);
        self
    }

    pub fn set(mut self, key: &'static str, value: impl ToString) -> Self {
        self.settings.push((key, value.to_string()));
        self
    }
}

/// The function of every agent.
pub const FUNCTION: &str = "look_up";

/// Path of the function's endpoint.
pub fn endpoint(tenant: usize) -> String {
    format!("/function/{tenant}")
}

/// Path of a tenant's webhook.
pub fn hook(tenant: usize) -> String {
    format!("/hook/{tenant}")
}

impl Fleet {
    /// `None` if the store is not available.
    pub async fn start(kind: StoreKind, wanted: FleetSettings) -> Option<Self> {
        Some(Self::on(Installation::migrated(kind)?, wanted).await)
    }

    /// Starts on the given installation.
    pub async fn on(mut installation: Installation, wanted: FleetSettings) -> Self {
        open_many_files();
        let room = ROOM.acquire().await.expect("is never closed");
        for (key, value) in &wanted.settings {
            installation.set(key, value);
        }
        let others: Vec<_> = (1..wanted.nodes).map(|_| installation.beside()).collect();
        let mut nodes = vec![Some(Server::start(installation))];
        nodes.extend(others.into_iter().map(|other| Some(Server::start(other))));
        let receiver = TenantServer::scripted(|request| {
            let asked = request.json();
            match asked["functionName"] == FUNCTION {
                true => ServerAnswer::Json(json!({"order": asked["parameters"]["orderId"]})),
                false => ServerAnswer::Status(200),
            }
        });
        let first = nodes[0].as_ref().unwrap();
        let plan = TenantPlan {
            minutes: wanted.minutes,
            low_threshold: None,
            concurrent_calls: Some(100_000),
        };
        let mut tenants = Vec::new();
        for number in 0..wanted.tenants {
            let tenant = Tenant::create(first, &plan).await;
            let url = receiver.url(&hook(number));
            tenant.subscribe(&url, &ALL_EVENTS, SECRET).await;
            let url = receiver.url(&endpoint(number));
            tenant.create_function(FUNCTION, "POST", &url).await;
            tenants.push(Rc::new(tenant));
        }
        let addresses = nodes.iter().flatten().map(|node| node.http.clone());
        let fleet = Self {
            addresses: addresses.collect(),
            nodes,
            tenants,
            receiver,
            balancer: None,
            postgres: None,
            _room: room,
        };
        fleet.all_know_each_other().await;
        fleet
    }

    /// Adds a node on the same store with other settings.
    pub async fn join(&mut self, settings: Vec<(String, String)>) {
        let mut other = self.node(0).installation.beside();
        let own = ["DIKALA_HTTP__LISTEN", "DIKALA_OPERATOR__LISTEN"];
        let listens: Vec<_> = other
            .settings
            .iter()
            .filter(|(name, _)| own.contains(&&**name))
            .cloned()
            .collect();
        other.settings = settings
            .into_iter()
            .filter(|(name, _)| !own.contains(&&**name))
            .collect();
        other.settings.extend(listens);
        self.nodes.push(Some(Server::start(other)));
        self.addresses = self.running().map(|node| node.http.clone()).collect();
        self.all_know_each_other().await;
    }

    /// Puts haproxy in front, as in docs/deploying.md. `None` if it is not installed.
    pub fn balanced(mut self) -> Option<Self> {
        let balancer = Balancer::start(ServedProtocol::Http, &self.addresses)?;
        self.addresses = Rc::from([balancer.http()]);
        self.balancer = Some(balancer);
        Some(self)
    }

    /// Waits until every node has seen the others: nodes poll once a second and announce themselves when they renew
    /// their leases.
    pub async fn all_know_each_other(&self) {
        let running = self.nodes.iter().flatten().count();
        if running < 2 {
            return;
        }
        let sql = "SELECT id FROM nodes WHERE lease_until > started_at + 15000";
        eventually("nodes that renewed their leases", async || {
            let renewed = self.rows::<1>(sql).await;
            (renewed.len() >= running).then_some(())
        })
        .await;
    }

    #[track_caller]
    pub fn node(&self, at: usize) -> &Server {
        self.nodes[at].as_ref().expect("a node that runs")
    }

    pub fn running(&self) -> impl Iterator<Item = &Server> {
        self.nodes.iter().flatten()
    }

    /// Kills the process, as a power failure would.
    pub fn kill(&mut self, at: usize) {
        self.nodes[at].as_mut().unwrap().kill9();
    }

    /// Restarts it at the same address while the others continue.
    pub async fn restart(&mut self, at: usize) {
        let mut node = self.nodes[at].take().unwrap();
        let restarted = spawn_blocking(move || {
            node.restart();
            node
        });
        self.nodes[at] = Some(restarted.await.unwrap());
    }

    /// Sends SIGTERM and waits; returns the exit code.
    pub async fn terminate(&mut self, at: usize) -> i32 {
        self.nodes[at].as_mut().unwrap().terminate().await
    }

    /// The node's current id.
    pub async fn id_of(&self, at: usize) -> String {
        let nodes = Rest::new(&self.node(at).operator)
            .get("/operator/v1/nodes")
            .await;
        let nodes = nodes.expect(200)["nodes"].as_array().unwrap().clone();
        let this = nodes.iter().find(|node| node["isThis"] == true);
        text(this.unwrap(), "id")
    }

    pub async fn is_ready(&self, at: usize) {
        eventually("a node to be ready", async || {
            let get = awc::http::Method::GET;
            let node = self.node(at).rest();
            let ready = node.try_send(get, "/health/ready", None).await;
            (ready.ok()?.status == 200).then_some(())
        })
        .await;
    }

    pub async fn rows<const N: usize>(&self, sql: &str) -> Vec<[String; N]> {
        self.node_with_store().installation.store.rows(sql).await
    }

    /// SQL condition for rows of this fleet's tenants: large tables contain others.
    pub fn own_rows(&self) -> String {
        let ids = self.tenants.iter().map(|tenant| format!("'{}'", tenant.id));
        format!("tenant_id IN ({})", ids.collect::<Vec<_>>().join(", "))
    }

    /// The number of rows.
    pub async fn count(&self, of: &str) -> usize {
        let rows = self
            .rows::<1>(&format!("SELECT CAST(COUNT(*) AS TEXT) FROM {of}"))
            .await;
        rows[0][0].parse().unwrap()
    }

    fn node_with_store(&self) -> &Server {
        self.running().next().expect("a node that runs")
    }

    /// Runs a command on the store, beside the nodes.
    pub async fn cli(&self, arguments: &[&str]) -> Value {
        let arguments = [arguments, &["--json"]].concat();
        let output = run(self.node_with_store().installation.command(&arguments)).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// Runs a program without blocking.
async fn run(mut command: std::process::Command) -> std::process::Output {
    let output = spawn_blocking(move || command.output());
    output.await.unwrap().unwrap()
}

/// Raises this process's limit of open files: it holds hundreds of bridges, requests, deliveries and link
/// connections.
fn open_many_files() {
    let own = std::process::id().to_string();
    let set = std::process::Command::new("sh")
        .args([
            "-c",
            "prlimit --pid \"$0\" --nofile=\"$(ulimit -Hn):\"",
            &own,
        ])
        .status();
    assert!(set.unwrap().success());
}

/// A number that is unique in this process.
pub fn fresh() -> u32 {
    thread_local!(static NEXT: Cell<u32> = const { Cell::new(0) });
    NEXT.replace(NEXT.get() + 1)
}
