//! Agents and their functions: the list, the forms, and trials of functions.

pub mod chat;
pub mod edit;
pub mod function_trial;
pub mod functions;
pub mod history;
pub mod list;
pub mod talk;

mod agent_form;
mod arguments;
mod function_calls;
mod function_form;
mod parameter_rows;
mod row_fields;
mod template_functions;
mod templates;
mod workbench;

use dikala_entities::{AgentId, PhoneNumberId, agent};

use super::view::SignedIn;
use crate::{
    http::{error::ApiError, extract::Id},
    operations::agents,
};

const PATH: &str = "/dashboard/agents";
pub const NEW_PATH: &str = "/dashboard/agents/new";

/// The path of an agent's page.
pub fn path_of(id: AgentId) -> String {
    format!("{PATH}/{id}")
}

/// The path of the form that assigns an agent to a number.
pub fn assign_path(number: PhoneNumberId) -> String {
    format!("/dashboard/numbers/{number}/assign-agent")
}

/// The tenant's agent, or 404.
async fn find(visit: &SignedIn, id: Id<AgentId>) -> Result<agent::Model, ApiError> {
    agents::find(visit.store().api_reader(), visit.tenant(), id.0).await
}
