//! Debits per second through the ledger's actors, by number of concurrent calls, compared with single
//! commits.
//!
//! `cargo bench -p dikala-actors --bench ledger`. Every number is measured on the store's real durability: SQLite with
//! `synchronous=FULL`, PostgreSQL with `fsync` on, both on this machine.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and stops at the first surprise"
)]

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use dikala_actors::{
    commit::{self, CommitDeps, CommitEntry, CommitHandle},
    events::outbox::EventRecipients,
    ledger::{self, Admission, Admit, Credit, Extend},
    nodes::Membership,
    runtime::clock::{Clock, SystemClock},
};
use dikala_entities::{CallId, Store, TenantId, TransactionType, credit_account};
use futures_util::future::join_all;
use sea_orm::{EntityTrait, IntoActiveModel};

const CONCURRENCY: [usize; 4] = [1, 64, 256, 1_024];
const TENANTS: usize = 16;
/// Duration of one measurement.
const MEASURED: Duration = Duration::from_secs(3);

fn main() {
    // `cargo test --all-targets` runs this file too, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    actix_rt::System::new().block_on(async {
        for (_keep, store) in dikala_testkit::durable().await {
            measure(&store).await;
        }
    });
}

async fn measure(store: &Store) {
    let name = format!("{:?}", store.backend());
    let arbiter = actix_rt::Arbiter::new();
    let deps = CommitDeps {
        store: store.clone(),
        clock: Arc::new(SystemClock),
        node: Membership::outside("bench"),
        recipients: EventRecipients::default(),
    };
    let ledger = commit::start(&arbiter.handle(), &deps);
    let mut alone = 0;
    for concurrency in CONCURRENCY {
        let calls = calls(store, &ledger, concurrency).await;
        let batches_before = ledger.stats().items.count();
        let began = Instant::now();
        let until = began + MEASURED;
        let debits = join_all(calls.iter().map(|call| debit(&ledger, *call, until))).await;
        let debits: u128 = debits.into_iter().sum();
        let rate = debits * 1_000 / began.elapsed().as_millis().max(1);
        let batches = u128::from(ledger.stats().items.count() - batches_before).max(1);
        alone = if concurrency == 1 { rate } else { alone };
        println!(
            "{name:<10} {concurrency:>5} calls {rate:>7} debits/s, {:>4} in a batch, {:>3} times one by one",
            debits / batches,
            rate / alone.max(1)
        );
    }
    let report = ledger::verify(store, None).await.unwrap();
    let lost: Vec<&String> = report
        .differences
        .iter()
        .filter(|difference| !difference.contains("a hold has no call"))
        .collect();
    assert!(lost.is_empty(), "{lost:?}");
    arbiter.stop();
}

/// Extends one call by one minute after another.
async fn debit(ledger: &CommitHandle, (tenant, call): (TenantId, CallId), until: Instant) -> u128 {
    let mut request = 0;
    while Instant::now() < until {
        request += 1;
        let extend = Extend {
            call,
            tenant,
            owner: node(),
            epoch: 1,
            request,
            started: request,
            want: 1,
        };
        assert!(!ledger.extend(extend).await.unwrap().last);
    }
    request.unsigned_abs().into()
}

/// New calls, spread over new tenants.
async fn calls(
    store: &Store,
    ledger: &CommitHandle,
    concurrency: usize,
) -> Vec<(TenantId, CallId)> {
    let mut tenants = Vec::new();
    for _ in 0..TENANTS {
        tenants.push(tenant(store).await);
    }
    let admissions = (0..concurrency).map(|i| {
        let (tenant, call) = (tenants[i % TENANTS], CallId::new(SystemClock.now()));
        async move {
            let admit = Admit {
                call,
                tenant,
                owner: node(),
                epoch: 1,
                max_concurrent: None,
            };
            let nothing = move |_| CommitEntry::of(tenant);
            assert_eq!(ledger.admit(admit, nothing).await, Ok(Admission::Granted));
            (tenant, call)
        }
    });
    join_all(admissions).await
}

async fn tenant(store: &Store) -> TenantId {
    let tenant_id = TenantId::new(SystemClock.now());
    let account = credit_account::Model::empty(tenant_id, 30);
    credit_account::Entity::insert(account.into_active_model())
        .exec_without_returning(store.writer())
        .await
        .unwrap();
    let purchase = Credit {
        tenant: tenant_id,
        minutes: 100_000_000,
        kind: TransactionType::Purchase,
        reference: None,
        description: None,
    };
    commit::credit(store, Arc::new(SystemClock), purchase, None)
        .await
        .unwrap();
    tenant_id
}

fn node() -> Arc<str> {
    Arc::from("bench")
}
