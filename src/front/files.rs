//! The limit on open files of this process, which includes sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the system's maximum. The usual 1,024 exist for `select`, which is not used here.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "could not raise the limit of open files");
    }
}

/// The current limit; none: no limit.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
