//! Whether a request may go out still, however long its connection was being made. A process that stood still meanwhile may find
//! that another has sent it since.

use std::{fmt, io, sync::Arc};

/// Asked whenever something of a request is about to be written.
#[derive(Clone)]
pub struct Permission(Arc<dyn Fn() -> bool + Send + Sync>);

/// Nothing more of a request may be written. Travels through the HTTP client inside its own error.
#[derive(Debug)]
pub(super) struct Withdrawn;

impl fmt::Display for Withdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing more may be sent")
    }
}

impl std::error::Error for Withdrawn {}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission(…)")
    }
}

impl Permission {
    /// One that nobody withdraws.
    pub fn given() -> Self {
        Self::only_while(|| true)
    }

    /// One that lasts as long as that is so.
    pub fn only_while(is_so: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_so))
    }

    pub(super) fn ask(&self) -> io::Result<()> {
        if (self.0)() {
            Ok(())
        } else {
            Err(io::Error::other(Withdrawn))
        }
    }
}
