//! The service: the tenants' REST API and dashboard, the bridges' transports, the operators' listener and commands.

// Only `cli` is public, so that the compiler reports unused code. Inside, `pub` marks what a module exports to the
// others.

// Tests may be long.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]
// The example of an operator's call is long.
#![recursion_limit = "256"]

mod api;
mod app;
mod audit;
mod bridge;
pub mod cli;
mod common_passwords;
mod config;
mod console;
mod dashboard;
mod examples;
mod front;
mod http;
mod mails;
mod maintenance;
mod node;
mod openapi;
mod operations;
mod operator;
mod operator_api;
mod overview;
mod pages;
mod routes;
mod simulator;
mod telemetry;
mod telephony;
mod web;
mod whatsapp;
