//! Request processing common to all routes: request id, error body, extractors, authentication, limits and
//! idempotency. It knows no resource.

pub mod again;
pub mod answer;
pub mod body;
pub mod context;
pub mod denied;
pub mod error;
pub mod extract;
pub mod field;
pub mod gate;
pub mod idempotency;
pub mod meter;
pub mod middleware;
pub mod request_id;
pub mod route;
pub mod settings;
mod spans;
pub mod unread;
