//! Settings of an agent that are tried and not saved.

use dikala_actors::calls::settings::CallSettings;
use dikala_entities::{agent, function};
use sea_orm::{DbErr, QueryOrder};

use super::weight::AGENT_BYTES_MAX;
use crate::{
    http::{
        error::ApiError,
        field::{FieldCode, ValueFault},
    },
    operations::OperationContext,
};

/// The agent's functions, oldest first.
pub async fn functions(
    context: &OperationContext,
    agent: &agent::Model,
) -> Result<Vec<function::Model>, DbErr> {
    function::Entity::of_agent(agent)
        .order_by_asc(function::Column::Id)
        .all(context.store().api_reader())
        .await
}

/// The settings as JSON. Errors: they weigh more than those of any agent can.
pub fn settings(agent: agent::Model, functions: Vec<function::Model>) -> Result<String, ApiError> {
    let settings = serde_json::to_string(&CallSettings::new(agent, functions));
    let settings = settings.map_err(|_| ApiError::Internal)?;
    if i64::try_from(settings.len()).is_ok_and(|bytes| bytes <= AGENT_BYTES_MAX) {
        return Ok(settings);
    }
    let predicate = format!(
        "makes an agent of more than {} KiB",
        AGENT_BYTES_MAX / 1_024
    );
    let fault = ValueFault::new(FieldCode::TooLarge, predicate);
    Err(ApiError::field(fault.in_field("draft")))
}
