//! The statistics of the tenant's calls, in the reader's time zone.

use dikala_entities::Millis;

use super::super::view::SignedIn;
use crate::{
    api::call_stats::{self, CallStats},
    http::{error::ApiError, extract::Query},
};

/// Figures by `interval` (`hour` or `day`), from the one that contains `from` to the one that contains `to`.
pub async fn figures(
    visit: &SignedIn,
    interval: &str,
    from: Millis,
    to: Millis,
) -> Result<CallStats, ApiError> {
    let query = format!(
        "interval={interval}&timeZone={}&from={from}&to={to}",
        visit.zone().name()
    );
    call_stats::show(visit.operation(), Query::parse(&query)).await
}
