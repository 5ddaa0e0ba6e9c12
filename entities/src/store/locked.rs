//! Rows locked by other sessions of PostgreSQL, such as an operator's open transaction or a hanging command. A batch that
//! met one finds out here whose rows to leave out.

use std::collections::BTreeSet;

use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement, TryGetable, Value};
use serde::Serialize;

use super::{Store, is_locked_out};
use crate::rows::is_one_of;

/// Some rows of a table that a batch writes.
#[derive(Clone, Debug)]
pub struct SharedRows {
    table: &'static str,
    key: &'static str,
    owner: &'static str,
    keys: Value,
}

impl SharedRows {
    /// The rows of `table` with these values of the column `key`. The column `owner` says which part of a batch a row belongs
    /// to, such as its tenant.
    pub fn new(
        table: &'static str,
        key: &'static str,
        owner: &'static str,
        keys: &impl Serialize,
    ) -> Result<Self, DbErr> {
        let keys = serde_json::to_string(keys).map_err(|error| DbErr::Json(error.to_string()))?;
        Ok(Self {
            table,
            key,
            owner,
            keys: keys.into(),
        })
    }
}

impl Store {
    /// The owners of those rows that another session has locked now. Does not wait. Empty on SQLite, which locks no rows, and
    /// if a whole table is locked.
    pub async fn owners_of_locked<T: TryGetable + Ord>(
        &self,
        rows: &[SharedRows],
    ) -> Result<BTreeSet<T>, DbErr> {
        let backend = self.backend();
        if backend != DbBackend::Postgres {
            return Ok(BTreeSet::new());
        }
        let (mut free, mut locked) = (Vec::new(), Vec::new());
        for (number, rows) in (1..).zip(rows) {
            let SharedRows {
                table, key, owner, ..
            } = rows;
            let wanted = is_one_of(backend, key, number);
            free.push(format!(
                "free_{table} AS (SELECT {key} FROM {table} WHERE {wanted} FOR UPDATE SKIP LOCKED)"
            ));
            // By key, one row after the other: PostgreSQL has no statistics of a table with partitions.
            locked.push(format!(
                "SELECT found.owner FROM (SELECT json_array_elements_text(${number}::json) AS key) AS wanted \
                 CROSS JOIN LATERAL (SELECT {owner} AS owner FROM {table} WHERE {key} = wanted.key LIMIT 1) AS found \
                 WHERE wanted.key NOT IN (SELECT {key} FROM free_{table})"
            ));
        }
        let sql = format!("WITH {} {}", free.join(", "), locked.join(" UNION "));
        let keys = rows.iter().map(|rows| rows.keys.clone());
        let ask = Statement::from_sql_and_values(backend, sql, keys);
        let txn = self.begin_critical_shared().await?;
        let owners = match txn.query_all_raw(ask).await {
            Err(error) if is_locked_out(&error) => return Ok(BTreeSet::new()),
            owners => owners?,
        };
        txn.rollback().await?;
        owners.iter().map(|row| row.try_get("", "owner")).collect()
    }

    /// Queues for rows and returns whether it got all of them. If other nodes write them all the time, a check that does not
    /// queue never finds them free.
    pub async fn queue_for(&self, rows: &[SharedRows]) -> Result<bool, DbErr> {
        let backend = self.backend();
        let txn = self.begin_critical_shared().await?;
        for SharedRows {
            table, key, keys, ..
        } in rows
        {
            let wanted = is_one_of(backend, key, 1);
            let sql = format!("SELECT {key} FROM {table} WHERE {wanted} FOR UPDATE");
            let ask = Statement::from_sql_and_values(backend, sql, [keys.clone()]);
            match txn.query_all_raw(ask).await {
                Err(error) if is_locked_out(&error) => return Ok(false),
                got => got.map(drop)?,
            }
        }
        txn.rollback().await?;
        Ok(true)
    }
}
