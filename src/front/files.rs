//! How many files, sockets among them, the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to what the system lets us have: the usual 1,024 are for programs of one user, and `select`, which needs
/// them to be few, is used nowhere here.
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
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// The limit in force; none: any number.
pub fn open_files_max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}
