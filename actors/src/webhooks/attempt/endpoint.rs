//! The endpoint of a webhook's deliveries: its address, signing keys and connections, and one exchange with it.

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
    outbound::{ErrorKind, Exchange, Failure, Head, Outbound, OutboundClient, exchange},
};

/// Maximum number of bytes kept of an answer.
const RESPONSE_BYTES_MAX: usize = 16 * 1024;

/// The address and signing keys for a queue's deliveries.
#[derive(Debug)]
pub(in crate::webhooks) struct Endpoint {
    uri: Uri,
    keys: SigningKeys,
    client: OutboundClient,
    outbound: Outbound,
    /// True if an earlier exchange may have left a connection open.
    used: Cell<bool>,
    /// The row from which it was made.
    row: webhook::Model,
}

impl Endpoint {
    /// Decrypts the secrets of a webhook. Keeps the connections of `before` if the address is the same.
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
            // With an address that the HTTP client refuses, each attempt fails as unreachable.
            uri: row.url.as_str().parse().unwrap_or_default(),
            keys,
            client,
            outbound: outbound.clone(),
            used: Cell::new(kept.is_some_and(|before| before.used.get())),
            row,
        })
    }

    /// True if the row has not changed.
    pub(in crate::webhooks) fn is_current(&self, row: &webhook::Model) -> bool {
        self.row.updated_at == row.updated_at
            && self.row.url == row.url
            && self.row.secret == row.secret
            && self.row.previous_secret == row.previous_secret
            && self.row.previous_secret_until == row.previous_secret_until
    }

    /// The version of the webhook from which it was made.
    pub(in crate::webhooks) fn webhook_updated_at(&self) -> Millis {
        self.row.updated_at
    }

    /// Sends a delivery within `limit`, with the `traceparent` of this attempt. `signed_at` is by the wall clock:
    /// receivers compare it with theirs.
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
            // A server may close a kept connection at any moment; a request that met that moment is sent again on a
            // new one.
            Some((head, body)) if sent == closed => {
                let rest = limit.saturating_sub(began.elapsed());
                let fresh = self.outbound.client_for_one(Some(self.row.tenant_id));
                exchange(&fresh, head, body, RESPONSE_BYTES_MAX, rest).await
            }
            _ => sent,
        };
        // After a reset the state of a kept connection is unknown, so the next attempt is not sent twice.
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
