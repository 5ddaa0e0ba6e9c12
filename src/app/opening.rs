//! Opens the store: checks its durability and schema, and that `secrets.key` opens the stored secrets. A secret that
//! is written with a wrong key would be lost for good.

use dikala_entities::{SecretPlace, Store, Vault, tenant, webhook};
use dikala_migration::{SchemaState, migrate, schema_state};
use sea_orm::{DbErr, EntityTrait, QueryOrder, QuerySelect};

use super::ServiceStartError;
use crate::config::Settings;

/// The key is tried on this many of the oldest, and of the newest, tenants and webhooks.
const TRIED: u64 = 25;

/// Result of trying the key on stored secrets.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyTrial {
    /// The owners of secrets that do not open, such as `tenant ten_…`.
    pub sealed: Vec<String>,
    /// True if this can be the key that sealed the others.
    pub is_the_key: bool,
}

/// Connects, migrates or checks the schema, and tries the configured key on stored secrets.
pub async fn open_store(
    settings: &Settings,
    may_migrate: bool,
) -> Result<Store, ServiceStartError> {
    if let Some(path) = Store::missing_file(&settings.database.url).filter(|_| !may_migrate) {
        return Err(ServiceStartError::NoDatabase(path));
    }
    let store = Store::connect(&settings.database.url).await?;
    let unsafe_settings = store.unsafe_settings().await?;
    if !settings.database.allow_unsafe {
        if !unsafe_settings.is_empty() {
            return Err(ServiceStartError::Unsafe(unsafe_settings));
        }
        store.refuse_unsafe_sessions();
    }
    store.may_use_tables().await?;
    match schema_state(store.reader()).await? {
        SchemaState::Current => {}
        SchemaState::Ahead(step) => {
            tracing::info!(
                step,
                "the schema is of a newer version; this version can serve from it"
            );
        }
        SchemaState::Newer(step) => return Err(ServiceStartError::NewerSchema(step)),
        SchemaState::Unreleased => return Err(ServiceStartError::UnreleasedSchema),
        SchemaState::Behind(steps) if may_migrate => {
            tracing::info!(steps, "bringing the schema up to date");
            store.may_make_tables().await?;
            let schema = store.for_schema().await?;
            migrate(&schema).await?;
            schema.close().await?;
        }
        SchemaState::Behind(steps) => return Err(ServiceStartError::OldSchema(steps)),
    }
    if settings.has_key() {
        let proof = prove(&store, &settings.vault()?).await?;
        if !proof.is_the_key {
            return Err(ServiceStartError::WrongKey);
        }
        if !proof.sealed.is_empty() {
            tracing::warn!(sealed = ?proof.sealed, "some secrets do not open with secrets.key");
        }
    }
    Ok(store)
}

/// The vault of the configuration. Fails if its key is missing although the store holds secrets.
pub async fn vault(settings: &Settings) -> Result<Vault, ServiceStartError> {
    let exists = Store::missing_file(&settings.database.url).is_none();
    if !settings.has_key() && exists {
        let store = Store::connect(&settings.database.url).await?;
        let any = holds_secrets(&store).await;
        store.close().await;
        // An error means that there are no tables yet.
        if matches!(any, Ok(true)) {
            return Err(ServiceStartError::MissingKey);
        }
    }
    Ok(settings.vault()?)
}

/// True if the store holds a secret: every tenant has one.
pub async fn holds_secrets(store: &Store) -> Result<bool, DbErr> {
    let any = tenant::Entity::find()
        .select_only()
        .column(tenant::Column::Id)
        .limit(1)
        .into_tuple::<String>()
        .one(store.reader())
        .await?;
    Ok(any.is_some())
}

/// Tries the key on secrets of several tenants and webhooks.
pub async fn prove(store: &Store, vault: &Vault) -> Result<KeyTrial, DbErr> {
    let db = store.reader();
    let tenants = || tenant::Entity::find().limit(TRIED);
    let mut tried = Vec::new();
    let oldest = tenants().order_by_asc(tenant::Column::Id).all(db).await?;
    let newest = tenants().order_by_desc(tenant::Column::Id).all(db).await?;
    for tenant in oldest.into_iter().chain(newest) {
        let opens = vault
            .open(
                SecretPlace::FunctionSecret,
                tenant.id,
                &tenant.function_secret,
            )
            .is_ok();
        tried.push((format!("tenant {}", tenant.id), opens));
    }
    let webhooks = || webhook::Entity::find().limit(TRIED);
    let oldest = webhooks().order_by_asc(webhook::Column::Id).all(db).await?;
    let newest = webhooks()
        .order_by_desc(webhook::Column::Id)
        .all(db)
        .await?;
    for webhook in oldest.into_iter().chain(newest) {
        let secrets = [
            (SecretPlace::WebhookSecret, Some(webhook.secret)),
            (SecretPlace::PreviousWebhookSecret, webhook.previous_secret),
        ];
        for (place, sealed) in secrets {
            let opens = sealed.is_none_or(|sealed| vault.open(place, webhook.id, &sealed).is_ok());
            tried.push((format!("webhook {}", webhook.id), opens));
        }
    }
    Ok(judge(tried))
}

/// A key that was set by mistake may have sealed a few secrets before anybody noticed. So the key must open more than
/// half of them, or half with the oldest among them.
fn judge(tried: Vec<(String, bool)>) -> KeyTrial {
    let opened = tried.iter().filter(|(_, opens)| *opens).count();
    let is_the_key = match tried.first() {
        None => true,
        Some((_, oldest)) => opened * 2 > tried.len() || (opened * 2 == tried.len() && *oldest),
    };
    let mut sealed: Vec<String> = tried
        .into_iter()
        .filter(|(_, opens)| !opens)
        .map(|(whose, _)| whose)
        .collect();
    sealed.sort_unstable();
    sealed.dedup();
    KeyTrial { sealed, is_the_key }
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectionTrait, Statement};

    use super::*;

    #[test]
    fn the_key_is_the_one_that_opens_most() {
        for (tried, is_the_key) in [
            (&[][..], true),
            (&[true], true),
            (&[false], false),
            (&[true, false], true),
            (&[false, true], false),
            (&[false, true, true], true),
            (&[true, false, false], false),
        ] {
            let named = |opens: &bool| ("tenant ten_1".to_owned(), *opens);
            let proof = judge(tried.iter().map(named).collect());
            assert_eq!(proof.is_the_key, is_the_key, "{tried:?}");
            let any_sealed = tried.iter().any(|opens| !opens);
            assert_eq!(proof.sealed.len(), usize::from(any_sealed), "{tried:?}");
        }
    }

    /// The database ends a session that hangs during a migration, and a session that waits for one fails with a clear
    /// error.
    #[actix_web::test]
    async fn who_changes_the_schema_keeps_nobody_out_for_ever() {
        let Some((_keep, store)) = dikala_testkit::postgres().await else {
            return;
        };
        let schema = store.for_schema().await.expect("a connection");
        for (setting, value) in [
            ("idle_in_transaction_session_timeout", "1min"),
            ("lock_timeout", "5min"),
        ] {
            let show = Statement::from_string(store.backend(), format!("SHOW {setting}"));
            let row = schema.query_one_raw(show).await.expect("shows");
            let shown: String = row.expect("a row").try_get("", setting).expect("text");
            assert_eq!(shown, value, "{setting}");
        }
        let other = store.begin().await.expect("begins");
        let lock = "SELECT pg_advisory_xact_lock(4920182613)";
        other.execute_unprepared(lock).await.expect("has the lock");
        let soon = "SET lock_timeout = '100ms'";
        schema.execute_unprepared(soon).await.expect("is set");
        let refused = migrate(&schema).await.expect_err("waits in vain");
        assert!(
            refused
                .to_string()
                .contains("another process is changing the schema"),
            "{refused}"
        );
        other.rollback().await.expect("ends");
        migrate(&schema).await.expect("nobody has it");
    }
}
