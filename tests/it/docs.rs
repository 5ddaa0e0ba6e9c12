//! The programs in the documentation for tenants work.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use dikala_testkit::signature;

use crate::support::prelude::*;

const SECRET: &str = "s3cret-of-the-tenant";
const BODY: &str = r#"{"event":"call.ended","timestamp":"2026-01-15T03:30:00.000Z","data":{"transcriptSummary":"Kopi — dua"}}"#;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify")
}

/// The program's output for a body and a header; `None` if its interpreter is not installed.
fn verdict(program: &[&str], header: &str, body: &str) -> Option<String> {
    let spawned = Command::new(program[0])
        .args(&program[1..])
        .args([SECRET, header])
        .current_dir(folder())
        // Go's build cache.
        .env("GOCACHE", std::env::temp_dir().join("dikala-go-cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(_) => {
            println!("{} is not at hand: skipped", program[0]);
            return None;
        }
    };
    child
        .stdin
        .take()
        .unwrap()
        .write_all(body.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

#[rstest]
#[case::javascript(&["node", "verify.mjs"])]
#[case::python(&["python3", "verify.py"])]
#[case::php(&["php", "verify.php"])]
#[case::go(&["go", "run", "verify.go"])]
fn each_snippet_tells_right_from_wrong(#[case] program: &[&str]) {
    let right = signature::service(SECRET, BODY.as_bytes());
    let wrong = signature::service("another", BODY.as_bytes());
    for (header, body, expected) in [
        (&*right, BODY, "valid"),
        (&wrong, BODY, "invalid"),
        (&right, &BODY[1..], "invalid"),
        ("", BODY, "invalid"),
        ("sha256=", BODY, "invalid"),
    ] {
        if let Some(said) = verdict(program, header, body) {
            assert_eq!(said, expected, "{program:?} of {header:?}");
        }
    }
}

#[expect(
    dead_code,
    reason = "the file is a program; its function is what is tested"
)]
#[path = "../../docs/verify/verify.rs"]
mod rust;

#[test]
fn the_rust_snippet_tells_right_from_wrong() {
    let right = signature::service(SECRET, BODY.as_bytes());
    assert!(rust::verify(SECRET, &right, BODY.as_bytes()));
    assert!(!rust::verify("another", &right, BODY.as_bytes()));
    assert!(!rust::verify(SECRET, "sha256=00", BODY.as_bytes()));
    assert!(!rust::verify(SECRET, "", BODY.as_bytes()));
}
