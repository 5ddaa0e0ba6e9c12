//! Identifies the process behind a node. A node that starts on the same machine can tell that a process is gone, and
//! need not wait for its lease to end.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

const PROC: &str = "/proc";

/// This process as a text that no other process has: the machine's boot, the PID namespace, the user, the PID and its
/// start time. Empty if the system does not provide them.
pub(super) fn this() -> String {
    of(Path::new(PROC)).unwrap_or_default()
}

/// True if the process is known to be gone. A process of another machine, container or user cannot be seen from here
/// and is not known to be gone.
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

/// The place of a process, its PID and its start time.
fn split(process: &str) -> Option<(&str, &str, &str)> {
    let (rest, started) = process.rsplit_once(' ')?;
    let (place, number) = rest.rsplit_once(' ')?;
    Some((place, number, started))
}

/// The start time of the process with that PID, as the kernel writes it. None if there is none or it is a zombie.
fn started_at(proc: &Path, number: &str) -> Option<String> {
    let stat = fs::read_to_string(proc.join(number).join("stat")).ok()?;
    // The name comes second, in brackets, and may hold any character.
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
        let process = format!("{place} {number} {started}");
        assert!(!is_gone(&process));
        assert!(is_gone(&format!("{place} {number} 1")), "another's number");
        other.kill().expect("it runs");
        // A zombie until it is waited for; it keeps its PID.
        while !is_gone(&process) {
            std::thread::yield_now();
        }
        other.wait().expect("it ended");
        assert!(is_gone(&process));
        for unknown in ["", "elsewhere pid:[1] 0 1 1", "one two"] {
            assert!(!is_gone(unknown), "{unknown:?}");
        }
    }
}
