//! The handlers' access to the actors that call tenants' servers.

use dikala_actors::{
    functions::{
        CircuitState, FunctionRequest, FunctionSpec, InvocationReport, InvocationSpan, Invoke,
    },
    outbound::Permission,
    webhooks::{ResendOutcome, TestError, webhook_status::QueueReading},
};
use dikala_entities::{CallId, DeliveryId, SecretPlace, WebhookId, function, tenant, webhook};
use sea_orm::EntityTrait;
use serde_json::{Map, Value};

use crate::{
    http::{
        error::{ApiError, Missing},
        request_id::current_trace,
    },
    node::Runtime,
};

/// The result of a test call of a function's endpoint.
#[derive(Clone, Debug)]
pub struct FunctionTrial {
    /// The request that was sent, or would have been. None if the URL cannot be put into a request.
    pub request: Option<FunctionRequest>,
    /// The outcome is the one that a bridge would receive.
    pub invoked: InvocationReport,
}

fn not_sent(error: TestError) -> ApiError {
    if !matches!(error, TestError::Busy) {
        tracing::error!(%error, "a delivery was not made");
    }
    ApiError::Unavailable
}

/// Calls tenants' servers.
#[derive(Clone, Debug)]
pub struct LiveOutbound(pub Runtime);

impl LiveOutbound {
    /// The state of the circuit breaker of a function's endpoint.
    pub fn circuit(&self, function: &function::Model) -> CircuitState {
        self.0
            .functions
            .circuit(function.tenant_id, &function.endpoint)
    }

    /// Calls the endpoint as a call would, marked as a test.
    pub async fn test_function(
        &self,
        function: &function::Model,
        parameters: Map<String, Value>,
    ) -> Result<FunctionTrial, ApiError> {
        let tenant = tenant::Entity::find_by_id(function.tenant_id)
            .one(self.0.store.reader())
            .await?
            .ok_or(ApiError::NotFound(Missing::Function))?;
        let secret = self
            .0
            .vault
            .open(
                SecretPlace::FunctionSecret,
                tenant.id,
                &tenant.function_secret,
            )
            .map_err(|error| {
                tracing::error!(tenant = %tenant.id, %error, "could not open the tenant's function secret; the function is not invoked");
                ApiError::Unavailable
            })?;
        let traced = InvocationSpan::begin(current_trace().as_ref());
        let invoke = Invoke {
            call: CallId::new(self.0.clock.now()),
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
        let invoked = self.0.functions.invoke(invoke).await;
        traced.end(tenant.id, None, Some(function.id), &invoked);
        Ok(FunctionTrial { request, invoked })
    }

    /// Sends a signed sample of a subscribed kind and waits for its first attempt.
    pub async fn test_webhook(&self, webhook: webhook::Model) -> Result<DeliveryId, ApiError> {
        self.0
            .webhooks
            .test(webhook, current_trace())
            .await
            .map_err(not_sent)
    }

    /// Makes one attempt of a due delivery, regardless of earlier failures, and waits until it is recorded.
    pub async fn resend(
        &self,
        webhook: WebhookId,
        delivery: DeliveryId,
        made: i64,
    ) -> Result<ResendOutcome, ApiError> {
        let trace = current_trace();
        let resent = self.0.webhooks.resend(webhook, delivery, made, trace).await;
        resent.map_err(not_sent)
    }

    /// The state of a webhook's endpoint queue on this node; none if it is idle, or if another node has it.
    pub async fn endpoint_queue(&self, webhook: WebhookId) -> Option<QueueReading> {
        let statuses = self.0.webhooks.statuses(vec![webhook]).await?;
        statuses.get(&webhook)?.queue
    }

    /// Tells the dispatcher that a webhook was changed or deleted. May be lost without harm.
    pub fn refresh(&self, webhook: WebhookId) {
        self.0.webhooks.refresh(webhook);
    }
}
