//! The operators' listener: authentication, metrics and health.

pub mod access;
pub mod health;
pub mod metrics;
