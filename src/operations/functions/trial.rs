//! Test calls of a function's endpoint.

use dikala_actors::{
    functions::{FunctionRequest, FunctionSpec, InvocationReport, InvocationSpan, Invoke, Outcome},
    outbound::Permission,
};
use dikala_entities::{AgentId, CallId, function, tenant};
use sea_orm::EntityTrait;
use serde_json::Map;

use crate::{
    http::{
        error::{ApiError, Missing},
        extract::{FunctionName, Id, RequestBody, object},
        request_id::current_trace,
    },
    operations::{OperationContext, agents},
};

/// The result of a test call of a function's endpoint.
#[derive(Clone, Debug)]
pub struct FunctionTrial {
    /// The request that was sent, or would have been. None if the URL cannot be put into a request.
    pub request: Option<FunctionRequest>,
    /// The outcome is the one that a bridge would receive.
    pub invoked: InvocationReport,
}

/// Calls a function's endpoint as a call would, marked as a test.
pub async fn test(
    context: OperationContext,
    id: Id<AgentId>,
    name: FunctionName,
    body: RequestBody,
) -> Result<Outcome, ApiError> {
    let db = context.store().api_reader();
    let agent = agents::find(db, context.tenant()?, id.0).await?;
    let function = super::find(db, &agent, &name.0).await?;
    let trial = try_out(&context, &function, &body).await?;
    Ok(trial.invoked.outcome)
}

/// Calls a function of the tenant as [`FunctionTest`](super::FunctionTest) describes.
pub async fn try_out(
    context: &OperationContext,
    function: &function::Model,
    body: &RequestBody,
) -> Result<FunctionTrial, ApiError> {
    let parameters = body.optional_form()?.read(&[], |form| {
        Some(form.defaulted("parameters", None, Map::new(), object))
    })?;
    let tenant = tenant::Entity::find_by_id(function.tenant_id)
        .one(context.store().reader())
        .await?
        .ok_or(ApiError::NotFound(Missing::Function))?;
    let secret = context.function_secret(&tenant)?;
    let traced = InvocationSpan::begin(current_trace().as_ref());
    let invoke = Invoke {
        call: CallId::new(context.now),
        tenant: tenant.id,
        agent: Some(function.agent_id),
        function: FunctionSpec::from(function),
        parameters,
        secret,
        is_test: true,
        traceparent: traced.traceparent.clone(),
        permission: Permission::given(),
    };
    let request = FunctionRequest::of(&invoke);
    let invoked = context.serving()?.node.functions.invoke(invoke).await;
    traced.end(tenant.id, None, Some(function.id), &invoked);
    Ok(FunctionTrial { request, invoked })
}
