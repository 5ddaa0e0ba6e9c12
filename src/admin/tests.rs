//! Tests of the operators' work on a real store.

use dikala_entities::{
    API_KEY_SCHEME, Actor, BRIDGE_TOKEN_SCHEME, Millis, Plan, Role, Store, TenantId, Vault, audit,
    credit_account,
};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, sea_query::Expr};

use super::{
    AdminError, bridges, keys, numbers, parse_id,
    tenants::{self, TenantChanges, TenantView},
    users::{self, LinkOptions, MemberDraft},
};
use crate::audit::ChangeOrigin;

pub(super) fn by() -> ChangeOrigin {
    ChangeOrigin::cli("main")
}

pub(super) const NOW: Millis = Millis::from_i64(1_768_447_800_000);

pub(super) struct AdminFixture {
    pub(super) store: Store,
    pub(super) vault: Vault,
    // Last, so that the folder is deleted after the connections are closed.
    _folder: tempfile::TempDir,
}

impl AdminFixture {
    pub(super) async fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("dikala.db").display());
        let store = Store::connect(&url).await.expect("connects");
        dikala_migration::migrate(&store.for_schema().await.expect("a connection"))
            .await
            .expect("migrates");
        let vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
        Self {
            store,
            vault,
            _folder: folder,
        }
    }

    async fn tenant(&self, name: &str) -> TenantView {
        let changes = TenantChanges {
            name: Some(name.to_owned()),
            ..TenantChanges::default()
        };
        tenants::create(&self.store, &self.vault, changes, &by(), NOW)
            .await
            .expect("is made")
    }

    async fn account(&self, tenant: TenantId) -> credit_account::Model {
        let found = credit_account::Entity::find_by_id(tenant)
            .one(self.store.reader())
            .await;
        found.expect("reads").expect("a tenant has an account")
    }

    async fn set_balance(&self, tenant: TenantId, available: i64, held: i64) {
        credit_account::Entity::update_many()
            .col_expr(credit_account::Column::Available, Expr::value(available))
            .col_expr(credit_account::Column::Held, Expr::value(held))
            .col_expr(
                credit_account::Column::Purchased,
                Expr::value(available + held),
            )
            .filter(credit_account::Column::TenantId.eq(tenant))
            .exec(self.store.writer())
            .await
            .expect("is set");
    }
}

fn switched_off() -> numbers::NumberChanges {
    numbers::NumberChanges {
        is_active: Some(false),
        ..numbers::NumberChanges::default()
    }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, AdminError>) -> String {
    match result {
        Err(AdminError::Refused(sentence) | AdminError::Taken(sentence)) => sentence,
        other => panic!("was not refused: {other:?}"),
    }
}

fn is_not_found<T>(result: Result<T, AdminError>) -> bool {
    matches!(result, Err(AdminError::NotFound { .. }))
}

#[actix_web::test]
async fn a_new_tenant_has_an_empty_account_and_a_secret_of_its_own() {
    let bench = AdminFixture::new().await;
    let (one, two) = (
        bench.tenant("  Toko Sari ").await,
        bench.tenant("Warung").await,
    );
    assert_eq!(
        (one.name.as_str(), one.plan, one.low_credit_threshold),
        ("Toko Sari", Plan::Starter, 30)
    );
    assert_eq!(
        (one.rate_limit, one.max_concurrent_calls, one.suspended_at),
        (None, None, None)
    );
    let account = bench.account(one.id).await;
    assert_eq!(
        (
            account.available,
            account.held,
            account.used,
            account.low_armed
        ),
        (0, 0, 0, false)
    );
    let secret = async |tenant: &TenantView| {
        tenants::function_secret(&bench.store, &bench.vault, tenant.id, &by(), NOW)
            .await
            .expect("opens")
            .expose()
            .to_owned()
    };
    let first = secret(&one).await;
    assert_ne!(first, secret(&two).await);
    let rotated = tenants::rotate_function_secret(&bench.store, &bench.vault, one.id, &by(), NOW)
        .await
        .expect("rotates");
    assert_ne!(rotated.expose(), first);
    assert_eq!(rotated.expose(), secret(&one).await);
    let other_vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
    let sentence =
        refusal(tenants::function_secret(&bench.store, &other_vault, one.id, &by(), NOW).await);
    assert!(sentence.contains("secrets.key"), "{sentence}");
    let listed: Vec<TenantId> = tenants::list(&bench.store, None)
        .await
        .expect("lists")
        .iter()
        .map(|t| t.id)
        .collect();
    assert_eq!(listed, [one.id, two.id]);
}

#[actix_web::test]
async fn a_threshold_is_armed_where_the_balance_is_at_or_above_it() {
    let bench = AdminFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    bench.set_balance(tenant, 15, 5).await;
    for (threshold, armed) in [(21, false), (20, true), (0, true), (30, false)] {
        let version = bench.account(tenant).await.version;
        let changes = TenantChanges {
            low_credit_threshold: Some(threshold),
            ..TenantChanges::default()
        };
        let shown = tenants::update(&bench.store, tenant, changes, &by(), NOW)
            .await
            .expect("is changed");
        let account = bench.account(tenant).await;
        assert_eq!(
            (shown.low_credit_threshold, shown.balance_minutes),
            (threshold, 20)
        );
        assert_eq!(
            (account.low_armed, account.version),
            (armed, version + 1),
            "threshold {threshold}"
        );
    }
}

#[actix_web::test]
async fn a_tenant_is_changed_in_what_is_given_only() {
    let bench = AdminFixture::new().await;
    let tenant = bench.tenant("Toko").await;
    let changes = TenantChanges {
        plan: Some(Plan::Enterprise),
        rate_limit: Some(5_000),
        max_concurrent_calls: Some(7),
        ..TenantChanges::default()
    };
    let changed = tenants::update(&bench.store, tenant.id, changes, &by(), NOW.plus_ms(1))
        .await
        .expect("is changed");
    assert_eq!(
        (changed.name.as_str(), changed.plan),
        ("Toko", Plan::Enterprise)
    );
    assert_eq!(
        (changed.rate_limit, changed.max_concurrent_calls),
        (Some(5_000), Some(7))
    );
    let changes = TenantChanges {
        rate_limit: Some(0),
        ..TenantChanges::default()
    };
    let changed = tenants::update(&bench.store, tenant.id, changes, &by(), NOW)
        .await
        .expect("is changed");
    assert_eq!(
        (changed.rate_limit, changed.max_concurrent_calls),
        (None, Some(7)),
        "0 goes back to the plan's"
    );

    for changes in [
        TenantChanges {
            name: Some(" ".into()),
            ..TenantChanges::default()
        },
        TenantChanges {
            name: Some("x".repeat(121)),
            ..TenantChanges::default()
        },
        TenantChanges {
            rate_limit: Some(-1),
            ..TenantChanges::default()
        },
        TenantChanges {
            name: Some("Kept".into()),
            low_credit_threshold: Some(-1),
            ..TenantChanges::default()
        },
    ] {
        refusal(tenants::update(&bench.store, tenant.id, changes, &by(), NOW).await);
    }
    let kept = tenants::show(bench.store.reader(), tenant.id)
        .await
        .expect("is there");
    assert_eq!(kept.name, "Toko", "what is refused changes nothing");

    let suspend = async |suspended: bool, at: Millis| {
        tenants::set_suspended(&bench.store, tenant.id, suspended, &by(), at)
            .await
            .expect("is set")
            .suspended_at
    };
    assert_eq!(suspend(true, NOW).await, Some(NOW));
    assert_eq!(
        suspend(true, NOW.plus_ms(5)).await,
        Some(NOW),
        "twice is once"
    );
    assert_eq!(suspend(false, NOW).await, None);
}

#[actix_web::test]
async fn keys_and_tokens_are_shown_once_and_revoked_once() {
    let bench = AdminFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    let key = keys::create(&bench.store, tenant, "production", &by(), NOW)
        .await
        .expect("is made");
    assert!(API_KEY_SCHEME.parse(&key.key).is_some() && key.key.starts_with(&key.view.prefix));
    let listed = keys::list(&bench.store, tenant).await.expect("lists");
    let shown = serde_json::to_string(&listed).expect("JSON");
    assert!(
        shown.contains(&key.view.prefix) && !shown.contains(&key.key),
        "{shown}"
    );
    let revoked = keys::revoke(&bench.store, key.view.id, &by(), NOW)
        .await
        .expect("is revoked");
    let again = keys::revoke(&bench.store, key.view.id, &by(), NOW.plus_ms(9))
        .await
        .expect("again is harmless");
    assert_eq!(
        (revoked.revoked_at, again.revoked_at),
        (Some(NOW), Some(NOW))
    );

    let bridge = bridges::create(&bench.store, "front", &by(), NOW)
        .await
        .expect("is made");
    assert!(BRIDGE_TOKEN_SCHEME.parse(&bridge.token).is_some());
    let revoked = bridges::revoke(&bench.store, bridge.view.id, &by(), NOW)
        .await
        .expect("is revoked");
    assert_eq!(revoked.revoked_at, Some(NOW));
    let shown = serde_json::to_string(&revoked).expect("JSON");
    assert!(!shown.contains(&bridge.token), "{shown}");
}

#[actix_web::test]
async fn a_number_belongs_to_one_tenant() {
    let bench = AdminFixture::new().await;
    let (one, two) = (bench.tenant("One").await.id, bench.tenant("Two").await.id);
    let number = numbers::add(&bench.store, one, "+622150001111", " Line ", &by(), NOW)
        .await
        .expect("is added");
    assert_eq!(
        (number.label.as_str(), number.is_active, number.agent_id),
        ("Line", true, None)
    );
    for (tenant, did, label, word) in [
        (two, "+622150001111", "Line", "already"),
        (one, "02150001111", "Line", "did"),
        (one, "+622150002222", "", "label"),
    ] {
        let sentence = refusal(numbers::add(&bench.store, tenant, did, label, &by(), NOW).await);
        assert!(sentence.contains(word), "{sentence}");
    }
    let changed = numbers::update(&bench.store, number.id, switched_off(), &by(), NOW)
        .await
        .expect("is changed");
    assert_eq!((changed.label.as_str(), changed.is_active), ("Line", false));
    assert_eq!(
        numbers::list(&bench.store, Some(two))
            .await
            .expect("lists")
            .len(),
        0
    );
    assert_eq!(
        numbers::list(&bench.store, None)
            .await
            .expect("lists")
            .len(),
        1
    );
    numbers::remove(&bench.store, number.id, &by(), NOW)
        .await
        .expect("is removed");
    assert!(is_not_found(
        numbers::remove(&bench.store, number.id, &by(), NOW).await
    ));
    numbers::add(&bench.store, two, "+622150001111", "Line", &by(), NOW)
        .await
        .expect("it is free again");
}

#[actix_web::test]
async fn what_is_not_there_is_not_found() {
    let bench = AdminFixture::new().await;
    let nobody = TenantId::new(NOW);
    assert!(is_not_found(parse_id::<TenantId>("tenant", "nonsense")));
    assert!(is_not_found(
        tenants::show(bench.store.reader(), nobody).await
    ));
    assert!(is_not_found(
        tenants::update(&bench.store, nobody, TenantChanges::default(), &by(), NOW).await
    ));
    assert!(is_not_found(
        tenants::set_suspended(&bench.store, nobody, true, &by(), NOW).await
    ));
    assert!(is_not_found(
        tenants::function_secret(&bench.store, &bench.vault, nobody, &by(), NOW).await
    ));
    assert!(is_not_found(
        keys::create(&bench.store, nobody, "a", &by(), NOW).await
    ));
    assert!(is_not_found(keys::list(&bench.store, nobody).await));
    assert!(is_not_found(
        numbers::add(&bench.store, nobody, "+622150001111", "a", &by(), NOW).await
    ));
    assert!(is_not_found(
        numbers::list(&bench.store, Some(nobody)).await
    ));
}

/// All audit entries, oldest first.
pub(super) async fn entries(bench: &AdminFixture) -> Vec<audit::Model> {
    let found = audit::Entity::find().order_by_asc(audit::Column::Id);
    found.all(bench.store.reader()).await.expect("reads")
}

#[actix_web::test]
async fn changes_of_people_leave_entries_without_links() {
    let bench = AdminFixture::new().await;
    let store = &bench.store;
    let tenant = bench.tenant("Toko").await.id;
    let linking = LinkOptions {
        good_for_ms: users::LINK_MS,
        mail: None,
        by: &by(),
        now: NOW,
    };
    let mut made = Vec::new();
    for (email, name) in [("sari@toko.example", "Sari"), ("budi@toko.example", "Budi")] {
        let draft = MemberDraft::parse(email, Some(name), Role::Owner).expect("a draft");
        let linked = users::create(store, tenant, draft.clone(), linking).await;
        made.push(linked.expect("is made").at("").user.id);
        refusal(users::create(store, tenant, draft, linking).await);
    }
    let [sari, budi] = made[..] else {
        panic!("two people");
    };
    let link = users::link(store, sari, linking).await.expect("is made");
    for _ in 0..2 {
        users::change_role(store, tenant, budi, Role::Viewer, &by(), NOW)
            .await
            .expect("is changed");
    }
    refusal(users::remove_member(store, tenant, sari, &by(), NOW).await);
    users::remove_member(store, tenant, budi, &by(), NOW)
        .await
        .expect("is removed");
    users::remove(store, sari, &by(), NOW)
        .await
        .expect("is removed");
    assert!(is_not_found(users::remove(store, sari, &by(), NOW).await));
    let entries = entries(&bench).await;
    let told = entries.iter().skip(1);
    let told: Vec<String> = told
        .map(|entry| format!("{} {} {}", entry.action, entry.target, entry.detail))
        .collect();
    assert_eq!(
        told,
        [
            format!("user.create {sari} Sari, owner"),
            format!("user.create {budi} Budi, owner"),
            format!("user.link {sari} Sari"),
            format!("user.role {budi} Budi, role=viewer"),
            format!("user.remove {budi} Budi"),
            format!("user.remove {sari} Sari"),
        ]
    );
    let token = link.at("").url;
    let token = token.rsplit('/').next().expect("a token");
    assert!(!format!("{entries:?}").contains(token));
}

#[actix_web::test]
async fn every_change_leaves_one_entry_and_what_changes_nothing_none() {
    let bench = AdminFixture::new().await;
    let (store, vault) = (&bench.store, &bench.vault);
    let tenant = bench.tenant("Toko").await.id;
    let key = keys::create(store, tenant, "production", &by(), NOW)
        .await
        .expect("is made");
    let bridge = bridges::create(store, "front", &by(), NOW)
        .await
        .expect("is made");
    let number = numbers::add(store, tenant, "+622150001111", "Line", &by(), NOW)
        .await
        .expect("is added");
    let changes = || TenantChanges {
        rate_limit: Some(5),
        low_credit_threshold: Some(7),
        ..TenantChanges::default()
    };
    // Everything twice: the second time changes nothing.
    for _ in 0..2 {
        tenants::update(store, tenant, changes(), &by(), NOW)
            .await
            .expect("is changed");
        tenants::set_suspended(store, tenant, true, &by(), NOW)
            .await
            .expect("is set");
        let changes = numbers::NumberChanges {
            label: Some("Main".to_owned()),
            ..switched_off()
        };
        numbers::update(store, number.id, changes, &by(), NOW)
            .await
            .expect("is changed");
        keys::revoke(store, key.view.id, &by(), NOW)
            .await
            .expect("is revoked");
        bridges::revoke(store, bridge.view.id, &by(), NOW)
            .await
            .expect("is revoked");
    }
    tenants::set_suspended(store, tenant, false, &by(), NOW)
        .await
        .expect("is set");
    tenants::function_secret(store, vault, tenant, &by(), NOW)
        .await
        .expect("is shown");
    let secret = tenants::rotate_function_secret(store, vault, tenant, &by(), NOW)
        .await
        .expect("is made");
    numbers::remove(store, number.id, &by(), NOW)
        .await
        .expect("is removed");
    refusal(numbers::add(store, tenant, "0215", "Line", &by(), NOW).await);
    let entries = entries(&bench).await;
    let told: Vec<String> = entries
        .iter()
        .map(|entry| {
            format!("{} {} {}", entry.action, entry.target, entry.detail)
                .trim_end()
                .to_owned()
        })
        .collect();
    let (key, bridge_id, number) = (key.view.id, bridge.view.id, number.id);
    assert_eq!(
        told,
        [
            format!("tenant.create {tenant} Toko"),
            format!("key.create {key} production"),
            format!("bridge.create {bridge_id} front"),
            format!("number.create {number} Line"),
            format!("tenant.update {tenant} rateLimit, lowCreditThreshold"),
            format!("tenant.suspend {tenant}"),
            format!("number.update {number} label, isActive=false"),
            format!("key.revoke {key} production"),
            format!("bridge.revoke {bridge_id} front"),
            format!("tenant.resume {tenant}"),
            format!("function_secret.show {tenant}"),
            format!("function_secret.rotate {tenant}"),
            format!("number.delete {number} Main"),
        ]
    );
    for entry in &entries {
        let of = (!entry.target.starts_with("br_")).then_some(tenant);
        assert_eq!(
            (entry.tenant_id, entry.actor, entry.at),
            (of, Actor::Cli, NOW)
        );
        assert_eq!(
            (entry.node.as_str(), &entry.address, &entry.request_id),
            ("main", &None, &None)
        );
    }
    let all = format!("{entries:?}");
    assert!(
        !all.contains(secret.expose()) && !all.contains("+6221500"),
        "{all}"
    );
}
