//! The tenant's API, one file per resource. A handler parses, makes one call and converts; nothing here decides what happens in
//! a call or to a delivery.

pub mod agents;
pub mod calls;
pub mod credits;
pub mod deliveries;
pub mod erasure;
pub mod events;
pub mod function_stats;
pub mod functions;
pub mod listing;
pub mod parameters;
pub mod phone_numbers;
pub mod versions;
pub mod webhooks;

mod answer;
mod page;
mod unit;
mod weight;

#[cfg(test)]
mod tests;

pub use answer::Answer;
pub use page::{LIMIT_DEFAULT, LIMIT_MAX, Page};
pub use unit::Unit;

use dikala_actors::outbound::Blocked;
use dikala_entities::{OutboundUrl, TenantId, UrlPolicy};
use serde_json::Value;

use crate::{
    error::{ApiError, Missing},
    extract::{self, Fault, FieldCode, Form, Parsed, url},
    services::{ControlError, Services},
};

/// Fields that an object is read with and that are ignored when it is sent back.
const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];

/// Why the living part of the program did not do it; `what` it was asked to act on.
fn refused(error: ControlError, what: Missing) -> ApiError {
    match error {
        ControlError::NotFound => ApiError::NotFound(what),
        ControlError::NotActive => ApiError::CallNotActive,
        ControlError::TransferNotAllowed => ApiError::field(extract::no_transfer().in_field("to")),
        ControlError::TooManyTransfers => {
            let sentence = "The call was transferred 5 times, the most that a call can be.";
            let fault = Fault::sentence(FieldCode::NotAllowed, sentence);
            ApiError::field(fault.in_field("to"))
        }
        ControlError::Busy | ControlError::Unavailable => ApiError::Unavailable,
    }
}

/// How the address in a form is judged: by its text, and by where it leads, which was asked before the form is read, so
/// that all that is wrong is told at once.
#[derive(Clone, Copy, Debug)]
struct Addresses {
    policy: UrlPolicy,
    blocked: Option<Blocked>,
}

impl Addresses {
    /// Asks where the address in `field` leads; one that is as `before` was asked then. May ask a name server: never inside
    /// a transaction.
    async fn ask(
        services: &Services,
        tenant: TenantId,
        form: &Form,
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

    fn parse(self, value: &Value) -> Parsed<OutboundUrl> {
        let parsed = url(self.policy)(value)?;
        match self.blocked {
            None => Ok(parsed),
            Some(blocked) => {
                let fault = Fault::new(FieldCode::BlockedAddress, blocked.to_string());
                Err(fault.into())
            }
        }
    }
}
