//! Counts the calls that a filter leaves, above their list.

use dikala_entities::{Millis, call};
use sea_orm::DerivePartialModel;

use super::super::view::SignedIn;
use crate::{
    http::error::ApiError,
    operations::calls::{self, filter::CallFilter},
};

/// Calls that are counted. With more, the line says only that.
const COUNTED_MAX: usize = 1_000;

/// The columns that are counted.
#[derive(Clone, Debug, DerivePartialModel)]
#[sea_orm(entity = "call::Entity")]
struct CountedCall {
    answered_at: Option<Millis>,
    talk_time_seconds: Option<i64>,
}

/// The counts of a list.
#[derive(Clone, Copy, Debug)]
pub struct CallCount {
    calls: usize,
    answered: usize,
    talk_seconds: i64,
    /// False if older calls were not searched.
    is_all: bool,
}

/// Reads the counts of all matching calls, whichever page is shown.
pub async fn read(visit: &SignedIn, filter: &CallFilter) -> Result<CallCount, ApiError> {
    let db = visit.store().api_reader();
    let most = COUNTED_MAX as u64 + 1;
    let (found, since): (Vec<CountedCall>, _) =
        calls::newest(db, visit.tenant(), filter, None, most).await?;
    let talks = found.iter().filter_map(|call| call.talk_time_seconds);
    Ok(CallCount {
        calls: found.len(),
        answered: found
            .iter()
            .filter(|call| call.answered_at.is_some())
            .count(),
        talk_seconds: talks.sum(),
        is_all: since.is_none(),
    })
}

impl CallCount {
    /// `38 calls, 35 answered, 112 min of talk`. Unlike the minutes used, it is the sum of the seconds of all talks.
    pub fn show(&self, visit: &SignedIn) -> String {
        let counts = [
            ("count", self.calls.into()),
            ("answered", self.answered.into()),
            ("minutes", (self.talk_seconds / 60).into()),
        ];
        let counted = match self.calls > COUNTED_MAX {
            true => visit.tn("calls-counted-many", &[("count", COUNTED_MAX.into())]),
            false => visit.tn("calls-counted", &counts),
        };
        match self.is_all {
            true => counted,
            false => format!("{counted}. {}", visit.t("calls-search-cut")),
        }
    }
}
