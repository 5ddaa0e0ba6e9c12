//! The check of a URL in a form: the policy for its text, and the address check of its host.

use dikala_actors::outbound::BlockedReason;
use dikala_entities::{OutboundUrl, UrlPolicy};
use serde_json::Value;

use super::OperationContext;
use crate::http::{
    error::ApiError,
    extract::{FormFields, ParseResult, url},
    field::{FieldCode, ValueFault},
};

/// The checks of a URL. Its address is resolved before the form is read, so that all errors are reported at once.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    policy: UrlPolicy,
    blocked: Option<BlockedReason>,
}

impl Addresses {
    /// Resolves and checks the address in `field`. An unchanged address is not checked again. May query a name
    /// server, so never call it in a transaction.
    pub async fn check(
        context: &OperationContext,
        form: &FormFields,
        field: &str,
        before: Option<&OutboundUrl>,
    ) -> Result<Self, ApiError> {
        let (tenant, serving) = (context.tenant()?, context.serving()?);
        let policy = serving.urls;
        let given = form
            .text(field)
            .map(|text| OutboundUrl::parse(text, policy));
        let blocked = match given {
            Some(Ok(url)) if before != Some(&url) => {
                serving.node.outbound.check_url(tenant, &url).await.err()
            }
            _ => None,
        };
        Ok(Self { policy, blocked })
    }

    pub fn parse(self, value: &Value) -> ParseResult<OutboundUrl> {
        let parsed = url(self.policy)(value)?;
        match self.blocked {
            None => Ok(parsed),
            Some(blocked) => {
                let fault = ValueFault::new(FieldCode::BlockedAddress, blocked.to_string());
                Err(fault.in_words(sentence(blocked)).into())
            }
        }
    }
}

fn sentence(blocked: BlockedReason) -> &'static str {
    match blocked {
        BlockedReason::Internal => "fault-url-internal",
        BlockedReason::Port => "fault-url-port",
        BlockedReason::NotPublic => "fault-url-not-public",
        BlockedReason::Own => "fault-url-own",
        BlockedReason::Insecure => "fault-url-insecure",
    }
}
