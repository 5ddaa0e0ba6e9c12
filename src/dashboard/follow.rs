//! Names the parts of a page that follow the tenant's events. [`live`](super::live) serves the stream that the
//! script opens.

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use dikala_actors::events::followers;
use dikala_entities::CallId;
use sea_orm::DbErr;

use super::view::SignedIn;

/// The followed thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowedPart {
    Home,
    Calls,
    Call(CallId),
}

impl Display for FollowedPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home => f.write_str("home"),
            Self::Calls => f.write_str("calls"),
            Self::Call(id) => id.fmt(f),
        }
    }
}

impl FromStr for FollowedPart {
    type Err = <CallId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "home" => Ok(Self::Home),
            "calls" => Ok(Self::Calls),
            call => call.parse().map(Self::Call),
        }
    }
}

/// The position of the tenant's newest event. A page that is rendered now already includes it.
pub async fn position(visit: &SignedIn) -> Result<i64, DbErr> {
    let newest = followers::newest(visit.store(), visit.tenant()).await?;
    Ok(newest.map_or(0, |(_, position)| position))
}
