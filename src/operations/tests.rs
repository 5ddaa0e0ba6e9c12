//! Tests of operations on a real store.

use dikala_entities::{
    API_KEY_SCHEME, Actor, BRIDGE_TOKEN_SCHEME, Millis, Plan, Role, Secret, Store, TenantId, Vault,
    audit, credit_account,
};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, sea_query::Expr};
use serde_json::{Value, json};

use crate::{
    audit::ChangeOrigin,
    http::{
        error::{ApiError, Missing},
        extract::{Id, RequestBody},
    },
    operations::{
        OperationContext, Principal,
        bridges::{self, CreatedBridge},
        keys::{self, NewKey},
        members,
        numbers::{self, NumberView},
        tenants::{self, TenantView},
    },
};

pub(super) fn by() -> ChangeOrigin {
    ChangeOrigin::cli("main")
}

pub(super) const NOW: Millis = Millis::from_i64(1_768_447_800_000);

pub(super) struct OperationFixture {
    pub(super) store: Store,
    pub(super) vault: Vault,
    // Last, so that the folder is deleted after the connections are closed.
    _folder: tempfile::TempDir,
}

impl OperationFixture {
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

    /// The context of a command.
    fn context(&self) -> OperationContext {
        OperationContext {
            now: NOW,
            ..OperationContext::of_command(&self.store, Some(&self.vault), "main")
        }
    }

    async fn key(&self, tenant: TenantId) -> NewKey {
        let body = RequestBody::of(json!({"name": "production"}));
        let created = keys::create(self.context(), Id(tenant), body).await;
        created.expect("is created").value
    }

    async fn bridge(&self) -> CreatedBridge {
        let body = RequestBody::of(json!({"name": "front"}));
        let created = bridges::create(self.context(), body).await;
        created.expect("is created").value
    }

    async fn tenant(&self, name: &str) -> TenantView {
        let body = RequestBody::of(json!({"name": name}));
        let created = tenants::create(self.context(), body).await;
        created.expect("is created").value
    }

    async fn number(
        &self,
        tenant: TenantId,
        did: &str,
        label: &str,
    ) -> Result<NumberView, ApiError> {
        let draft = json!({"tenantId": tenant, "did": did, "label": label});
        let created = numbers::create(self.context(), RequestBody::of(draft)).await;
        created.map(|created| created.value)
    }

    async fn update(&self, tenant: TenantId, changes: Value) -> Result<TenantView, ApiError> {
        tenants::update(self.context(), Id(tenant), RequestBody::of(changes)).await
    }

    async fn secret(&self, tenant: TenantId) -> Secret {
        let shown = tenants::function_secret(self.context(), Id(tenant)).await;
        shown.expect("opens").secret
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

#[actix_web::test]
async fn a_new_tenant_has_an_empty_account_and_a_secret_of_its_own() {
    let bench = OperationFixture::new().await;
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
    let first = bench.secret(one.id).await;
    assert_ne!(first.expose(), bench.secret(two.id).await.expose());
    let rotated = tenants::rotate_function_secret(bench.context(), Id(one.id)).await;
    let rotated = rotated.expect("rotates").secret;
    assert_ne!(rotated.expose(), first.expose());
    assert_eq!(rotated.expose(), bench.secret(one.id).await.expose());
    let other_vault = Vault::from_base64(&Vault::generate_key()).expect("a key");
    let other = OperationContext::of_command(&bench.store, Some(&other_vault), "main");
    let refused = tenants::function_secret(other, Id(one.id)).await;
    let sentence = refused.expect_err("no key opens it").to_string();
    assert!(sentence.contains("secrets.key"), "{sentence}");
    let listed: Vec<TenantId> = tenants::all(bench.context(), None)
        .await
        .expect("lists")
        .iter()
        .map(|t| t.id)
        .collect();
    assert_eq!(listed, [one.id, two.id]);
}

#[actix_web::test]
async fn a_threshold_is_armed_where_the_balance_is_at_or_above_it() {
    let bench = OperationFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    bench.set_balance(tenant, 15, 5).await;
    for (threshold, armed) in [(21, false), (20, true), (0, true), (30, false)] {
        let version = bench.account(tenant).await.version;
        let changes = json!({"lowCreditThreshold": threshold});
        let shown = bench.update(tenant, changes).await.expect("is changed");
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
    let bench = OperationFixture::new().await;
    let tenant = bench.tenant("Toko").await;
    let changes = json!({"plan": "enterprise", "rateLimit": 5_000, "maxConcurrentCalls": 7});
    let changed = bench.update(tenant.id, changes).await.expect("is changed");
    assert_eq!(
        (changed.name.as_str(), changed.plan),
        ("Toko", Plan::Enterprise)
    );
    assert_eq!(
        (changed.rate_limit, changed.max_concurrent_calls),
        (Some(5_000), Some(7))
    );
    let changed = bench.update(tenant.id, json!({"rateLimit": null})).await;
    let changed = changed.expect("is changed");
    assert_eq!(
        (changed.rate_limit, changed.max_concurrent_calls),
        (None, Some(7)),
        "null goes back to the plan's"
    );

    for changes in [
        json!({"name": " "}),
        json!({"name": "x".repeat(121)}),
        json!({"rateLimit": -1}),
        json!({"name": "Kept", "lowCreditThreshold": -1}),
    ] {
        let refused = bench.update(tenant.id, changes).await;
        assert_eq!(refused.expect_err("is refused").code().exit_code(), 6);
    }
    let kept = tenants::show(bench.context(), Id(tenant.id)).await;
    let kept = kept.expect("is there");
    assert_eq!(kept.name, "Toko", "what is refused changes nothing");

    let suspend = async |suspended: bool, now: Millis| {
        let context = OperationContext {
            now,
            ..bench.context()
        };
        let (id, nothing) = (Id(tenant.id), RequestBody::default());
        let changed = match suspended {
            true => tenants::suspend(context, id, nothing).await,
            false => tenants::resume(context, id, nothing).await,
        };
        changed.expect("is set").suspended_at
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
    let bench = OperationFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    let key = bench.key(tenant).await;
    let (secret, id) = (key.secret(), Id(key.view.id));
    assert!(API_KEY_SCHEME.parse(secret.expose()).is_some());
    assert!(secret.expose().starts_with(&key.view.prefix));
    let listed = keys::all(bench.context(), Id(tenant)).await.expect("lists");
    let shown = serde_json::to_string(&listed).expect("JSON");
    assert!(
        shown.contains(&key.view.prefix) && !shown.contains(secret.expose()),
        "{shown}"
    );
    let revoked = keys::revoke(bench.context(), id).await.expect("is revoked");
    let later = OperationContext {
        now: NOW.plus_ms(9),
        ..bench.context()
    };
    let again = keys::revoke(later, id).await.expect("again is harmless");
    assert_eq!(
        (revoked.revoked_at, again.revoked_at),
        (Some(NOW), Some(NOW))
    );
    let again = keys::delete(bench.context(), id).await;
    assert_eq!(again.err(), Some(ApiError::NotFound(Missing::Key)));

    let bridge = bench.bridge().await;
    let (token, id) = (bridge.secret(), Id(bridge.bridge.view.id));
    assert!(BRIDGE_TOKEN_SCHEME.parse(token.expose()).is_some());
    let revoked = bridges::revoke(bench.context(), id)
        .await
        .expect("is revoked");
    assert_eq!(revoked.revoked_at, Some(NOW));
    let shown = serde_json::to_string(&revoked).expect("JSON");
    assert!(!shown.contains(token.expose()), "{shown}");
}

#[actix_web::test]
async fn a_number_belongs_to_one_tenant() {
    let bench = OperationFixture::new().await;
    let (one, two) = (bench.tenant("One").await.id, bench.tenant("Two").await.id);
    let number = bench.number(one, "+622150001111", " Line ").await;
    let number = number.expect("is added");
    assert_eq!(
        (number.label.as_str(), number.is_active, number.agent_id),
        ("Line", true, None)
    );
    for (tenant, did, label, word) in [
        (two, "+622150001111", "Line", "already"),
        (one, "02150001111", "Line", "did"),
        (one, "+622150002222", "", "label"),
    ] {
        let refused = bench.number(tenant, did, label).await;
        let sentence = refused.expect_err("is refused").to_string();
        assert!(sentence.contains(word), "{sentence}");
    }
    let (context, id) = (bench.context(), Id(number.id));
    let switched_off = RequestBody::of(json!({"isActive": false}));
    let changed = numbers::update(context.clone(), id, switched_off).await;
    let changed = changed.expect("is changed");
    assert_eq!((changed.label.as_str(), changed.is_active), ("Line", false));
    let theirs = numbers::all(context.clone(), Some(Id(two))).await;
    assert_eq!(theirs.expect("lists").len(), 0);
    let all = numbers::all(context.clone(), None).await;
    assert_eq!(all.expect("lists").len(), 1);
    assert!(numbers::delete(context.clone(), id).await.is_ok());
    let again = numbers::delete(context, id).await;
    assert_eq!(again.err(), Some(ApiError::NotFound(Missing::PhoneNumber)));
    let again = bench.number(two, "+622150001111", "Line").await;
    assert!(again.is_ok(), "it is free again");
}

#[actix_web::test]
async fn what_is_not_there_is_not_found() {
    let bench = OperationFixture::new().await;
    let nobody = TenantId::new(NOW);
    let missing = ApiError::NotFound(Missing::Tenant);
    let (context, id) = (bench.context(), Id(nobody));
    let shown = tenants::show(context.clone(), id).await;
    assert_eq!(shown.err(), Some(missing.clone()));
    let updated = bench.update(nobody, json!({})).await;
    assert_eq!(updated.err(), Some(missing.clone()));
    let suspended = tenants::suspend(context.clone(), id, RequestBody::default()).await;
    assert_eq!(suspended.err(), Some(missing.clone()));
    let opened = tenants::function_secret(context, id).await;
    assert_eq!(opened.err(), Some(missing.clone()));
    let created = keys::create(bench.context(), Id(nobody), RequestBody::default()).await;
    assert_eq!(created.err(), Some(missing.clone()));
    let listed = keys::all(bench.context(), Id(nobody)).await;
    assert_eq!(listed.err(), Some(missing));
    let created = bench.number(nobody, "+622150001111", "a").await;
    let sentence = created.expect_err("no such tenant").to_string();
    assert!(sentence.contains("tenantId"), "{sentence}");
    let listed = numbers::all(bench.context(), Some(Id(nobody))).await;
    assert_eq!(listed.err(), Some(ApiError::NotFound(Missing::Tenant)));
}

/// All audit entries, oldest first.
pub(super) async fn entries(bench: &OperationFixture) -> Vec<audit::Model> {
    let found = audit::Entity::find().order_by_asc(audit::Column::Id);
    found.all(bench.store.reader()).await.expect("reads")
}

#[actix_web::test]
async fn changes_of_people_leave_entries_without_links() {
    let bench = OperationFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    let mut created = Vec::new();
    for (email, name) in [("sari@toko.example", "Sari"), ("budi@toko.example", "Budi")] {
        let draft = || RequestBody::of(json!({"email": email, "name": name}));
        let member = members::create(bench.context(), Id(tenant), draft()).await;
        created.push(member.expect("is created").value.user.id);
        let again = members::create(bench.context(), Id(tenant), draft()).await;
        assert_eq!(again.err(), Some(ApiError::UserExists));
    }
    let [sari, budi] = created[..] else {
        panic!("two people");
    };
    let link = members::link(bench.context(), Id(sari), RequestBody::default()).await;
    let link = link.expect("is made").value;
    for _ in 0..2 {
        let role = RequestBody::of(json!({"role": "viewer"}));
        members::change_role(bench.context(), Id(budi), role)
            .await
            .expect("is changed");
    }
    let owner = OperationContext {
        principal: Principal::Person {
            tenant,
            user: sari,
            role: Role::Owner,
        },
        ..bench.context()
    };
    let last = members::delete(owner.clone(), Id(sari)).await;
    assert_eq!(last.err(), Some(ApiError::LastOwner));
    assert!(members::delete(owner.clone(), Id(budi)).await.is_ok());
    let viewer = OperationContext {
        principal: Principal::Person {
            tenant,
            user: budi,
            role: Role::Viewer,
        },
        ..bench.context()
    };
    let refused = members::delete(viewer, Id(sari)).await;
    assert_eq!(refused.err(), Some(ApiError::ViewOnly));
    let other = bench.tenant("Other").await.id;
    let stranger = OperationContext {
        principal: Principal::Person {
            tenant: other,
            user: sari,
            role: Role::Owner,
        },
        ..bench.context()
    };
    let missing = || Some(ApiError::NotFound(Missing::User));
    assert_eq!(members::delete(stranger, Id(sari)).await.err(), missing());
    assert!(members::delete(bench.context(), Id(sari)).await.is_ok());
    let again = members::delete(bench.context(), Id(sari)).await;
    assert_eq!(again.err(), missing());
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
            format!("tenant.create {other} Other"),
            format!("user.remove {sari} Sari"),
        ]
    );
    let token = link.url.rsplit('/').next().expect("a token");
    assert!(!format!("{entries:?}").contains(token));
}

#[actix_web::test]
async fn every_change_leaves_one_entry_and_what_changes_nothing_none() {
    let bench = OperationFixture::new().await;
    let tenant = bench.tenant("Toko").await.id;
    let key = bench.key(tenant).await;
    let bridge = bench.bridge().await.bridge.view;
    let number = bench.number(tenant, "+622150001111", "Line").await;
    let number = number.expect("is added");
    // Everything twice: the second time changes nothing.
    for _ in 0..2 {
        let changes = json!({"rateLimit": 5, "lowCreditThreshold": 7});
        bench.update(tenant, changes).await.expect("is changed");
        tenants::suspend(bench.context(), Id(tenant), RequestBody::default())
            .await
            .expect("is set");
        let changes = RequestBody::of(json!({"label": "Main", "isActive": false}));
        numbers::update(bench.context(), Id(number.id), changes)
            .await
            .expect("is changed");
        keys::revoke(bench.context(), Id(key.view.id))
            .await
            .expect("is revoked");
        bridges::revoke(bench.context(), Id(bridge.id))
            .await
            .expect("is revoked");
    }
    tenants::resume(bench.context(), Id(tenant), RequestBody::default())
        .await
        .expect("is set");
    bench.secret(tenant).await;
    let secret = tenants::rotate_function_secret(bench.context(), Id(tenant)).await;
    let secret = secret.expect("is made").secret;
    let deleted = numbers::delete(bench.context(), Id(number.id)).await;
    assert!(deleted.is_ok());
    assert!(bench.number(tenant, "0215", "Line").await.is_err());
    let entries = entries(&bench).await;
    let told: Vec<String> = entries
        .iter()
        .map(|entry| {
            format!("{} {} {}", entry.action, entry.target, entry.detail)
                .trim_end()
                .to_owned()
        })
        .collect();
    let (key, bridge_id, number) = (key.view.id, bridge.id, number.id);
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
