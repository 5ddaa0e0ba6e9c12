//! Calls. The pure [`machine`] decides, the [`driver`] has its decisions carried out by [`steps`], and the [`actor`] wraps
//! both. The [`router`] finds a call's actor in the [`directory`]; the [`registry`] restarts actors and takes over calls.

mod actor;
mod claims;
mod deps;
mod directory;
mod driver;
pub mod ending;
mod erasing;
mod error;
mod events;
mod hangup_requests;
mod invoke;
mod look_up;
pub(crate) mod machine;
pub mod messages;
mod meter;
mod open;
mod owned;
mod ownership;
mod pending;
mod recent_messages;
mod recovery;
mod registry;
mod router;
pub mod settings;
mod signs;
#[cfg(test)]
pub(crate) mod simulated;
mod spans;
mod steps;
mod turns;
pub mod versions;

#[cfg(test)]
mod tests;

pub use self::{
    deps::{CallDeps, Invocations, PlanConcurrency},
    directory::TenantHint,
    erasing::{without_personal_data, without_summary},
    error::CallError,
    machine::CallLimits,
    messages::{CallInput, CallReply, InvokeFunction, TellTurn},
    meter::CallMeter,
    recent_messages::MessageRecord,
    registry::CallRegistry,
    router::CallRouter,
    steps::commands::TRANSFERS_MAX,
};
