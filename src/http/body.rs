//! Bodies: as they were received, and with what is kept until they are sent.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use bytes::Bytes;

/// The largest body that is taken, in bytes.
pub const BODY_BYTES_MAX: usize = 262_144;
/// The largest form that is taken, in bytes. A form writes a byte as three at most, and a line's end, which is two bytes in JSON,
/// as six: what fits into a body can be typed.
pub const FORM_BYTES_MAX: usize = 3 * BODY_BYTES_MAX;
/// The largest form of somebody who is not signed in: an address, a password and where to go next.
pub const STRANGERS_FORM_BYTES_MAX: usize = 16 * 1024;

/// The received bytes, as the middleware leaves them for whoever reads them.
#[derive(Clone, Debug, Default)]
pub struct RawBody(pub Bytes);

/// The same body, which keeps something until it was sent or is given up.
pub fn keeping<T: Unpin + 'static>(body: BoxBody, kept: T) -> BoxBody {
    BoxBody::new(Keeping { body, _kept: kept })
}

struct Keeping<T> {
    body: BoxBody,
    _kept: T,
}

impl<T: Unpin> MessageBody for Keeping<T> {
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
