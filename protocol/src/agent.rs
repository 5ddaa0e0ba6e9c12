//! The agent, as the service gives it to a bridge with an accepted call.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A bridge may be newer than its service: a new field is an `Option`, or has `#[serde(default)]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallAgent {
    pub id: String,
    pub name: String,
    pub system_prompt: String,
    pub voice_id: Option<String>,
    pub greeting_text: Option<String>,
    pub language: String,
    pub max_call_duration_minutes: u32,
    pub escalation_number: Option<String>,
    /// Built-in tools that are enabled, by name.
    pub tools: Vec<String>,
    pub functions: Vec<FunctionDeclaration>,
}

/// A function of the tenant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FunctionDeclaration {
    pub name: String,
    pub description: String,
    /// JSON Schema.
    pub parameters: Value,
}
