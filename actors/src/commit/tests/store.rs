//! The whole ledger against real databases: SQLite always, PostgreSQL where it is installed.

use std::{cell::RefCell, sync::Mutex, time::Duration};

use dikala_entities::{Actor, AuditAction, AuditId, EventKind, Store, audit, event};
use futures_util::future::join_all;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel, QueryFilter, QueryOrder,
    QuerySelect,
};

use super::*;
use crate::{
    commit::batch::{self, CommittedBatch, Posting},
    events::outbox::{EventRecipients, NewEvent},
    nodes::Membership,
    runtime::{
        clock::SystemClock,
        group_commit::{self, BatchStats},
    },
};

pub(super) async fn tenant_with(store: &Store, minutes: i64) -> TenantId {
    let tenant = TenantId::new(NOW);
    let txn = store.begin().await.expect("begins");
    credit_account::Entity::insert(account(tenant, 0).into_active_model())
        .exec_without_returning(&txn)
        .await
        .expect("inserts");
    txn.commit().await.expect("commits");
    if minutes > 0 {
        credit(
            store,
            Arc::new(SystemClock),
            purchase(tenant, minutes, None),
            None,
        )
        .await
        .expect("is booked");
    }
    tenant
}

pub(super) fn purchase(tenant: TenantId, minutes: i64, reference: Option<&str>) -> Credit {
    Credit {
        tenant,
        minutes,
        kind: TransactionType::Purchase,
        reference: reference.map(str::to_owned),
        description: None,
    }
}

pub(super) fn deps(store: &Store) -> CommitDeps {
    CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside(&owner()),
        recipients: EventRecipients::default(),
    }
}

pub(super) fn ledger(store: &Store) -> Minutes {
    Minutes(start(&actix_rt::Arbiter::current(), &deps(store)))
}

/// A ledger for calls without writes of their own.
#[derive(Clone)]
pub(super) struct Minutes(CommitHandle);

impl std::ops::Deref for Minutes {
    type Target = CommitHandle;

    fn deref(&self) -> &CommitHandle {
        &self.0
    }
}

impl Minutes {
    pub(super) async fn admit(&self, admit: Admit) -> Result<Admission, LedgerError> {
        let tenant = admit.tenant;
        self.0.admit(admit, move |_| CommitEntry::of(tenant)).await
    }

    pub(super) async fn settle(&self, settle: Settle) -> Result<Settlement, LedgerError> {
        let tenant = settle.tenant;
        self.0
            .settle(settle, move |_| CommitEntry::of(tenant))
            .await
    }
}

/// Writes one batch.
async fn write(store: &Store, items: &[Item]) -> Result<CommittedBatch, sea_orm::DbErr> {
    let postings: Vec<Posting> = items.iter().cloned().map(Posting::Book).collect();
    batch::write(
        &deps(store),
        &Mutex::default(),
        &postings.iter().collect::<Vec<_>>(),
        batch::WriteMode::Patient,
    )
    .await
}

pub(super) fn admission(tenant: TenantId, call: CallId) -> Admit {
    Admit {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        max_concurrent: None,
    }
}

pub(super) fn minute(tenant: TenantId, call: CallId, request: i64, started: i64) -> Extend {
    Extend {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        request,
        started,
        want: 1,
    }
}

pub(super) fn ending(tenant: TenantId, call: CallId, minutes: i64) -> Settle {
    Settle {
        call,
        tenant,
        owner: owner(),
        epoch: 1,
        minutes,
    }
}

pub(super) async fn assert_exact(store: &Store) {
    let report = verify(store, None).await.expect("is verified");
    // These tests book holds without calls.
    let wrong = |difference: &&String| !difference.contains("a hold has no call");
    let wrong: Vec<&String> = report.differences.iter().filter(wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Available, held, used.
pub(super) async fn minutes(store: &Store, tenant: TenantId) -> (i64, i64, i64) {
    let account = credit_account::Entity::find_by_id(tenant)
        .one(store.reader())
        .await
        .expect("answers")
        .expect("is there");
    (account.available, account.held, account.used)
}

#[actix::test]
async fn a_crowd_on_one_account_is_served_exactly() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 100).await;
        let ledger = ledger(&store);
        let talk = async |call: CallId| {
            let admitted = ledger.admit(admission(tenant, call)).await;
            assert_eq!(admitted, Ok(Admission::Granted));
            let extend = minute(tenant, call, 1, 1);
            let grant = ledger.extend(extend.clone()).await.expect("is answered");
            let again = ledger.extend(extend).await;
            assert_eq!(again, Ok(grant), "the same request, the same answer");
            grant.total
        };
        let calls: Vec<CallId> = (0..64).map(|_| CallId::new(NOW)).collect();
        let totals = join_all(calls.iter().map(|call| talk(*call))).await;
        let granted: i64 = totals.iter().sum();
        assert_eq!(granted, 100, "all that was there, and not more");
        assert_eq!(minutes(&store, tenant).await, (0, 36, 64));
        assert_exact(&store).await;
        let ends = calls
            .iter()
            .map(|call| ledger.settle(ending(tenant, *call, 1)));
        let ends = join_all(ends).await;
        assert!(ends.iter().all(|end| *end == Ok(Settlement { minutes: 1 })));
        assert_eq!(minutes(&store, tenant).await, (36, 0, 64));
        assert_exact(&store).await;
        assert_eq!(ledger.stats().items.sum, 64 * 4);
    }
}

#[actix::test]
async fn many_tenants_in_a_batch_keep_to_themselves() {
    for (_keep, store) in dikala_testkit::both().await {
        let mut tenants = Vec::new();
        for minutes in 0..8 {
            tenants.push(tenant_with(&store, minutes).await);
        }
        let ledger = ledger(&store);
        let calls = (0..64_usize).map(|i| {
            let (ledger, tenant) = (ledger.clone(), tenants[i % 8]);
            async move { ledger.admit(admission(tenant, CallId::new(NOW))).await }
        });
        let admitted = join_all(calls).await;
        let granted = admitted.iter().filter(|a| **a == Ok(Admission::Granted));
        assert_eq!(granted.count(), (0..8).sum::<usize>());
        for (held, tenant) in (0..8).zip(&tenants) {
            assert_eq!(minutes(&store, *tenant).await, (0, held, 0));
        }
        assert_exact(&store).await;
    }
}

/// The commit succeeded but its answer was lost, so the batch is written again.
#[actix::test]
async fn a_batch_written_twice_has_the_effect_of_one() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 5).await;
        let calls: Vec<CallId> = (0..2).map(|_| CallId::new(NOW)).collect();
        for items in [
            vec![
                admit(tenant, calls[0], None),
                admit(tenant, calls[1], Some(1)),
            ],
            vec![extend(tenant, calls[0], 1, 1, 9), adjust(tenant, 3, None)],
            vec![
                settle(tenant, calls[0], 3),
                adjust(tenant, -1, Some("a".into())),
            ],
        ] {
            let first = write(&store, &items).await.expect("is written");
            let state = minutes(&store, tenant).await;
            let again = write(&store, &items).await.expect("is written");
            assert_eq!(first.outcomes, again.outcomes);
            assert_eq!(minutes(&store, tenant).await, state);
            assert_exact(&store).await;
        }
        assert_eq!(minutes(&store, tenant).await, (4, 0, 3));
    }
}

/// nibblebill loses an interval whose write failed.
#[actix::test]
async fn a_minute_whose_write_failed_is_billed_in_the_end() {
    let (_keep, store) = dikala_testkit::sqlite().await;
    let tenant = tenant_with(&store, 5).await;
    let (ledger, call) = (ledger(&store), CallId::new(NOW));
    let admitted = ledger.admit(admission(tenant, call)).await;
    assert_eq!(admitted, Ok(Admission::Granted));
    let sql = async |sql: &str| store.writer().execute_unprepared(sql).await.expect("runs");
    sql("CREATE TRIGGER broken BEFORE UPDATE ON credit_holds BEGIN SELECT RAISE(ABORT, 'broken'); END").await;
    let extend = minute(tenant, call, 1, 1);
    let failed = ledger.extend(extend.clone()).await;
    assert_eq!(failed, Err(LedgerError::Unavailable));
    assert_eq!(minutes(&store, tenant).await, (4, 1, 0));
    sql("DROP TRIGGER broken").await;
    assert_eq!(
        ledger.extend(extend).await,
        Ok(Extension {
            last: false,
            total: 2
        })
    );
    let settled = ledger.settle(ending(tenant, call, 2)).await;
    assert_eq!(settled, Ok(Settlement { minutes: 2 }));
    assert_exact(&store).await;
}

#[actix::test]
async fn a_poisoned_item_fails_alone() {
    for (_keep, store) in dikala_testkit::both().await {
        let mut tenants = Vec::new();
        for _ in 0..8 {
            tenants.push(tenant_with(&store, 5).await);
        }
        // Occupies the sequence number of this tenant's next transaction; no invariant allows that.
        let stray = "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, created_at) \
             SELECT tenant_id, 2, 'txn_stray', 'stray', 'bonus', 1, 6, 0 FROM credit_transactions WHERE tenant_id = '";
        let stray = format!("{stray}{}'", tenants[3]);
        store
            .writer()
            .execute_unprepared(&stray)
            .await
            .expect("runs");
        let items: Vec<Item> = tenants.iter().map(|t| adjust(*t, 1, None)).collect();
        let (booked, failed) = (RefCell::new(0), RefCell::new(Vec::new()));
        let stats = BatchStats::default();
        let write_items = async |items: &[Item]| write(&store, items).await;
        group_commit::commit(items, &stats, write_items, |items, written| match written {
            Ok(written) => *booked.borrow_mut() += written.outcomes.len(),
            Err(_) => failed.borrow_mut().extend(items.iter().map(Item::tenant)),
        })
        .await;
        assert_eq!(
            (booked.into_inner(), failed.into_inner()),
            (7, vec![tenants[3]])
        );
        let report = verify(&store, None).await.expect("is verified");
        let others = |difference: &String| !difference.contains(&tenants[3].to_string());
        assert!(!report.differences.is_empty() && !report.differences.iter().any(others));
    }
}

/// Other systems charge a call twice when another node takes over.
#[actix::test]
async fn a_former_owner_books_nothing() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 5).await;
        let (ledger, call) = (ledger(&store), CallId::new(NOW));
        let admitted = ledger.admit(admission(tenant, call)).await;
        assert_eq!(admitted, Ok(Admission::Granted));
        let txn = store.begin_critical().await.expect("begins");
        take_over(&txn, &[call, CallId::new(NOW)], "other")
            .await
            .expect("is taken");
        txn.commit().await.expect("commits");
        let late = ledger.extend(minute(tenant, call, 1, 1)).await;
        assert_eq!(late, Err(LedgerError::NotOwner));
        let late = ledger.settle(ending(tenant, call, 1)).await;
        assert_eq!(late, Err(LedgerError::NotOwner));
        let new_owner = Settle {
            owner: Arc::from("other"),
            epoch: 2,
            ..ending(tenant, call, 1)
        };
        let settled = Ok(Settlement { minutes: 1 });
        assert_eq!(ledger.settle(new_owner).await, settled);
        assert_eq!(ledger.settle(ending(tenant, call, 3)).await, settled);
        assert_eq!(minutes(&store, tenant).await, (4, 0, 1));
        assert_exact(&store).await;
    }
}

/// Without a lock order for accounts and holds, batches of two nodes and take-overs deadlock.
#[actix::test]
async fn two_nodes_share_accounts() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let mut tenants = Vec::new();
    for _ in 0..32 {
        tenants.push(tenant_with(&store, 10).await);
    }
    let calls: Vec<CallId> = (0..32).map(|_| CallId::new(NOW)).collect();
    let admissions: Vec<Item> = tenants
        .iter()
        .zip(&calls)
        .map(|(t, c)| admit(*t, *c, None))
        .collect();
    assert!(write(&store, &admissions).await.is_ok());
    let backwards: Vec<CallId> = calls.iter().rev().copied().collect();
    let (one, other) = (ledger(&store), ledger(&store));
    let spend = |ledger: Minutes, tenant: TenantId| async move {
        let mut granted = 0;
        for _ in 0..6 {
            let admission = ledger.admit(admission(tenant, CallId::new(NOW))).await;
            granted += i64::from(admission.expect("is answered") == Admission::Granted);
        }
        granted
    };
    let spenders = tenants
        .iter()
        .flat_map(|tenant| [spend(one.clone(), *tenant), spend(other.clone(), *tenant)]);
    // Minutes of the calls that are taken over meanwhile. None begins: how many are granted depends on the order.
    let talk = |ledger: Minutes, tenant: TenantId, call: CallId| {
        let store = &store;
        async move {
            for request in 1..=6 {
                let found = credit_hold::Entity::find_by_id(call);
                let hold = found.one(store.reader()).await.expect("answers");
                let hold = hold.expect("is there");
                let minute = Extend {
                    owner: hold.owner.into(),
                    epoch: hold.epoch,
                    ..minute(tenant, call, request, 0)
                };
                let extended = ledger.extend(minute).await;
                assert_ne!(extended, Err(LedgerError::Unavailable));
            }
        }
    };
    let talkers = tenants.iter().zip(&calls).flat_map(|(tenant, call)| {
        [
            talk(one.clone(), *tenant, *call),
            talk(other.clone(), *tenant, *call),
        ]
    });
    let take_overs = async {
        for _ in 0..8 {
            let txn = store.begin_critical().await.expect("begins");
            lock_holds(&txn, &backwards).await.expect("are locked");
            take_over(&txn, &backwards, "third")
                .await
                .expect("is taken");
            txn.commit().await.expect("commits");
        }
    };
    let (granted, _, ()) = tokio::join!(join_all(spenders), join_all(talkers), take_overs);
    assert!(granted.iter().sum::<i64>() <= 32 * 9);
    for tenant in &tenants {
        assert_eq!(minutes(&store, *tenant).await, (0, 10, 0));
    }
    assert_exact(&store).await;
}

/// Event positions are locked until the commit. Batches that lock them in the order of their messages would deadlock.
#[actix::test]
async fn two_nodes_announce_for_the_same_tenants() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let tenants: Vec<TenantId> = (0..64).map(|_| TenantId::new(NOW)).collect();
    let backwards: Vec<TenantId> = tenants.iter().rev().copied().collect();
    let announce = async |tenants: &[TenantId]| {
        let remembered = Mutex::default();
        for _ in 0..10 {
            let postings: Vec<Posting> =
                tenants.iter().map(|tenant| announcement(*tenant)).collect();
            let postings: Vec<&Posting> = postings.iter().collect();
            let written = batch::write(
                &deps(&store),
                &remembered,
                &postings,
                batch::WriteMode::Patient,
            )
            .await;
            assert!(written.is_ok(), "{:?}", written.err());
        }
    };
    // A waiting batch holds locks already. With two tenants there would be little contention.
    tokio::join!(
        announce(&tenants),
        announce(&backwards),
        announce(&tenants),
        announce(&backwards)
    );
    for tenant in tenants {
        let positions: Vec<i64> = event::Entity::find()
            .filter(event::Column::TenantId.eq(tenant))
            .order_by_asc(event::Column::Position)
            .select_only()
            .column(event::Column::Position)
            .into_tuple()
            .all(store.reader())
            .await
            .expect("reads");
        assert_eq!(positions, (1..=40).collect::<Vec<_>>());
    }
}

pub(super) fn announcement(tenant: TenantId) -> Posting {
    let event = NewEvent::sample(EventKind::CallStarted, tenant, NOW);
    Posting::Write(Arc::new(CommitEntry {
        events: vec![event],
        ..CommitEntry::of(tenant)
    }))
}

#[actix::test]
async fn a_reference_from_several_sides_is_one_transaction() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 0).await;
        let ledger = ledger(&store);
        let booking = || purchase(tenant, 7, Some("inv-1"));
        let inside = join_all((0..8).map(|_| ledger.credit(booking(), None, |_| None)));
        let outside =
            join_all((0..8).map(|_| credit(&store, Arc::new(SystemClock), booking(), None)));
        let (inside, outside) = tokio::join!(inside, outside);
        let inside: Vec<CreditBooking> = inside.into_iter().flatten().collect();
        assert!(inside.iter().filter(|booked| booked.is_new).count() <= 1);
        let mut ids: Vec<TransactionId> = inside.iter().map(|b| b.transaction.id).collect();
        ids.extend(outside.iter().flatten().map(|b| b.transaction.id));
        assert_eq!(ids.len(), 16);
        assert!(ids.iter().all(|id| *id == ids[0]));
        let other = ledger
            .credit(purchase(tenant, 8, Some("inv-1")), None, |_| None)
            .await;
        assert_eq!(other, Err(LedgerError::ReferenceReused));
        let told_otherwise = Credit {
            description: Some("another".to_owned()),
            ..booking()
        };
        let other = ledger.credit(told_otherwise, None, |_| None).await;
        assert_eq!(other, Err(LedgerError::ReferenceReused));
        let negative = ledger
            .credit(purchase(tenant, -8, None), None, |_| None)
            .await;
        assert!(matches!(negative, Err(LedgerError::Invalid(_))));
        assert_eq!(minutes(&store, tenant).await, (7, 0, 0));
        assert_exact(&store).await;
    }
}

#[actix::test]
async fn a_booking_leaves_one_entry_in_the_audit_and_its_repeat_none() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, 0).await;
        let entry = || audit::Model {
            id: AuditId::new(NOW),
            tenant_id: Some(tenant),
            actor: Actor::Cli,
            action: AuditAction::CreditAdd,
            target: tenant.to_string(),
            detail: "7 purchase".to_owned(),
            at: NOW,
            address: None,
            request_id: None,
            node: "cli".to_owned(),
        };
        let (first, handle) = (entry(), ledger(&store));
        let booking = || purchase(tenant, 7, Some("inv-1"));
        let book = async |audit| {
            let clock = Arc::new(SystemClock);
            credit(&store, clock, booking(), Some(audit)).await
        };
        let booked = book(first.clone()).await.expect("is booked");
        let again = book(entry()).await.expect("again");
        assert_eq!((booked.is_new, again.is_new), (true, false));
        let booked = booked.transaction;
        assert_eq!(again.transaction, booked);
        let again = handle.credit(booking(), Some(entry()), |_| None).await;
        let again = again.map(|again| (again.transaction.id, again.is_new));
        assert_eq!(again, Ok((booked.id, false)));
        let refused = handle.credit(purchase(tenant, 9, Some("inv-1")), Some(entry()), |_| None);
        assert_eq!(refused.await, Err(LedgerError::ReferenceReused));
        let written = audit::Entity::find().all(store.reader()).await;
        let told = audit::Model {
            detail: format!("7 purchase, {}", booked.id),
            ..first
        };
        assert_eq!(written.expect("reads"), [told]);
    }
}

#[actix::test]
async fn low_credit_is_an_event_in_the_same_commit() {
    for (_keep, store) in dikala_testkit::both().await {
        let tenant = tenant_with(&store, LOW_THRESHOLD).await;
        let (ledger, call) = (ledger(&store), CallId::new(NOW));
        let admitted = ledger.admit(admission(tenant, call)).await;
        assert_eq!(admitted, Ok(Admission::Granted));
        for request in 1..4 {
            let granted = ledger.extend(minute(tenant, call, request, request)).await;
            assert!(granted.is_ok());
        }
        let events = event::Entity::find()
            .filter(event::Column::TenantId.eq(tenant))
            .all(store.reader())
            .await
            .expect("answers");
        let data = r#""data":{"balanceMinutes":2,"threshold":3}}"#;
        assert_eq!(events.len(), 1);
        assert!(events[0].body.ends_with(data), "{}", events[0].body);
    }
}

/// After a restart of PostgreSQL every pooled connection is dead.
#[actix::test]
async fn dead_connections_cost_time_only() {
    let Some((_keep, store)) = dikala_testkit::postgres().await else {
        return;
    };
    let tenant = tenant_with(&store, 9).await;
    let ledger = ledger(&store);
    let crowd = (0..16).map(|_| {
        credit(
            &store,
            Arc::new(SystemClock),
            purchase(tenant, 1, None),
            None,
        )
    });
    assert!(join_all(crowd).await.iter().all(Result::is_ok));
    let killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    store
        .writer()
        .execute_unprepared(killed)
        .await
        .expect("runs");
    let calls = (0..32).map(|_| ledger.admit(admission(tenant, CallId::new(NOW))));
    let admitted = join_all(calls).await;
    assert!(admitted.iter().all(Result::is_ok), "{admitted:?}");
    // Readers' connections are replaced when they are found dead.
    while store.ping().await.is_err() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(minutes(&store, tenant).await, (0, 25, 0));
    assert_exact(&store).await;
}

#[actix::test]
async fn verify_names_what_is_wrong() {
    for (_keep, store) in dikala_testkit::both().await {
        breaks_are_named(&store).await;
    }
}

/// Planted damage, each with the rule that must find it. `$TEN` is the tenant.
const BREAKS: &[(&str, &str)] = &[
    (
        "UPDATE credit_accounts SET available = 9, held = 1",
        "open holds",
    ),
    (
        "UPDATE credit_accounts SET available = 10, held = 0, posted = 11",
        "last one",
    ),
    (
        "UPDATE credit_accounts SET posted = 10, available = 9, used = 1",
        "usage transactions",
    ),
    (
        "UPDATE credit_accounts SET used = 0, available = 10, purchased = 9, adjusted = 1",
        "purchased or adjusted",
    ),
    (
        "UPDATE credit_transactions SET balance_after = 9",
        "running sum",
    ),
    (
        "UPDATE credit_transactions SET seq = 2; UPDATE credit_accounts SET seq = 2",
        "have a gap",
    ),
    (
        "INSERT INTO credit_holds (call_id, tenant_id, owner, epoch, request, held, used, \"last\", created_at, settled_at) \
         VALUES ('call_free', '$TEN', 'node', 1, 0, 0, 2, false, 0, 1)",
        "differs from its settled hold: call_free",
    ),
    (
        "INSERT INTO credit_transactions (tenant_id, seq, id, idempotency_key, kind, minutes, balance_after, call_id, created_at) \
         VALUES ('$TEN', 3, 'txn_3', 'call:call_x', 'usage', -1, 9, 'call_x', 0), \
         ('$TEN', 4, 'txn_4', 'call:call_y', 'usage', -1, 8, 'call_x', 0)",
        "more than one usage transaction: call_x",
    ),
    ("SELECT 1", "has no settled hold: txn_3"),
    (
        "UPDATE credit_transactions SET call_id = NULL WHERE seq > 2",
        "more than one usage transaction: no call",
    ),
    (
        "UPDATE credit_holds SET held = 1",
        "is closed or was refused has minutes: call_free",
    ),
    (
        "UPDATE credit_holds SET tenant_id = 'ten_nobody'",
        "ten_nobody: a hold belongs to no account",
    ),
    (
        "UPDATE credit_transactions SET tenant_id = 'ten_nobody' WHERE seq = 4",
        "a transaction belongs to no account: txn_4",
    ),
    (
        "INSERT INTO calls (id, tenant_id, bridge_id, bridge_call_id, phone_number_id, caller_number, callee_number, status, \
         started_at, answered_at, ended_at, talk_time_seconds, metadata, last_sign_at, owner, epoch) \
         VALUES ('call_free', '$TEN', 'b', 'b', 'p', '', '', 'ended', 0, 0, 1, 60, '{}', 0, 'node', 1)",
        "call_free talked 60 s, billed 2",
    ),
    (
        "UPDATE calls SET talk_time_seconds = NULL",
        "call_free talked 0 s, billed 2",
    ),
    (
        "UPDATE calls SET answered_at = NULL",
        "call_free talked 0 s, billed 2",
    ),
    (
        "UPDATE calls SET answered_at = 0, talk_time_seconds = 60; UPDATE credit_holds SET used = 0",
        "call_free talked 60 s, billed 0",
    ),
    (
        "UPDATE credit_holds SET settled_at = NULL",
        "still holds credit: call_free",
    ),
    (
        "UPDATE calls SET id = 'call_other'",
        "a hold has no call: call_free",
    ),
];

async fn breaks_are_named(store: &Store) {
    let tenant = tenant_with(store, 10).await;
    assert_exact(store).await;
    let sql = async |sql: &str| store.writer().execute_unprepared(sql).await;
    for (break_it, rule) in BREAKS {
        let break_it = break_it.replace("$TEN", &tenant.to_string());
        assert!(sql(&break_it).await.is_ok(), "{break_it}");
        let report = verify(store, None).await.expect("is verified");
        assert!(
            report.differences.iter().any(|d| d.contains(rule)),
            "{break_it}: {report:?}"
        );
    }
    // The table's own constraint refuses totals that do not add up.
    assert!(
        sql("UPDATE credit_accounts SET available = 1000")
            .await
            .is_err()
    );
}
