//! One attempt: the signed request ([`endpoint`], [`headers`](mod@headers), [`signature`]), what is kept of it ([`record`]), and what a trace tells of it
//! ([`spans`]).

mod endpoint;
mod headers;
mod record;
pub mod signature;
pub(super) mod spans;

pub use self::headers::{Envelope, headers};
pub(super) use self::{
    endpoint::Endpoint,
    record::{AttemptRecord, Times},
};
