//! The events of OpenAI Realtime: JSON objects with a `type`, in text frames.
//!
//! Source: `openapi.json` and `src/openai/types/realtime` of OpenAI's own repositories, as of 2026-08-21. Some servers still send
//! the names of the beta that ended on 2026-05-12, so both are read. Only the current ones are sent.

pub(super) mod client;
pub(super) mod server;
