//! One module per table. A `Model` is a row; typed columns come from [`crate::values`].

pub mod agent;
pub mod agent_setting;
pub mod agent_version;
pub mod api_key;
pub mod attempt;
pub mod audit;
pub mod bridge;
pub mod call;
pub mod call_stat;
pub mod credit_account;
pub mod credit_hold;
pub mod credit_transaction;
pub mod delivery;
pub mod erasure;
pub mod event;
pub mod function;
pub mod hangup_request;
pub mod idempotency;
pub mod invocation;
pub mod kept_version;
pub mod login_link;
pub mod mail;
pub mod node;
mod of_tenant;
pub mod operator_sign_out;
pub mod phone_number;
pub mod recovery;
pub mod session;
pub mod sign_in_failure;
pub mod tenant;
pub mod transcript;
pub mod user;
pub mod web_call;
pub mod webhook;
pub mod webhook_stat;

pub use of_tenant::OfTenant;
