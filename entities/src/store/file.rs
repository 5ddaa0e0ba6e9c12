//! SQLite's files: only their owner can read them, and only one process serves them.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use super::StoreError;

pub(super) fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

pub(super) fn unwritable(path: &Path, reason: std::io::Error) -> StoreError {
    StoreError::Folder {
        folder: folder_of(path),
        reason,
    }
}

/// Creates the database's file, readable only by its owner because it holds callers' numbers and words. SQLite gives
/// the same rights to its other files.
pub(super) fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    let writable = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        let probe = folder.join(probe_name());
        std::fs::write(&probe, b"")?;
        std::fs::remove_file(&probe)
    };
    writable().map_err(|reason| unwritable(path, reason))?;
    private_file(path)
        .map(drop)
        .map_err(|reason| StoreError::File {
            file: path.to_owned(),
            reason,
        })
}

/// The lock file of the process that serves this database. Symbolic links to the database share it.
pub(super) fn lock_beside(path: &Path) -> PathBuf {
    let mut lock = resolved(path).into_os_string();
    lock.push("-serving");
    lock.into()
}

/// The path without symbolic links, if the file exists.
pub(super) fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

pub(super) fn probe_name() -> String {
    format!(".dikala-write-test-{}", std::process::id())
}

pub(super) fn private_file(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}
