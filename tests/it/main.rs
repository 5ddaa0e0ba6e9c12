//! Black-box tests: the real binary, real stores, real sockets, and nothing known but the published texts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod billing;
mod bridge_protocol;
mod call_life;
mod cli;
mod configuration;
mod dev;
mod docs;
mod endings;
mod front_door;
mod functions;
mod health;
mod hostile;
mod kills;
mod listen;
mod newcomers;
mod recovery;
mod signs_of_life;
mod stock_verifiers;
mod support;
mod support_works;
mod webhooks;
