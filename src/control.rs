//! What the API asks of the living part of the program: running calls, and requests to tenants' servers.

use dikala_actors::{
    call::CallError,
    clock::SharedClock,
    functions::{CircuitState, FunctionSpec, FunctionsHandle, Invoke},
    outbound::{Blocked, Outbound},
    registry::Calls,
    webhooks::{TestError, WebhooksHandle},
};
use dikala_entities::{
    CallId, DeliveryId, OutboundUrl, PhoneNumber, Place, Store, TenantId, Vault, WebhookId,
    function, tenant, webhook,
};
use futures_util::future::{BoxFuture, FutureExt};
use sea_orm::EntityTrait;
use serde_json::{Map, Value};

use crate::services::{CallControl, ControlError, OutboundControl};

impl From<CallError> for ControlError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::UnknownCall | CallError::UnknownNumber => Self::NotFound,
            CallError::NotActive
            | CallError::InvalidTransition { .. }
            | CallError::NoTransferTarget => Self::NotActive,
            CallError::TransferNotAllowed => Self::TransferNotAllowed,
            CallError::TooManyTransfers => Self::TooManyTransfers,
            CallError::Busy => Self::Busy,
            CallError::Unavailable => Self::Unavailable,
        }
    }
}

/// Reaches running calls.
#[derive(Clone, Debug)]
pub struct LiveCalls(pub Calls);

impl CallControl for LiveCalls {
    fn hang_up(&self, tenant: TenantId, call: CallId) -> BoxFuture<'_, Result<(), ControlError>> {
        async move { Ok(self.0.hang_up(tenant, call).await?) }.boxed()
    }

    fn transfer(
        &self,
        tenant: TenantId,
        call: CallId,
        to: PhoneNumber,
    ) -> BoxFuture<'_, Result<(), ControlError>> {
        async move { Ok(self.0.transfer(tenant, call, Some(to)).await?) }.boxed()
    }
}

/// Reaches tenants' servers.
#[derive(Clone, Debug)]
pub struct LiveOutbound {
    pub store: Store,
    pub vault: Vault,
    pub clock: SharedClock,
    pub outbound: Outbound,
    pub functions: FunctionsHandle,
    pub webhooks: WebhooksHandle,
}

impl OutboundControl for LiveOutbound {
    fn check_url(&self, tenant: TenantId, url: &OutboundUrl) -> BoxFuture<'_, Result<(), Blocked>> {
        let url = url.clone();
        async move { self.outbound.check_url(tenant, &url).await }.boxed()
    }

    fn circuit(&self, function: &function::Model) -> CircuitState {
        self.functions
            .circuit(function.tenant_id, &function.endpoint)
    }

    fn test_function(
        &self,
        function: function::Model,
        parameters: Map<String, Value>,
    ) -> BoxFuture<'_, Result<Value, ControlError>> {
        async move {
            let tenant = tenant::Entity::find_by_id(function.tenant_id)
                .one(self.store.reader())
                .await
                .map_err(|_| ControlError::Unavailable)?
                .ok_or(ControlError::NotFound)?;
            let secret = self
                .vault
                .open(Place::FunctionSecret, tenant.id, &tenant.function_secret)
                .map_err(|error| {
                    tracing::error!(tenant = %tenant.id, %error, "the function secret");
                    ControlError::Unavailable
                })?;
            let invoke = Invoke {
                call: CallId::new(self.clock.now()),
                tenant: tenant.id,
                function: FunctionSpec::from(&function),
                parameters,
                secret,
                is_test: true,
            };
            let invoked = self.functions.invoke(invoke).await;
            serde_json::to_value(&invoked.outcome).map_err(|_| ControlError::Unavailable)
        }
        .boxed()
    }

    fn test_webhook(
        &self,
        webhook: webhook::Model,
    ) -> BoxFuture<'_, Result<DeliveryId, ControlError>> {
        async move {
            self.webhooks
                .test(webhook)
                .await
                .map_err(|error| match error {
                    TestError::Busy => ControlError::Busy,
                    TestError::Vault(_) | TestError::Store(_) => {
                        tracing::error!(%error, "a test delivery was not made");
                        ControlError::Unavailable
                    }
                })
        }
        .boxed()
    }

    fn wake(&self) {
        self.webhooks.wake();
    }

    fn refresh(&self, webhook: WebhookId) {
        self.webhooks.refresh(webhook);
    }
}
