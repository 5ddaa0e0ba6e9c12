//! Re-encrypts every stored secret after `secrets.key` was changed.

use std::fmt::Display;

use dikala_entities::{AuditAction, Millis, SecretPlace, Store, Vault, mail, tenant, webhook};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbErr, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, Statement,
};
use serde::Serialize;

use crate::audit::{AuditChange, ChangeOrigin};

/// Rows per query.
const BATCH: u64 = 200;
/// Unreadable secrets that are listed by id.
const NAMED_MAX: usize = 10;

/// Result of a rotation: counts of secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Rotation {
    /// Re-encrypted with the present key.
    pub sealed: u64,
    /// Encrypted with the present key already.
    pub current: u64,
    /// Not readable with any key; left as they are.
    pub unreadable: u64,
    /// The ids of the first unreadable rows.
    #[serde(skip)]
    pub named: Vec<String>,
}

/// Re-encrypts every secret that is not encrypted with the present key. Each secret is written on its own, and only
/// if it did not change since it was read. So this may run beside a server, be killed and be restarted. The audit
/// entry is written with the first secret; a run that changes nothing leaves none.
pub async fn rotate(
    store: &Store,
    vault: &Vault,
    by: &ChangeOrigin,
    now: Millis,
) -> Result<Rotation, DbErr> {
    let mut work = RotationRun {
        store,
        vault,
        by,
        now,
        done: Rotation::default(),
    };
    work.tenants().await?;
    work.webhooks().await?;
    work.mails().await?;
    Ok(work.done)
}

struct RotationRun<'a> {
    store: &'a Store,
    vault: &'a Vault,
    by: &'a ChangeOrigin,
    now: Millis,
    done: Rotation,
}

impl RotationRun<'_> {
    async fn tenants(&mut self) -> Result<(), DbErr> {
        let mut after = None;
        loop {
            let rows = tenant::Entity::find()
                .filter(Condition::all().add_option(after.map(|id| tenant::Column::Id.gt(id))))
                .order_by_asc(tenant::Column::Id)
                .limit(BATCH)
                .all(self.store.reader())
                .await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.id);
            for row in rows {
                let secret = Some(row.function_secret);
                self.seal_again(SecretPlace::FunctionSecret, row.id, secret)
                    .await?;
            }
        }
    }

    async fn webhooks(&mut self) -> Result<(), DbErr> {
        let mut after = None;
        loop {
            let rows = webhook::Entity::find()
                .filter(Condition::all().add_option(after.map(|id| webhook::Column::Id.gt(id))))
                .order_by_asc(webhook::Column::Id)
                .limit(BATCH)
                .all(self.store.reader())
                .await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.id);
            for row in rows {
                self.seal_again(SecretPlace::WebhookSecret, row.id, Some(row.secret))
                    .await?;
                self.seal_again(
                    SecretPlace::PreviousWebhookSecret,
                    row.id,
                    row.previous_secret,
                )
                .await?;
            }
        }
    }

    /// Links in mails that wait to be sent.
    async fn mails(&mut self) -> Result<(), DbErr> {
        let mut after = None;
        loop {
            let rows = mail::Entity::find()
                .filter(mail::Column::Link.is_not_null())
                .filter(Condition::all().add_option(after.map(|id| mail::Column::Id.gt(id))))
                .order_by_asc(mail::Column::Id)
                .limit(BATCH)
                .all(self.store.reader())
                .await?;
            let Some(last) = rows.last() else {
                return Ok(());
            };
            after = Some(last.id);
            for row in rows {
                self.seal_again(SecretPlace::MailLink, row.id, row.link)
                    .await?;
            }
        }
    }

    async fn seal_again(
        &mut self,
        place: SecretPlace,
        id: impl Display,
        sealed: Option<String>,
    ) -> Result<(), DbErr> {
        let Some(sealed) = sealed else {
            return Ok(());
        };
        let id = id.to_string();
        // The key id in the text can match although another key sealed it, so the secret is really opened.
        let Ok(secret) = self.vault.open(place, &id, &sealed) else {
            self.done.unreadable += 1;
            if self.done.named.len() < NAMED_MAX {
                self.done.named.push(id);
            }
            return Ok(());
        };
        if self.vault.is_current(&sealed) {
            self.done.current += 1;
            return Ok(());
        }
        let (table, column) = place.table_and_column();
        let sql = format!("UPDATE {table} SET {column} = $1 WHERE id = $2 AND {column} = $3");
        let again = self.vault.seal(place, &id, &secret);
        let values = [again.into(), id.into(), sealed.into()];
        let update = Statement::from_sql_and_values(self.store.backend(), sql, values);
        let txn = self.store.begin().await?;
        // If no row changes, another process wrote or deleted the secret, and that process has the new key.
        let changed = txn.execute_raw(update).await?.rows_affected();
        if changed > 0 && self.done.sealed == 0 {
            let change = AuditChange::new(AuditAction::SecretsRotate, "secrets.key");
            self.by.write(&txn, None, change, self.now).await?;
        }
        txn.commit().await?;
        self.done.sealed += changed;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use dikala_actors::mails;
    use dikala_entities::{MailKind, Secret, audit};
    use serde_json::json;

    use super::*;
    use crate::{
        http::extract::{Id, RequestBody},
        operations::{
            OperationContext, tenants,
            tests::{NOW, OperationFixture, by, entries},
        },
    };

    #[actix_web::test]
    async fn a_rotation_that_was_cut_short_is_finished_by_the_next() {
        let bench = OperationFixture::new().await;
        let old_key = Vault::generate_key();
        let old = Vault::from_base64(&old_key).expect("a key");
        let both = bench.vault.clone().with_older(&old_key).expect("a key");
        let lost = Vault::from_base64(&Vault::generate_key()).expect("a key");
        let context =
            |vault: &Vault| OperationContext::of_command(&bench.store, Some(vault), "main");
        let mut made = Vec::new();
        for (name, vault) in [("Done", &bench.vault), ("Not yet", &old), ("Lost", &lost)] {
            let body = RequestBody::of(json!({"name": name}));
            let tenant = tenants::create(context(vault), body).await;
            made.push(tenant.expect("is created").value.id);
        }
        let secret = async |vault: &Vault, id| {
            let shown = tenants::function_secret(context(vault), Id(id)).await;
            shown.expect("opens").secret.expose().to_owned()
        };
        let before = secret(&old, made[1]).await;
        // The link in a waiting mail is a secret.
        let mut mail = mails::to_owners(MailKind::Invitation, made[1], String::new(), NOW);
        let link = Secret::new("https://voice.example/a-link");
        mail.link = Some(old.seal(SecretPlace::MailLink, mail.id, &link));
        let txn = bench.store.begin().await.expect("begins");
        mails::write(&txn, [mail.clone()])
            .await
            .expect("is written");
        txn.commit().await.expect("commits");
        let rotated = rotate(&bench.store, &both, &by(), NOW)
            .await
            .expect("rotates");
        let expected = Rotation {
            sealed: 2,
            current: 1,
            unreadable: 1,
            named: vec![made[2].to_string()],
        };
        assert_eq!(rotated, expected);
        assert_eq!(secret(&bench.vault, made[1]).await, before);
        let again = rotate(&bench.store, &both, &by(), NOW)
            .await
            .expect("rotates");
        assert_eq!((again.sealed, again.current), (0, 3));
        let stored = mail::Entity::find_by_id(mail.id).one(bench.store.reader());
        let stored = stored.await.expect("reads").and_then(|mail| mail.link);
        let opened = bench
            .vault
            .open(SecretPlace::MailLink, mail.id, &stored.expect("a link"));
        assert_eq!(opened.expect("opens").expose(), link.expose());
        let entries = entries(&bench).await;
        let rotations = |entry: &&audit::Model| entry.action == AuditAction::SecretsRotate;
        let rotations: Vec<_> = entries.iter().filter(rotations).collect();
        assert_eq!(rotations.len(), 1, "{rotations:?}");
        assert_eq!((rotations[0].tenant_id, rotations[0].at), (None, NOW));
        assert!(
            !secret(&lost, made[2]).await.is_empty(),
            "it is left as it was"
        );
    }
}
