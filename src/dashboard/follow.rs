//! How a page says what of it is to follow the tenant's events. The stream that the script then opens is in [`live`](super::live).

use std::{
    fmt::{self, Display, Formatter},
    str::FromStr,
};

use dikala_actors::events::followers;
use dikala_entities::CallId;
use maud::{Markup, html};
use sea_orm::DbErr;

use super::view::Visit;

/// Where the streams are.
const PATH: &str = "/dashboard/live";

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The first page.
    Home,
    /// A list of calls.
    Calls,
    /// One call.
    Call(CallId),
}

impl Display for Watched {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Home => f.write_str("home"),
            Self::Calls => f.write_str("calls"),
            Self::Call(id) => id.fmt(f),
        }
    }
}

impl FromStr for Watched {
    type Err = <CallId as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "home" => Ok(Self::Home),
            "calls" => Ok(Self::Calls),
            call => call.parse().map(Self::Call),
        }
    }
}

/// The place of the newest of the tenant's events: what a page that is made now need not be told.
pub async fn position(visit: &Visit) -> Result<i64, DbErr> {
    let newest = followers::newest(visit.store(), visit.tenant()).await?;
    Ok(newest.map_or(0, |(_, position)| position))
}

/// Content that is mended by what happens after a position. `more` stands behind it in the address of the stream.
pub fn followed(watched: Watched, more: &str, position: i64, content: Markup) -> Markup {
    html! {
        div data-live={ (PATH) "?of=" (watched) (more) } data-after=(position) { (content) }
    }
}
