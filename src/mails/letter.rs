//! Writes mails in the recipient's language.

use dikala_actors::webhooks::retry::REASON_GONE;
use dikala_entities::{
    EventId, MailKind, OfTenant, OutboundUrl, Secret, SecretPlace, Store, UserId, Vault, WebhookId,
    event, mail, tenant, user, webhook,
};
use sea_orm::{DbErr, EntityTrait};
use serde::Deserialize;

use crate::{
    operations::members::INVITATION_MS,
    pages::{format::Zone, lang::Lang},
};

/// A mail as it is sent.
pub(super) struct MailText {
    /// The recipient's address and name.
    pub to: (String, String),
    pub subject: String,
    pub text: Secret,
}

/// Collects the contents of a mail.
pub(super) struct MailWriter<'a> {
    pub store: &'a Store,
    pub vault: &'a Vault,
    pub base: &'a str,
}

/// The recipient of a mail.
struct MailRecipient {
    person: user::Model,
    tenant: String,
    lang: Lang,
}

/// The payload of `credits.low`.
#[derive(Deserialize)]
struct LowCredit {
    data: LowCreditData,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LowCreditData {
    balance_minutes: i64,
    threshold: i64,
}

impl MailWriter<'_> {
    /// Writes the mail. None if its subject or its recipient no longer exists.
    pub(super) async fn write(&self, mail: &mail::Model) -> Result<Option<MailText>, DbErr> {
        let Some(reader) = self.reader(mail).await? else {
            return Ok(None);
        };
        let said = match mail.kind {
            MailKind::Invitation => self.invitation(mail, &reader).await?,
            MailKind::CreditsLow => self.low_credit(mail, &reader).await?,
            MailKind::WebhookDisabled => self.disabled_webhook(mail, &reader).await?,
        };
        Ok(said.map(|(subject, text)| MailText {
            to: (reader.person.email.to_string(), reader.person.name),
            subject,
            text,
        }))
    }

    async fn reader(&self, mail: &mail::Model) -> Result<Option<MailRecipient>, DbErr> {
        let db = self.store.reader();
        let Some(id) = mail.user_id else {
            return Ok(None);
        };
        let person = user::Entity::find_by_id(id).one(db).await?;
        let tenant = tenant::Entity::find_by_id(mail.tenant_id).one(db).await?;
        Ok(person.zip(tenant).map(|(person, tenant)| {
            let chosen = person.language.as_deref().or(mail.language.as_deref());
            MailRecipient {
                lang: chosen.and_then(Lang::parse).unwrap_or(Lang::En),
                tenant: tenant.name,
                person,
            }
        }))
    }

    async fn invitation(
        &self,
        mail: &mail::Model,
        reader: &MailRecipient,
    ) -> Result<Option<(String, Secret)>, DbErr> {
        let sealed = mail.link.as_deref();
        let link = sealed.map(|sealed| self.vault.open(SecretPlace::MailLink, mail.id, sealed));
        let Some(Ok(link)) = link else {
            return Ok(None);
        };
        let Ok(inviter) = mail.subject.parse::<UserId>() else {
            return Ok(None);
        };
        let inviter = user::Entity::find_by_id(inviter).one(self.store.reader());
        let Some(inviter) = inviter.await? else {
            return Ok(None);
        };
        let zone = Zone::chosen(reader.person.time_zone.as_deref());
        let until = zone.moment(reader.lang, mail.created_at.plus_ms(INVITATION_MS));
        let values = [
            ("name", reader.person.name.as_str().into()),
            ("inviter", inviter.name.as_str().into()),
            ("tenant", reader.tenant.as_str().into()),
            ("link", link.expose().into()),
            ("until", until.into()),
        ];
        let text = reader.lang.tn("mails-invitation", &values);
        let subject = reader.lang.tn("mails-invitation-subject", &values[1..3]);
        Ok(Some((subject, Secret::new(text))))
    }

    async fn low_credit(
        &self,
        mail: &mail::Model,
        reader: &MailRecipient,
    ) -> Result<Option<(String, Secret)>, DbErr> {
        let Ok(event) = mail.subject.parse::<EventId>() else {
            return Ok(None);
        };
        let event = event::Entity::one_of(mail.tenant_id, event);
        let event = event.one(self.store.reader()).await?;
        let told = event.and_then(|event| serde_json::from_str::<LowCredit>(&event.body).ok());
        let Some(LowCredit { data }) = told else {
            return Ok(None);
        };
        let values = [
            ("tenant", reader.tenant.as_str().into()),
            ("minutes", data.balance_minutes.into()),
            ("name", reader.person.name.as_str().into()),
            ("threshold", data.threshold.into()),
            ("page", self.page("credits").into()),
        ];
        let subject = reader.lang.tn("mails-low-credit-subject", &values[..2]);
        let text = reader.lang.tn("mails-low-credit", &values);
        Ok(Some((subject, self.with_footer(reader, &text))))
    }

    async fn disabled_webhook(
        &self,
        mail: &mail::Model,
        reader: &MailRecipient,
    ) -> Result<Option<(String, Secret)>, DbErr> {
        let Ok(id) = mail.subject.parse::<WebhookId>() else {
            return Ok(None);
        };
        let webhook = webhook::Entity::one_of(mail.tenant_id, id);
        let webhook = webhook.one(self.store.reader()).await?;
        // The webhook is on again, so there is nothing to report.
        let Some(webhook) = webhook.filter(|webhook| !webhook.is_active) else {
            return Ok(None);
        };
        let is_gone = webhook.disabled_reason.as_deref() == Some(REASON_GONE);
        let values = [
            ("tenant", reader.tenant.as_str().into()),
            ("host", host(&webhook.url).into()),
            ("name", reader.person.name.as_str().into()),
            ("gone", is_gone.to_string().into()),
            ("page", self.page(&format!("webhooks/{id}")).into()),
        ];
        let subject = reader
            .lang
            .tn("mails-disabled-webhook-subject", &values[..2]);
        let text = reader.lang.tn("mails-disabled-webhook", &values);
        Ok(Some((subject, self.with_footer(reader, &text))))
    }

    fn page(&self, path: &str) -> String {
        format!("{}/dashboard/{path}", self.base)
    }

    /// Adds the page where these mails can be switched off.
    fn with_footer(&self, reader: &MailRecipient, text: &str) -> Secret {
        let page = self.page("settings/account");
        let footer = reader.lang.tn("mails-switch-off", &[("page", page.into())]);
        Secret::new(format!("{text}\n\n{footer}"))
    }
}

/// Only the host: the path of a tenant's URL may hold a secret.
fn host(url: &OutboundUrl) -> String {
    url.to_url().host_str().unwrap_or_default().to_owned()
}
