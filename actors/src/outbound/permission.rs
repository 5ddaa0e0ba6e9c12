//! Permission to send a request, however long connecting took. While this process was paused, another node may have
//! sent it.

use std::{fmt, io, sync::Arc};

/// Checked before every write of a request.
#[derive(Clone)]
pub struct Permission(Arc<dyn Fn() -> bool + Send + Sync>);

/// The request may not be written any further. It passes through the HTTP client inside that client's error.
#[derive(Debug)]
pub(super) struct PermissionWithdrawn;

impl fmt::Display for PermissionWithdrawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing more may be sent")
    }
}

impl std::error::Error for PermissionWithdrawn {}

impl fmt::Debug for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permission(…)")
    }
}

impl Permission {
    /// A permission that is never withdrawn.
    pub fn given() -> Self {
        Self::only_while(|| true)
    }

    /// A permission that lasts as long as `is_so` returns true.
    pub fn only_while(is_so: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_so))
    }

    pub(super) fn ask(&self) -> io::Result<()> {
        if (self.0)() {
            Ok(())
        } else {
            Err(io::Error::other(PermissionWithdrawn))
        }
    }
}
