//! Business numbers at Meta: their calling settings, for `dikala whatsapp setup` and `dikala check`.
//!
//! Paths and fields are from copies of Meta's pages "Configure call settings" (2026-06-26) and "Troubleshooting" (2025-12-03).
//! Nothing here was ever run against Meta.

mod certificate;
mod check;
mod graph;
mod settings;

pub use self::{
    check::check,
    graph::{Graph, GraphError, token},
    settings::{CallingSettings, MetaServer, SERVERS, SettingChange, changes, others, server_of},
};
