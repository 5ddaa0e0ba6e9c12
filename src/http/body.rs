//! Request bodies, and response bodies that own a value until they are sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

/// The largest request body, in bytes.
pub const BODY_BYTES_MAX: usize = 262_144;
/// The largest form, in bytes. URL encoding writes a byte as up to three, and a line break, which is two bytes in
/// JSON, as six. So every text that fits into a JSON body fits into a form.
pub const FORM_BYTES_MAX: usize = 3 * BODY_BYTES_MAX;
/// The largest form before sign-in: an address, a password and the next page.
pub const STRANGERS_FORM_BYTES_MAX: usize = 16 * 1024;
/// Longest form that is kept when it comes after the end of its session.
pub const KEPT_FORM_BYTES_MAX: usize = 128 * 1024;

/// The received bytes, which the middleware puts into the request's data.
#[derive(Clone, Debug, Default)]
pub struct RawBody(pub Bytes);

/// A body that owns a value until it is sent or dropped.
pub fn keeping<T: Unpin + 'static>(body: BoxBody, kept: T) -> BoxBody {
    BoxBody::new(OwningBody { body, _kept: kept })
}

struct OwningBody<T> {
    body: BoxBody,
    _kept: T,
}

impl<T: Unpin> MessageBody for OwningBody<T> {
    type Error = <BoxBody as MessageBody>::Error;

    fn size(&self) -> BodySize {
        self.body.size()
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Pin::new(&mut self.body).poll_next(context)
    }
}
