//! The tenants' API, one file per resource. A handler parses, makes one call and converts; it decides nothing about
//! calls or deliveries.

pub mod agents;
pub mod call_filter;
pub mod call_stats;
pub mod calls;
pub mod context;
pub mod control;
pub mod credits;
pub mod deliveries;
pub mod erasure;
pub mod events;
pub mod function_stats;
pub mod functions;
pub mod listing;
pub mod parameters;
pub mod phone_numbers;
pub mod webhook_stats;
pub mod webhooks;

mod latency;
mod unit;
mod zone;

#[cfg(test)]
mod tests;

pub use unit::TenantWrite;

use dikala_actors::outbound::BlockedReason;
use dikala_entities::{OutboundUrl, TenantId, UrlPolicy};
use serde_json::Value;

use crate::{
    api::context::Services,
    http::{
        extract::{FormFields, ParseResult, url},
        field::{FieldCode, ValueFault},
    },
};

/// The checks of a URL in a form: the policy for its text, and the address check of its host. The address is resolved
/// before the form is read, so that all errors are reported at once.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    policy: UrlPolicy,
    blocked: Option<BlockedReason>,
}

impl Addresses {
    /// Resolves and checks the address in `field`. An unchanged address is not checked again. May query a name
    /// server, so never call it in a transaction.
    async fn ask(
        services: &Services,
        tenant: TenantId,
        form: &FormFields,
        field: &str,
        before: Option<&OutboundUrl>,
    ) -> Self {
        let policy = services.settings.urls;
        let given = form
            .text(field)
            .map(|text| OutboundUrl::parse(text, policy));
        let blocked = match given {
            Some(Ok(url)) if before != Some(&url) => {
                services.outbound.check_url(tenant, &url).await.err()
            }
            _ => None,
        };
        Self { policy, blocked }
    }

    fn parse(self, value: &Value) -> ParseResult<OutboundUrl> {
        let parsed = url(self.policy)(value)?;
        match self.blocked {
            None => Ok(parsed),
            Some(blocked) => {
                let fault = ValueFault::new(FieldCode::BlockedAddress, blocked.to_string());
                Err(fault.into())
            }
        }
    }
}
