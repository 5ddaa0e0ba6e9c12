//! The tenant's API, one file per resource. A handler parses, makes one call and converts; nothing here decides what happens in
//! a call or to a delivery.

pub mod agents;
pub mod calls;
pub mod credits;
pub mod deliveries;
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

use dikala_entities::OutboundUrl;

use crate::{
    error::{ApiError, Missing},
    extract::{Fault, FieldCode},
    services::{ControlError, Services},
};

/// Fields that an object is read with and that are ignored when it is sent back.
const READ_ONLY: &[&str] = &["id", "createdAt", "updatedAt"];

/// Why the living part of the program did not do it; `what` it was asked to act on.
fn refused(error: ControlError, what: Missing) -> ApiError {
    match error {
        ControlError::NotFound => ApiError::NotFound(what),
        ControlError::NotActive => ApiError::CallNotActive,
        ControlError::Busy | ControlError::Unavailable => ApiError::Unavailable,
    }
}

/// Refuses an address that leads into somebody's own network. Asks the resolver: never inside a transaction.
async fn check_address(
    services: &Services,
    field: &str,
    url: &OutboundUrl,
) -> Result<(), ApiError> {
    services.outbound.check_url(url).await.map_err(|blocked| {
        let fault = Fault::new(FieldCode::BlockedAddress, blocked.to_string());
        ApiError::field(fault.in_field(field))
    })
}
