//! The service: the tenant's REST API and what carries it, the bridges' transports, the operators' listener and commands.

pub mod admin;
pub mod api;
pub mod app;
pub mod bridge;
pub mod cli;
pub mod config;
pub mod control;
pub mod dev;
pub mod error;
pub mod extract;
pub mod front;
pub mod maintenance;
pub mod middleware;
pub mod openapi;
pub mod operator;
pub mod refusal;
pub mod routes;
pub mod services;
pub mod telemetry;
