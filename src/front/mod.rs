//! The front door: which connections are taken, how long a request's head may take, whose address a client has, and what a
//! request that is none is told. What comes after that is the matter of [`middleware`](crate::http::middleware).

mod address;
mod connection;
mod files;
mod guards;
mod hosts;
mod places;
mod refused;
mod server;

pub use address::{client_address, network};
pub use connection::{Progress, UnderWay};
pub use files::{open_files_max, raise_open_files};
pub use guards::GUARDS;
pub use hosts::{is_loopback_host, is_same_origin};
pub use places::{Bounds, Places};
pub use server::{Door, serve, take_the_last};
