//! The ledger's SQL. Accounts are locked in the order of their keys; otherwise batches of several nodes would deadlock. Each
//! row is written only if it still is as it was read or remembered; otherwise the batch is tried again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use dikala_entities::{
    CallId, Millis, TenantId,
    batch::BatchWrite,
    credit_account, credit_hold, credit_transaction,
    rows::{ColumnType, is_one_of},
    store::Transaction,
};
use sea_orm::{
    ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, FromQueryResult, IdenStatic,
    IntoActiveModel, Iterable, QueryFilter, Statement, Value,
};
use serde_json::json;

use super::{
    Item,
    plan::{LedgerRows, LowBalance, credit_key},
};
use crate::events::{outbox::NewEvent, payload::Payload};

/// The rows of a batch before its plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowsBefore {
    pub accounts: BTreeMap<TenantId, credit_account::Model>,
    pub holds: BTreeMap<CallId, credit_hold::Model>,
}

impl RowsBefore {
    pub(crate) fn of(book: &LedgerRows) -> Self {
        Self {
            accounts: book.accounts.clone(),
            holds: book.holds.clone(),
        }
    }
}

/// Reads the rows that the items concern, and locks the accounts until the transaction ends. SQLite has one writer anyway.
pub(crate) async fn read(txn: &Transaction, items: &[Item]) -> Result<LedgerRows, DbErr> {
    let mut book = LedgerRows::default();
    let tenants: BTreeSet<TenantId> = items.iter().map(Item::tenant).collect();
    let calls: BTreeSet<CallId> = items.iter().filter_map(Item::call).collect();
    let values = [json!(tenants).to_string(), json!(calls).to_string()];
    let rows = txn
        .query_all_raw(Statement::from_sql_and_values(
            txn.get_database_backend(),
            accounts_and_holds(txn.get_database_backend()),
            values.map(Value::from),
        ))
        .await?;
    for row in &rows {
        let account = credit_account::Model::from_query_result(row, "a_")?;
        book.accounts.entry(account.tenant_id).or_insert(account);
        let call: Option<CallId> = row.try_get("h_", "call_id")?;
        if let Some(call) = call {
            book.holds
                .insert(call, credit_hold::Model::from_query_result(row, "h_")?);
        }
    }
    book.booked = read_booked(txn, items).await?;
    Ok(book)
}

/// Parameters: the tenants and the calls, as JSON arrays.
fn accounts_and_holds(backend: DbBackend) -> String {
    let named = |alias: &str, columns: Vec<&'static str>| {
        let named = columns
            .iter()
            .map(|name| format!("{alias}.\"{name}\" AS {alias}_{name}"));
        named.collect::<Vec<_>>().join(", ")
    };
    let accounts = credit_account::Column::iter().map(|column| column.as_str());
    let holds = credit_hold::Column::iter().map(|column| column.as_str());
    // Finds each hold by its key. Joined to the account first, every batch would scan all holds of the tenant.
    let (found, lock) = match backend {
        DbBackend::Postgres => (
            "json_array_elements_text($2::json) AS asked (id) \
             CROSS JOIN LATERAL (SELECT * FROM credit_holds WHERE call_id = asked.id LIMIT 1) AS found",
            " FOR UPDATE OF a",
        ),
        _ => (
            "json_each(?2) AS asked CROSS JOIN credit_holds AS found ON found.call_id = asked.value",
            "",
        ),
    };
    format!(
        "SELECT {}, {} FROM credit_accounts a LEFT JOIN (SELECT found.* FROM {found}) AS h ON h.tenant_id = a.tenant_id \
         WHERE {} ORDER BY a.tenant_id{lock}",
        named("a", accounts.collect()),
        named("h", holds.collect()),
        is_one_of(backend, "a.tenant_id", 1),
    )
}

/// Reads transactions that an earlier try may have written. It may return others of the same tenants, which does no harm.
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

/// The writes of what the plan changed, except for the accounts.
pub(crate) fn writes(book: &LedgerRows, before: &RowsBefore) -> Result<Vec<BatchWrite>, DbErr> {
    let transactions = book.transactions.iter().cloned();
    let transactions = transactions.map(IntoActiveModel::into_active_model);
    Ok(vec![
        insert_holds(book, before)?,
        update_holds(book, before),
        BatchWrite::insert(
            transactions.collect::<Vec<credit_transaction::ActiveModel>>(),
            "",
        )?,
    ])
}

fn changed_holds(book: &LedgerRows) -> impl Iterator<Item = &credit_hold::Model> {
    let changed = book.changed_holds.iter();
    changed.filter_map(|call| book.holds.get(call))
}

fn insert_holds(book: &LedgerRows, before: &RowsBefore) -> Result<BatchWrite, DbErr> {
    let new = changed_holds(book).filter(|hold| !before.holds.contains_key(&hold.call_id));
    let rows: Vec<credit_hold::ActiveModel> = new
        .cloned()
        .map(IntoActiveModel::into_active_model)
        .collect();
    BatchWrite::insert(rows, "ON CONFLICT (call_id) DO NOTHING")
}

fn update_holds(book: &LedgerRows, before: &RowsBefore) -> BatchWrite {
    const COLUMNS: [(&str, ColumnType); 12] = [
        ("call_id", ColumnType::Text),
        ("owner", ColumnType::Text),
        ("epoch", ColumnType::BigInt),
        ("was_request", ColumnType::BigInt),
        ("was_held", ColumnType::BigInt),
        ("was_used", ColumnType::BigInt),
        ("was_last", ColumnType::Boolean),
        ("request", ColumnType::BigInt),
        ("held", ColumnType::BigInt),
        ("used", ColumnType::BigInt),
        ("last", ColumnType::Boolean),
        ("settled_at", ColumnType::BigInt),
    ];
    let row = |hold: &credit_hold::Model| {
        let was = before.holds.get(&hold.call_id)?;
        Some(vec![
            hold.call_id.into(),
            hold.owner.clone().into(),
            hold.epoch.into(),
            was.request.into(),
            was.held.into(),
            was.used.into(),
            was.last.into(),
            hold.request.into(),
            hold.held.into(),
            hold.used.into(),
            hold.last.into(),
            hold.settled_at.map(Millis::as_i64).into(),
        ])
    };
    let sql = "UPDATE credit_holds SET request = rows.request, held = rows.held, used = rows.used, \"last\" = rows.\"last\", \
               settled_at = rows.settled_at FROM {rows} WHERE credit_holds.call_id = rows.call_id \
               AND credit_holds.owner = rows.owner AND credit_holds.epoch = rows.epoch AND credit_holds.settled_at IS NULL \
               AND credit_holds.request = rows.was_request AND credit_holds.held = rows.was_held \
               AND credit_holds.used = rows.was_used AND credit_holds.\"last\" = rows.was_last";
    BatchWrite::new(sql, &COLUMNS, changed_holds(book).filter_map(row).collect())
}

/// The first write of a batch, so that accounts are locked before everything else. The version alone does not tell that
/// an account is unchanged: after a crash of the database, another change may have the same version.
pub(crate) fn update_accounts(book: &LedgerRows, before: &RowsBefore) -> BatchWrite {
    const COLUMNS: [(&str, ColumnType); 11] = [
        ("tenant_id", ColumnType::Text),
        ("version", ColumnType::BigInt),
        ("low_armed", ColumnType::Boolean),
        ("available", ColumnType::BigInt),
        ("held", ColumnType::BigInt),
        ("used", ColumnType::BigInt),
        ("purchased", ColumnType::BigInt),
        ("adjusted", ColumnType::BigInt),
        ("posted", ColumnType::BigInt),
        ("seq", ColumnType::BigInt),
        ("open_holds", ColumnType::BigInt),
    ];
    const WAS: [(&str, ColumnType); 10] = [
        ("was_low_armed", ColumnType::Boolean),
        ("was_available", ColumnType::BigInt),
        ("was_held", ColumnType::BigInt),
        ("was_used", ColumnType::BigInt),
        ("was_purchased", ColumnType::BigInt),
        ("was_adjusted", ColumnType::BigInt),
        ("was_posted", ColumnType::BigInt),
        ("was_seq", ColumnType::BigInt),
        ("was_open_holds", ColumnType::BigInt),
        ("was_low_threshold", ColumnType::BigInt),
    ];
    let figures = |account: &credit_account::Model| -> [Value; 9] {
        [
            account.low_armed.into(),
            account.available.into(),
            account.held.into(),
            account.used.into(),
            account.purchased.into(),
            account.adjusted.into(),
            account.posted.into(),
            account.seq.into(),
            account.open_holds.into(),
        ]
    };
    let row = |tenant: &TenantId| {
        let (account, was) = (book.accounts.get(tenant)?, before.accounts.get(tenant)?);
        let mut row = vec![account.tenant_id.into(), account.version.into()];
        row.extend(figures(account));
        row.extend(figures(was));
        row.push(was.low_threshold.into());
        Some(row)
    };
    let sql = "UPDATE credit_accounts AS a SET low_armed = rows.low_armed, available = rows.available, held = rows.held, \
               used = rows.used, purchased = rows.purchased, adjusted = rows.adjusted, posted = rows.posted, seq = rows.seq, \
               open_holds = rows.open_holds, version = rows.version + 1 FROM {rows} \
               WHERE a.tenant_id = rows.tenant_id AND a.version = rows.version AND a.low_armed = rows.was_low_armed \
               AND a.available = rows.was_available AND a.held = rows.was_held AND a.used = rows.was_used \
               AND a.purchased = rows.was_purchased AND a.adjusted = rows.was_adjusted AND a.posted = rows.was_posted \
               AND a.seq = rows.was_seq AND a.open_holds = rows.was_open_holds AND a.low_threshold = rows.was_low_threshold";
    let rows = book.changed_accounts.iter().filter_map(row).collect();
    BatchWrite::new(sql, &[&COLUMNS[..], &WAS[..]].concat(), rows)
}

pub(crate) fn announce(low: &LowBalance, now: Millis) -> NewEvent {
    let data = Payload::CreditsLow {
        balance_minutes: low.balance,
        threshold: low.threshold,
    };
    NewEvent::new(low.tenant, None, now, now, &data)
}

/// Locks the holds of these calls until the transaction ends, in the order of their keys. All code locks accounts, holds and calls
/// in this order. So a transaction that changes holds and calls, and no account, waits for a batch and cannot deadlock with it.
pub async fn lock_holds(txn: &Transaction, calls: &[CallId]) -> Result<(), DbErr> {
    let backend = txn.get_database_backend();
    if backend != DbBackend::Postgres {
        return Ok(());
    }
    let sql = format!(
        "SELECT call_id FROM credit_holds WHERE {} ORDER BY call_id FOR UPDATE",
        is_one_of(backend, "call_id", 1)
    );
    let values = [Value::from(json!(calls).to_string())];
    let lock = Statement::from_sql_and_values(backend, sql, values);
    txn.query_all_raw(lock).await.map(drop)
}

/// Gives the open holds of these calls to a new owner, with a new epoch. The caller changes the calls' own rows in the same
/// transaction and has locked these holds.
pub async fn take_over(txn: &Transaction, calls: &[CallId], owner: &str) -> Result<(), DbErr> {
    let backend = txn.get_database_backend();
    let second = match backend {
        DbBackend::Postgres => "$2",
        _ => "?2",
    };
    // `settled_at IS NULL` would let the database read all open holds by their partial index.
    let sql = format!(
        "UPDATE credit_holds SET owner = {second}, epoch = epoch + 1 WHERE {} AND COALESCE(settled_at, 0) = 0",
        is_one_of(backend, "call_id", 1)
    );
    let values = [Value::from(json!(calls).to_string()), owner.into()];
    let change = Statement::from_sql_and_values(backend, sql, values);
    txn.execute_raw(change).await.map(drop)
}
