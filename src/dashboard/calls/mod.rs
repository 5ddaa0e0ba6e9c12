//! Calls: the list with its filters, the page of one call, and actions on a call.

pub mod acts;
pub mod conversation;
pub mod export;
pub mod filter;
pub mod list;
pub mod record;
pub mod rows;
pub mod show;
pub mod timeline;
pub mod words;

mod by_hand;
mod counted;
mod deliveries;
mod facts;

use dikala_entities::CallId;

const PATH: &str = "/dashboard/calls";

/// The path of a call's page.
pub fn path_of(id: CallId) -> String {
    format!("{PATH}/{id}")
}
