//! The connections of the listeners: limits, time for heads, the client's address, and answers to invalid requests.
//! The next layer is [`middleware`](crate::http::middleware).

mod address;
mod connection;
mod files;
mod guards;
mod hosts;
mod places;
mod refused;
mod server;

pub use address::{client_address, network};
pub use connection::{ConnectionProgress, RequestGuard};
pub use files::{open_files_max, raise_open_files};
pub use guards::GUARDS;
pub use hosts::{is_loopback_host, is_same_origin};
pub use places::{ConnectionLimits, ConnectionSlots};
pub use server::{ListenerOptions, serve, take_the_last};
