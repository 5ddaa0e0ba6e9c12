//! Stored settings.

use sea_orm::DbBackend;

use super::*;

const NOW: Millis = Millis::from_i64(1_800_000_000_000);

async fn run(store: &Store, sql: &str) {
    let done = store.writer().execute_unprepared(sql).await;
    done.expect("is done");
}

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
    kept.expect("reads")
        .expect("is there")
        .persona
        .system_prompt
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

/// Such a number is no reason to lose the call.
#[test]
fn a_number_that_is_not_valid_any_more_is_left_out() {
    let stored = serde_json::json!({
        "id": AgentId::new(NOW), "name": "A", "systemPrompt": "old", "voiceId": null, "greetingText": null, "language": "id",
        "maxCallDurationMinutes": 7, "escalationNumber": "+0812345678", "tools": [], "functions": []
    });
    let settings: CallSettings = serde_json::from_value(stored).expect("is read");
    assert_eq!(settings.escalation_number, None);
    assert_eq!(settings.persona.max_call_duration_minutes, 7);
}
