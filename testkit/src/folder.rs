//! Where tests write.

use tempfile::TempDir;

/// A folder of one's own, in memory where the machine has such: a test outlives no power cut, and SQLite waits for the disk
/// with every commit.
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}
