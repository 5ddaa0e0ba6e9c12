//! Black-box tests: the real binary, real stores, real sockets, and nothing known but the published texts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backup;
mod bench;
mod billing;
mod bridge_docs;
mod bridge_protocol;
mod browser;
mod call_life;
mod cli;
mod configuration;
mod dashboard;
mod dev;
mod docs;
mod endings;
mod example;
mod forgetting;
mod front_door;
mod full_disk;
mod functions;
mod health;
mod hostile;
mod hostile_bridge;
mod kills;
mod listen;
mod metrics;
mod newcomers;
mod one_commit;
mod operator;
mod overload;
mod prometheus;
mod proxies;
mod recovery;
mod secrets;
mod secrets_key;
mod signs_of_life;
mod silence;
mod statements;
mod stock_verifiers;
mod support;
mod support_works;
mod tidy;
mod traces;
mod webhooks;
