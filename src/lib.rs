//! The service: the tenant's REST API and what carries it, the bridges' transports, the operators' listener and commands.

// `cli` is the only door, so that the compiler finds what nobody uses. Inside, `pub` is what a module hands on to those who see it.

// Tests tell long stories.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

mod admin;
mod api;
mod app;
mod audit;
mod bridge;
pub mod cli;
mod common_passwords;
mod config;
mod console;
mod dashboard;
mod front;
mod http;
mod mails;
mod maintenance;
mod node;
mod openapi;
mod operator;
mod operator_api;
mod overview;
mod pages;
mod routes;
mod simulator;
mod telemetry;
mod telephony;
