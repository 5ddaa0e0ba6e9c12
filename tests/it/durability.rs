//! A PostgreSQL server that may lose acknowledged commits.

use dikala_testkit::OwnPostgres;

use crate::support::{
    prelude::*,
    scrape::Scrape,
    server::assert_fails,
    tenant::{Tenant, TenantPlan},
};

fn reload(postgres: &OwnPostgres, statement: &str) {
    postgres.sql(statement);
    postgres.sql("SELECT pg_reload_conf()");
}

#[actix_web::test]
async fn a_postgresql_that_does_not_flush_is_refused_until_that_is_allowed() {
    let Some(postgres) = OwnPostgres::start() else {
        return;
    };
    let mut installation = Installation::at(postgres.place(postgres.port));
    installation.set("database.allow_unsafe", "false");
    let checked = |installation: &Installation| {
        let checked = installation.run(&["check", "--json"]).json();
        let checks = checked["checks"].as_array().unwrap().clone();
        let found = checks
            .into_iter()
            .find(|check| check["name"] == "durability");
        found.unwrap()
    };
    for (set, reset, named) in [
        (
            "ALTER SYSTEM SET fsync = off",
            "ALTER SYSTEM RESET fsync",
            "fsync = off",
        ),
        (
            "ALTER SYSTEM SET full_page_writes = off",
            "ALTER SYSTEM RESET full_page_writes",
            "full_page_writes = off",
        ),
        (
            "ALTER ROLE dikala SET synchronous_commit = off",
            "ALTER ROLE dikala RESET synchronous_commit",
            "synchronous_commit = off",
        ),
        (
            "ALTER DATABASE dikala SET synchronous_commit = off",
            "ALTER DATABASE dikala RESET synchronous_commit",
            "synchronous_commit = off",
        ),
    ] {
        reload(&postgres, set);
        eventually(named, async || {
            let check = checked(&installation);
            let says = check["detail"].as_str().unwrap().contains(named);
            (check["ok"] == false && says).then_some(())
        })
        .await;
        for command in ["serve", "migrate"] {
            let refused = installation.run(&[command]);
            assert_fails(&refused, &[1], named);
            assert!(
                refused.stderr.contains("database.allow_unsafe"),
                "{refused:?}"
            );
        }
        reload(&postgres, reset);
        eventually("what is safe again", async || {
            (checked(&installation)["ok"] == true).then_some(())
        })
        .await;
    }
    let local = "ALTER ROLE dikala SET synchronous_commit = local";
    reload(&postgres, local);
    assert_eq!(checked(&installation)["ok"], true, "there is no standby");
    reload(
        &postgres,
        "ALTER SYSTEM SET synchronous_standby_names = 'standby'",
    );
    eventually("what a standby misses", async || {
        (checked(&installation)["ok"] == false).then_some(())
    })
    .await;
    installation.set("database.allow_unsafe", "true");
    let allowed = checked(&installation);
    assert_eq!(allowed["ok"], true, "{allowed}");
    let server = Server::start(installation);
    let ready = eventually("readiness", async || {
        let ready = server.rest().get("/health/ready").await;
        (ready.status == 200).then_some(ready.body)
    })
    .await;
    assert!(
        ready["warnings"][0]
            .as_str()
            .unwrap()
            .contains("synchronous_commit = local"),
        "{ready}"
    );
    assert!(server.log().contains("synchronous_commit = local"));
}

#[actix_web::test]
async fn a_server_that_stops_to_flush_makes_its_nodes_unready_until_it_does() {
    let Some(postgres) = OwnPostgres::start() else {
        return;
    };
    let mut installation = Installation::at(postgres.place(postgres.port));
    installation.set("database.allow_unsafe", "false");
    let server = Server::start(installation);
    let is = async |status: u16, figure: f64| {
        eventually("readiness and the metric to tell", async || {
            let ready = server.rest().get("/health/ready").await;
            let scrape = Scrape::of(&server.operator).await;
            let shown = scrape.value("dikala_database_unsafe_settings", &[]);
            (ready.status == status && shown == figure).then_some(ready.body)
        })
        .await
    };
    is(200, 0.0).await;
    reload(&postgres, "ALTER SYSTEM SET synchronous_commit = off");
    let told = is(503, 1.0).await;
    assert_eq!(told["checks"]["durability"], false, "{told}");
    assert!(
        told["warnings"][0]
            .as_str()
            .unwrap()
            .contains("synchronous_commit = off"),
        "{told}"
    );
    reload(&postgres, "ALTER SYSTEM RESET synchronous_commit");
    is(200, 0.0).await;
}

/// A role's settings take effect in new sessions only: the session that reads them for readiness may be an older one.
#[actix_web::test]
async fn a_new_session_that_does_not_flush_writes_nothing() {
    let Some(postgres) = OwnPostgres::start() else {
        return;
    };
    let mut installation = Installation::at(postgres.place(postgres.port));
    installation.set("database.allow_unsafe", "false");
    let server = Server::start(installation);
    let plan = TenantPlan {
        minutes: 0,
        low_threshold: None,
        concurrent_calls: None,
    };
    let tenant = Tenant::create(&server, &plan).await;
    let agent = json!({"name": "Ayu", "systemPrompt": "Be brief."});
    postgres.sql("ALTER ROLE dikala SET synchronous_commit = off");
    eventually("only new sessions that do not flush", async || {
        postgres.kill_backends();
        let refused = tenant.api.post("/agents", agent.clone()).await;
        (refused.status == 503).then_some(())
    })
    .await;
    let made = tenant.api.post("/agents", agent.clone()).await;
    assert_eq!(made.status, 503, "{made:?}");
    assert!(server.log().contains("synchronous_commit = off"));
    postgres.sql("ALTER ROLE dikala RESET synchronous_commit");
    eventually("a session that flushes", async || {
        let made = tenant.api.post("/agents", agent.clone()).await;
        (made.status == 201).then_some(())
    })
    .await;
}
