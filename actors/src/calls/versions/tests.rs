//! Databases from before there were versions: their calls and agents continue.

use dikala_entities::{BridgeId, PhoneNumberId, idempotency};
use dikala_migration::{Migrator, MigratorTrait};
use dikala_testkit::{StoreGuard, StoreKind};
use sea_orm::DbBackend;

use super::*;

const NOW: Millis = Millis::from_i64(1_800_000_000_000);

/// Stores with the first `steps` steps of the schema.
async fn old_stores(steps: u32) -> Vec<(StoreGuard, Store)> {
    let mut stores = Vec::new();
    stores.extend(StoreKind::Sqlite.open_empty().await);
    stores.extend(StoreKind::Postgres.open_empty().await);
    for (_, store) in &stores {
        let schema = store.for_schema().await.expect("a connection");
        Migrator::up(&schema, Some(steps))
            .await
            .expect("the old schema");
    }
    stores
}

#[actix::test]
async fn calls_and_agents_of_before_go_on() {
    for (_folder, store) in old_stores(4).await {
        let (tenant, agent, call) = (TenantId::new(NOW), AgentId::new(NOW), CallId::new(NOW));
        let (bridge, number) = (BridgeId::new(NOW), PhoneNumberId::new(NOW));
        let settings = serde_json::json!({
            "id": agent, "name": "A", "systemPrompt": "old", "voiceId": null, "greetingText": null, "language": "id",
            "maxCallDurationMinutes": 7, "escalationNumber": "+0812345678", "tools": [], "functions": []
        });
        let large = "x".repeat(5_000);
        for sql in [
            format!(
                "INSERT INTO agents (id, tenant_id, name, system_prompt, language, max_call_duration_minutes, tools_enabled, \
                 is_active, created_at, updated_at) VALUES ('{agent}', '{tenant}', 'A', 'new', 'id', 10, '[]', TRUE, 1, 1)"
            ),
            format!(
                "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, agent_id, caller_number, \
                 callee_number, status, started_at, metadata, settings, last_sign_at, owner, epoch) VALUES ('{call}', \
                 '{tenant}', '{bridge}', 'b', '{number}', '{agent}', 'x', '+622150001000', 'ringing', 1, '{{}}', \
                 '{settings}', 1, 'n', 1)"
            ),
            format!(
                "INSERT INTO idempotency_keys (tenant_id, key, fingerprint, status, body, created_at) \
                 VALUES ('{tenant}', 'k', 'f', 200, '{large}', 1)"
            ),
        ] {
            store
                .writer()
                .execute_unprepared(&sql)
                .await
                .expect("inserts");
        }
        let schema = store.for_schema().await.expect("a connection");
        dikala_migration::migrate(&schema).await.expect("migrates");
        let db = store.reader();
        let row = call::Entity::find_by_id(call)
            .one(db)
            .await
            .expect("reads")
            .expect("is there");
        let old = of_call(db, &row).await.expect("reads").expect("is there");
        assert_eq!(
            (old.system_prompt.as_str(), old.max_call_duration_minutes),
            ("old", 7)
        );
        // No longer a valid number, but no reason to lose the call.
        assert_eq!(old.escalation_number, None);
        let minutes = durations(db, std::slice::from_ref(&row))
            .await
            .expect("reads");
        assert_eq!(minutes.get(&call), Some(&7));
        let row = agent::Entity::find_by_id(agent)
            .one(db)
            .await
            .expect("reads")
            .expect("is there");
        let cache = Versions::default();
        let mut present = PresentVersion {
            agent: row.id,
            number: row.version,
            hash: None,
        };
        let version = cache
            .current(&store, &present, NOW)
            .await
            .expect("writes")
            .expect("is there");
        assert_eq!(
            (version.number, version.settings.system_prompt.as_str()),
            (1, "new")
        );
        let written = agent_version::Entity::find().one(db).await;
        let written = written.expect("reads").expect("is there");
        (present.number, present.hash) = (written.version, Some(written.hash));
        let again = cache
            .current(&store, &present, NOW)
            .await
            .expect("reads")
            .expect("is there");
        assert_eq!(again.number, 1);
        assert!(weight_of_all(db, tenant).await.expect("reads") > 100);
        let key = idempotency::Entity::find()
            .one(db)
            .await
            .expect("reads")
            .expect("is there");
        assert_eq!((key.size, key.is_brief), (5_000, false));
    }
}

async fn run(store: &Store, sql: &str) {
    let done = store.writer().execute_unprepared(sql).await;
    done.expect("is done");
}

/// An agent's row in the schema since there were versions.
async fn put_agent(store: &Store, agent: AgentId, version: i64) {
    let tenant = TenantId::new(NOW);
    let sql = format!(
        "INSERT INTO agents (id, tenant_id, name, system_prompt, language, max_call_duration_minutes, tools_enabled, is_active, \
         created_at, updated_at, version) VALUES ('{agent}', '{tenant}', 'A', 'a', 'id', 10, '[]', TRUE, 1, 1, {version})"
    );
    run(store, &sql).await;
}

async fn agent_of(store: &Store, agent: AgentId) -> agent::Model {
    let found = agent::Entity::find_by_id(agent).one(store.reader()).await;
    found.expect("reads").expect("is there")
}

async fn settings_kept(store: &Store) -> Vec<agent_setting::Model> {
    let all = agent_setting::Entity::find().order_by_asc(agent_setting::Column::UsedAt);
    all.all(store.reader()).await.expect("reads")
}

async fn prompt_of(store: &Store, agent: AgentId, version: i64) -> String {
    let kept = settings_of(store.reader(), agent, version).await;
    kept.expect("reads").expect("is there").system_prompt
}

/// In the schema in which each version had its own settings.
#[actix::test]
async fn versions_that_carried_their_settings_share_them() {
    for (_folder, store) in old_stores(8).await {
        let (tenant, agent) = (TenantId::new(NOW), AgentId::new(NOW));
        put_agent(&store, agent, 3).await;
        let row = agent_of(&store, agent).await;
        let mut settings = present(store.reader(), &row).await.expect("reads");
        let mut texts = Vec::new();
        for (version, prompt) in [(1, "あ"), (2, "b"), (3, "あ")] {
            settings.system_prompt = prompt.to_owned();
            let json = to_json(&settings).expect("is JSON");
            let hash = hex::encode(Sha256::digest(&json));
            let sql = format!(
                "INSERT INTO agent_versions (agent_id, version, tenant_id, hash, settings, max_call_duration_minutes, created_at) \
                 VALUES ('{agent}', {version}, '{tenant}', '{hash}', '{json}', 10, {version})"
            );
            run(&store, &sql).await;
            texts.push(json);
        }
        let schema = store.for_schema().await.expect("a connection");
        dikala_migration::migrate(&schema).await.expect("migrates");
        for (version, prompt) in [(1, "あ"), (2, "b"), (3, "あ")] {
            assert_eq!(prompt_of(&store, agent, version).await, prompt);
        }
        let kept = settings_kept(&store).await;
        let found: Vec<(i64, i64, &str)> = kept
            .iter()
            .map(|kept| (kept.used_at.as_i64(), kept.size, &*kept.settings))
            .collect();
        let size = |text: &String| i64::try_from(text.len()).expect("is small");
        let expected = [(2, &texts[1]), (3, &texts[2])];
        assert_eq!(
            found,
            expected.map(|(used, text)| (used, size(text), &**text))
        );
        assert_eq!(kept[0].tenant_id, tenant);

        let since = u32::try_from(Migrator::migrations().len()).expect("a few") - 8;
        let back = Migrator::down(&schema, Some(since)).await;
        back.expect("goes back");
        let sql = "SELECT settings FROM agent_versions ORDER BY version";
        let all = Statement::from_string(store.backend(), sql);
        let rows = store.reader().query_all_raw(all).await.expect("reads");
        let old: Vec<String> = rows
            .iter()
            .map(|row| row.try_get("", "settings").expect("a text"))
            .collect();
        assert_eq!(old, texts);
    }
}

/// An agent with the settings of its current version, and others that no version names any more.
async fn with_unneeded_settings(store: &Store) -> AgentId {
    let agent = AgentId::new(NOW);
    put_agent(store, agent, 0).await;
    for (at, prompt) in [(1, "old"), (2, "new")] {
        let mut row = agent_of(store, agent).await;
        row.system_prompt = prompt.to_owned();
        let recorded = record(store.writer(), &row, Millis::from_i64(at)).await;
        recorded.expect("is written");
    }
    run(store, "DELETE FROM agent_versions WHERE version = 1").await;
    assert_eq!(settings_kept(store).await.len(), 2);
    agent
}

#[actix::test]
async fn settings_that_no_version_names_go_when_nobody_can_be_taking_them() {
    for (_keep, store) in dikala_testkit::both().await {
        let agent = with_unneeded_settings(&store).await;
        let sweep = async |at: i64| sweep(&store, Millis::from_i64(at)).await;
        assert_eq!(sweep(OPENING_MS + 1).await, Ok(0));
        assert_eq!(sweep(OPENING_MS + 2).await, Ok(1));
        // The settings of the current version are kept, however old they are.
        assert_eq!(sweep(NOW.as_i64()).await, Ok(0));
        assert_eq!(prompt_of(&store, agent, 2).await, "new");
    }
}

/// The settings were found unneeded, then named again before their removal.
#[actix::test]
async fn settings_that_are_named_again_in_time_stay() {
    for (_keep, store) in dikala_testkit::both().await {
        let agent = with_unneeded_settings(&store).await;
        let looked = removal::look_at_settings(&store, String::new(), String::new(), NOW);
        let mut looked = looked.await.expect("reads");
        looked.retain(|looked| looked.unneeded);
        assert_eq!(looked.len(), 1);
        let txn = store.begin().await.expect("begins");
        let mut row = agent_of(&store, agent).await;
        row.system_prompt = "old".to_owned();
        let recorded = record(&txn, &row, NOW).await.expect("is written");
        assert_eq!(recorded.version, 3);
        if store.backend() == DbBackend::Postgres {
            // Others do not see the version yet, and do not wait for it.
            assert_eq!(removal::remove_settings(&store, &looked).await, Ok(0));
            assert_eq!(sweep(&store, NOW).await, Ok(0));
        }
        txn.commit().await.expect("commits");
        assert_eq!(removal::remove_settings(&store, &looked).await, Ok(0));
        assert_eq!(prompt_of(&store, agent, 3).await, "old");
    }
}
