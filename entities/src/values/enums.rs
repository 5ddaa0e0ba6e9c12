//! Closed sets of words, each written exactly as the API and the store write it.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text is none of the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of: {}", allowed.join(", "))]
pub struct UnknownValue {
    /// What was given.
    pub given: String,
    /// Every allowed value.
    pub allowed: &'static [&'static str],
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, DeriveValueType)]
        #[sea_orm(value_type = "String")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// Every value, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// Every value as it is written.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The value as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownValue;

            fn from_str(text: &str) -> Result<Self, UnknownValue> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    other => Err(UnknownValue { given: other.to_owned(), allowed: Self::WORDS }),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "openapi")]
crate::described! { $name: super::schema::words(Self::WORDS); }
    )*};
}

words! {
    /// Where a call stands. `ended`, `dropped` and `failed` are final.
    CallStatus {
        Ringing = "ringing",
        Answered = "answered",
        Ended = "ended",
        Dropped = "dropped",
        Failed = "failed",
    }

    /// Why a call is over.
    HangupReason {
        /// Somebody hung up after the conversation.
        Normal = "normal",
        /// The caller was connected to a person.
        Transferred = "transferred",
        /// The agent's longest call was reached.
        MaxDuration = "max_duration",
        /// The last granted minute was used up.
        CreditsExhausted = "credits_exhausted",
        /// The tenant asked for it over the API.
        Requested = "requested",
        /// An operator ended it.
        Operator = "operator",
        /// The caller hung up while it rang.
        Abandoned = "abandoned",
        /// The audio was lost.
        MediaLost = "media_lost",
        /// The AI broke.
        AiError = "ai_error",
        /// The bridge gave no sign of life.
        BridgeLost = "bridge_lost",
        /// Nobody answered in time.
        AnswerTimeout = "answer_timeout",
        /// The bridge could not carry the call.
        BridgeError = "bridge_error",
        /// The bridge declined the call.
        Rejected = "rejected",
        /// The number has no agent.
        NoAgent = "no_agent",
        /// The number's agent is switched off.
        AgentInactive = "agent_inactive",
        /// The number is switched off.
        NumberInactive = "number_inactive",
        /// No minute was left.
        InsufficientCredits = "insufficient_credits",
        /// The tenant's calls at the same time were at their limit.
        ConcurrencyLimit = "concurrency_limit",
        /// The tenant is suspended.
        TenantSuspended = "tenant_suspended",
    }

    /// Who ended a call.
    HangupInitiator {
        Caller = "caller",
        Agent = "agent",
        Bridge = "bridge",
        Tenant = "tenant",
        Operator = "operator",
        System = "system",
    }

    /// What a webhook can subscribe to.
    EventKind {
        CallStarted = "call.started",
        CallAnswered = "call.answered",
        CallEnded = "call.ended",
        CallTranscript = "call.transcript",
        CreditsLow = "credits.low",
        FunctionCalled = "function.called",
    }

    /// What moved a balance.
    TransactionType {
        Purchase = "purchase",
        Usage = "usage",
        Refund = "refund",
        Adjustment = "adjustment",
        Bonus = "bonus",
    }

    /// What a tenant pays for; decides its request limit.
    Plan {
        Starter = "starter",
        Business = "business",
        Enterprise = "enterprise",
    }

    /// What a person may do in the dashboard.
    Role {
        /// Everything.
        Owner = "owner",
        /// Sees everything but secrets, and changes nothing.
        Viewer = "viewer",
    }

    /// A voice of the AI.
    VoiceId {
        Puck = "Puck",
        Charon = "Charon",
        Kore = "Kore",
        Fenrir = "Fenrir",
        Aoede = "Aoede",
    }

    /// Who said something in a call.
    Speaker {
        Caller = "caller",
        Agent = "agent",
        Tool = "tool",
    }

    /// Where the delivery of an event to a webhook stands.
    DeliveryStatus {
        Pending = "pending",
        Succeeded = "succeeded",
        Failed = "failed",
    }

    /// How a webhook fares.
    WebhookState {
        /// Its latest attempts failed; it is tried on.
        Failing = "failing",
        /// Switched off, by the service or by its tenant.
        Disabled = "disabled",
        /// An operator has its deliveries wait.
        Paused = "paused",
    }

    /// What became of an attempt to deliver.
    AttemptOutcome {
        Delivered = "delivered",
        /// It is tried again, or somebody else has seen to it.
        Failed = "failed",
        /// It was the last.
        GivenUp = "given_up",
    }

    /// How long the time is that a figure of a statistic tells of.
    Interval {
        Hour = "hour",
        Day = "day",
    }

    /// By what functions and routes are ranked; those with the most come first.
    Ranking {
        /// Calls in the last minute.
        Rate = "rate",
        /// Failures in the last minute, then since the start.
        Errors = "errors",
        P99 = "p99",
    }

    /// By what statements of the database are ranked; those with the most come first.
    StatementRanking {
        Mean = "mean",
        Longest = "longest",
        /// All of them together.
        Total = "total",
    }

    /// What somebody is told by mail.
    MailKind {
        /// The one-time link of who was invited to the dashboard.
        Invitation = "invitation",
        CreditsLow = "credits.low",
        /// The service switched a webhook off.
        WebhookDisabled = "webhook.disabled",
    }

    /// What somebody did that is kept in the audit.
    AuditAction {
        AgentCreate = "agent.create",
        AgentUpdate = "agent.update",
        AgentDelete = "agent.delete",
        FunctionCreate = "function.create",
        FunctionUpdate = "function.update",
        FunctionDelete = "function.delete",
        WebhookCreate = "webhook.create",
        WebhookUpdate = "webhook.update",
        WebhookDelete = "webhook.delete",
        WebhookRotateSecret = "webhook.rotate_secret",
        WebhookRecover = "webhook.recover",
        WebhookPause = "webhook.pause",
        WebhookResume = "webhook.resume",
        DeliveryResend = "delivery.resend",
        CallHangup = "call.hangup",
        CallTransfer = "call.transfer",
        CallErase = "call.erase",
        NumberCreate = "number.create",
        NumberUpdate = "number.update",
        NumberAssign = "number.assign",
        NumberDelete = "number.delete",
        KeyCreate = "key.create",
        KeyRevoke = "key.revoke",
        UserCreate = "user.create",
        UserRole = "user.role",
        UserName = "user.name",
        UserRemove = "user.remove",
        UserLink = "user.link",
        UserPassword = "user.password",
        UserSignIn = "user.sign_in",
        UserSignOutEverywhere = "user.sign_out_everywhere",
        FunctionSecretShow = "function_secret.show",
        FunctionSecretRotate = "function_secret.rotate",
        CreditAdd = "credit.add",
        TenantCreate = "tenant.create",
        TenantUpdate = "tenant.update",
        TenantSuspend = "tenant.suspend",
        TenantResume = "tenant.resume",
        BridgeCreate = "bridge.create",
        BridgeRevoke = "bridge.revoke",
        SecretsRotate = "secrets.rotate",
    }

    /// The HTTP method of a function's endpoint.
    FunctionMethod {
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
    }
}

// Asked for by the ORM of every part of a primary key; it is never a number.
impl sea_orm::TryFromU64 for AttemptOutcome {
    fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
        Err(sea_orm::DbErr::ConvertFromU64(stringify!(AttemptOutcome)))
    }
}

impl CallStatus {
    /// Whether the call is over.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Ended | Self::Dropped | Self::Failed)
    }
}
