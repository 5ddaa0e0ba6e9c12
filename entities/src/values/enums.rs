//! Closed sets of words, each written as in the API and in the store.

use std::{fmt, str::FromStr};

use sea_orm::DeriveValueType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The text is none of the allowed values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{given:?} is none of: {}", allowed.join(", "))]
pub struct UnknownValue {
    /// The given text.
    pub given: String,
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
            /// Every value as text.
            pub const WORDS: &'static [&'static str] = &[$($word,)*];

            /// The value as text.
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
    /// The status of a call. `ended`, `dropped` and `failed` are final.
    CallStatus {
        Ringing = "ringing",
        Answered = "answered",
        Ended = "ended",
        Dropped = "dropped",
        Failed = "failed",
    }

    /// How the caller reached the number.
    ChannelKind {
        /// A telephone call.
        Phone = "phone",
        /// A call in WhatsApp.
        Whatsapp = "whatsapp",
        /// A call from a browser.
        Web = "web",
    }

    /// The reason why a call is over.
    HangupReason {
        /// A hang-up after the conversation.
        Normal = "normal",
        /// The caller was connected to a person.
        Transferred = "transferred",
        /// The agent's maximum duration was reached.
        MaxDuration = "max_duration",
        /// The last granted minute was used up.
        CreditsExhausted = "credits_exhausted",
        /// The tenant ended it over the API.
        Requested = "requested",
        /// An operator ended it.
        Operator = "operator",
        /// The caller said nothing any more, and the agent hung up.
        Silence = "silence",
        /// The caller hung up while it rang.
        Abandoned = "abandoned",
        /// The audio was lost.
        MediaLost = "media_lost",
        /// The AI failed.
        AiError = "ai_error",
        /// The bridge gave no sign of life.
        BridgeLost = "bridge_lost",
        /// The call was not answered in time.
        AnswerTimeout = "answer_timeout",
        /// The bridge could not carry the call.
        BridgeError = "bridge_error",
        /// The bridge declined the call.
        Rejected = "rejected",
        /// The number has no agent.
        NoAgent = "no_agent",
        /// The number's agent is disabled.
        AgentInactive = "agent_inactive",
        /// The number is disabled.
        NumberInactive = "number_inactive",
        /// No minute was left.
        InsufficientCredits = "insufficient_credits",
        /// The tenant's limit of concurrent calls was reached.
        ConcurrencyLimit = "concurrency_limit",
        /// The tenant is suspended.
        TenantSuspended = "tenant_suspended",
    }

    /// The reason why an answer in a chat is incomplete.
    ChatFault {
        NoAnswer = "no_answer",
        Empty = "empty",
        Endless = "endless",
        TooSlow = "too_slow",
        NotKept = "not_kept",
    }

    /// The party that ended a call.
    HangupInitiator {
        Caller = "caller",
        Agent = "agent",
        Bridge = "bridge",
        Tenant = "tenant",
        Operator = "operator",
        System = "system",
    }

    /// The kinds of events.
    EventKind {
        CallStarted = "call.started",
        CallAnswered = "call.answered",
        CallEnded = "call.ended",
        /// Only on the stream and on pages; no webhook can subscribe to it.
        CallTurn = "call.turn",
        CallTranscript = "call.transcript",
        CreditsLow = "credits.low",
        FunctionCalled = "function.called",
    }

    /// The cause of a movement of a balance.
    TransactionType {
        Purchase = "purchase",
        Usage = "usage",
        Refund = "refund",
        Adjustment = "adjustment",
        Bonus = "bonus",
    }

    /// A tenant's plan, which sets its request limit.
    Plan {
        Starter = "starter",
        Business = "business",
        Enterprise = "enterprise",
    }

    /// A person's rights in the dashboard.
    Role {
        /// Everything.
        Owner = "owner",
        /// Everything except secrets, read-only.
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

    /// The system that an agent hears and speaks with.
    VoiceProvider {
        /// Gemini Live.
        Gemini = "gemini",
        /// OpenAI Realtime, or another server that speaks its protocol.
        Openai = "openai",
        /// Speech-to-text, a language model and text-to-speech, one after the other.
        Pipeline = "pipeline",
        /// A test voice that follows a script.
        Scripted = "scripted",
    }

    /// The sound that a caller hears while a function takes long.
    FillerKind {
        /// A short sentence.
        Words = "words",
        /// A soft tone.
        Tone = "tone",
        Off = "off",
    }

    /// The detection of a caller who interrupts the agent.
    InterruptionMode {
        /// The service's own, within 100 ms.
        Fast = "fast",
        /// The provider's alone.
        Model = "model",
        Off = "off",
    }

    /// The speaker of a turn in a call.
    Speaker {
        Caller = "caller",
        Agent = "agent",
        Tool = "tool",
    }

    /// The status of a delivery.
    DeliveryStatus {
        Pending = "pending",
        Succeeded = "succeeded",
        Failed = "failed",
    }

    /// The state of a webhook.
    WebhookState {
        /// Its latest attempts failed; it is still tried.
        Failing = "failing",
        /// Disabled by the service or by its tenant.
        Disabled = "disabled",
        /// An operator paused its deliveries.
        Paused = "paused",
    }

    /// The outcome of a delivery attempt.
    AttemptOutcome {
        Delivered = "delivered",
        /// It is retried, or the delivery was handled otherwise.
        Failed = "failed",
        /// It was the last attempt.
        GivenUp = "given_up",
    }

    /// The length of an interval of statistics.
    Interval {
        Hour = "hour",
        Day = "day",
    }

    /// The ranking of functions and routes, highest first.
    Ranking {
        /// Calls in the last minute.
        Rate = "rate",
        /// Failures in the last minute, then since the start.
        Errors = "errors",
        P99 = "p99",
    }

    /// How a call's connection sounds, by the estimate of its media.
    ConnectionQuality {
        Good = "good",
        Fair = "fair",
        Poor = "poor",
    }

    /// How telephone numbers are shown.
    NumberDisplay {
        /// Without the digits in the middle.
        Masked = "masked",
        Full = "full",
    }

    /// The kinds of mails.
    MailKind {
        /// The one-time link for a person invited to the dashboard.
        Invitation = "invitation",
        CreditsLow = "credits.low",
        /// The service disabled a webhook.
        WebhookDisabled = "webhook.disabled",
    }

    /// The actions that the audit records.
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
        ChatCreate = "chat.create",
        WidgetCreate = "widget.create",
        WidgetUpdate = "widget.update",
        WidgetDelete = "widget.delete",
        CallHangup = "call.hangup",
        CallTransfer = "call.transfer",
        CallErase = "call.erase",
        /// An operator read whole numbers in a call's SIP messages.
        CallShowNumbers = "call.show_numbers",
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
        /// An operator hid a problem of the overview for a while.
        ProblemSnooze = "problem.snooze",
        ProblemShow = "problem.show",
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

// Required by the ORM of every part of a primary key; it is never a number.
impl sea_orm::TryFromU64 for AttemptOutcome {
    fn try_from_u64(_: u64) -> Result<Self, sea_orm::DbErr> {
        Err(sea_orm::DbErr::ConvertFromU64(stringify!(AttemptOutcome)))
    }
}

impl CallStatus {
    /// True if the call is over.
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Ended | Self::Dropped | Self::Failed)
    }
}
impl EventKind {
    /// The kinds that a webhook can subscribe to.
    pub const OF_WEBHOOKS: &'static [Self] = &[
        Self::CallStarted,
        Self::CallAnswered,
        Self::CallEnded,
        Self::CallTranscript,
        Self::CreditsLow,
        Self::FunctionCalled,
    ];
}
