//! Where a webhook's deliveries go, and with what they are signed; one exchange with it.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use awc::http::{Method, Uri};
use bytes::Bytes;
use dikala_entities::{Millis, SecretPlace, Vault, vault::VaultError, webhook};

use super::{
    headers::{Envelope, headers},
    signature::{Signer, SigningKeys},
};
use crate::{
    events::outbox::Dispatch,
    outbound::{Client, ErrorKind, Exchange, Failure, Head, Outbound, exchange},
};

/// The most that is kept of an answer, in bytes.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// Where a lane's deliveries go, and with what they are signed.
#[derive(Debug)]
pub(in crate::webhooks) struct Endpoint {
    uri: Uri,
    keys: SigningKeys,
    client: Client,
    outbound: Outbound,
    /// Whether a connection may have been kept from an exchange before.
    used: Cell<bool>,
    /// What it was made from.
    row: webhook::Model,
}

impl Endpoint {
    /// Opens the secrets of a webhook. Keeps the connections of `before` if the address is the same.
    pub(in crate::webhooks) fn new(
        row: webhook::Model,
        vault: &Vault,
        outbound: &Outbound,
        connections: usize,
        before: Option<&Self>,
    ) -> Result<Self, VaultError> {
        let keys = keys(&row, vault)?;
        let kept = before.filter(|before| before.row.url == row.url);
        let client = match kept {
            Some(before) => before.client.clone(),
            None => outbound.client(Some(row.tenant_id), connections),
        };
        Ok(Self {
            // An address that the HTTP client cannot take fails each attempt as one that cannot be reached.
            uri: row.url.as_str().parse().unwrap_or_default(),
            keys,
            client,
            outbound: outbound.clone(),
            used: Cell::new(kept.is_some_and(|before| before.used.get())),
            row,
        })
    }

    /// Whether it still is what the row says.
    pub(in crate::webhooks) fn is_current(&self, row: &webhook::Model) -> bool {
        self.row.updated_at == row.updated_at
            && self.row.url == row.url
            && self.row.secret == row.secret
            && self.row.previous_secret == row.previous_secret
            && self.row.previous_secret_until == row.previous_secret_until
    }

    /// Which state of the webhook it was made from.
    pub(in crate::webhooks) fn webhook_updated_at(&self) -> Millis {
        self.row.updated_at
    }

    /// Sends a delivery, with the `traceparent` of this attempt; `signed_at` is what the receiver compares with its own clock. Over within `limit`.
    pub(in crate::webhooks) async fn send(
        &self,
        dispatch: &Dispatch,
        trace: Option<&str>,
        signed_at: Millis,
        limit: Duration,
    ) -> Result<Exchange, Failure> {
        match self.head(dispatch, trace, signed_at) {
            Some(head) => self.exchange(head, dispatch, limit).await,
            None => Err(Failure::without_answer(ErrorKind::Connect)),
        }
    }

    async fn exchange(
        &self,
        head: Head,
        dispatch: &Dispatch,
        limit: Duration,
    ) -> Result<Exchange, Failure> {
        let began = Instant::now();
        let body = Bytes::copy_from_slice(dispatch.body.as_bytes());
        let again = self.used.get().then(|| (head.clone(), body.clone()));
        let sent = exchange(&self.client, head, body, RESPONSE_BYTES_MAX, limit).await;
        let closed = Err(Failure::without_answer(ErrorKind::Reset));
        let sent = match again {
            // A server closes a kept connection when it likes; a request that met that moment goes out on a new one.
            Some((head, body)) if sent == closed => {
                let rest = limit.saturating_sub(began.elapsed());
                let fresh = self.outbound.client_for_one(Some(self.row.tenant_id));
                exchange(&fresh, head, body, RESPONSE_BYTES_MAX, rest).await
            }
            _ => sent,
        };
        // After a reset nothing is known of a connection that would be kept: the next attempt is one request again.
        if sent.is_ok() || sent == closed {
            self.used.set(sent.is_ok());
        }
        sent
    }

    fn head(&self, dispatch: &Dispatch, trace: Option<&str>, at: Millis) -> Option<Head> {
        self.uri.host()?;
        let envelope = Envelope {
            event: dispatch.event,
            kind: dispatch.kind.as_str(),
            delivery: dispatch.delivery,
            number: dispatch.attempts.saturating_add(1),
            body: dispatch.body.as_bytes(),
            is_test: dispatch.is_test,
            trace,
        };
        let headers = headers(envelope, &self.keys, at).ok()?;
        Some(Head {
            method: Method::POST,
            uri: self.uri.clone(),
            headers,
        })
    }
}

fn keys(row: &webhook::Model, vault: &Vault) -> Result<SigningKeys, VaultError> {
    let open = |place: SecretPlace, sealed: &str| vault.open(place, row.id, sealed);
    let current = Signer::new(&open(SecretPlace::WebhookSecret, &row.secret)?);
    let previous = match (&row.previous_secret, row.previous_secret_until) {
        (Some(sealed), Some(until)) => {
            let opened = open(SecretPlace::PreviousWebhookSecret, sealed)?;
            Some((Signer::new(&opened), until))
        }
        _ => None,
    };
    Ok(SigningKeys { current, previous })
}
