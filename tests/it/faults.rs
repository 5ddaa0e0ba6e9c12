//! Injected faults and their signs: problems of the overview, `/metrics`, the shipped alert rules, and readiness if
//! calls cannot be answered.
//!
//! The program is the real one, in a debug build. Faults of actors come from fail points
//! (`actors/src/runtime/fail_points.rs`), all others from the machine. Every alert fires in one of these tests.

use std::{fs, path::Path, process::Command};

use dikala_testkit::within;

mod gone;
mod slow;
mod wrong;

use crate::support::{
    prelude::*,
    prometheus::{Alert, Prometheus, is_at_hand},
    scrape::Scrape,
    world::HOOK,
};

/// Time until a fault shows: five seconds, and more on a busy machine.
const SHOWN_WITHIN: Duration = Duration::from_secs(20);
/// Additional time for Prometheus, which scrapes and evaluates once a second.
const TOLD_WITHIN: Duration = Duration::from_secs(15);
/// Duration of a fault from a fail point, in milliseconds: long enough to show everywhere.
const LASTS_MS: u64 = 40_000;

/// A metric's name and labels, and a condition on its value.
type Sign<'a> = (&'a str, &'a [(&'a str, &'a str)], fn(f64) -> bool);

/// The signs of one fault.
struct FaultSigns<'a> {
    /// `code` and `target` of a problem in the overview, and a word of its summary.
    problem: (&'a str, Option<&'a str>, &'a str),
    metric: Sign<'a>,
    /// An alert and one of its labels.
    alert: (Alert, &'a str, &'a str),
    /// The failed readiness check; `None` if the service stays ready.
    unready: Option<&'a str>,
}

/// A world with fail points, watched by a Prometheus.
struct WatchedWorld {
    world: TestWorld,
    /// `None` if it is not installed.
    prometheus: Option<Prometheus>,
    operator: Rest,
}

impl WatchedWorld {
    async fn start(kind: StoreKind, setup: WorldSetup) -> Option<Self> {
        Some(Self::on(Installation::migrated(kind)?, setup).await)
    }

    async fn on(mut installation: Installation, setup: WorldSetup) -> Self {
        let pipe = installation.folder.path().join("faults");
        let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        let pipe = pipe.to_str().unwrap().to_owned();
        installation.settings.push(("FAIL_POINTS".to_owned(), pipe));
        let world = TestWorld::on(installation, setup).await;
        let prometheus = if is_at_hand() {
            Some(Prometheus::firing_at_once(&world.server).await)
        } else {
            None
        };
        let operator = Rest::new(&world.server.operator);
        let watched = Self {
            world,
            prometheus,
            operator,
        };
        watched.is_well().await;
        watched
    }

    /// Asserts that nothing shows before a fault is injected, and that everything is being watched.
    async fn is_well(&self) {
        self.operator.get("/health/ready").await.expect(200);
        eventually("an overview without problems", async || {
            let overview = self.overview().await;
            let problems = overview["problems"].as_array().unwrap();
            // The fill level of this machine's disk does not matter here.
            let ours = |problem: &&Value| problem["code"] != "disk_low";
            problems.iter().find(ours).is_none().then_some(())
        })
        .await;
        if let Some(prometheus) = &self.prometheus {
            eventually(
                "Prometheus to have looked, and no alert to fire",
                async || {
                    let found = prometheus.query("count_over_time(up[10s]) >= 2").await?;
                    let is_quiet = prometheus.firing().await.is_empty();
                    (!found.is_empty() && is_quiet).then_some(())
                },
            )
            .await;
        }
    }

    /// Waits until an alert fires with a label, if Prometheus is installed.
    async fn fires(&self, alert: Alert, label: &str, value: &str) {
        within(TOLD_WITHIN, &format!("{alert:?}"), async || {
            let Some(prometheus) = &self.prometheus else {
                return Some(());
            };
            prometheus.fires(alert, label, value).await.then_some(())
        })
        .await;
    }

    /// The node's `instance` label in Prometheus.
    fn instance(&self) -> String {
        let operator = &self.world.server.operator;
        operator.trim_start_matches("http://").to_owned()
    }

    async fn overview(&self) -> Value {
        self.operator.get("/operator/v1/overview").await.expect(200)
    }

    /// Injects a fault into an actor.
    fn fail(&self, fault: &str, actor: &str) {
        let pipe = self.world.server.installation.folder.path().join("faults");
        fs::write(pipe, format!("{fault} {actor} {LASTS_MS}\n")).unwrap();
    }

    /// Waits until a fault shows everywhere, within the time of each place.
    async fn shows(&self, shows: FaultSigns<'_>) {
        let (code, target, word) = shows.problem;
        let overview = within(SHOWN_WITHIN, code, async || {
            let overview = self.overview().await;
            let problems = overview["problems"].as_array().unwrap().iter();
            let mut found = problems.filter(|problem| {
                problem["code"] == code && target.is_none_or(|target| problem["target"] == target)
            });
            found.next().cloned()
        });
        let (name, labels, is_seen) = shows.metric;
        let metric = within(SHOWN_WITHIN, name, async || {
            let scrape = Scrape::of(&self.world.server.operator).await;
            scrape.find(name, labels).filter(|value| is_seen(*value))
        });
        let readiness = within(SHOWN_WITHIN, "readiness", async || {
            let Some(check) = shows.unready else {
                return Some(());
            };
            let answer = self.operator.get("/health/ready").await;
            let is_it = answer.status == 503 && answer.body["checks"][check] == false;
            is_it.then(|| {
                let problems = answer.body["problems"].as_array().unwrap();
                assert!(
                    problems
                        .iter()
                        .any(|words| words.as_str().unwrap().len() > 20)
                );
            })
        });
        let (alert, label, value) = shows.alert;
        let told = self.fires(alert, label, value);
        let (problem, ..) = tokio::join!(overview, metric, readiness, told);
        let summary = problem["summary"].as_str().unwrap();
        assert!(summary.contains(word), "{problem}");
        assert!(!problem["action"].as_str().unwrap().is_empty(), "{problem}");
        if shows.unready.is_none() {
            self.operator.get("/health/ready").await.expect(200);
        }
        // The home page agrees.
        let page = self.operator.get("/").await;
        assert_eq!(page.status, 200, "{}", page.text);
        assert!(page.text.contains(word), "{word} on the overview");
    }
}

macro_rules! watched {
    ($store:expr, $setup:expr) => {
        match WatchedWorld::start($store, $setup).await {
            Some(watched) => watched,
            None => return,
        }
    };
}

const IS_DOWN: fn(f64) -> bool = |value| value == 0.0;
const IS_COUNTED: fn(f64) -> bool = |value| value > 0.0;

#[actix_web::test]
async fn a_ledger_that_panics_shows_and_goes_on() {
    let watched = watched!(Sqlite, WorldSetup::new());
    let tenant = &watched.world.tenant;
    let bridge = tenant.bridge(Socket).await;
    let call = bridge.talk(&tenant.did).await;
    watched.fail("panic", "credit_ledger");
    watched
        .shows(FaultSigns {
            problem: ("actor_restarted", Some("credit_ledger"), "credit_ledger"),
            metric: (
                "dikala_actor_restarts_total",
                &[("actor", "credit_ledger")],
                IS_COUNTED,
            ),
            alert: (Alert::ActorRestarted, "actor", "credit_ledger"),
            unready: None,
        })
        .await;
    let ledger = watched.operator.get("/operator/v1/actors/credit_ledger");
    let ledger = ledger.await.expect(200);
    let counted = ["errors", "restarts"].map(|key| ledger[key].as_i64());
    assert_eq!(counted, [Some(1), Some(1)], "{ledger}");
    bridge.hang_up(&call).await;
    assert_eq!(tenant.billed(&call).await, Some(1));
    watched.world.assert_ledger_is_exact();
}

#[actix_web::test]
async fn a_dispatcher_that_is_stuck_shows() {
    let watched = watched!(Sqlite, WorldSetup::new());
    watched.fail("stick", "webhook_dispatcher");
    watched
        .shows(FaultSigns {
            problem: ("not_ready", Some("webhookDispatcher"), "webhook_dispatcher"),
            metric: (
                "dikala_check_up",
                &[("check", "webhookDispatcher")],
                IS_DOWN,
            ),
            alert: (Alert::NotReady, "check", "webhookDispatcher"),
            unready: Some("webhookDispatcher"),
        })
        .await;
}

/// Deliveries beyond a full mailbox are in the table, and are made once the actor works again.
#[actix_web::test]
async fn a_full_mailbox_shows_and_loses_nothing() {
    let watched = watched!(Sqlite, WorldSetup::new());
    let world = &watched.world;
    watched.fail("fill", "webhook_dispatcher");
    watched
        .shows(FaultSigns {
            problem: (
                "mailbox_full",
                Some("webhook_dispatcher"),
                "webhook_dispatcher",
            ),
            metric: (
                "dikala_actor_mailbox_messages",
                &[("actor", "webhook_dispatcher")],
                |waiting| waiting >= 4_096.0,
            ),
            alert: (Alert::ActorBacklog, "actor", "webhook_dispatcher"),
            unready: Some("webhookDispatcher"),
        })
        .await;
    let bridge = world.tenant.bridge(Socket).await;
    let call = bridge.talk(&world.tenant.did).await;
    bridge.hang_up(&call).await;
    world.event("call.ended", &call).await;
}

#[actix_web::test]
async fn an_event_loop_that_is_blocked_shows() {
    let watched = watched!(Sqlite, WorldSetup::new());
    watched.fail("block", "credit_ledger");
    watched
        .shows(FaultSigns {
            problem: ("event_loop_blocked", Some("core-0"), "core-0"),
            metric: (
                "dikala_arbiter_lag_seconds",
                &[("arbiter", "core-0")],
                |lag| lag > 0.5,
            ),
            alert: (Alert::EventLoopBlocked, "arbiter", "core-0"),
            unready: Some("creditLedger"),
        })
        .await;
}

#[actix_web::test]
async fn a_disk_that_is_full_shows() {
    let watched = watched!(Sqlite, WorldSetup::new());
    watched.world.server.limit_files(Some(16 << 10));
    watched
        .shows(FaultSigns {
            problem: ("not_ready", Some("store"), "takes no writes"),
            metric: ("dikala_check_up", &[("check", "store")], IS_DOWN),
            alert: (Alert::NotReady, "check", "store"),
            unready: Some("store"),
        })
        .await;
    watched.world.server.limit_files(None);
}

#[actix_web::test]
async fn a_database_that_is_away_shows() {
    let watched = watched!(Postgres, WorldSetup::new());
    let store = &watched.world.server.installation.store;
    store.database().unwrap().go_away();
    watched
        .shows(FaultSigns {
            problem: ("not_ready", Some("store"), "database"),
            metric: ("dikala_check_up", &[("check", "store")], IS_DOWN),
            alert: (Alert::NotReady, "check", "store"),
            unready: Some("store"),
        })
        .await;
    store.database().unwrap().come_back();
}

/// A hanging endpoint shows before its first failure, and still shows after many.
#[actix_web::test]
async fn an_endpoint_that_hangs_shows() {
    let watched = watched!(Sqlite, WorldSetup::new());
    let world = &watched.world;
    world.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    let bridge = world.tenant.bridge(Socket).await;
    bridge.ring(&world.tenant.did).await;
    watched
        .shows(FaultSigns {
            problem: ("endpoint_hangs", Some(webhook), "does not answer"),
            metric: ("dikala_webhook_hanging_endpoints", &[], IS_COUNTED),
            alert: (Alert::EndpointsHanging, "severity", "warning"),
            unready: None,
        })
        .await;
}

#[actix_web::test]
async fn an_endpoint_that_keeps_hanging_shows_as_one_that_fails() {
    let setup = WorldSetup::new()
        .set("webhooks.timeout_seconds", 1)
        .set("webhooks.retry_schedule_seconds", "1,1,1,1,1,1,1,1");
    let watched = watched!(Sqlite, setup);
    let world = &watched.world;
    world.receiver.answer(HOOK, [ServerAnswer::Hang]);
    let webhooks = world.tenant.api.get("/webhooks").await.expect(200);
    let webhook = webhooks["webhooks"][0]["id"].as_str().unwrap();
    let bridge = world.tenant.bridge(Socket).await;
    for _ in 0..4 {
        let call = bridge.talk(&world.tenant.did).await;
        bridge.hang_up(&call).await;
    }
    watched
        .shows(FaultSigns {
            problem: ("webhook_failing", Some(webhook), "keeps failing"),
            metric: ("dikala_webhook_lanes", &[("state", "open")], IS_COUNTED),
            alert: (Alert::EndpointsFailing, "state", "open"),
            unready: None,
        })
        .await;
}

#[actix_web::test]
async fn a_tenant_that_floods_shows() {
    let watched = watched!(Sqlite, WorldSetup::new());
    let world = &watched.world;
    let id = world.tenant.id.clone();
    world
        .server
        .cli(&["tenant", "update", &id, "--rate-limit", "10"]);
    let flood = async {
        loop {
            let many = (0..4).map(|_| world.tenant.api.get("/agents"));
            futures_util::future::join_all(many).await;
        }
    };
    let shows = watched.shows(FaultSigns {
        problem: ("tenant_floods", Some(&id), "exceeds its rate limit"),
        metric: (
            "dikala_http_requests_total",
            &[("route", "/api/v1/agents"), ("status", "429")],
            |refused| refused > 50.0,
        ),
        alert: (Alert::Flooded, "route", "/api/v1/agents"),
        unready: None,
    });
    tokio::select! {
        () = flood => {}
        () = shows => {}
    }
    let overview = watched.overview().await;
    let problems = overview["problems"].as_array().unwrap();
    let flooding = problems
        .iter()
        .find(|problem| problem["code"] == "tenant_floods");
    assert_eq!(flooding.unwrap()["tenantId"], id, "{overview}");
}

/// Release builds have no fail points.
#[test]
fn fail_points_are_in_debug_builds_only() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    assert!(!manifest.contains("debug-assertions = true"));
    for module in ["actors/src/runtime/mod.rs", "migration/src/lib.rs"] {
        let source = fs::read_to_string(root.join(module)).unwrap();
        let (before, _) = source.split_once("mod fail_points;").expect(module);
        let attribute = before.trim_end().trim_end_matches("pub").trim_end();
        assert!(attribute.ends_with("#[cfg(debug_assertions)]"), "{module}");
    }
}
