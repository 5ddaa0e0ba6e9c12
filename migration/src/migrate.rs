//! Brings the schema up to date. Nodes may keep serving if the steps are additive.

use std::time::{Duration, Instant};

use sea_orm_migration::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, RuntimeErr,
    SqliteTransactionMode, TransactionOptions, TransactionTrait,
};

use super::{
    Migrator, MigratorTrait, Step,
    state::{COMPATIBILITY, RECORD, applied_steps, rows},
    steps,
};

/// Keeps a second process from changing the same schema at the same time: one number for all of Dikala's. It is polled, not
/// awaited: a concurrent index build waits for every running statement, including one that waits for this lock.
const POSTGRES_TRY_LOCK: &str = "SELECT pg_try_advisory_lock(4920182613) AS locked";
const POSTGRES_UNLOCK: &str = "SELECT pg_advisory_unlock(4920182613)";
/// The pause between two tries. The server sleeps, because this process has no known async runtime here.
const POSTGRES_PAUSE: &str = "SELECT pg_sleep(0.1)";

/// Timeout of a step that waits for a table lock. Later statements queue behind it, so this is less than their own
/// timeout of 4 s. The step itself may take longer.
const POSTGRES_PATIENCE: &str = "SET LOCAL lock_timeout = '2s'";

const TABLE_IN_USE: &str = "a step of the schema waited for 2 s for a table that others use, as pg_dump does; the step changed nothing: \
                            try again when that is over";
const OTHER_CHANGES: &str = "another process is changing the schema, and did not end in time; nothing was changed: see what became of \
                             that process, and try again";
/// The number of nodes that an error names at most.
const NAMED_MAX: usize = 10;

/// Brings the schema up to date; does nothing if it is. An empty database gets all steps in one transaction. Otherwise
/// consecutive steps of one kind are a transaction, and indexes are built outside of any. After an interruption, the next try
/// continues.
///
/// A breaking step is refused while nodes live. They are all of an earlier release: newer ones would not serve without the step.
pub async fn migrate(db: &DatabaseConnection) -> Result<(), DbErr> {
    if db.get_database_backend() != DbBackend::Postgres {
        return go_on(db).await;
    }
    lock(db).await?;
    let changed = go_on(db).await;
    let unlocked = db.execute_unprepared(POSTGRES_UNLOCK).await;
    changed.and(unlocked.map(drop))
}

/// Waits for as long as the session waits for locks.
async fn lock(db: &DatabaseConnection) -> Result<(), DbErr> {
    let patience = "SELECT setting::BIGINT AS ms FROM pg_settings WHERE name = 'lock_timeout'";
    let patience = rows(db, patience.to_owned()).await?;
    let patience: i64 = patience
        .first()
        .map_or(Ok(0), |row| row.try_get("", "ms"))?;
    let patience = Duration::from_millis(u64::try_from(patience).unwrap_or(0));
    let began = Instant::now();
    loop {
        let tried = rows(db, POSTGRES_TRY_LOCK.to_owned()).await?;
        if tried
            .first()
            .map_or(Ok(false), |row| row.try_get("", "locked"))?
        {
            return Ok(());
        }
        if !patience.is_zero() && began.elapsed() >= patience {
            return Err(DbErr::Custom(OTHER_CHANGES.to_owned()));
        }
        db.execute_unprepared(POSTGRES_PAUSE).await?;
    }
}

/// The next action.
#[derive(Clone, Copy)]
enum Next {
    /// This many steps in one transaction.
    Together { steps: u32, is_breaking: bool },
    /// One step outside of any transaction.
    Alone,
}

impl Next {
    fn of(pending: &[Step], is_new: bool, backend: DbBackend) -> Option<Self> {
        let first = pending.first()?;
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let is_alone = |step: &Step| {
            backend == DbBackend::Postgres && step.migration().use_transaction() == Some(false)
        };
        if is_new {
            // An empty database: no node serves it.
            return Some(Self::Together {
                steps: count(pending.len()),
                is_breaking: false,
            });
        }
        if is_alone(first) {
            return Some(Self::Alone);
        }
        let is_breaking = first.is_breaking();
        let alike = |step: &&Step| !is_alone(step) && step.is_breaking() == is_breaking;
        Some(Self::Together {
            steps: count(pending.iter().take_while(alike).count()),
            is_breaking,
        })
    }
}

async fn go_on(db: &DatabaseConnection) -> Result<(), DbErr> {
    let backend = db.get_database_backend();
    loop {
        let applied = applied_steps(db).await?;
        let mut pending = steps();
        pending.retain(|step| !applied.contains(step.migration().name()));
        let Some(next) = Next::of(&pending, applied.is_empty(), backend) else {
            return Ok(());
        };
        match next {
            Next::Alone => Migrator::up(db, Some(1)).await?,
            Next::Together { steps, is_breaking } => {
                if is_breaking {
                    nobody_serves(db, &pending).await?;
                }
                together(db, steps, applied.len()).await?;
            }
        }
    }
}

/// Applies this many steps after the first `made`. Does nothing if another process applied one meanwhile.
async fn together(db: &DatabaseConnection, steps: u32, made: usize) -> Result<(), DbErr> {
    let is_sqlite = db.get_database_backend() == DbBackend::Sqlite;
    let options = TransactionOptions {
        // Locks from the first statement on, so a second process waits instead of failing.
        sqlite_transaction_mode: is_sqlite.then_some(SqliteTransactionMode::Immediate),
        ..TransactionOptions::default()
    };
    let txn = db.begin_with_options(options).await?;
    if is_sqlite {
        may_migrate(&txn).await?;
    } else {
        txn.execute_unprepared(POSTGRES_PATIENCE).await?;
    }
    if applied_steps(&txn).await?.len() != made {
        return txn.rollback().await;
    }
    let changed = Migrator::up(&txn, Some(steps)).await;
    changed.map_err(in_words)?;
    record_compatibility(&txn).await?;
    txn.commit().await
}

/// The last breaking step is the oldest step that a program must know.
async fn record_compatibility(txn: &DatabaseTransaction) -> Result<(), DbErr> {
    let applied = applied_steps(txn).await?;
    let breaking = steps()
        .into_iter()
        .filter(|step| step.is_breaking() && applied.contains(step.migration().name()));
    let from = breaking.map(|step| step.number()).max().unwrap_or(0);
    let record =
        format!("UPDATE {COMPATIBILITY} SET serves_from = {from} WHERE serves_from < {from}");
    txn.execute_unprepared(&record).await.map(drop)
}

/// Fails if nodes live, and names them.
async fn nobody_serves(db: &DatabaseConnection, pending: &[Step]) -> Result<(), DbErr> {
    let now = match db.get_database_backend() {
        DbBackend::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        _ => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
    };
    let living =
        format!("SELECT name, version, address FROM nodes WHERE lease_until > {now} ORDER BY id");
    let living = rows(db, living).await?;
    if living.is_empty() {
        return Ok(());
    }
    let mut named = Vec::new();
    for row in living.iter().take(NAMED_MAX) {
        let read = |column| row.try_get::<String>("", column);
        let (name, version, address) = (read("name")?, read("version")?, read("address")?);
        named.push(format!("{name} (version {version}, {address})"));
    }
    if living.len() > NAMED_MAX {
        named.push(format!("{} more", living.len() - NAMED_MAX));
    }
    let step = pending.first().map_or("", |step| step.migration().name());
    Err(DbErr::Custom(format!(
        "the step {step:?} of the schema cannot be made while nodes of an earlier version serve the database: {}; stop them and try \
         again (a node that was killed counts for 15 s more)",
        named.join(", ")
    )))
}

/// A step that waits for a table blocks all later statements on it. That must not last as long as a dump.
fn in_words(error: DbErr) -> DbErr {
    let is_in_use = match &error {
        DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error)) => {
            let error = error.as_database_error();
            error.is_some_and(|error| error.code().as_deref() == Some("55P03"))
        }
        _ => false,
    };
    if is_in_use {
        return DbErr::Custom(TABLE_IN_USE.to_owned());
    }
    error
}

/// Checks that [`migrate`] may touch the database: it leaves an SQLite file with another program's tables alone.
///
/// Errors: a sentence that names the table.
pub async fn may_migrate(db: &impl ConnectionTrait) -> Result<(), DbErr> {
    let is_sqlite = db.get_database_backend() == DbBackend::Sqlite;
    if !is_sqlite || !applied_steps(db).await?.is_empty() {
        return Ok(());
    }
    let foreign = format!(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> '{RECORD}' LIMIT 1"
    );
    let Some(row) = rows(db, foreign).await?.pop() else {
        return Ok(());
    };
    let table: String = row.try_get("", "name")?;
    Err(DbErr::Custom(format!(
        "the database has a table {table:?} that no recorded step of dikala made; restore a backup, or name an empty database in \
         database.url"
    )))
}
