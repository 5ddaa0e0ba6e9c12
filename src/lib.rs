//! The service: the tenant's REST API and what carries it, the bridges' transports, the operators' listener and commands.

// Tests tell long stories.
#![cfg_attr(not(test), warn(clippy::too_many_lines))]

pub mod admin;
pub mod api;
pub mod app;
pub mod audit;
pub mod bridge;
pub mod cli;
pub mod config;
pub mod dashboard;
pub mod front;
pub mod http;
pub mod maintenance;
pub mod node;
pub mod openapi;
pub mod operator;
pub mod operator_api;
pub mod routes;
pub mod simulator;
pub mod telemetry;
