//! One attempt: the signed request ([`endpoint`], [`headers`](mod@headers), [`signature`]), its [`record`] and its
//! [`spans`].

mod endpoint;
mod headers;
mod record;
pub mod signature;
pub(super) mod spans;

pub use self::headers::{Envelope, headers};
pub(super) use self::{
    endpoint::Endpoint,
    record::{AttemptRecord, AttemptTimes, EndpointVersion},
};
