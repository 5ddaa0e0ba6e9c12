//! One attempt: the signed request ([`endpoint`], [`headers`](mod@headers), [`signature`]) and what is kept of it ([`record`]).

mod endpoint;
mod headers;
mod record;
pub mod signature;

pub use self::headers::{Envelope, headers};
pub(super) use self::{
    endpoint::Endpoint,
    record::{AttemptRecord, Times},
};
