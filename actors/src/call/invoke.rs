//! A function call in the middle of a conversation. It waits for the tenant's endpoint and holds up nothing else.

use std::sync::Arc;

use dikala_entities::{CallStatus, FunctionId, call, invocation, tenant};
use sea_orm::EntityTrait;
use serde_json::Value;

use super::{
    core::{CallParts, WriteError, unavailable},
    events,
    messages::{CallError, InvokeFunction},
    settings::CallSettings,
};
use crate::{
    functions::{FunctionSpec, Invoke, Invoked, Outcome},
    journal::Entry,
};

/// Invokes a function once: a repeat of the same invocation gets the same outcome. The outcome is durable, with its event,
/// before it is returned.
pub async fn invoke(
    parts: Arc<CallParts>,
    row: call::Model,
    message: InvokeFunction,
) -> Result<Value, CallError> {
    let known = invocation::Entity::find_by_id((row.id, message.invocation_id.clone()))
        .one(parts.store.reader())
        .await
        .map_err(unavailable)?;
    if let Some(known) = known {
        return serde_json::from_str(&known.outcome).map_err(|_| CallError::Unavailable);
    }
    if row.status != CallStatus::Answered {
        return Err(CallError::InvalidTransition { status: row.status });
    }
    let (function, invoked) = run(&parts, &row, &message).await?;
    let result = invoked.outcome.event_result();
    let outcome = serde_json::to_value(&invoked.outcome).map_err(|_| CallError::Unavailable)?;
    let now = parts.clock.now();
    let entry = Entry {
        events: vec![events::function_called(
            &row,
            &message.name,
            &message.parameters,
            &result,
            now,
        )],
        invocation: Some(invocation::Model {
            call_id: row.id,
            invocation_id: message.invocation_id,
            tenant_id: row.tenant_id,
            function_name: message.name,
            outcome: outcome.to_string(),
            duration_ms: invoked.duration_ms,
            created_at: now,
            function_id: function,
            fault: invoked.outcome.fault().map(|code| code.as_str().to_owned()),
        }),
        ..Entry::default()
    };
    parts.write(entry).await.map_err(|error| match error {
        WriteError::NotOurs => CallError::Busy,
        WriteError::Failed(error) => error,
    })?;
    Ok(outcome)
}

/// Which of the agent's functions it was, if any, and what came of it.
async fn run(
    parts: &CallParts,
    row: &call::Model,
    message: &InvokeFunction,
) -> Result<(Option<FunctionId>, Invoked), CallError> {
    let db = parts.store.reader();
    // The large columns are not kept in memory while a call runs.
    let stored = call::Entity::find_by_id(row.id)
        .one(db)
        .await
        .map_err(unavailable)?;
    let settings: Option<CallSettings> = stored
        .and_then(|stored| stored.settings)
        .and_then(|settings| serde_json::from_str(&settings).ok());
    let function = settings
        .as_ref()
        .and_then(|settings| settings.function(&message.name));
    let Some(function) = function else {
        let unknown = Outcome::unknown_function(&message.name);
        return Ok((None, Invoked::at_once(unknown)));
    };
    if !function.enabled {
        let disabled = Outcome::disabled(&message.name);
        return Ok((function.id, Invoked::at_once(disabled)));
    }
    let tenant = tenant::Entity::find_by_id(row.tenant_id)
        .one(db)
        .await
        .map_err(unavailable)?
        .ok_or(CallError::Unavailable)?;
    let secret = parts
        .vault
        .open(tenant.id, &tenant.function_secret)
        .map_err(|error| {
            tracing::error!(tenant = %tenant.id, %error, "the function secret");
            CallError::Unavailable
        })?;
    let invoke = Invoke {
        call: row.id,
        tenant: row.tenant_id,
        function: FunctionSpec {
            name: function.name.clone(),
            endpoint: function.endpoint().ok_or(CallError::Unavailable)?,
            method: function.method,
            parameters: function.parameters.to_string().into(),
        },
        parameters: message.parameters.clone(),
        secret,
        is_test: false,
    };
    Ok((function.id, parts.functions.invoke(invoke).await))
}
