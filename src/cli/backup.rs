//! `dikala backup` copies an SQLite database while a server uses it; `dikala restore` puts a copy back.
//!
//! Each copy is written and verified under a temporary name, so a file with its final name is always complete.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use dikala_actors::runtime::clock::{Clock, SystemClock};
use dikala_entities::{Store, StoreError, Vault};
use dikala_migration::{SchemaState, schema_state};
use indicatif::{ProgressBar, ProgressStyle};
use sea_orm::{
    ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DbBackend, DbErr, Statement,
};
use serde_json::json;

use super::{CliError, note::note, output};
use crate::{
    app::{ServiceStartError, holds_secrets, prove as prove_secrets},
    config::Settings,
};

/// Interval between updates of the progress bar.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
/// Number of faults of a file that an error names.
const FAULTS_NAMED: usize = 3;
/// Age of an unfinished copy that nobody goes on with.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);
/// Follows the name of a copy, before the process that makes it.
const UNFINISHED: &str = ".unfinished-";

#[derive(Debug, Args)]
pub struct Backup {
    /// Where the copy goes; it must not be there yet.
    file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Restore {
    /// A copy that `dikala backup` made.
    file: PathBuf,
}

/// `dikala backup FILE`
pub async fn backup(options: Backup, settings: &Settings, as_json: bool) -> Result<(), CliError> {
    let target = options.file;
    let url = &settings.database.url;
    let Some(source) = Store::sqlite_file(url) else {
        return Err(CliError::Refused(format!(
            "the database is PostgreSQL, which has its own tools; make a copy with: pg_dump --format=custom --file={} \
             \"$DIKALA_DATABASE__URL\"",
            target.display()
        )));
    };
    if !source.exists() {
        return Err(ServiceStartError::NoDatabase(source).into());
    }
    refuse_existing(&target)?;
    remove_abandoned(&target);
    // The temporary name holds the process id: another process may be copying to the same target.
    let unfinished = beside(&target, &format!("{UNFINISHED}{}", std::process::id()));
    let copied = copy_out(&source, &unfinished).await;
    let copied = match copied {
        Ok(()) => publish(&unfinished, &target),
        Err(error) => Err(error),
    };
    // After `publish` this is a second link to the copy; after a failure it is useless.
    remove_unfinished(&unfinished);
    copied?;
    let bytes = size(&target)?;
    if as_json {
        return output::text(&json!({"file": target, "bytes": bytes}).to_string());
    }
    output::text(&format!(
        "{} is a verified copy of {} ({bytes} bytes). Keep secrets.key too, in another place: the copy does not open without it.",
        target.display(),
        source.display()
    ))
}

/// Removes an unfinished copy with its journal.
fn remove_unfinished(unfinished: &Path) {
    let _ = fs::remove_file(beside(unfinished, "-journal"));
    let _ = fs::remove_file(unfinished);
}

/// Removes unfinished copies for this target whose process is gone. Processes of other machines or containers are not seen, so
/// the copies must not have grown for an hour.
fn remove_abandoned(target: &Path) {
    let (Some(folder), Some(name)) = (target.parent(), target.file_name()) else {
        return;
    };
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let begin = format!("{}{UNFINISHED}", name.to_string_lossy());
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = file.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(&begin));
        let process = process.and_then(|process| process.parse::<u32>().ok());
        let is_gone =
            process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists());
        let changed = file.metadata().and_then(|about| about.modified()).ok();
        let age = changed.and_then(|changed| changed.elapsed().ok());
        if is_gone && age.is_some_and(|age| age >= ABANDONED_AFTER) {
            remove_unfinished(&file.path());
        }
    }
}

async fn copy_out(source: &Path, unfinished: &Path) -> Result<(), CliError> {
    private_file(unfinished)?;
    let db = open(source, "rw").await?;
    let copy = Statement::from_sql_and_values(
        DbBackend::Sqlite,
        "VACUUM INTO ?1",
        [unfinished.display().to_string().into()],
    );
    let whole = size(source)?;
    let copied = watched(whole, unfinished, db.execute_raw(copy)).await;
    close(db).await;
    copied.map_err(|error| failed(unfinished, &error))?;
    let copy = open(unfinished, "ro").await?;
    let proved = prove(&copy, unfinished).await;
    close(copy).await;
    proved?;
    sync(unfinished)
}

/// `dikala restore FILE`
pub async fn restore(options: Restore, settings: &Settings, as_json: bool) -> Result<(), CliError> {
    let source = options.file;
    let url = &settings.database.url;
    let Some(target) = Store::sqlite_file(url) else {
        return Err(CliError::Refused(format!(
            "the database is PostgreSQL, which has its own tools; stop the server and bring a copy back with: pg_restore --clean \
             --if-exists --no-owner --dbname=\"$DIKALA_DATABASE__URL\" {}",
            source.display()
        )));
    };
    if source.is_dir() {
        return Err(CliError::NotFound(format!(
            "{} is a folder; give a file that `dikala backup` made",
            source.display()
        )));
    }
    if !source.is_file() {
        return Err(CliError::NotFound(format!(
            "there is no file {}; give one that `dikala backup` made",
            source.display()
        )));
    }
    if same_file(&source, &target) {
        return Err(CliError::Refused(format!(
            "{} is the database itself; give a copy of it",
            source.display()
        )));
    }
    let vault = settings.has_key().then(|| settings.vault()).transpose()?;
    let there = target.exists();
    let reserved = Store::reserve(url).map_err(|error| match error {
        StoreError::Served { .. } => CliError::Refused(error.to_string()),
        other => CliError::Failed(other.to_string()),
    })?;
    // By symbolic links to the file itself, which the reservation has made.
    let target = Store::real_sqlite_file(url).unwrap_or(target);
    let unfinished = beside(&target, ".restoring");
    let prepared = prepare(&source, &unfinished, vault.as_ref()).await;
    let replaced = match prepared {
        Ok(()) => replace(&target, &unfinished, there).await,
        Err(error) => Err(error),
    };
    if replaced.is_err() {
        let _ = fs::remove_file(&unfinished);
        if !there {
            // `replace` left this file: the reservation created it, and it is empty.
            let _ = fs::remove_file(&target);
        }
    }
    let replaced = replaced?;
    drop(reserved);
    let bytes = size(&target)?;
    if let Some(kept) = &replaced {
        note(format_args!(
            "what was there before is kept as {}",
            kept.display()
        ));
    }
    if as_json {
        return output::text(&json!({"file": target, "bytes": bytes}).to_string());
    }
    output::text(&format!(
        "{} is now what {} holds ({bytes} bytes)",
        target.display(),
        source.display()
    ))
}

/// Copies a backup into the database's folder, then verifies the copy, because the copy is what will be served.
async fn prepare(source: &Path, unfinished: &Path, vault: Option<&Vault>) -> Result<(), CliError> {
    remove_with_log(unfinished).map_err(|error| io_failed(unfinished, &error))?;
    let mut to = private_file(unfinished)?;
    let whole = size(source)?;
    let (from, path) = (source.to_owned(), source.to_owned());
    let copying = tokio::task::spawn_blocking(move || -> io::Result<u64> {
        io::copy(&mut File::open(&from)?, &mut to)
    });
    let copied = watched(whole, unfinished, copying).await;
    let copied = copied.map_err(|error| CliError::Failed(error.to_string()))?;
    copied.map_err(|error| io_failed(&path, &error))?;
    let copy = open(unfinished, "ro")
        .await
        .map_err(|_| unusable(source, "it is no SQLite database"))?;
    let proved = prove(&copy, source).await;
    close(copy).await;
    proved?;
    prove_key(unfinished, source, vault).await?;
    sync(unfinished)
}

/// Fails if the copy holds secrets that the configured key cannot open: no server would start on it.
async fn prove_key(copy: &Path, source: &Path, vault: Option<&Vault>) -> Result<(), CliError> {
    let store = Store::connect(&format!("sqlite://{}", copy.display()))
        .await
        .map_err(ServiceStartError::from)?;
    let fault = match vault {
        Some(vault) => prove_secrets(&store, vault)
            .await
            .map(|proof| (!proof.is_the_key).then_some(ServiceStartError::WrongKey)),
        None => holds_secrets(&store)
            .await
            .map(|any| any.then_some(ServiceStartError::MissingKey)),
    };
    store.close().await;
    remove_log(copy).map_err(|error| io_failed(copy, &error))?;
    match fault {
        Ok(None) => Ok(()),
        Ok(Some(fault)) => Err(fault.into()),
        Err(error) => Err(unusable(source, &error.to_string())),
    }
}

/// Renames the old database, puts the new file in its place, and returns the old one's new name.
async fn replace(
    target: &Path,
    unfinished: &Path,
    there: bool,
) -> Result<Option<PathBuf>, CliError> {
    let kept = there.then(|| {
        let moment: String = SystemClock
            .now()
            .to_string()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        beside(target, &format!(".before-restore-{moment}"))
    });
    if kept.is_some() {
        // Moves the old database's write-ahead log into its file. A broken file is kept as it is, with its log.
        if let Ok(old) = open(target, "rw").await {
            let _ = old
                .execute_unprepared("PRAGMA wal_checkpoint(TRUNCATE)")
                .await;
            close(old).await;
        }
    }
    let moved = || -> io::Result<()> {
        // SQLite would take an old log that is left beside the new file for that file's own log.
        for log in ["-wal", "-shm"] {
            let from = beside(target, log);
            if from.exists() {
                match &kept {
                    Some(kept) => fs::rename(&from, beside(kept, log))?,
                    None => fs::remove_file(&from)?,
                }
            }
        }
        if let Some(kept) = &kept {
            fs::hard_link(target, kept).or_else(|_| fs::rename(target, kept))?;
        }
        fs::rename(unfinished, target)?;
        sync_folder(target)
    };
    moved().map_err(|error| io_failed(target, &error))?;
    Ok(kept)
}

/// Fails unless the file is an intact database of this program.
async fn prove(db: &DatabaseConnection, shown: &Path) -> Result<(), CliError> {
    let check = Statement::from_string(DbBackend::Sqlite, "PRAGMA integrity_check");
    let rows = db
        .query_all_raw(check)
        .await
        .map_err(|error| unusable(shown, &error.to_string()))?;
    let faults: Vec<String> = rows
        .iter()
        .filter_map(|row| row.try_get_by_index::<String>(0).ok())
        .filter(|found| found != "ok")
        // One row may have many lines.
        .flat_map(|found| found.lines().map(str::to_owned).collect::<Vec<_>>())
        .take(FAULTS_NAMED)
        .collect();
    if !faults.is_empty() || rows.is_empty() {
        return Err(unusable(shown, &faults.join("; ")));
    }
    match schema_state(db).await {
        Ok(SchemaState::Newer(step)) => Err(CliError::Refused(
            ServiceStartError::NewerSchema(step).to_string(),
        )),
        Ok(SchemaState::Unreleased) => Err(CliError::Refused(
            ServiceStartError::UnreleasedSchema.to_string(),
        )),
        Ok(SchemaState::Behind(_)) if !is_ours(db).await => {
            Err(unusable(shown, "it has no tables of dikala"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(unusable(shown, &error.to_string())),
    }
}

async fn is_ours(db: &DatabaseConnection) -> bool {
    let steps = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT version FROM seaql_migrations LIMIT 1",
    );
    matches!(db.query_one_raw(steps).await, Ok(Some(_)))
}

async fn open(path: &Path, mode: &str) -> Result<DatabaseConnection, CliError> {
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode={mode}", path.display()));
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options)
        .await
        .map_err(|error| failed(path, &error))
}

async fn close(db: DatabaseConnection) {
    if let Err(error) = db.close().await {
        tracing::debug!(%error, "closing a database");
    }
}

/// Shows on a terminal how much of the growing file is written.
async fn watched<T>(whole: u64, growing: &Path, work: impl Future<Output = T>) -> T {
    let bar = ProgressBar::new(whole);
    let style = ProgressStyle::with_template("{bar:40} {bytes} of {total_bytes}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => {
                bar.finish_and_clear();
                return done;
            }
            () = tokio::time::sleep(SHOWN_EVERY) => {
                let bytes = fs::metadata(growing).map_or(0, |file| file.len());
                bar.set_position(bytes.min(whole));
            }
        }
    }
}

fn refuse_existing(target: &Path) -> Result<(), CliError> {
    if fs::symlink_metadata(target).is_ok() {
        return Err(CliError::Refused(format!(
            "{} is there already; give another name",
            target.display()
        )));
    }
    Ok(())
}

/// Gives the finished copy its final name, unless a file with that name has appeared meanwhile.
fn publish(unfinished: &Path, target: &Path) -> Result<(), CliError> {
    match fs::hard_link(unfinished, target) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            return refuse_existing(target);
        }
        // The file system has no hard links.
        Err(_) => fs::rename(unfinished, target).map_err(|error| io_failed(target, &error))?,
    }
    sync_folder(target).map_err(|error| io_failed(target, &error))
}

/// Creates an empty file that only its owner may read, replacing one that an earlier run left.
fn private_file(path: &Path) -> Result<File, CliError> {
    let make = || -> io::Result<File> {
        if fs::symlink_metadata(path).is_ok() {
            fs::remove_file(path)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(path)
    };
    make().map_err(|error| io_failed(path, &error))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn remove_log(path: &Path) -> io::Result<()> {
    for suffix in ["-wal", "-shm"] {
        remove_if_there(&beside(path, suffix))?;
    }
    Ok(())
}

fn remove_with_log(path: &Path) -> io::Result<()> {
    remove_log(path)?;
    remove_if_there(path)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::canonicalize(one), fs::canonicalize(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

fn size(path: &Path) -> Result<u64, CliError> {
    let file = fs::metadata(path).map_err(|error| io_failed(path, &error))?;
    Ok(file.len())
}

fn sync(path: &Path) -> Result<(), CliError> {
    let synced = File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|error| io_failed(path, &error))
}

fn sync_folder(of: &Path) -> io::Result<()> {
    let folder = of.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn failed(path: &Path, error: &DbErr) -> CliError {
    CliError::Failed(format!(
        "{}: {error}; see that there is room and that this user may read and write there",
        path.display()
    ))
}

fn io_failed(path: &Path, error: &io::Error) -> CliError {
    CliError::Failed(format!(
        "{}: {error}; see that there is room and that this user may read and write there",
        path.display()
    ))
}

fn unusable(path: &Path, why: &str) -> CliError {
    CliError::Refused(format!(
        "{} is no whole database of dikala ({why}); give a file that `dikala backup` made",
        path.display()
    ))
}
