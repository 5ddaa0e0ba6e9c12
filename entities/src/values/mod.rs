//! Typed values: parsed at the border, trusted everywhere else.

mod credentials;
mod enums;
mod ids;
mod instant;
mod minutes;
mod phone;
mod secret;
mod text;
mod transfers;
mod url;

pub use credentials::{API_KEY_SCHEME, BRIDGE_TOKEN_SCHEME, Credential, CredentialHash, Scheme};
pub use enums::{
    CallStatus, DeliveryStatus, EventKind, FunctionMethod, HangupInitiator, HangupReason, Plan,
    TransactionType, UnknownValue, VoiceId,
};
pub use ids::{
    AgentId, ApiKeyId, BridgeId, CallId, CommandId, DeliveryId, EventId, FunctionId, IdError,
    PhoneNumberId, RecoveryId, RequestId, TenantId, TransactionId, WebhookId,
};
pub use instant::{Millis, MillisError};
pub use minutes::{MINUTES_MAX, Minutes, MinutesError};
pub use phone::{CallerNumber, PhoneError, PhoneNumber};
pub use secret::Secret;
pub use text::{Language, LanguageError, is_blank};
pub use transfers::{TransferPrefixError, TransferPrefixes};
pub use url::{OutboundUrl, UrlError, UrlPolicy, is_host_name};
