//! Prints beside a command's result, on standard error.

use std::{fmt::Display, io::Write};

/// Prints a line. A standard error that takes nothing is no failure.
pub fn note(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
