//! The ledger's SQL: one transaction a batch. Accounts are locked in the order of their keys, since without an order batches
//! of several nodes deadlock; holds and keys are read after the lock, so that what its previous holder committed is seen.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use dikala_entities::{
    CallId, EventKind, Millis, Store, TenantId,
    batch::insert_rows,
    credit_account, credit_hold, credit_transaction,
    store::{Kind, Transaction, json_rows, json_statement},
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, IntoActiveModel,
    QueryFilter, QueryOrder, QuerySelect, Statement, Value, sea_query::LockType,
};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{
    Item, Outcome,
    plan::{Book, Low, credit_key, plan},
};
use crate::outbox::{self, Announced, NewEvent};

/// Identifiers bound in one statement.
const CHUNK: usize = 500;

/// A batch that is on disk.
pub(super) struct Written {
    pub outcomes: Vec<Outcome>,
    pub announced: Announced,
}

/// Books a batch.
pub(super) async fn write(
    store: &Store,
    node: &str,
    now: Millis,
    items: &[Item],
) -> Result<Written, DbErr> {
    let txn = store.begin_core().await?;
    let mut book = read(&txn, items).await?;
    let outcomes = plan(&mut book, items, now);
    write_holds(&txn, &book).await?;
    write_transactions(&txn, &book).await?;
    write_accounts(&txn, &book).await?;
    let events: Vec<NewEvent> = book.lows.iter().map(|low| announce(low, now)).collect();
    let announced = outbox::write(&txn, &events, node, now).await?;
    txn.commit().await?;
    Ok(Written {
        outcomes,
        announced,
    })
}

/// Reads accounts and keeps them until the transaction ends. SQLite has one writer anyway.
async fn lock_accounts(
    txn: &Transaction,
    tenants: Vec<TenantId>,
) -> Result<Vec<credit_account::Model>, DbErr> {
    let mut select = credit_account::Entity::find()
        .filter(credit_account::Column::TenantId.is_in(tenants))
        .order_by_asc(credit_account::Column::TenantId);
    if txn.get_database_backend() == DbBackend::Postgres {
        select = select.lock(LockType::Update);
    }
    select.all(txn).await
}

async fn read(txn: &Transaction, items: &[Item]) -> Result<Book, DbErr> {
    let mut book = Book::default();
    let tenants: BTreeSet<TenantId> = items.iter().map(Item::tenant).collect();
    let accounts = lock_accounts(txn, tenants.into_iter().collect()).await?;
    book.accounts = accounts
        .into_iter()
        .map(|account| (account.tenant_id, account))
        .collect();
    let calls: BTreeSet<CallId> = items.iter().filter_map(Item::call).collect();
    if !calls.is_empty() {
        let holds = credit_hold::Entity::find()
            .filter(credit_hold::Column::CallId.is_in(calls))
            .all(txn)
            .await?;
        book.holds = holds.into_iter().map(|hold| (hold.call_id, hold)).collect();
    }
    book.booked = read_booked(txn, items).await?;
    Ok(book)
}

/// The transactions that the batch's credits may have written before; some others of the same tenants do no harm.
async fn read_booked(
    txn: &Transaction,
    items: &[Item],
) -> Result<HashMap<(TenantId, String), credit_transaction::Model>, DbErr> {
    let (mut tenants, mut keys) = (BTreeSet::new(), BTreeSet::new());
    for item in items {
        if let Item::Credit(credit, id) = item {
            tenants.insert(credit.tenant);
            keys.insert(credit_key(credit, *id));
        }
    }
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let booked = credit_transaction::Entity::find()
        .filter(credit_transaction::Column::TenantId.is_in(tenants))
        .filter(credit_transaction::Column::IdempotencyKey.is_in(keys))
        .all(txn)
        .await?;
    let keyed = |known: credit_transaction::Model| {
        ((known.tenant_id, known.idempotency_key.clone()), known)
    };
    Ok(booked.into_iter().map(keyed).collect())
}

async fn write_holds(txn: &Transaction, book: &Book) -> Result<(), DbErr> {
    const COLUMNS: &[(&str, Kind)] = &[
        ("call_id", Kind::Text),
        ("tenant_id", Kind::Text),
        ("owner", Kind::Text),
        ("epoch", Kind::BigInt),
        ("request", Kind::BigInt),
        ("held", Kind::BigInt),
        ("used", Kind::BigInt),
        ("last", Kind::Boolean),
        ("refusal", Kind::Text),
        ("created_at", Kind::BigInt),
        ("settled_at", Kind::BigInt),
    ];
    let rows: Vec<Json> = book
        .changed_holds
        .iter()
        .filter_map(|call| book.holds.get(call))
        .map(|hold| {
            json!({
                "call_id": hold.call_id, "tenant_id": hold.tenant_id, "owner": hold.owner, "epoch": hold.epoch,
                "request": hold.request, "held": hold.held, "used": hold.used, "last": hold.last,
                "refusal": hold.refusal, "created_at": hold.created_at.as_i64(),
                "settled_at": hold.settled_at.map(Millis::as_i64),
            })
        })
        .collect();
    let names: Vec<String> = COLUMNS
        .iter()
        .map(|(name, _)| format!("\"{name}\""))
        .collect();
    let names = names.join(", ");
    // SQLite takes `ON` for a join condition after a plain SELECT: hence `WHERE true`.
    let sql = format!(
        "INSERT INTO credit_holds ({names}) SELECT {names} FROM {} WHERE true \
         ON CONFLICT (call_id) DO UPDATE SET request = excluded.request, held = excluded.held, used = excluded.used, \
         \"last\" = excluded.\"last\", settled_at = excluded.settled_at \
         WHERE credit_holds.owner = excluded.owner AND credit_holds.epoch = excluded.epoch AND credit_holds.settled_at IS NULL",
        json_rows(txn.get_database_backend(), COLUMNS)
    );
    execute(txn, sql, &rows).await
}

async fn write_transactions(txn: &Transaction, book: &Book) -> Result<(), DbErr> {
    if book.transactions.is_empty() {
        return Ok(());
    }
    let rows: Vec<credit_transaction::ActiveModel> = book
        .transactions
        .iter()
        .cloned()
        .map(IntoActiveModel::into_active_model)
        .collect();
    txn.execute_raw(insert_rows(txn.get_database_backend(), &rows, "")?)
        .await
        .map(drop)
}

async fn write_accounts(txn: &Transaction, book: &Book) -> Result<(), DbErr> {
    const COLUMNS: &[&str] = &[
        "available",
        "held",
        "used",
        "purchased",
        "adjusted",
        "posted",
        "seq",
        "open_holds",
    ];
    let rows: Vec<Json> = book
        .changed_accounts
        .iter()
        .filter_map(|tenant| book.accounts.get(tenant))
        .map(|account| {
            json!({
                "tenant_id": account.tenant_id, "version": account.version, "low_armed": account.low_armed,
                "available": account.available, "held": account.held, "used": account.used,
                "purchased": account.purchased, "adjusted": account.adjusted, "posted": account.posted,
                "seq": account.seq, "open_holds": account.open_holds,
            })
        })
        .collect();
    let mut columns = vec![
        ("tenant_id", Kind::Text),
        ("version", Kind::BigInt),
        ("low_armed", Kind::Boolean),
    ];
    columns.extend(COLUMNS.iter().map(|name| (*name, Kind::BigInt)));
    let assignments: Vec<String> = COLUMNS
        .iter()
        .map(|name| format!("{name} = rows.{name}"))
        .collect();
    // SQLite reads a JSON boolean as 0 or 1, which is what it stores.
    let sql = format!(
        "UPDATE credit_accounts SET {}, low_armed = rows.low_armed, version = rows.version + 1 FROM {} \
         WHERE credit_accounts.tenant_id = rows.tenant_id AND credit_accounts.version = rows.version",
        assignments.join(", "),
        json_rows(txn.get_database_backend(), &columns)
    );
    execute(txn, sql, &rows).await
}

/// Runs a set-based write; as many rows as were sent must have changed.
async fn execute(txn: &Transaction, sql: String, rows: &[Json]) -> Result<(), DbErr> {
    if rows.is_empty() {
        return Ok(());
    }
    let result = txn
        .execute_raw(json_statement(txn.get_database_backend(), sql, rows)?)
        .await?;
    if result.rows_affected() == rows.len() as u64 {
        Ok(())
    } else {
        Err(DbErr::Custom(format!(
            "{} of {} ledger rows were written",
            result.rows_affected(),
            rows.len()
        )))
    }
}

fn announce(low: &Low, now: Millis) -> NewEvent {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Data {
        balance_minutes: i64,
        threshold: i64,
    }
    let data = Data {
        balance_minutes: low.balance,
        threshold: low.threshold,
    };
    NewEvent::new(EventKind::CreditsLow, low.tenant, None, now, now, &data)
}

/// Gives the open holds of these calls to a new owner, with a new epoch. The calls' own rows change in the same transaction.
///
/// Everybody locks accounts before holds, and accounts in the order of their keys: a batch that runs on another node at this
/// moment is waited for, and cannot deadlock with this.
pub async fn take_over(txn: &Transaction, calls: &[CallId], owner: &str) -> Result<(), DbErr> {
    use sea_orm::{ExprTrait, sea_query::Expr};
    let mut tenants = BTreeSet::new();
    for chunk in calls.chunks(CHUNK) {
        let owners: Vec<TenantId> = credit_hold::Entity::find()
            .select_only()
            .column(credit_hold::Column::TenantId)
            .distinct()
            .filter(credit_hold::Column::CallId.is_in(chunk.iter().copied()))
            .filter(credit_hold::Column::SettledAt.is_null())
            .into_tuple()
            .all(txn)
            .await?;
        tenants.extend(owners);
    }
    let tenants: Vec<TenantId> = tenants.into_iter().collect();
    for chunk in tenants.chunks(CHUNK) {
        lock_accounts(txn, chunk.to_vec()).await?;
    }
    for chunk in calls.chunks(CHUNK) {
        credit_hold::Entity::update_many()
            .col_expr(credit_hold::Column::Owner, Expr::value(owner))
            .col_expr(
                credit_hold::Column::Epoch,
                Expr::col(credit_hold::Column::Epoch).add(1),
            )
            .filter(credit_hold::Column::CallId.is_in(chunk.iter().copied()))
            .filter(credit_hold::Column::SettledAt.is_null())
            .exec(txn)
            .await?;
    }
    Ok(())
}

/// An open hold without a running call.
#[derive(Clone, Debug)]
pub struct Orphan {
    pub call: CallId,
    pub tenant: TenantId,
    pub owner: Arc<str>,
    pub epoch: i64,
}

#[derive(FromQueryResult)]
struct OrphanRow {
    call_id: CallId,
    tenant_id: TenantId,
    owner: String,
    epoch: i64,
}

/// Open holds, made before `older_than`, whose call was never written or is over.
pub async fn orphans(store: &Store, older_than: Millis) -> Result<Vec<Orphan>, DbErr> {
    let sql = "SELECT h.call_id, h.tenant_id, h.owner, h.epoch FROM credit_holds h \
               LEFT JOIN calls c ON c.id = h.call_id \
               WHERE h.settled_at IS NULL AND h.created_at < $1 AND (c.id IS NULL OR c.ended_at IS NOT NULL) LIMIT 500";
    let statement =
        Statement::from_sql_and_values(store.backend(), sql, [Value::from(older_than.as_i64())]);
    let rows = OrphanRow::find_by_statement(statement)
        .all(store.reader())
        .await?;
    let orphan = |row: OrphanRow| Orphan {
        call: row.call_id,
        tenant: row.tenant_id,
        owner: Arc::from(row.owner),
        epoch: row.epoch,
    };
    Ok(rows.into_iter().map(orphan).collect())
}
