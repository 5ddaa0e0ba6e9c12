//! Configurations that are shipped in `ops/`, with changes for a test.

use std::{fs, path::Path};

/// The text of a file in `ops/`. Each change replaces a text that must occur by another one.
#[track_caller]
pub fn shipped(file: &str, changes: &[(&str, &str)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../ops")
        .join(file);
    let mut text = fs::read_to_string(path).unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "no {old:?} in {text}");
        text = text.replace(old, new);
    }
    text
}
