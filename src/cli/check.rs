//! `dikala check`: tests whether the service would start here.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
};

use dikala_actors::{
    outbound::{Guard, Outbound},
    runtime::clock::{Clock, SystemClock},
};
use dikala_entities::{Millis, Store, StoreError, store::in_words};
use dikala_migration::{SchemaState, may_migrate as may_migrate_this, schema_state};
use dikala_telephony::{settings::TextModelSettings, trust::Trust, voice::pipeline::TextModel};
use sea_orm::{ConnectionTrait, DbBackend, Statement};
use serde::Serialize;
use serde_json::json;

use super::{CliError, output};
use crate::{
    app::{KeyTrial, ServiceStartError, enough_files, if_in_use, prove, vault},
    config::{ConfigError, Layers, Settings},
    front::{open_files_max, raise_open_files},
    operations::functions::unusable,
    overview::{DiskSpace, room_at},
    telephony, whatsapp,
};

/// A larger difference from the database's clock is reported.
const CLOCK_SKEW_MS_MAX: i64 = 5_000;
/// 2026-01-01, before this program existed.
const EARLIEST: Millis = Millis::from_i64(1_767_225_600_000);

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    detail: String,
}

fn check(name: &'static str, outcome: Result<String, String>) -> Check {
    let ok = outcome.is_ok();
    Check {
        name,
        ok,
        detail: outcome.unwrap_or_else(|fault| fault),
    }
}

/// Runs and prints all checks; fails if one of them failed.
pub async fn run(layers: Result<Layers, ConfigError>, as_json: bool) -> Result<(), CliError> {
    let checks = match layers.and_then(|layers| Settings::new(&layers)) {
        Ok(settings) => look(&settings).await,
        Err(error) => error
            .to_string()
            .lines()
            .map(|fault| check("configuration", Err(fault.to_owned())))
            .collect(),
    };
    if as_json {
        output::text(&json!({"checks": checks}).to_string())?;
    } else {
        for check in &checks {
            output::text(&format!(
                "{} {:<14} {}",
                if check.ok { "✓" } else { "✗" },
                check.name,
                check.detail
            ))?;
        }
    }
    if checks.iter().all(|check| check.ok) {
        Ok(())
    } else {
        Err(CliError::Shown)
    }
}

async fn look(settings: &Settings) -> Vec<Check> {
    let known = "every key is known and in range";
    let mut checks = vec![check("configuration", Ok(known.to_owned()))];
    let store = match Store::missing_file(&settings.database.url) {
        // A check must not create the file.
        Some(path) => {
            let can = Store::could_make(&path);
            let found = can.map(|()| format!("none yet at {path:?}; serve and migrate make it"));
            checks.push(check("store", found.map_err(|error| error.to_string())));
            checks.push(check("schema", not_there(settings.database.migrate)));
            None
        }
        None => {
            let store = Store::connect(&settings.database.url).await;
            checks.extend(look_at(&store, settings).await);
            store.ok()
        }
    };
    checks.push(check(
        "ports",
        ports(settings.http.listen, settings.operator.listen),
    ));
    if let Some(bridge) = settings.telephony() {
        let found = telephony::checks(&bridge, settings.has_stand_in()).await;
        checks.extend(found.into_iter().map(|(name, found)| check(name, found)));
        for trunk in settings.whatsapp() {
            let extra_ca = bridge.extra_ca_file.as_deref();
            let found = whatsapp::check(&trunk, &bridge.sip, extra_ca).await;
            checks.push(check("whatsapp", found));
        }
    }
    let pipeline = settings
        .telephony()
        .and_then(|bridge| bridge.voice.pipeline);
    // A whole pipeline is checked with the voices.
    if let Some(model) = settings.text_model().filter(|_| pipeline.is_none()) {
        checks.push(check("chats", chats(&model, settings).await));
    }
    checks.push(check("files", files()));
    checks.push(check("outbound", outbound(settings)));
    checks.push(check("secrets", secrets(settings, store.as_ref()).await));
    checks.push(check("clock", clock(store.as_ref()).await));
    if let Some(store) = &store {
        checks.extend(functions(store).await);
    }
    checks
}

/// Checks the language model of chats.
async fn chats(model: &TextModelSettings, settings: &Settings) -> Result<String, String> {
    let trust = Trust::new(settings.extra_ca_file()).map_err(|error| error.to_string())?;
    TextModel::new(model, &trust).check().await
}

/// Checks the limit of open files.
fn files() -> Result<String, String> {
    raise_open_files();
    let most = open_files_max();
    enough_files(most).map_err(|error| error.to_string())?;
    let most = most.map_or("any number of".to_owned(), |most| most.to_string());
    Ok(format!("{most} files may be open"))
}

/// Checks the outbound connections to tenants' servers.
fn outbound(settings: &Settings) -> Result<String, String> {
    let guard = Guard {
        allow_cidrs: settings.allowed_cidrs(),
        allow_hosts: settings.allowed_hosts(),
        allow_http: settings.url_policy().allow_http,
        own_ports: Vec::new(),
    };
    let extra = settings.extra_ca_file();
    Outbound::new(guard, extra).map_err(|error| error.to_string())?;
    Ok(match extra {
        Some(path) => {
            format!("the usual certificate authorities and those of {path:?} are trusted")
        }
        None => "the usual certificate authorities are trusted".to_owned(),
    })
}

fn not_there(may_migrate: bool) -> Result<String, String> {
    if may_migrate {
        Ok("not there yet; serve will make it".to_owned())
    } else {
        Err("not there yet; run `dikala migrate`".to_owned())
    }
}

async fn look_at(store: &Result<Store, StoreError>, settings: &Settings) -> Vec<Check> {
    match store {
        Ok(store) => {
            let kind = match store.backend() {
                DbBackend::Postgres => "PostgreSQL",
                _ => "SQLite",
            };
            let ping = store.ping().await.map_err(|error| in_words(&error));
            let free = Store::is_free(&settings.database.url).map_err(|error| error.to_string());
            let answers = ping.and(free).and(has_space(&settings.database.url));
            let answers = answers.map(|()| format!("{kind} answers"));
            vec![
                check("store", answers),
                check(
                    "durability",
                    durability(store, settings.database.allow_unsafe).await,
                ),
                check("schema", schema(store, settings.database.migrate).await),
            ]
        }
        Err(error) => {
            let unknown = "unknown while the store does not answer";
            vec![
                check("store", Err(error.to_string())),
                check("durability", Err(unknown.to_owned())),
                check("schema", Err(unknown.to_owned())),
            ]
        }
    }
}

/// Checks that the disk of an SQLite database takes a write.
fn has_space(url: &str) -> Result<(), String> {
    let Some(file) = Store::sqlite_file(url) else {
        return Ok(());
    };
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    match room_at(folder.unwrap_or(Path::new("."))) {
        Some(DiskSpace { free_mib: 0 }) => Err(format!(
            "the disk of {} is full; free some space, 1 MiB at least",
            file.display()
        )),
        _ => Ok(()),
    }
}

/// Checks that the database keeps acknowledged commits.
async fn durability(store: &Store, allow_unsafe: bool) -> Result<String, String> {
    let settings = store.unsafe_settings().await;
    let settings = settings.map_err(|error| in_words(&error))?;
    if settings.is_empty() {
        return Ok("what is committed survives a crash".to_owned());
    }
    if allow_unsafe {
        return Ok(format!(
            "database.allow_unsafe: a crash loses what was acknowledged ({settings})"
        ));
    }
    Err(ServiceStartError::Unsafe(settings).to_string())
}

/// Checks that `secrets.key` is a key and opens the stored secrets.
async fn secrets(settings: &Settings, store: Option<&Store>) -> Result<String, String> {
    let vault = vault(settings).await.map_err(|error| error.to_string())?;
    let Some(store) = store else {
        return Ok("secrets.key is a key".to_owned());
    };
    match prove(store, &vault).await {
        Ok(KeyTrial { sealed, .. }) if sealed.is_empty() => {
            Ok("secrets.key is a key and opens what is stored".to_owned())
        }
        Ok(KeyTrial {
            is_the_key: false, ..
        }) => Err(ServiceStartError::WrongKey.to_string()),
        Ok(KeyTrial { sealed, .. }) => Err(format!(
            "secrets.key does not open the secrets of {}; they were made with another key: make new ones (`dikala function-secret \
             rotate --tenant ID` for a tenant, a new secret for a webhook)",
            sealed.join(", ")
        )),
        // The schema is missing, which another check reports.
        Err(_) => Ok("secrets.key is a key".to_owned()),
    }
}

async fn schema(store: &Store, may_migrate: bool) -> Result<String, String> {
    let told = |error: StoreError| error.to_string();
    store.may_use_tables().await.map_err(told)?;
    let behind = |steps| format!("{} behind", output::count(steps as u64, "step"));
    match schema_state(store.reader()).await {
        Ok(SchemaState::Current) => Ok("up to date".to_owned()),
        Ok(SchemaState::Ahead(step)) => Ok(format!(
            "of a later version, with the step {step}; this version serves from it"
        )),
        Ok(SchemaState::Behind(steps)) if may_migrate => {
            store.may_make_tables().await.map_err(told)?;
            let looked = may_migrate_this(store.reader()).await;
            looked.map_err(|error| in_words(&error))?;
            Ok(format!("{}; serve will migrate", behind(steps)))
        }
        Ok(SchemaState::Behind(steps)) => Err(format!("{}; run `dikala migrate`", behind(steps))),
        Ok(SchemaState::Newer(step)) => Err(format!(
            "has the step {step}, which this version does not know; install the newer version"
        )),
        Ok(SchemaState::Unreleased) => Err(ServiceStartError::UnreleasedSchema.to_string()),
        Err(error) => Err(in_words(&error)),
    }
}

/// Both listeners are bound at once, so that equal ports are noticed.
fn ports(public: SocketAddr, operators: SocketAddr) -> Result<String, String> {
    let _public = listen(public, "http.listen")?;
    let _operators = listen(operators, "operator.listen")?;
    Ok(format!("{public} is free, {operators} is free"))
}

fn listen(address: SocketAddr, key: &str) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| {
        let why = if_in_use(
            &error,
            "; if dikala is running already, or another setting names it, that is why",
        );
        format!("{key}: {address} cannot be listened on ({error}){why}")
    })
}

/// Warns only if there are such functions. The tenants must mend them; the service runs without.
async fn functions(store: &Store) -> Option<Check> {
    const NAMED_MAX: usize = 10;
    let unusable = unusable(store).await.ok()?;
    let named: Vec<String> = unusable
        .iter()
        .take(NAMED_MAX)
        .map(ToString::to_string)
        .collect();
    let told = format!(
        "of {}, the parameters are not taken any more, and calls are answered with invalid_arguments: {}{}",
        output::count(unusable.len() as u64, "function"),
        named.join(", "),
        if unusable.len() > NAMED_MAX {
            ", …"
        } else {
            ""
        },
    );
    (!unusable.is_empty()).then(|| check("functions", Ok(told)))
}

async fn clock(store: Option<&Store>) -> Result<String, String> {
    let now = SystemClock.now();
    if now < EARLIEST {
        return Err(format!("the clock says {now}; set it"));
    }
    let Some(store) = store.filter(|store| store.backend() == DbBackend::Postgres) else {
        return Ok(now.to_string());
    };
    let sql = "SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::BIGINT AS now";
    let row = store
        .reader()
        .query_one_raw(Statement::from_string(store.backend(), sql))
        .await;
    let theirs: i64 = row
        .ok()
        .flatten()
        .and_then(|row| row.try_get("", "now").ok())
        .unwrap_or_else(|| now.as_i64());
    let skew = now.as_i64() - theirs;
    if skew.abs() > CLOCK_SKEW_MS_MAX {
        Err(format!(
            "differs from the database's by {skew} ms; synchronise both"
        ))
    } else {
        Ok(format!("{now}, {skew} ms from the database's"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told() {
        // A file system of the kernel, which has no free space.
        let full = has_space("sqlite:///proc/dikala.db").expect_err("is full");
        assert!(
            full.contains("the disk of /proc/dikala.db is full"),
            "{full}"
        );
        for url in ["sqlite://dikala.db", "postgres://u@h/d"] {
            assert_eq!(has_space(url), Ok(()), "{url}");
        }
    }
}
