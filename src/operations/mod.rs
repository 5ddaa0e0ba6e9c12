//! Operations: what tenants and operators can do, one file for each noun, one function for each operation.
//!
//! An operation takes an [`OperationContext`] (who asks, on which store), ids, and an input. It returns a typed output or an
//! [`ApiError`](crate::http::error::ApiError), whose table has the HTTP status and the exit code. It reads its input field by
//! field, so limits and error texts are the same everywhere. A change runs in an [`OperationWrite`], which holds its audit entry
//! and the answer to its `Idempotency-Key`.
//!
//! All surfaces use the same function:
//!
//! | surface | how |
//! |---|---|
//! | REST | the table of routes mounts it with [`again`](crate::http::again::again) or [`answer`](crate::http::again::answer) |
//! | pages | a handler calls it with the context of its view and the form's fields, and shows the output |
//! | commands | a command calls it with the options as fields, and prints the output |

mod addresses;
mod agent_limits;
pub mod agents;
pub mod audit;
pub mod bridges;
pub mod calls;
mod chat_service;
pub mod chats;
mod context;
pub mod credits;
pub mod deliveries;
pub mod functions;
pub mod keys;
pub mod list;
pub mod members;
pub mod numbers;
mod page;
pub mod problems;
pub mod search;
pub mod secrets;
pub mod stored;
pub mod tenants;
pub mod texts;
pub mod voices;
pub mod web_calls;
pub mod webhooks;
pub mod widgets;

#[cfg(test)]
mod tests;

pub use addresses::Addresses;
pub use agent_limits::{AgentLimits, ConfiguredVoices};
pub use chat_service::ChatService;
pub use context::{
    LinkMails, LocalBridge, OperationContext, OperationResources, OperationWrite, Principal,
    ServingProcess, origin_of,
};
pub use page::{ListPage, PageRange, SKIPPED_MAX};

use serde_json::Value;

use crate::http::extract::{ParseResult, line};

/// The longest name or label, in characters.
pub const NAME_CHARS_MAX: usize = 120;

/// Parses a name or label: one line, not blank.
pub fn name(value: &Value) -> ParseResult<String> {
    line(NAME_CHARS_MAX)(value)
}
