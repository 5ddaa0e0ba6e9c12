//! The messages of Gemini Live (BidiGenerateContent over a WebSocket): JSON objects with camelCase names.
//!
//! Source: <https://ai.google.dev/api/live>, read in November 2026. Some samples and proxies write snake_case, so both are read.

pub(super) mod client;
pub(super) mod server;
