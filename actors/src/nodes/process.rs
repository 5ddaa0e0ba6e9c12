//! Which process of which machine a node is. Who starts on a machine can tell that a process of it is gone, and need not wait
//! until its lease is over.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

const PROC: &str = "/proc";

/// This process, in words that no other process has: the boot of the machine, the processes that can be seen from here, the user,
/// the number and when that was given. Empty where the system does not say.
pub(super) fn this() -> String {
    of(Path::new(PROC)).unwrap_or_default()
}

/// Whether that process is known to be gone. One that cannot be seen from here is not: of another machine, another container,
/// another user.
pub(super) fn is_gone(process: &str) -> bool {
    let Some((place, number, started)) = split(process) else {
        return false;
    };
    let here = this();
    let Some((here, ..)) = split(&here) else {
        return false;
    };
    place == here && started_at(Path::new(PROC), number).as_deref() != Some(started)
}

fn of(proc: &Path) -> Option<String> {
    let boot = fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    let seen = fs::read_link(proc.join("self/ns/pid")).ok()?;
    let user = fs::metadata(proc.join("self")).ok()?.uid();
    let number = std::process::id().to_string();
    let started = started_at(proc, &number)?;
    Some(format!(
        "{} {} {user} {number} {started}",
        boot.trim(),
        seen.display()
    ))
}

/// Where a process is, its number, and when it was started.
fn split(process: &str) -> Option<(&str, &str, &str)> {
    let (rest, started) = process.rsplit_once(' ')?;
    let (place, number) = rest.rsplit_once(' ')?;
    Some((place, number, started))
}

/// When the process of that number was started, in the kernel's words; none where there is none, or it is dead already.
fn started_at(proc: &Path, number: &str) -> Option<String> {
    let stat = fs::read_to_string(proc.join(number).join("stat")).ok()?;
    // The name comes second, in brackets, and may hold anything.
    let (_, after_name) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let is_dead = matches!(fields.first(), Some(&("Z" | "X")));
    let started = fields.get(19).filter(|_| !is_dead)?;
    Some((*started).to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_gone_when_its_number_is_nobodys_or_somebody_elses() {
        let me = this();
        assert!(!is_gone(&me));
        let mut other = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn()
            .expect("a process");
        let (place, ..) = split(&me).expect("the system says");
        let number = other.id().to_string();
        let started = started_at(Path::new(PROC), &number).expect("it runs");
        let there = format!("{place} {number} {started}");
        assert!(!is_gone(&there));
        assert!(is_gone(&format!("{place} {number} 1")), "another's number");
        other.kill().expect("it runs");
        // Not waited for yet: dead, with its number.
        while !is_gone(&there) {
            std::thread::yield_now();
        }
        other.wait().expect("it ended");
        assert!(is_gone(&there));
        for unknown in ["", "elsewhere pid:[1] 0 1 1", "one two"] {
            assert!(!is_gone(unknown), "{unknown:?}");
        }
    }
}
