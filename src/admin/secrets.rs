//! Sealing every stored secret again after `secrets.key` was changed.

use dikala_entities::{Place, Store, Vault, tenant, webhook};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Statement,
};
use serde::Serialize;

use super::AdminError;

/// Rows that are read at once.
const BATCH: u64 = 200;
/// Secrets that are named where they do not open.
const NAMED_MAX: usize = 10;

/// What became of the stored secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rotation {
    /// Sealed again, with the present key.
    pub sealed: u64,
    /// Were sealed with the present key already.
    pub current: u64,
    /// Open with none of the keys, and are left as they are.
    pub unreadable: u64,
    /// The rows of the first few of those.
    #[serde(skip)]
    pub named: Vec<String>,
}

/// A stored secret.
struct Sealed {
    place: Place,
    id: String,
    sealed: String,
}

/// Seals everything again that is not sealed with the key that writes. Each secret is a write of its own, made only where the
/// secret is still the one that was read, so this may run beside a server, be killed, and be started again.
pub async fn rotate(store: &Store, vault: &Vault) -> Result<Rotation, AdminError> {
    let mut rotation = Rotation::default();
    let mut last = None;
    loop {
        let rows = tenants_after(store, last.as_ref()).await?;
        let Some(row) = rows.last() else {
            break;
        };
        last = Some(row.id);
        for row in rows {
            let secret = Sealed {
                place: Place::FunctionSecret,
                id: row.id.to_string(),
                sealed: row.function_secret,
            };
            seal_again(store, vault, secret, &mut rotation).await?;
        }
    }
    let mut last = None;
    loop {
        let rows = webhooks_after(store, last.as_ref()).await?;
        let Some(row) = rows.last() else {
            break;
        };
        last = Some(row.id);
        for row in rows {
            let id = row.id.to_string();
            let places = [
                (Place::WebhookSecret, Some(row.secret)),
                (Place::PreviousWebhookSecret, row.previous_secret),
            ];
            for (place, sealed) in places {
                let Some(sealed) = sealed else {
                    continue;
                };
                let id = id.clone();
                seal_again(store, vault, Sealed { place, id, sealed }, &mut rotation).await?;
            }
        }
    }
    Ok(rotation)
}

async fn tenants_after(
    store: &Store,
    last: Option<&dikala_entities::TenantId>,
) -> Result<Vec<tenant::Model>, AdminError> {
    let mut select = tenant::Entity::find().order_by_asc(tenant::Column::Id);
    if let Some(last) = last {
        select = select.filter(tenant::Column::Id.gt(*last));
    }
    Ok(select.limit(BATCH).all(store.reader()).await?)
}

async fn webhooks_after(
    store: &Store,
    last: Option<&dikala_entities::WebhookId>,
) -> Result<Vec<webhook::Model>, AdminError> {
    let mut select = webhook::Entity::find().order_by_asc(webhook::Column::Id);
    if let Some(last) = last {
        select = select.filter(webhook::Column::Id.gt(*last));
    }
    Ok(select.limit(BATCH).all(store.reader()).await?)
}

async fn seal_again(
    store: &Store,
    vault: &Vault,
    stored: Sealed,
    rotation: &mut Rotation,
) -> Result<(), AdminError> {
    let Sealed { place, id, sealed } = stored;
    // What only names the present key is not sealed with it.
    let Ok(secret) = vault.open(place, &id, &sealed) else {
        rotation.unreadable += 1;
        if rotation.named.len() < NAMED_MAX {
            rotation.named.push(id);
        }
        return Ok(());
    };
    if vault.is_current(&sealed) {
        rotation.current += 1;
        return Ok(());
    }
    let (table, column) = place.table_and_column();
    let sql = format!("UPDATE {table} SET {column} = $1 WHERE id = $2 AND {column} = $3");
    let values = [
        vault.seal(place, &id, &secret).into(),
        id.into(),
        sealed.into(),
    ];
    let update = Statement::from_sql_and_values(store.backend(), sql, values);
    // Changed meanwhile, or gone: by a process that has the new key, so it is sealed with that.
    let changed = store.writer().execute_raw(update).await?.rows_affected();
    rotation.sealed += changed;
    Ok(())
}
