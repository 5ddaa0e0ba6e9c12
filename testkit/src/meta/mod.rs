//! A simulated Meta: its settings of a business number ([`FakeGraph`]), and its SIP gateway as it calls a business
//! ([`MetaCaller`]).
//!
//! Rules and formats are from copies of Meta's pages "Configure SIP" (2025-12-15) and "Configure call settings" (2026-06-26).
//! Nothing here was ever compared with Meta itself.

mod caller;
mod graph;
mod media;

pub use self::{
    caller::{MetaCall, MetaCaller},
    graph::{APP, FakeGraph, SIP_PASSWORD},
    media::MetaMedia,
};
