//! Typed values: parsed at the boundary, trusted everywhere else.

mod actor;
mod conversation;
mod credentials;
mod email;
mod enums;
mod ids;
mod instant;
mod minutes;
mod phone;
#[cfg(feature = "openapi")]
mod schema;
mod scope;
mod secret;
mod text;
mod trace;
mod transfers;
mod url;

pub use actor::{Actor, ActorError};
pub use conversation::{ConversationSettings, END_SECONDS, REMINDER_SECONDS, TurnLatencyMs};
pub use credentials::{
    API_KEY_SCHEME, BRIDGE_TOKEN_SCHEME, Credential, CredentialHash, LOGIN_LINK_SCHEME,
    SESSION_SCHEME, Scheme, WEB_CALL_SCHEME, WIDGET_SCHEME,
};
pub use email::{Email, EmailError};
pub use enums::{
    AttemptOutcome, AuditAction, CallStatus, ChannelKind, ChatFault, ConnectionQuality,
    DeliveryStatus, EventKind, FillerKind, FunctionMethod, HangupInitiator, HangupReason,
    InterruptionMode, Interval, MailKind, NumberDisplay, Plan, Ranking, Role, Speaker,
    TransactionType, UnknownValue, VoiceId, VoiceProvider, WebhookState,
};
pub use ids::{
    AgentId, ApiKeyId, AuditId, BridgeId, CallId, ChatId, CommandId, DeliveryId, EventId,
    FunctionId, IdError, MailId, NodeId, PhoneNumberId, RecoveryId, RequestId, TenantId,
    TransactionId, UserId, WebhookId, WidgetId,
};
pub use instant::{Millis, MillisError};
pub use minutes::{MINUTES_MAX, Minutes, MinutesError};
pub use phone::{CalleeNumber, CallerNumber, PhoneError, PhoneNumber, with_numbers_masked};
#[cfg(feature = "openapi")]
pub use schema::InstantOrDate;
pub use scope::IdempotencyScope;
pub use secret::Secret;
pub use text::{Language, LanguageError, is_blank, is_one_line};
pub use trace::TraceParent;
pub use transfers::{TransferPrefixError, TransferPrefixes};
pub use url::{OutboundUrl, URL_LENGTH_MAX, UrlError, UrlPolicy, is_host_name};
