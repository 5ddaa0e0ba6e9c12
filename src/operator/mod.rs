//! The operators' listener: who may come, metrics and health.

pub mod access;
pub mod health;
pub mod metrics;
