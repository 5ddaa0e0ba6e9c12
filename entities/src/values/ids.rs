//! Prefixed identifiers: a short prefix, an underscore and a 26-character lowercase ULID
//! (<https://github.com/ulid/spec>), for example `call_01k9zv3m8rj2q4w6y8a0c2e4g6`.
//!
//! Ids sort by creation time, and those of one process in the same millisecond by creation order.

use std::{
    fmt,
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use ulid::{Generator, Ulid};

use super::Millis;

/// The text is no identifier of the expected kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier of the form {prefix}_<26 characters>")]
pub struct IdError {
    /// The expected prefix.
    pub prefix: &'static str,
}

static GENERATOR: Mutex<Generator> = Mutex::new(Generator::new());

fn next_ulid(now: Millis) -> Ulid {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(now.as_u64());
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    match generator.generate_from_datetime(at) {
        Ok(ulid) => ulid,
        Err(overflow) => overflow.commit_overflow_random(),
    }
}

fn parse_ulid(text: &str, prefix: &'static str) -> Result<Ulid, IdError> {
    let error = IdError { prefix };
    let body = text
        .strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .ok_or(error)?;
    // One spelling per id: only the exact text that was given out is accepted.
    let canonical = body.len() == 26
        && body
            .bytes()
            .all(|b| b.is_ascii_digit() || b.is_ascii_lowercase());
    let ulid = Ulid::from_string(body).map_err(|_| error)?;
    let exact = canonical && ulid.to_string().eq_ignore_ascii_case(body);
    if exact { Ok(ulid) } else { Err(error) }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, DeriveValueType)]
        #[sea_orm(value_type = "String")]
        pub struct $name(Ulid);

        impl $name {
            /// The prefix of this kind, without the underscore.
            pub const PREFIX: &'static str = $prefix;

            /// A new id, stamped with `now`.
            pub fn new(now: Millis) -> Self {
                Self(next_ulid(now))
            }

            /// An id derived from these, the same in every process.
            pub fn derived(at: Millis, rest: u128) -> Self {
                Self(Ulid::from_parts(at.as_u64(), rest))
            }

            /// The smallest id with the time `at`, for finding what was created before.
            pub fn first_at(at: Millis) -> Self {
                Self(Ulid::from_parts(at.as_u64(), 0))
            }

            /// The time at its beginning.
            pub fn time(self) -> Millis {
                Millis::from_i64(i64::try_from(self.0.timestamp_ms()).unwrap_or(i64::MAX))
            }

            /// The id as a number, for spreading keys over shards.
            pub fn as_u128(self) -> u128 {
                u128::from(self.0)
            }
        }

        // Required by the ORM of every primary key; ours are never numbers.
        impl sea_orm::TryFromU64 for $name {
            fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
                Err(sea_orm::DbErr::ConvertFromU64(stringify!($name)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut buffer = [0_u8; ulid::ULID_LEN];
                let text = self.0.array_to_str(&mut buffer);
                text.make_ascii_lowercase();
                f.write_str(concat!($prefix, "_"))?;
                f.write_str(text)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                parse_ulid(text, $prefix).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "openapi")]
crate::described! { $name: super::schema::id(Self::PREFIX); }
    )*};
}

ids! {
    /// A customer account.
    TenantId = "ten";
    /// An AI agent.
    AgentId = "agent";
    /// A phone number.
    PhoneNumberId = "pn";
    /// A call.
    CallId = "call";
    /// A webhook registration.
    WebhookId = "wh";
    /// An agent's function.
    FunctionId = "fn";
    /// A credit transaction.
    TransactionId = "txn";
    /// An event that was announced.
    EventId = "evt";
    /// One event on its way to one webhook.
    DeliveryId = "dlv";
    /// A request to send a period's failed deliveries again.
    RecoveryId = "rcv";
    /// An API key.
    ApiKeyId = "key";
    /// A telephony bridge, identified by its token.
    BridgeId = "br";
    /// One HTTP request.
    RequestId = "req";
    /// A person who uses the dashboard.
    UserId = "user";
    /// A command to a bridge.
    CommandId = "cmd";
    /// An entry of the audit.
    AuditId = "aud";
    /// A mail to somebody.
    MailId = "mail";
    /// A conversation in writing with an agent.
    ChatId = "chat";
    /// A button of a website that calls an agent.
    WidgetId = "wgt";
    /// A process of the service, from its start or from the loss of its lease until its end or the next loss.
    NodeId = "node";
}

impl DeliveryId {
    /// The id of an event's delivery to a webhook, the same in every process. The ids of a webhook are in the order of
    /// `sequence` if `announced_at` is. The last 48 bits are a hash, which distinguishes webhooks.
    pub fn of(announced_at: Millis, sequence: i64, event: EventId, webhook: WebhookId) -> Self {
        let mut hash = Sha256::new();
        hash.update(event.as_u128().to_be_bytes());
        hash.update(webhook.as_u128().to_be_bytes());
        let hash = hash
            .finalize()
            .iter()
            .take(6)
            .fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
        let sequence = u128::from(sequence.unsigned_abs() & u64::from(u32::MAX));
        Self::derived(announced_at, sequence << 48 | hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_one_millisecond_sort_in_the_order_of_their_making() {
        let now = Millis::from_i64(1_700_000_000_000);
        let ids: Vec<CallId> = (0..1000).map(|_| CallId::new(now)).collect();
        let texts: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert!(ids.windows(2).all(|w| w[0] < w[1]));
        assert!(texts.windows(2).all(|w| w[0] < w[1]));
    }

    #[test]
    fn ids_of_deliveries_are_in_the_order_of_their_sequence_and_distinguish_webhooks() {
        let now = Millis::from_i64(1_700_000_000_000);
        let events: Vec<EventId> = (0..100).map(|_| EventId::new(now)).collect();
        let webhooks: Vec<WebhookId> = (0..100).map(|_| WebhookId::new(now)).collect();
        let mut all = std::collections::BTreeSet::new();
        for event in &events {
            for webhook in &webhooks {
                let id = DeliveryId::of(now, 7, *event, *webhook);
                assert_eq!(id, DeliveryId::of(now, 7, *event, *webhook));
                assert!(id < DeliveryId::of(now, 8, *event, *webhook));
                assert!(id < DeliveryId::of(now.plus_ms(1), 1, *event, *webhook));
                assert_eq!(id.time(), now);
                all.insert(id);
            }
        }
        assert_eq!(all.len(), events.len() * webhooks.len());
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = CallId::new(Millis::from_i64(1_700_000_000_000)).to_string();
        assert_eq!(id.parse::<CallId>().map(|i| i.to_string()), Ok(id.clone()));
        for wrong in [
            id.to_uppercase(),
            id.replace("call_", "agent_"),
            id.replace("call_", ""),
            format!("{id}0"),
            id[..id.len() - 1].to_owned(),
            "call_".to_owned(),
            "call_iiiiiiiiiiiiiiiiiiiiiiiiii".to_owned(),
            "call_8zzzzzzzzzzzzzzzzzzzzzzzzz".to_owned(),
            "call_0000000000000000000000000\0".to_owned(),
            "call_00000000000000000000000é".to_owned(),
            String::new(),
        ] {
            assert!(wrong.parse::<CallId>().is_err(), "{wrong:?} was taken");
        }
    }
}
