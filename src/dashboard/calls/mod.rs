//! Calls: the list with its filters, one call from ring to hang-up, what can be done with it.

pub mod acts;
pub mod export;
pub mod filter;
pub mod list;
pub mod record;
pub mod rows;
pub mod show;
pub mod words;

mod by_hand;
mod entries;
mod timeline;

use dikala_entities::CallId;

/// Where calls are.
const PATH: &str = "/dashboard/calls";

/// The page of a call.
pub fn path_of(id: CallId) -> String {
    format!("{PATH}/{id}")
}
